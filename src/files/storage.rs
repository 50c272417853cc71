//! Everything that files are asked to do: three small traits, so that tests can replace the disk.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Cause, Error};

/// A system of files. Nothing is durable until it is synced: contents by [`RawFile::sync`], and the creation,
/// renaming and removal of files by [`RawDirectory::sync`].
pub trait RawStorage: Send + Sync {
    /// Opens a file for reading.
    fn open_file(&self, path: &Path) -> io::Result<Box<dyn RawFile>>;

    /// Opens a folder. What is returned stays that folder, wherever it is moved, and whatever takes its place.
    fn open_directory(&self, path: &Path) -> io::Result<Box<dyn RawDirectory>>;

    /// Creates a folder. It is an error if there is one.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
}

/// An open folder. Names are those of files directly in it.
pub trait RawDirectory: Send + Sync {
    /// Creates a file for reading and writing. It is an error if there is one.
    fn create(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>>;

    /// Opens a file for reading.
    fn open(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>>;

    /// Renames a file, replacing the one that has the name.
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Renames a file. It is an error if there is one of that name.
    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Gives a file the permissions of another one, if there is such a file, and its owner and group, if that is
    /// permitted.
    fn copy_permissions(&self, _from: &OsStr, _to: &OsStr) -> io::Result<()> {
        Ok(())
    }

    /// Removes a file that its writer left, because its process ended. One that is still open stays.
    fn remove_abandoned(&self, name: &OsStr) -> io::Result<()> {
        self.remove(name)
    }

    /// Removes a file.
    fn remove(&self, name: &OsStr) -> io::Result<()>;

    /// Returns the names of all files and folders in it, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a folder in it. It is an error if there is one.
    fn create_directory(&self, name: &OsStr) -> io::Result<()>;

    /// Opens a folder in it. A symbolic link is an error of the kind `NotADirectory`.
    fn open_directory(&self, name: &OsStr) -> io::Result<Box<dyn RawDirectory>>;

    /// Makes its names durable.
    fn sync(&self) -> io::Result<()>;

    /// Returns where the folder itself is, as the [`Stamp`] of its name in the folder around it says; `None` if that
    /// never changes.
    fn place(&self) -> io::Result<Option<[u64; 2]>> {
        Ok(None)
    }

    /// Locks a file, which is created if it is missing, until the returned guard is dropped or the process
    /// ends. If it is locked already, here or in another process, the error is of the kind `WouldBlock`.
    fn lock(&self, name: &OsStr) -> io::Result<Box<dyn Send + Sync>>;

    /// Returns what tells the file of this name from others, without opening it.
    fn stamp(&self, name: &OsStr) -> io::Result<Stamp>;
}

/// What tells a file from others, and from what it was before it was written to, while it is open: a name with the
/// same stamp later is the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(
    /// Numbers of the file system: where the file is, its length, when it changed.
    pub [u64; 4],
);

impl Stamp {
    /// Returns where the file is: the same however it is written to.
    pub fn place(self) -> [u64; 2] {
        [self.0[0], self.0[1]]
    }
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

    /// Returns what tells the file from others, as [`RawDirectory::stamp`] does.
    fn stamp(&self) -> io::Result<Stamp>;

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

    /// Opens a file for reading.
    pub fn open_file(&self, path: &Path) -> Result<File, Error> {
        let raw = self.0.open_file(path).map_err(io_error(path, "open"))?;
        Ok(File { raw: raw.into(), path: path.into() })
    }

    pub fn open_directory(&self, path: &Path) -> Result<Directory, Error> {
        let raw = self.0.open_directory(path).map_err(io_error(path, "open the folder"))?;
        Ok(Directory { raw: raw.into(), path: path.into() })
    }

    /// Creates a folder unless there is one.
    pub fn ensure_directory(&self, path: &Path) -> Result<(), Error> {
        unless_present(self.0.create_directory(path)).map_err(io_error(path, "create the folder"))
    }
}

/// An open folder, with errors that name files by the path that it was opened by. Clones are the same folder.
#[derive(Clone)]
pub(crate) struct Directory {
    raw: Arc<dyn RawDirectory>,
    path: PathBuf,
}

impl Directory {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    pub fn create(&self, name: impl AsRef<OsStr>) -> Result<File, Error> {
        let path = self.path_of(&name);
        let raw = self.raw.create(name.as_ref()).map_err(io_error(&path, "create"))?;
        Ok(File { raw: raw.into(), path })
    }

    pub fn open(&self, name: impl AsRef<OsStr>) -> Result<File, Error> {
        let path = self.path_of(&name);
        let raw = self.raw.open(name.as_ref()).map_err(io_error(&path, "open"))?;
        Ok(File { raw: raw.into(), path })
    }

    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<(), Error> {
        let renamed = self.raw.rename(from.as_ref(), to.as_ref());
        renamed.map_err(io_error(&self.path_of(&from), "rename"))
    }

    /// Renames a file, whose new name no other file may have.
    pub fn rename_new(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<(), Error> {
        let renamed = self.raw.rename_new(from.as_ref(), to.as_ref());
        renamed.map_err(io_error(&self.path_of(&to), "create"))
    }

    pub fn copy_permissions(
        &self,
        from: impl AsRef<OsStr>,
        to: impl AsRef<OsStr>,
    ) -> Result<(), Error> {
        let copied = self.raw.copy_permissions(from.as_ref(), to.as_ref());
        copied.map_err(io_error(&self.path_of(&to), "change the permissions of"))
    }

    pub fn remove_abandoned(&self, name: impl AsRef<OsStr>) -> Result<(), Error> {
        let removed = self.raw.remove_abandoned(name.as_ref());
        removed.map_err(io_error(&self.path_of(&name), "remove"))
    }

    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<(), Error> {
        let removed = self.raw.remove(name.as_ref());
        removed.map_err(io_error(&self.path_of(&name), "remove"))
    }

    /// Removes a file that could not be renamed; returns whether it had the old name still, so that it surely does
    /// not have the new one.
    pub fn remove_if_present(&self, name: &str) -> bool {
        let is_present = self.stamp(name).is_ok_and(|stamp| stamp.is_some());
        if is_present {
            self.remove(name).ok();
        }
        is_present
    }

    pub fn list(&self) -> Result<Vec<String>, Error> {
        self.raw.list().map_err(io_error(&self.path, "list"))
    }

    /// Opens a folder in it; `None` if there is none.
    pub fn open_directory(&self, name: &str) -> Result<Option<Directory>, Error> {
        let path = self.path_of(name);
        match self.raw.open_directory(name.as_ref()) {
            Ok(raw) => Ok(Some(Directory { raw: raw.into(), path })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let reason = "it must be a folder of its own, not a symbolic link or a file: move what \
                              it leads to here";
                Err(Error::NotADictionary { path, reason })
            }
            Err(error) => Err(io_error(&path, "open the folder")(error)),
        }
    }

    /// Opens a folder in it, which is created if there is none.
    pub fn ensure_directory(&self, name: &str) -> Result<Directory, Error> {
        if let Some(directory) = self.open_directory(name)? {
            return Ok(directory);
        }
        let path = self.path_of(name);
        unless_present(self.raw.create_directory(name.as_ref()))
            .map_err(io_error(&path, "create the folder"))?;
        let opened = self.open_directory(name)?;
        opened.ok_or_else(|| io_error(&path, "open the folder")(io::ErrorKind::NotFound.into()))
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.raw.sync().map_err(io_error(&self.path, "sync the folder"))
    }

    /// Returns whether a name in it still leads to another open folder.
    pub fn leads_to(&self, name: &str, to: &Directory) -> Result<bool, Error> {
        let Some(place) = to.raw.place().map_err(io_error(&to.path, "look at"))? else {
            return Ok(true);
        };
        Ok(self.stamp(name)?.is_some_and(|stamp| stamp.place() == place))
    }

    /// Locks a file of it.
    pub fn lock(&self, name: &str) -> Result<Box<dyn Send + Sync>, Error> {
        self.raw.lock(name.as_ref()).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::Locked { path: self.path.clone() },
            _ => io_error(&self.path_of(name), "lock")(error),
        })
    }

    /// Returns what tells the file of this name from others; `None` if there is none.
    pub fn stamp(&self, name: impl AsRef<OsStr>) -> Result<Option<Stamp>, Error> {
        match self.raw.stamp(name.as_ref()) {
            Ok(stamp) => Ok(Some(stamp)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&self.path_of(&name), "look at")(error)),
        }
    }
}

fn unless_present(created: io::Result<()>) -> io::Result<()> {
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
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

    pub fn stamp(&self) -> Result<Stamp, Error> {
        self.raw.stamp().map_err(io_error(&self.path, "look at"))
    }

    /// Returns whether its name in an open folder still leads to it.
    pub fn is_in(&self, folder: &Directory) -> Result<bool, Error> {
        let name = self.path.file_name().unwrap_or_default();
        let place = self.stamp()?.place();
        Ok(folder.stamp(name)?.is_some_and(|stamp| stamp.place() == place))
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
