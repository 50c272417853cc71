//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::Context;

/// Writes a new file beside the old one, then renames it.
pub fn replace(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn WriteSend) -> Result<(), Failure>,
) -> Result<(), Error> {
    let old = fs::metadata(path).ok();
    if old.as_ref().is_some_and(fs::Metadata::is_dir) {
        return Err(Error::Content { path: path.into(), message: "this is a folder".into() });
    }
    let content = |message| Error::Content { path: path.into(), message };
    let failed = |failure| match failure {
        Failure::Io(source) => Error::Io { path: path.into(), source },
        Failure::Content(message) => content(message),
    };
    // A device or a pipe is written directly.
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        let mut file = BufWriter::new(File::create(path).for_path(path)?);
        write(&mut file).map_err(failed)?;
        return file.flush().for_path(path);
    }
    if old.is_some() && !force {
        return Err(Error::Exists { path: path.into() });
    }
    // The file that a link points to is replaced, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let new = beside(&target);
    let written = (|| {
        let mut file = BufWriter::new(File::create_new(&new)?);
        write(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Some(old) = old {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        Ok(fs::rename(&new, &target)?)
    })();
    if written.is_err() {
        fs::remove_file(&new).ok();
    }
    written.map_err(failed)
}

/// Why nothing was written.
pub enum Failure {
    Io(io::Error),
    Content(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

/// The bounds that the Parquet writer requires.
pub trait WriteSend: Write + Send {}

impl<W: Write + Send> WriteSend for W {}

/// Returns the name of a new file in the same folder.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn an_old_file_is_replaced_only_with_force_and_only_by_a_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let text = |text: &'static str| move |file: &mut dyn WriteSend| Ok(write!(file, "{text}")?);
        replace(&path, false, text("old")).unwrap();
        let error = replace(&path, false, text("new")).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        let error = replace(&path, true, |file| {
            write!(file, "half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull).into())
        });
        assert!(matches!(error, Err(Error::Io { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["a.csv"]);
        replace(&path, true, text("new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.csv"), folder.path().join("link.csv"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        symlink(&path, &link).unwrap();
        replace(&link, true, |file| Ok(write!(file, "new")?)).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
