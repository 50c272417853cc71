//! Saved files that replace no others.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use gpulsm::Error;

/// Lets `save` write a file, which gets its name only if nothing else has it. Nothing that has the name is touched,
/// even if another program takes it meanwhile.
pub fn save_new(path: &Path, save: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(failed(path, io::ErrorKind::AlreadyExists.into()));
    }
    let unfinished = beside(path);
    let saved = save(&unfinished).map_err(|error| naming(path, error));
    let named = saved.and_then(|()| {
        give_name(&unfinished, path)
            .and_then(|()| sync_folder(path))
            .map_err(|error| failed(path, error))
    });
    // What has its name by a link has two, and what has none is not wanted.
    fs::remove_file(&unfinished).ok();
    named
}

/// Gives a file a name that nothing has.
fn give_name(file: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(file, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            // A file system without links: an empty file takes the name, and is replaced at once.
            File::create_new(name)?;
            fs::rename(file, name)
        }
        linked => linked,
    }
}

/// Makes the names in the folder of a file durable.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Windows journals names by itself and opens no folders.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns a name that no file in the same folder has.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{:016x}.new", RandomState::new().build_hasher().finish()));
    path.with_file_name(name)
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::Io {
        path: path.into(),
        call: "create",
        kind: error.kind(),
        code: error.raw_os_error(),
        reason: error.to_string().into(),
    }
}

/// Returns an error of the unfinished file as one of the file that it is to become.
fn naming(path: &Path, error: Error) -> Error {
    match error {
        Error::Io { call, kind, code, reason, .. } => {
            Error::Io { path: path.into(), call, kind, code, reason }
        }
        other => other,
    }
}
