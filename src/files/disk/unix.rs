//! Folders that are held open: every file is reached through its folder, not by a path, which may lead elsewhere
//! by then.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, chmodat, chownat,
    flock, fstat, fsync, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::file::{DiskFile, no_regular_file, stamp};
use super::lock::Lock;
use crate::files::storage::{RawDirectory, RawFile, Stamp};

/// An open folder.
pub(super) struct DiskDirectory(OwnedFd);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl DiskDirectory {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(DiskDirectory(retry_on_intr(|| openat(CWD, path, DIRECTORY, Mode::empty()))?))
    }

    fn open_file(&self, name: &OsStr, flags: OFlags) -> rustix::io::Result<fs::File> {
        let mode = Mode::from_raw_mode(0o666);
        let file = retry_on_intr(|| openat(&self.0, name, flags | OFlags::CLOEXEC, mode));
        file.map(fs::File::from)
    }

    fn stat(&self, name: &OsStr, flags: AtFlags) -> rustix::io::Result<Stat> {
        retry_on_intr(|| statat(&self.0, name, flags))
    }
}

impl RawDirectory for DiskDirectory {
    /// The file is marked as open, so that it is not taken for an abandoned one.
    fn create(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>> {
        loop {
            let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
            if mark_as_open(&file)? {
                return Ok(Box::new(DiskFile(file)));
            }
        }
    }

    fn open(&self, name: &OsStr) -> io::Result<Box<dyn RawFile>> {
        // Opening a named pipe would wait for a writer, and a device has no end.
        let kind = FileType::from_raw_mode(self.stat(name, AtFlags::empty())?.st_mode);
        if !kind.is_file() && !kind.is_dir() {
            return Err(no_regular_file());
        }
        Ok(Box::new(DiskFile(self.open_file(name, OFlags::RDONLY)?)))
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| renameat(&self.0, from, &self.0, to))?)
    }

    #[cfg(target_os = "linux")]
    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        use rustix::fs::{RenameFlags, renameat_with};

        let flags = RenameFlags::NOREPLACE;
        match retry_on_intr(|| renameat_with(&self.0, from, &self.0, to, flags)) {
            // File systems that can't do both at once.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.check_and_rename(from, to),
            renamed => Ok(renamed?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.check_and_rename(from, to)
    }

    fn copy_permissions(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let stat = match self.stat(from, AtFlags::empty()) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // The owner first: a change of it takes permissions away. Others than root may not give files away, and
        // only to groups of their own.
        let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        let change = |owner| chownat(&self.0, to, owner, Some(group), AtFlags::empty());
        if change(Some(owner)).is_err() {
            change(None).ok();
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        Ok(retry_on_intr(|| chmodat(&self.0, to, mode, AtFlags::empty()))?)
    }

    fn remove_abandoned(&self, name: &OsStr) -> io::Result<()> {
        let file = self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        self.remove(name)
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| unlinkat(&self.0, name, AtFlags::empty()))?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn create_directory(&self, name: &OsStr) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o777);
        Ok(retry_on_intr(|| mkdirat(&self.0, name, mode))?)
    }

    fn open_directory(&self, name: &OsStr) -> io::Result<Box<dyn RawDirectory>> {
        match self.open_file(name, DIRECTORY | OFlags::NOFOLLOW) {
            Ok(directory) => Ok(Box::new(DiskDirectory(directory.into()))),
            // What a symbolic link is depends on the system.
            Err(Errno::LOOP | Errno::MLINK) => Err(io::ErrorKind::NotADirectory.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.0))?)
    }

    fn lock(&self, name: &OsStr) -> io::Result<Box<dyn Send + Sync>> {
        let open = || Ok(self.open_file(name, OFlags::RDWR | OFlags::CREATE)?.into());
        Ok(Box::new(Lock::acquire(open)?))
    }

    fn place(&self) -> io::Result<Option<[u64; 2]>> {
        Ok(Some(stamp(&fstat(&self.0)?).place()))
    }

    fn stamp(&self, name: &OsStr) -> io::Result<Stamp> {
        Ok(stamp(&self.stat(name, AtFlags::SYMLINK_NOFOLLOW)?))
    }
}

impl DiskDirectory {
    fn check_and_rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match self.stat(to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(Errno::NOENT) => self.rename(from, to),
            Err(error) => Err(error.into()),
        }
    }
}

/// Marks a file as open by a lock of this handle, which ends with it. Returns `false` if the file was taken for an
/// abandoned one before, and removed. File systems without such locks have no abandoned files either.
fn mark_as_open(file: &fs::File) -> io::Result<bool> {
    let is_marked = flock(file, FlockOperation::NonBlockingLockExclusive);
    Ok(is_marked != Err(Errno::WOULDBLOCK) && fstat(file)?.st_nlink > 0)
}
