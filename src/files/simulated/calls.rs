//! The calls themselves.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use crate::files::simulated::control::{Fault, Simulated};
use crate::files::simulated::state::{NameChange, Names, split};
use crate::files::storage::{RawFile, RawStorage};

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
    fn create(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        self.simple_call(|state| state.create(path)).map(|file| self.handle(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        let inner = self.call().map_err(|(_, fault)| fault.error())?;
        inner.state.find(path).map(|file| self.handle(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((folder, old), (to_folder, new)) = (split(from), split(to));
        assert_eq!(folder, to_folder, "files are renamed within a folder only");
        self.simple_call(|state| {
            let file = state.find(from)?;
            state.folder(&folder)?.change(NameChange::Rename(old, new, file));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = split(path);
        self.simple_call(|state| {
            state.find(path)?;
            state.folder(&folder)?.change(NameChange::Remove(name));
            Ok(())
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut inner = self.call().map_err(|(_, fault)| fault.error())?;
        if inner.state.find(folder).is_ok() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let inside: Vec<_> = inner.state.folders.keys().map(|path| split(path)).collect();
        let mut names: Vec<_> = inner.state.folder(folder)?.current.keys().cloned().collect();
        names.extend(
            inside.into_iter().filter(|(parent, _)| parent == folder).map(|(_, name)| name),
        );
        Ok(names)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.simple_call(|state| {
            if state.folders.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.folders.insert(path.into(), Names::default());
            Ok(())
        })
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match self.call() {
            Ok(mut inner) => {
                if let Ok(names) = inner.state.folder(path) {
                    names.sync();
                }
                inner.record();
                Ok(())
            }
            Err((mut inner, fault)) => {
                if let Ok(names) = inner.state.folder(path) {
                    names.unsynced.clear();
                }
                Err(fault.error())
            }
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.simple_call(|state| {
            if state.locked.iter().any(|locked| locked == path) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if state.find(path).is_err() {
                state.create(path)?;
            }
            state.locked.push(path.into());
            Ok(())
        })?;
        Ok(Box::new(SimulatedLock { storage: self.clone(), path: path.into() }))
    }
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
