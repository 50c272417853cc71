//! One open file.

use std::fs;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::files::storage::{RawFile, Stamp};

/// Opens a file to be read.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn RawFile>> {
    // Opening a named pipe would wait for a writer, and a device has no end.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(no_regular_file());
    }
    Ok(Box::new(DiskFile(fs::File::open(path)?)))
}

pub(super) fn no_regular_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

pub(super) struct DiskFile(pub fs::File);

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

    #[cfg(unix)]
    fn stamp(&self) -> io::Result<Stamp> {
        Ok(stamp(&rustix::fs::fstat(&self.0)?))
    }

    #[cfg(windows)]
    fn stamp(&self) -> io::Result<Stamp> {
        Ok(stamp(&self.0.metadata()?))
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

/// Renaming a file changes neither of these numbers.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast)] // Their types depend on the system.
pub(super) fn stamp(stat: &rustix::fs::Stat) -> Stamp {
    let changed = (stat.st_mtime as u64).wrapping_mul(1_000_000_000);
    let changed = changed.wrapping_add(stat.st_mtime_nsec as u64);
    Stamp([stat.st_dev as u64, stat.st_ino as u64, stat.st_size as u64, changed])
}

#[cfg(windows)]
pub(super) fn stamp(metadata: &fs::Metadata) -> Stamp {
    use std::os::windows::fs::MetadataExt;

    let times = [metadata.creation_time(), metadata.last_write_time()];
    Stamp([0, times[0], metadata.file_size(), times[1]])
}
