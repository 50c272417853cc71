//! Checking the files of a dictionary.

use std::path::Path;

use crate::error::Error;
use crate::files::disk::Disk;
use crate::files::info::Info;
use crate::files::run::{RunReader, Section};
use crate::files::source::Source;
use crate::files::storage::Storage;

/// Checks a folder or a saved file: reads everything, and verifies every checksum. Nothing is changed.
///
/// Returns what the files contain, or an [`Error`] that names the first damage: the file and the offset. A folder
/// that is open is [`Error::Locked`].
pub fn check(path: impl AsRef<Path>) -> Result<Info, Error> {
    check_with(path, &mut |_, _| {})
}

/// As [`check`], and calls `progress` now and then with the number of bytes that were read and that of all.
pub fn check_with(
    path: impl AsRef<Path>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Info, Error> {
    check_in(&Storage::new(Disk), path.as_ref(), progress)
}

/// Returns what a folder or a saved file contains. Of the runs, nothing is read.
pub fn info(path: impl AsRef<Path>) -> Result<Info, Error> {
    Source::open(&Storage::new(Disk), path.as_ref()).map(|source| source.info())
}

pub(crate) fn check_in(
    storage: &Storage,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Info, Error> {
    let source = Source::open(storage, path)?;
    let info = source.info();
    // Logs are verified on opening.
    let mut done = info.log_bytes;
    for index in 0..info.runs.len() {
        check_run(&source.run(index)?, &mut |bytes| {
            done += bytes;
            progress(done, info.bytes());
        })?;
    }
    progress(info.bytes(), info.bytes());
    Ok(info)
}

impl Source {
    fn info(&self) -> Info {
        match self {
            Source::File(saved) => Info::new(saved.manifest()),
            Source::Folder(opening) => {
                let recovered = opening.recovered();
                Info {
                    is_folder: true,
                    synced: recovered.watermark,
                    logs: recovered.logs(),
                    updates: recovered.records(),
                    log_bytes: recovered.bytes(),
                    torn_bytes: recovered.torn_bytes,
                    ..Info::new(opening.manifest())
                }
            }
        }
    }

    fn run(&self, index: usize) -> Result<RunReader, Error> {
        match self {
            Source::File(saved) => saved.run(index),
            Source::Folder(opening) => opening.run(index),
        }
    }
}

fn check_run(run: &RunReader, read: &mut dyn FnMut(u64)) -> Result<(), Error> {
    let mut buffer = Vec::new();
    for section in Section::EACH {
        for block in 0..run.blocks(section) {
            buffer.resize(run.block_len(section, block), 0);
            run.read_block(section, block, &mut buffer)?;
            read(buffer.len() as u64);
        }
    }
    Ok(())
}
