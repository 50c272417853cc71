//! Opening a folder: what is there, what counts of it, and what must be durable before the first update.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::files::folder::{Folder, Opened, Options};
use crate::files::log::{LogHeader, LogWriter};
use crate::files::manifest::{Manifest, NUMBERS};
use crate::files::names::{self, Named};
use crate::files::publish::{publish, remove_orphans};
use crate::files::record::Update;
use crate::files::recovery::Recovered;
use crate::files::run::RunReader;
use crate::files::schema::Schema;
use crate::files::storage::{Storage, is_missing, parent_of};

/// How many numbers must be left for files and updates when a folder is opened. Only forged files have fewer.
const SPARE_NUMBERS: u64 = 1 << 32;

/// A folder that is locked and was read, but not changed. Dropped, it leaves everything as it was.
pub(crate) struct Opening {
    storage: Storage,
    path: PathBuf,
    lock: Box<dyn Send + Sync>,
    manifest: Manifest,
    recovered: Recovered,
    next_file: u64,
}

impl Opening {
    /// Locks a folder, reads its manifest and verifies its logs. If it holds no dictionary and is missing or
    /// empty, one is created, provided that types and settings for it are given.
    pub fn open(
        storage: &Storage,
        path: &Path,
        create: Option<(&Schema, &[(String, u64)])>,
    ) -> Result<Self, Error> {
        if !holds_manifest(storage, path)? {
            if create.is_none() {
                return Err(no_manifest(path));
            }
            storage.ensure_folder(path)?;
        }
        let lock = storage.lock(path)?;
        // Only who has the lock knows that nobody else is creating it.
        if let (false, Some((schema, settings))) = (holds_manifest(storage, path)?, create) {
            initialize(storage, path, schema, settings)?;
        }
        Self::read(storage, path, lock)
    }

    /// Returns whether a file is, by its name and place, one that a dictionary's folder consists of.
    pub fn owns(storage: &Storage, path: &Path) -> bool {
        let is_manifest = |folder: &Path| {
            let file = storage.open(&folder.join(names::MANIFEST));
            file.is_ok_and(|file| Manifest::read_alone(&file).is_ok())
        };
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| names::is_reserved(&name))
            && path.ancestors().skip(1).take(2).any(is_manifest)
    }

    /// Reads the manifest of a folder, which may be open; `None` if the folder is missing or empty.
    pub fn read_manifest(storage: &Storage, path: &Path) -> Result<Option<Manifest>, Error> {
        if !holds_manifest(storage, path)? {
            return Ok(None);
        }
        let manifest = Manifest::read_alone(&storage.open(&path.join(names::MANIFEST))?)?;
        Ok(Some(manifest))
    }

    /// Opens a folder to look at it. It is locked if it can be written.
    pub fn inspect(storage: &Storage, path: &Path) -> Result<Self, Error> {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};

        if !holds_manifest(storage, path)? {
            return Err(no_manifest(path));
        }
        let lock = match storage.lock(path) {
            Err(Error::Io { kind: PermissionDenied | ReadOnlyFilesystem, .. }) => Box::new(()),
            lock => lock?,
        };
        Self::read(storage, path, lock)
    }

    /// Reads the manifest and verifies the logs.
    fn read(storage: &Storage, path: &Path, lock: Box<dyn Send + Sync>) -> Result<Self, Error> {
        let manifest = Manifest::read_alone(&storage.open(&path.join(names::MANIFEST))?)?;
        let logs = path.join(names::LOGS);
        let mut numbers = list_numbers(storage, path)?;
        let next_file = numbers.iter().map(|named| named.number() + 1).max().unwrap_or(0);
        numbers
            .retain(|named| matches!(named, Named::Log(number) if *number >= manifest.first_log));
        let mut log_numbers: Vec<_> = numbers.into_iter().map(Named::number).collect();
        log_numbers.sort_unstable();
        let recovered = Recovered::scan(storage, &logs, &manifest, &log_numbers)?;
        let next_file = next_file.max(manifest.next_file);
        if next_file.max(recovered.last).max(manifest.generation) >= NUMBERS - SPARE_NUMBERS {
            let path = path.join(names::MANIFEST);
            let reason = "there are no numbers left for later files and updates".into();
            return Err(Error::CorruptFile { path, offset: 0, reason });
        }
        Ok(Opening {
            storage: storage.clone(),
            path: path.into(),
            lock,
            manifest,
            recovered,
            next_file,
        })
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns which records follow what the runs contain.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Opens the run at this index of the manifest's.
    pub fn run(&self, index: usize) -> Result<RunReader, Error> {
        let info = &self.manifest.runs[index];
        let path = self.path.join(names::RUNS).join(names::run(info.file));
        let missing = |error| match is_missing(&error) {
            true => {
                let reason = "the run is missing".into();
                Error::CorruptFile { path: path.clone(), offset: 0, reason }
            }
            false => error,
        };
        let file = self.storage.open(&path).map_err(missing)?;
        if file.len()? > info.bytes {
            return Err(file.corrupt(info.bytes, "the file is longer than the run in it"));
        }
        RunReader::open(file, 0, info)?.with_widths(self.manifest.schema.widths)
    }

    /// Calls `apply` for every update that the runs lack, in order. Arrays are aligned to 16 bytes.
    pub fn replay(
        &self,
        apply: &mut dyn FnMut(u64, Update<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.recovered.replay(apply)
    }

    /// Makes the folder ready for updates, once its contents are loaded. Updates that are not known to be durable
    /// are written into a new log, even if they can be read: after a sync that failed in another process they
    /// may be in memory only.
    pub fn finish(mut self, options: Options) -> Result<Arc<Folder>, Error> {
        // The process that wrote the manifest may have ended before its name was durable.
        self.storage.sync_folder(&self.path)?;
        if self.manifest.generation == 0 {
            self.storage.sync_folder(parent_of(&self.path))?;
        }
        let log = self.start_log(&options)?;
        if let Some((number, _)) = &log {
            self.manifest.last_log = *number;
            self.manifest.synced = self.recovered.last;
            let number = self.take_number();
            self.manifest.next_file = self.next_file;
            self.manifest.generation += 1;
            publish(&self.storage, &self.path, &self.manifest, number)
                .map_err(|failed| failed.error)?;
        }
        let needed = self.recovered.needed_logs();
        let current = log.as_ref().map(|(number, _)| *number);
        let keeps_log = |number| {
            needed.contains(&number) || Some(number) == current || number == self.manifest.last_log
        };
        remove_orphans(&self.storage, &self.path, &self.manifest, &keeps_log);
        let log = log.map(|(_, log)| log).filter(|_| options.durability.has_log());
        let opened = Opened {
            storage: self.storage,
            path: self.path,
            lock: self.lock,
            manifest: self.manifest,
            next_file: self.next_file,
            sequence: self.recovered.last,
            log,
            old_log_bytes: self.recovered.bytes(),
        };
        Ok(Arc::new(Folder::new(opened, options)))
    }

    /// Creates a log with the updates that may not be durable, unless there are none and nobody needs a log.
    fn start_log(&mut self, options: &Options) -> Result<Option<(u64, LogWriter)>, Error> {
        let Recovered { last, watermark, .. } = self.recovered;
        if last == watermark && !options.durability.has_log() {
            return Ok(None);
        }
        let number = self.take_number();
        let header = LogHeader::new(number, self.manifest.identity, watermark + 1);
        let folder = self.path.join(names::LOGS);
        let log = LogWriter::create(&self.storage, &folder, header, |log| {
            self.recovered.each_record(watermark + 1, &mut |old, header, payload| {
                log.append(old.kind_of(header)?, header.sequence, &[payload])
            })
        });
        log.map(|log| Some((number, log))).map_err(|failed| failed.error)
    }

    fn take_number(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }
}

pub(super) fn no_manifest(path: &Path) -> Error {
    let reason = "there is no manifest in it: name a folder that `open` created, or a file that `save` wrote";
    Error::NotADictionary { path: path.into(), reason }
}

/// Returns whether a folder has a manifest. If it has none, it must be missing or empty, or what a crash left of
/// its creation.
fn holds_manifest(storage: &Storage, path: &Path) -> Result<bool, Error> {
    let names = match storage.list(path) {
        Ok(names) => names,
        Err(error) if is_missing(&error) => return Ok(false),
        Err(Error::Io { kind: io::ErrorKind::NotADirectory, .. }) => {
            let reason = "it is a file, not a folder: saved files are loaded, not opened";
            return Err(Error::NotADictionary { path: path.into(), reason });
        }
        Err(error) => return Err(error),
    };
    if names.iter().any(|name| name == names::MANIFEST) {
        return Ok(true);
    }
    let is_ours = |name: &String| {
        [names::LOCK, names::RUNS, names::LOGS].contains(&name.as_str())
            || matches!(Named::parse(name), Some(Named::Unfinished(_)))
    };
    if !names.iter().all(is_ours) {
        let reason = "there are other files in it: choose a new or an empty folder";
        return Err(Error::NotADictionary { path: path.into(), reason });
    }
    if list_numbers(storage, path)?.iter().all(|named| matches!(named, Named::Unfinished(_))) {
        return Ok(false);
    }
    let path = path.join(names::MANIFEST);
    Err(Error::CorruptFile { path, offset: 0, reason: "the manifest is missing".into() })
}

/// Returns the numbered files of a folder.
fn list_numbers(storage: &Storage, path: &Path) -> Result<Vec<Named>, Error> {
    let mut numbers = Vec::new();
    for folder in [path, &path.join(names::RUNS), &path.join(names::LOGS)] {
        match storage.list(folder) {
            Ok(names) => numbers.extend(names.iter().filter_map(|name| Named::parse(name))),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(numbers)
}

/// Creates an empty dictionary in a folder. It exists as soon as its manifest does.
fn initialize(
    storage: &Storage,
    path: &Path,
    schema: &Schema,
    settings: &[(String, u64)],
) -> Result<(), Error> {
    storage.ensure_folder(&path.join(names::RUNS))?;
    storage.ensure_folder(&path.join(names::LOGS))?;
    let number = list_numbers(storage, path)?.iter().map(|named| named.number() + 1).max();
    let number = number.unwrap_or(1);
    let manifest = Manifest {
        identity: RandomState::new().build_hasher().finish(),
        generation: 0,
        schema: schema.clone(),
        settings: settings.to_vec(),
        sequence: 0,
        synced: 0,
        next_file: number + 1,
        first_log: number + 1,
        last_log: 0,
        runs: Vec::new(),
    };
    storage.sync_folder(path)?;
    publish(storage, path, &manifest, number).map_err(|failed| failed.error)
}
