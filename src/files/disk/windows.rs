//! Folders by their paths: while a file in one is open, which `LOCK` always is, Windows neither moves nor removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::file::{self, DiskFile, stamp};
use crate::files::storage::{RawDirectory, RawFile, Stamp};

/// A folder.
pub(super) struct DiskDirectory(PathBuf);

impl DiskDirectory {
    pub fn open(path: &Path) -> io::Result<Self> {
        match fs::metadata(path)?.is_dir() {
            true => Ok(DiskDirectory(path.into())),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
}

impl RawDirectory for DiskDirectory {
    fn create(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>> {
        let path = self.0.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>> {
        file::open(&self.0.join(name))
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match self.0.join(to).exists() {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => self.rename(from, to),
        }
    }

    fn copy_permissions(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match fs::metadata(self.0.join(from)) {
            Ok(metadata) => fs::set_permissions(self.0.join(to), metadata.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Every file that is open is known to be.
    fn remove_abandoned(&self, name: &OsStr) -> io::Result<()> {
        const FILE_SHARE_DELETE: u32 = 4;
        let path = self.0.join(name);
        let _opened = OpenOptions::new().read(true).share_mode(FILE_SHARE_DELETE).open(&path)?;
        fs::remove_file(path)
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let name = |name: OsString| name.to_string_lossy().into_owned();
        fs::read_dir(&self.0)?.map(|entry| Ok(name(entry?.file_name()))).collect()
    }

    fn create_directory(&self, name: &OsStr) -> io::Result<()> {
        fs::create_dir(self.0.join(name))
    }

    fn open_directory(&self, name: &OsStr) -> io::Result<Box<dyn RawDirectory>> {
        let path = self.0.join(name);
        match fs::symlink_metadata(&path)?.is_dir() {
            true => Ok(Box::new(DiskDirectory(path))),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Windows journals names by itself and opens no folders.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// A file that is opened without sharing cannot be opened twice.
    fn lock(&self, name: &OsStr) -> io::Result<Box<dyn Send + Sync>> {
        const ERROR_SHARING_VIOLATION: i32 = 32;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).share_mode(0);
        match options.open(self.0.join(name)) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    }

    fn stamp(&self, name: &OsStr) -> io::Result<Stamp> {
        Ok(stamp(&fs::symlink_metadata(self.0.join(name))?))
    }
}
