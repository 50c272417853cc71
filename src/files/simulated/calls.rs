//! The calls themselves.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use crate::files::simulated::control::{Fault, Simulated};
use crate::files::simulated::state::{NameChange, Names, split};
use crate::files::storage::{RawDirectory, RawFile, RawStorage, Stamp};

struct SimulatedFile {
    storage: Simulated,
    file: usize,
}

struct SimulatedLock {
    storage: Simulated,
    path: PathBuf,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.storage.inner().state.locked.retain(|path| *path != self.path);
    }
}

impl Simulated {
    fn handle(&self, file: usize) -> Box<dyn RawFile> {
        Box::new(SimulatedFile { storage: self.clone(), file })
    }
}

impl RawStorage for Simulated {
    fn open_file(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        let inner = self.call().map_err(|(_, fault)| fault.error())?;
        inner.state.find(path).map(|file| self.handle(file))
    }

    fn open_directory(&self, path: &Path) -> io::Result<Box<dyn RawDirectory>> {
        let mut inner = self.call().map_err(|(_, fault)| fault.error())?;
        if inner.state.find(path).is_ok() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        // The root is always there.
        if path.parent().is_some() {
            inner.state.folder(path)?;
        }
        Ok(Box::new(SimulatedDirectory { storage: self.clone(), path: path.into() }))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.simple_call(|state| {
            if state.folders.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.folders.insert(path.into(), Names::default());
            Ok(())
        })
    }
}

/// A folder, which is never moved.
struct SimulatedDirectory {
    storage: Simulated,
    path: PathBuf,
}

impl RawDirectory for SimulatedDirectory {
    fn create(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>> {
        let file = self.storage.simple_call(|state| state.create(&self.path.join(name)))?;
        Ok(self.storage.handle(file))
    }

    fn open(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>> {
        self.storage.open_file(&self.path.join(name))
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.storage.simple_call(|state| {
            let file = state.find(&self.path.join(from))?;
            let (old, new) = (text(from), text(to));
            state.folder(&self.path)?.change(NameChange::Rename(old, new, file));
            Ok(())
        })
    }

    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        if self.storage.inner().state.find(&self.path.join(to)).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.storage.simple_call(|state| {
            state.find(&self.path.join(name))?;
            state.folder(&self.path)?.change(NameChange::Remove(text(name)));
            Ok(())
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut inner = self.storage.call().map_err(|(_, fault)| fault.error())?;
        let inside: Vec<_> = inner.state.folders.keys().map(|path| split(path)).collect();
        let mut names: Vec<_> = inner.state.folder(&self.path)?.current.keys().cloned().collect();
        names.extend(
            inside.into_iter().filter(|(parent, _)| *parent == self.path).map(|(_, name)| name),
        );
        Ok(names)
    }

    fn create_directory(&self, name: &OsStr) -> io::Result<()> {
        self.storage.create_directory(&self.path.join(name))
    }

    fn open_directory(&self, name: &OsStr) -> io::Result<Box<dyn RawDirectory>> {
        self.storage.open_directory(&self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        match self.storage.call() {
            Ok(mut inner) => {
                if let Ok(names) = inner.state.folder(&self.path) {
                    names.sync();
                }
                inner.record();
                Ok(())
            }
            Err((mut inner, fault)) => {
                if let Ok(names) = inner.state.folder(&self.path) {
                    names.unsynced.clear();
                }
                Err(fault.error())
            }
        }
    }

    fn lock(&self, name: &OsStr) -> io::Result<Box<dyn Send + Sync>> {
        let path = self.path.join(name);
        self.storage.simple_call(|state| {
            if state.locked.contains(&path) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if state.find(&path).is_err() {
                state.create(&path)?;
            }
            state.locked.push(path.clone());
            Ok(())
        })?;
        Ok(Box::new(SimulatedLock { storage: self.storage.clone(), path }))
    }

    /// When it is called depends on the time, so it is not counted as a call, and does not fail.
    fn stamp(&self, name: &OsStr) -> io::Result<Stamp> {
        let inner = self.storage.inner();
        inner.state.find(&self.path.join(name)).map(|file| inner.state.stamp(file))
    }
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

impl RawFile for SimulatedFile {
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.storage.wait_to_write(self.file);
        let mut bytes = parts.concat();
        let (mut inner, result) = match self.storage.call() {
            Ok(inner) => (inner, Ok(())),
            Err((inner, fault @ Fault::ShortWrite(_))) => {
                bytes.truncate(bytes.len() / 2);
                (inner, Err(fault.error()))
            }
            Err((_, fault)) => return Err(fault.error()),
        };
        inner.state.files[self.file].write(offset as usize, bytes);
        inner.record();
        result
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let inner = self.storage.call().map_err(|(_, fault)| fault.error())?;
        let contents = &inner.state.files[self.file].current;
        let start = (offset as usize).min(contents.len());
        let rest = contents[start..].get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(rest);
        Ok(())
    }

    fn stamp(&self) -> io::Result<Stamp> {
        Ok(self.storage.inner().state.stamp(self.file))
    }

    fn len(&self) -> io::Result<u64> {
        let inner = self.storage.call().map_err(|(_, fault)| fault.error())?;
        Ok(inner.state.files[self.file].current.len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.storage.simple_call(|state| {
            state.files[self.file].truncate(len as usize);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let time = self.storage.inner().sync_time;
        if !time.is_zero() {
            thread::sleep(time);
        }
        match self.storage.call() {
            Ok(mut inner) => {
                inner.syncs += 1;
                inner.state.files[self.file].sync();
                inner.record();
                Ok(())
            }
            Err((mut inner, fault)) => {
                inner.state.files[self.file].unsynced.clear();
                Err(fault.error())
            }
        }
    }
}
