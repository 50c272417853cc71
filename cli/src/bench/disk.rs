//! Plain files: what dictionaries in files are compared with.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written at a time.
pub const PIECE: usize = 1 << 20;

/// A folder that is removed with everything in it when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder anew.
    pub fn create(path: &Path) -> io::Result<Self> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(path)?,
        }
        Ok(Scratch(path.to_path_buf()))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Writes a new file of `bytes` bytes, a [`PIECE`] of data again and again, and syncs it.
pub fn write(path: &Path, data: &[u8], bytes: usize) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut left = bytes;
    while left > 0 {
        let len = left.min(PIECE);
        file.write_all(&data[..len])?;
        left -= len;
    }
    file.sync_data()
}

/// Returns bytes that no file system stores in less space.
pub fn data(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Makes the system read a file, or all files of a folder, from the disk the next time, where it can be asked to.
pub fn drop_from_cache(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| drop_from_cache(&entry?.path()));
    }
    #[cfg(target_os = "linux")]
    {
        let file = File::open(path)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}
