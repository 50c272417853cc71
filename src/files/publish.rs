//! Replacing a folder's manifest, and removing files that none names.

use std::path::Path;

use crate::error::Error;
use crate::files::manifest::Manifest;
use crate::files::names::{self, Named};
use crate::files::storage::Storage;

/// Why a manifest could not be replaced.
pub(crate) struct PublishError {
    pub error: Error,
    /// Whether the new manifest may be the folder's all the same.
    pub may_be_published: bool,
}

/// Makes a manifest the folder's. It is written beside the old one, whose name it gets when it is durable;
/// `number` is new.
pub(crate) fn publish(
    storage: &Storage,
    folder: &Path,
    manifest: &Manifest,
    number: u64,
) -> Result<(), PublishError> {
    let unfinished = folder.join(names::unfinished(&names::manifest(number)));
    let write = || {
        let file = storage.create(&unfinished)?;
        file.write_at(0, &[&manifest.encode()])?;
        file.sync()
    };
    write().map_err(|error| {
        storage.remove(&unfinished).ok();
        PublishError { error, may_be_published: false }
    })?;
    let rename = storage.rename(&unfinished, &folder.join(names::MANIFEST));
    rename
        .and_then(|()| storage.sync_folder(folder))
        .map_err(|error| PublishError { error, may_be_published: true })
}

/// Removes files that the folder's manifest does not name: runs, logs that `keeps_log` does not want, and
/// unfinished files. What cannot be removed stays until the next time.
pub(crate) fn remove_orphans(
    storage: &Storage,
    folder: &Path,
    manifest: &Manifest,
    keeps_log: &dyn Fn(u64) -> bool,
) {
    let is_orphan = |named| match named {
        Named::Run(number) => manifest.runs.iter().all(|run| run.file != number),
        Named::Log(number) => number < manifest.first_log || !keeps_log(number),
        Named::Unfinished(_) => true,
    };
    for folder in [folder, &folder.join(names::RUNS), &folder.join(names::LOGS)] {
        let list = storage.list(folder).unwrap_or_default();
        for name in list.iter().filter(|name| Named::parse(name).is_some_and(is_orphan)) {
            storage.remove(&folder.join(name)).ok();
        }
    }
}
