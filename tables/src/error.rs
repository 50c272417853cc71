//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use crate::shown_path;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to open, read or write the file.
    #[error("{}: {}", shown_path(path), plain(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file exists, and it may not be replaced.
    #[error("{}: this file exists; to replace it, use the option force", shown_path(path))]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file does not hold what is expected, or can't hold what is to be written.
    #[error("{}: {message}", shown_path(path))]
    Content {
        /// The file.
        path: PathBuf,
        /// Which row and column, and what is wrong there.
        message: String,
    },
}

/// Names the file that an error of the system is about.
pub(crate) trait Context<T> {
    fn for_path(self, path: &Path) -> Result<T, Error>;
}

impl<T> Context<T> for io::Result<T> {
    fn for_path(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { path: path.into(), source })
    }
}

/// Returns the system's message without its error number.
pub(crate) fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}
