//! Everything that files are asked to do: one small trait, so that tests can replace the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Cause, Error};

/// A system of files. Nothing is durable until it is synced: contents by [`RawFile::sync`], and the creation,
/// renaming and removal of files by [`RawStorage::sync_folder`].
pub trait RawStorage: Send + Sync {
    /// Creates a file for reading and writing. It is an error if there is one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn RawFile>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn RawFile>>;

    /// Renames a file within its folder, replacing the file that has the name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file the permissions of another one, if there is such a file, and its owner and group, if that is
    /// permitted.
    fn copy_permissions(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Removes a file that its writer left, because its process ended. One that is still open stays.
    fn remove_abandoned(&self, path: &Path) -> io::Result<()> {
        self.remove(path)
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the names in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates a folder. It is an error if there is one.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Locks a file, which is created if it is missing, until the returned guard is dropped or the process
    /// ends. If it is locked already, here or in another process, the error is of the kind `WouldBlock`.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}

/// An open file.
pub trait RawFile: Send + Sync {
    /// Writes the parts one after the other from `offset` on; all of them, unless it fails.
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()>;

    /// Fills the buffer with what is at `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Cuts the file off at `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Makes the contents and the length durable.
    fn sync(&self) -> io::Result<()>;

    /// Lets the system begin to write what is at `offset` to the disk, so that a later sync has less to do.
    fn start_writing_back(&self, _offset: u64, _len: u64) {}
}

/// A system of files, with errors that name the file and the call.
#[derive(Clone)]
pub(crate) struct Storage(Arc<dyn RawStorage>);

impl Storage {
    pub fn new(raw: impl RawStorage + 'static) -> Self {
        Storage(Arc::new(raw))
    }

    pub fn create(&self, path: &Path) -> Result<File, Error> {
        let raw = self.0.create(path).map_err(io_error(path, "create"))?;
        Ok(File { raw: raw.into(), path: path.into() })
    }

    pub fn open(&self, path: &Path) -> Result<File, Error> {
        let raw = self.0.open(path).map_err(io_error(path, "open"))?;
        Ok(File { raw: raw.into(), path: path.into() })
    }

    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.0.rename(from, to).map_err(io_error(from, "rename"))
    }

    pub fn copy_permissions(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.0.copy_permissions(from, to).map_err(io_error(to, "change the permissions of"))
    }

    pub fn remove_abandoned(&self, path: &Path) -> Result<(), Error> {
        self.0.remove_abandoned(path).map_err(io_error(path, "remove"))
    }

    pub fn remove(&self, path: &Path) -> Result<(), Error> {
        self.0.remove(path).map_err(io_error(path, "remove"))
    }

    pub fn list(&self, folder: &Path) -> Result<Vec<String>, Error> {
        self.0.list(folder).map_err(io_error(folder, "list"))
    }

    /// Creates a folder unless there is one.
    pub fn ensure_folder(&self, path: &Path) -> Result<(), Error> {
        match self.0.create_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(io_error(path, "create the folder")),
        }
    }

    pub fn sync_folder(&self, path: &Path) -> Result<(), Error> {
        self.0.sync_folder(path).map_err(io_error(path, "sync the folder"))
    }

    /// Locks the file `LOCK` of a folder.
    pub fn lock(&self, folder: &Path) -> Result<Box<dyn Send + Sync>, Error> {
        let path = folder.join("LOCK");
        self.0.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::Locked { path: folder.into() },
            _ => io_error(&path, "lock")(error),
        })
    }
}

/// An open file, with errors that name it. Clones are the same file.
#[derive(Clone)]
pub(crate) struct File {
    raw: Arc<dyn RawFile>,
    path: PathBuf,
}

impl File {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the same file, by the name that it was given.
    pub fn with_path(&self, path: &Path) -> Self {
        File { raw: self.raw.clone(), path: path.into() }
    }

    pub fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), Error> {
        self.raw.write_at(offset, parts).map_err(io_error(&self.path, "write to"))
    }

    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.raw.read_at(offset, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.corrupt(offset, "the file ends too early"),
            _ => io_error(&self.path, "read")(error),
        })
    }

    pub fn len(&self) -> Result<u64, Error> {
        self.raw.len().map_err(io_error(&self.path, "read the length of"))
    }

    pub fn truncate(&self, len: u64) -> Result<(), Error> {
        self.raw.truncate(len).map_err(io_error(&self.path, "truncate"))
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.raw.sync().map_err(io_error(&self.path, "sync"))
    }

    /// Lets the system begin to write what is at `offset` to the disk, so that a later sync has less to do.
    pub fn start_writing_back(&self, offset: u64, len: u64) {
        self.raw.start_writing_back(offset, len);
    }

    /// Returns the error of a file that does not hold what was written.
    pub fn corrupt(&self, offset: u64, reason: impl Into<Cause>) -> Error {
        Error::CorruptFile { path: self.path.clone(), offset, reason: reason.into() }
    }
}

pub(crate) fn io_error(path: &Path, call: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io {
        path: path.into(),
        call,
        kind: error.kind(),
        code: error.raw_os_error(),
        reason: error.to_string().into(),
    }
}

/// Returns whether an error says that there is no such file or folder.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { kind: io::ErrorKind::NotFound, .. })
}

/// Returns the folder of a file.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
