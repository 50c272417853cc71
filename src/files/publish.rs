//! Replacing a folder's manifest, and removing files that none names, as long as the folder is still this handle's.

use crate::error::Error;
use crate::files::directories::Directories;
use crate::files::manifest::{Manifest, Owner};
use crate::files::names::{self, Named};
use crate::files::storage::{Directory, File, Stamp, is_missing};

/// Why a manifest could not be replaced.
pub(crate) struct PublishError {
    pub error: Error,
    /// Whether the new manifest may be the folder's all the same.
    pub may_be_published: bool,
}

/// What a folder's manifest must be, for this handle to replace or remove anything in it.
pub(crate) struct Claim {
    identity: u64,
    owner: Owner,
    /// The manifest when it was looked at last. It is held open, so that no other file gets its stamp.
    file: File,
    stamp: Stamp,
}

impl Claim {
    /// Returns the claim of who read or wrote this manifest.
    pub fn new(manifest: &Manifest, file: File) -> Result<Self, Error> {
        let stamp = file.stamp()?;
        Ok(Claim { identity: manifest.identity, owner: manifest.owner, file, stamp })
    }

    /// Returns an error if the folder has another manifest than the one of this claim: if it is another
    /// dictionary's, or another handle's, that error is of the kind [`Error::UpdatesRefused`], and lasts.
    pub fn check(&mut self, folder: &Directory) -> Result<(), Error> {
        if folder.stamp(names::MANIFEST)? == Some(self.stamp) {
            return Ok(());
        }
        let file = match folder.open(names::MANIFEST) {
            Err(error) if is_missing(&error) => return Err(lost(folder, "its manifest is gone")),
            file => file?,
        };
        let stamp = file.stamp()?;
        let manifest = match Manifest::read_alone(&file) {
            Err(error @ (Error::Io { .. } | Error::OutOfMemory { .. })) => return Err(error),
            Err(_) => return Err(lost(folder, "its manifest was replaced by a damaged one")),
            Ok(manifest) => manifest,
        };
        if manifest.identity != self.identity {
            return Err(lost(folder, "another dictionary is in its place"));
        }
        if manifest.owner != self.owner {
            return Err(lost(folder, "it was opened for updates again, or restored from a copy"));
        }
        (self.file, self.stamp) = (file, stamp);
        Ok(())
    }
}

pub(crate) fn lost(folder: &Directory, reason: &str) -> Error {
    let reason = format!(
        "the folder {} is no longer this handle's: {reason}. Nothing more is written there; queries go on: save the \
         dictionary elsewhere, or close it and open the folder again",
        folder.path().display()
    );
    Error::UpdatesRefused { reason: reason.into() }
}

/// Makes a manifest the folder's, provided that the one before is still the claimed one. It is written beside the old
/// one, whose name it gets when it is durable; `number` is new.
pub(crate) fn publish(
    folder: &Directory,
    manifest: &Manifest,
    number: u64,
    claim: &mut Claim,
) -> Result<(), PublishError> {
    let unpublished = |error| PublishError { error, may_be_published: false };
    claim.check(folder).map_err(unpublished)?;
    let (unfinished, next) = write(folder, manifest, number).map_err(unpublished)?;
    claim.check(folder).map_err(unpublished)?;
    folder.rename(&unfinished, names::MANIFEST).map_err(|error| {
        let may_be_published = !folder.remove_if_present(&unfinished);
        PublishError { error, may_be_published }
    })?;
    *claim = next;
    folder.sync().map_err(|error| PublishError { error, may_be_published: true })
}

/// Makes a manifest the first one of a folder.
pub(crate) fn publish_first(
    folder: &Directory,
    manifest: &Manifest,
    number: u64,
) -> Result<(), Error> {
    let (unfinished, _) = write(folder, manifest, number)?;
    folder.rename(&unfinished, names::MANIFEST)?;
    folder.sync()
}

/// Writes a manifest as an unfinished file; returns its name, and what may be claimed by it.
fn write(folder: &Directory, manifest: &Manifest, number: u64) -> Result<(String, Claim), Error> {
    let name = names::unfinished(&names::manifest(number));
    let write = || {
        let file = folder.create(&name)?;
        file.write_at(0, &[&manifest.encode()])?;
        file.sync()?;
        Claim::new(manifest, file)
    };
    match write() {
        Ok(claim) => Ok((name, claim)),
        Err(error) => {
            folder.remove(&name).ok();
            Err(error)
        }
    }
}

/// Removes files that the folder's manifest does not name: runs, logs that `keeps_log` does not want, and
/// unfinished files. What cannot be removed stays until the next time.
pub(crate) fn remove_orphans(
    directories: &Directories,
    manifest: &Manifest,
    keeps_log: &dyn Fn(u64) -> bool,
) {
    let is_orphan = |named| match named {
        Named::Run(number) => manifest.runs.iter().all(|run| run.file != number),
        Named::Log(number) => number < manifest.first_log || !keeps_log(number),
        Named::Unfinished(_) => true,
    };
    for folder in directories.each() {
        let list = folder.list().unwrap_or_default();
        for name in list.iter().filter(|name| Named::parse(name).is_some_and(is_orphan)) {
            folder.remove(name).ok();
        }
    }
}
