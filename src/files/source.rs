//! A dictionary that is stored in one file or in a folder, and only read.

use std::io;
use std::path::Path;

use crate::error::Error;
use crate::files::manifest::Manifest;
use crate::files::opening::{Opening, no_manifest};
use crate::files::saved::SavedReader;
use crate::files::storage::Storage;

/// Where a dictionary is stored.
#[allow(clippy::large_enum_variant)] // There is one at a time.
pub(crate) enum Source {
    File(SavedReader),
    Folder(Opening),
}

impl Source {
    /// Opens a file, or a folder, which is locked if it can be written. Nothing is changed.
    pub fn open(storage: &Storage, path: &Path) -> Result<Self, Error> {
        match is_file(storage, path) {
            true => open_saved(storage, path).map(Source::File),
            false => Opening::inspect(storage, path).map_err(as_reader).map(Source::Folder),
        }
    }

    /// Reads only what the dictionary consists of. A folder may be open.
    pub fn read_manifest(storage: &Storage, path: &Path) -> Result<Manifest, Error> {
        match is_file(storage, path) {
            true => open_saved(storage, path).map(|saved| saved.manifest().clone()),
            false => {
                let manifest = Opening::read_manifest(storage, path).map_err(as_reader)?;
                manifest.ok_or_else(|| no_manifest(path))
            }
        }
    }

    pub fn manifest(&self) -> &Manifest {
        match self {
            Source::File(saved) => saved.manifest(),
            Source::Folder(opening) => opening.manifest(),
        }
    }
}

/// Opens a saved file. What a folder consists of is none, and not a damaged one either.
fn open_saved(storage: &Storage, path: &Path) -> Result<SavedReader, Error> {
    SavedReader::open(storage, path).map_err(|error| match error {
        Error::CorruptFile { .. } | Error::NotADictionary { .. }
            if Opening::owns(storage, path) =>
        {
            let reason = "it is a part of a dictionary that lives in a folder: name that folder";
            Error::NotADictionary { path: path.into(), reason }
        }
        other => other,
    })
}

/// Returns the error of a folder without a dictionary as one for those who want to read: no other folder will do,
/// be it empty.
fn as_reader(error: Error) -> Error {
    match error {
        Error::NotADictionary { path, .. } => no_manifest(&path),
        other => other,
    }
}

/// What is missing counts as a file.
fn is_file(storage: &Storage, path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};

    matches!(storage.open_directory(path), Err(Error::Io { kind: NotADirectory | NotFound, .. }))
}
