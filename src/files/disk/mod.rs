//! The real files.

mod file;
#[cfg(unix)]
mod lock;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs;
use std::io;
use std::path::Path;

use crate::files::storage::{RawDirectory, RawFile, RawStorage};
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

/// The file system of this machine.
pub(crate) struct Disk;

impl RawStorage for Disk {
    fn open_file(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        file::open(path)
    }

    fn open_directory(&self, path: &Path) -> io::Result<Box<dyn RawDirectory>> {
        Ok(Box::new(system::DiskDirectory::open(path)?))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }
}
