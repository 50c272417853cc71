//! Checking and describing the files of a dictionary.

use std::fmt;
use std::path::Path;

use crate::error::Error;
use crate::files::disk::Disk;
use crate::files::manifest::{Manifest, VERSION};
use crate::files::run::{RunReader, Section};
use crate::files::source::Source;
use crate::files::storage::Storage;

/// What the files of a dictionary contain, by what they say about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The version of the format.
    pub version: u32,
    /// Whether it is a folder, and not one file.
    pub is_folder: bool,
    /// The type of keys, as Rust writes it.
    pub key: String,
    /// The name of the type of values; empty if it is not known.
    pub value: String,
    /// How many bytes a value has.
    pub value_bytes: usize,
    /// How values combine.
    pub combine: String,
    /// Settings by name.
    pub settings: Vec<(String, u64)>,
    /// What other languages call the types, by name.
    pub notes: Vec<(String, String)>,
    /// The runs, the oldest first.
    pub runs: Vec<RunFile>,
    /// How many times the folder was opened, closed or checkpointed: each replaces its manifest.
    pub generation: u64,
    /// The number of the last update that the runs contain.
    pub sequence: u64,
    /// The number of the last update that is known to be on stable storage.
    pub synced: u64,
    /// How many logs there are.
    pub logs: usize,
    /// How many updates the logs have that the runs lack.
    pub updates: u64,
    /// How many bytes the logs have.
    pub log_bytes: u64,
    /// How many bytes of them are those of an incomplete update at the end, as a crash leaves it.
    pub torn_bytes: u64,
}

/// A run in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFile {
    /// The number of its file.
    pub file: u64,
    /// The level that it was in.
    pub level: u32,
    /// How many entries it has.
    pub entries: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

impl Info {
    fn new(manifest: &Manifest) -> Self {
        let schema = &manifest.schema;
        let run = |run: &crate::files::run::RunInfo| RunFile {
            file: run.file,
            level: run.level,
            entries: run.entries,
            bytes: run.bytes,
        };
        Info {
            version: VERSION,
            is_folder: false,
            key: schema.key_name(),
            value: schema.value_name.clone(),
            value_bytes: schema.widths.value,
            combine: schema.rule_text(),
            settings: manifest.settings.clone(),
            notes: schema.notes.clone(),
            runs: manifest.runs.iter().map(run).collect(),
            generation: manifest.generation,
            sequence: manifest.sequence,
            synced: manifest.synced,
            logs: 0,
            updates: 0,
            log_bytes: 0,
            torn_bytes: 0,
        }
    }

    /// Returns how many bytes runs and logs have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.log_bytes + self.runs.iter().map(|run| run.bytes).sum::<u64>()
    }

    /// Returns how many entries the runs have, stale ones included.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.runs.iter().map(|run| run.entries).sum()
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.value.is_empty() { "bytes" } else { &self.value };
        writeln!(f, "keys     {}", self.key)?;
        writeln!(f, "values   {value} ({} bytes)", self.value_bytes)?;
        writeln!(f, "combine  {}", self.combine)?;
        for (name, value) in &self.settings {
            writeln!(f, "setting  {name} = {value}")?;
        }
        for (name, note) in &self.notes {
            writeln!(f, "note     {name} = {note}")?;
        }
        for run in &self.runs {
            let RunFile { level, entries, bytes, .. } = run;
            writeln!(f, "run      level {level}: {entries} entries, {bytes} bytes")?;
        }
        write!(f, "log      {} updates, {} bytes", self.updates, self.log_bytes)?;
        match self.torn_bytes {
            0 => Ok(()),
            torn => write!(f, ", the last {torn} cut off by a crash"),
        }
    }
}

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
