//! The real files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process;
use std::sync::{Mutex, PoisonError};

use crate::files::storage::{RawFile, RawStorage};

/// The file system of this machine.
pub(crate) struct Disk;

impl RawStorage for Disk {
    /// The file is marked as open, so that nobody takes it for an abandoned one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        loop {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
            if mark_as_open(&file)? {
                return Ok(Box::new(DiskFile(file)));
            }
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        // Opening a named pipe would wait for a writer, and a device has no end.
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(Box::new(DiskFile(fs::File::open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::metadata(from) {
            Ok(metadata) => {
                // The owner first: a change of it takes permissions away.
                copy_owner(&metadata, to);
                fs::set_permissions(to, metadata.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_abandoned(&self, path: &Path) -> io::Result<()> {
        let _opened = open_alone(path)?;
        fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let name = |name: OsString| name.to_string_lossy().into_owned();
        fs::read_dir(folder)?.map(|entry| Ok(name(entry?.file_name()))).collect()
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    #[cfg(unix)]
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    /// Windows journals names by itself and opens no folders.
    #[cfg(not(unix))]
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(Lock::acquire(path)?))
    }
}

/// Gives a file an owner and a group. Others than root may not give files away, and only to groups of their own.
#[cfg(unix)]
fn copy_owner(from: &fs::Metadata, to: &Path) {
    use std::os::unix::fs::{MetadataExt, chown};

    if chown(to, Some(from.uid()), Some(from.gid())).is_err() {
        chown(to, None, Some(from.gid())).ok();
    }
}

/// Files have the owner that their folder gives them.
#[cfg(windows)]
fn copy_owner(_: &fs::Metadata, _: &Path) {}

/// Marks a file as open by a lock of this handle, which ends with it. Returns `false` if somebody took the file for
/// an abandoned one before, and removed it. File systems without such locks have no abandoned files either.
#[cfg(unix)]
fn mark_as_open(file: &fs::File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    use std::os::unix::fs::MetadataExt;

    let is_marked = flock(file, FlockOperation::NonBlockingLockExclusive);
    Ok(is_marked != Err(rustix::io::Errno::WOULDBLOCK) && file.metadata()?.nlink() > 0)
}

/// Opens a file, if nobody else has it open who created it.
#[cfg(unix)]
fn open_alone(path: &Path) -> io::Result<fs::File> {
    use rustix::fs::{FlockOperation, flock};

    let file = fs::File::open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Every file that is open is known to be.
#[cfg(windows)]
fn mark_as_open(_: &fs::File) -> io::Result<bool> {
    Ok(true)
}

#[cfg(windows)]
fn open_alone(path: &Path) -> io::Result<fs::File> {
    use std::os::windows::fs::OpenOptionsExt;

    const FILE_SHARE_DELETE: u32 = 4;
    OpenOptions::new().read(true).share_mode(FILE_SHARE_DELETE).open(path)
}

struct DiskFile(fs::File);

impl RawFile for DiskFile {
    #[cfg(unix)]
    fn write_at(&self, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<_> = parts.iter().map(|part| io::IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        io::IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match rustix::io::pwritev(&self.0, rest, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    io::IoSlice::advance_slices(&mut rest, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[cfg(windows)]
    fn write_at(&self, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        for mut part in parts.iter().copied() {
            while !part.is_empty() {
                let written = std::os::windows::fs::FileExt::seek_write(&self.0, part, offset)?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                offset += written as u64;
                part = &part[written..];
            }
        }
        Ok(())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset += read as u64;
            buffer = &mut buffer[read..];
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    /// Times of access and change need not be durable, so `fdatasync` is enough: it includes the length.
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    fn start_writing_back(&self, offset: u64, len: u64) {
        let fd = self.0.as_raw_fd();
        // SAFETY: the file is open, and no memory is passed. A failure is harmless: the sync reports what counts.
        unsafe {
            libc::sync_file_range(fd, offset as i64, len as i64, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
}

/// The locks that this process holds: by file, the process that took it. A forked child has a copy of the list,
/// but none of the locks.
static HELD: Mutex<Option<HashMap<FileId, u32>>> = Mutex::new(None);

/// A lock of the operating system, and an entry in the list of this process, to which the system would grant a
/// second lock of the same file.
///
/// On Unix it is a record lock (`fcntl`): unlike `flock`, it belongs to the process, so that a forked child
/// neither has it nor keeps it after the parent ended. It would be released by closing any handle of the file,
/// so the list is consulted before the file is opened.
struct Lock {
    id: FileId,
    process: u32,
    file: Option<fs::File>,
}

impl Lock {
    fn acquire(path: &Path) -> io::Result<Self> {
        let process = process::id();
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.get_or_insert_default();
        match file_id(path) {
            Ok(id) if held.get(&id) == Some(&process) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = lock_file(path)?;
        let id = file_id(path)?;
        held.insert(id.clone(), process);
        Ok(Lock { id, process, file: Some(file) })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.process != process::id() {
            return;
        }
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed before the list is unlocked: later it would release the next holder's lock.
        drop(self.file.take());
        held.get_or_insert_default().remove(&self.id);
    }
}

/// What a file is known by, whichever path leads to it: its folder may be renamed, or mounted twice.
#[derive(Clone, PartialEq, Eq, Hash)]
struct FileId {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    #[cfg(windows)]
    path: std::path::PathBuf,
}

#[cfg(unix)]
fn file_id(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;

    let metadata = fs::metadata(path)?;
    Ok(FileId { device_and_inode: (metadata.dev(), metadata.ino()) })
}

#[cfg(windows)]
fn file_id(path: &Path) -> io::Result<FileId> {
    Ok(FileId { path: path.canonicalize()? })
}

#[cfg(unix)]
fn lock_file(path: &Path) -> io::Result<fs::File> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    use rustix::io::Errno;

    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::AGAIN | Errno::ACCESS) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error.into()),
    }
}

/// A file that is opened without sharing cannot be opened twice.
#[cfg(windows)]
fn lock_file(path: &Path) -> io::Result<fs::File> {
    use std::os::windows::fs::OpenOptionsExt;

    const ERROR_SHARING_VIOLATION: i32 = 32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).share_mode(0);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(ERROR_SHARING_VIOLATION) => io::ErrorKind::WouldBlock.into(),
        _ => error,
    })
}
