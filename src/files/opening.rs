//! Opening a folder: what is there, what counts of it, and what must be durable before the first update.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::files::directories::Directories;
use crate::files::folder::{Folder, Opened, Options};
use crate::files::log::{LogHeader, LogWriter};
use crate::files::manifest::{Manifest, NUMBERS, Owner};
use crate::files::names::{self, Named};
use crate::files::publish::{Claim, publish, publish_first, remove_orphans};
use crate::files::record::Update;
use crate::files::recovery::Recovered;
use crate::files::run::RunReader;
use crate::files::schema::Schema;
use crate::files::storage::{Directory, Storage, is_missing, parent_of};

/// How many numbers must be left for files and updates when a folder is opened. Only forged files have fewer.
const SPARE_NUMBERS: u64 = 1 << 32;

/// A folder that is locked and was read, but not changed. Dropped, it leaves everything as it was.
pub(crate) struct Opening {
    directories: Directories,
    lock: Box<dyn Send + Sync>,
    manifest: Manifest,
    claim: Claim,
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
        let mut root = open_root(storage, path)?;
        if root.is_none() && create.is_some() {
            storage.ensure_directory(path)?;
            root = open_root(storage, path)?;
        }
        let Some(root) = root else { return Err(no_manifest(path)) };
        if !holds_manifest(&root)? && create.is_none() {
            return Err(no_manifest(path));
        }
        let lock = root.lock(names::LOCK)?;
        // Only the holder of the lock knows that it is not being created just now.
        if let (false, Some((schema, settings))) = (holds_manifest(&root)?, create) {
            initialize(&root, schema, settings)?;
        }
        Self::read(root, lock)
    }

    /// Returns whether a file is, by its name and place, one that a dictionary's folder consists of.
    pub fn owns(storage: &Storage, path: &Path) -> bool {
        let is_manifest = |folder: &Path| {
            let file = storage.open_file(&folder.join(names::MANIFEST));
            file.is_ok_and(|file| Manifest::read_alone(&file).is_ok())
        };
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| names::is_reserved(&name))
            && path.ancestors().skip(1).take(2).any(is_manifest)
    }

    /// Reads the manifest of a folder, which may be open; `None` if the folder is missing or empty.
    pub fn read_manifest(storage: &Storage, path: &Path) -> Result<Option<Manifest>, Error> {
        match open_root(storage, path)? {
            Some(root) if holds_manifest(&root)? => {
                Manifest::read_alone(&root.open(names::MANIFEST)?).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Opens a folder to look at it. It is locked if it can be written.
    pub fn inspect(storage: &Storage, path: &Path) -> Result<Self, Error> {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};

        let root = match open_root(storage, path)? {
            Some(root) if holds_manifest(&root)? => root,
            _ => return Err(no_manifest(path)),
        };
        let lock = match root.lock(names::LOCK) {
            Err(Error::Io { kind: PermissionDenied | ReadOnlyFilesystem, .. }) => Box::new(()),
            lock => lock?,
        };
        Self::read(root, lock)
    }

    /// Reads the manifest and verifies the logs.
    fn read(root: Directory, lock: Box<dyn Send + Sync>) -> Result<Self, Error> {
        let directories = Directories::open(root)?;
        let root = &directories.root;
        let file = root.open(names::MANIFEST)?;
        let manifest = Manifest::read_alone(&file)?;
        let claim = Claim::new(&manifest, file)?;
        let mut numbers = directories.numbered()?;
        let next_file = numbers.iter().map(|named| named.number() + 1).max().unwrap_or(0);
        numbers
            .retain(|named| matches!(named, Named::Log(number) if *number >= manifest.first_log));
        let mut log_numbers: Vec<_> = numbers.into_iter().map(Named::number).collect();
        log_numbers.sort_unstable();
        let recovered = Recovered::scan(&directories, &manifest, &log_numbers)?;
        let next_file = next_file.max(manifest.next_file);
        if next_file.max(recovered.last).max(manifest.generation) >= NUMBERS - SPARE_NUMBERS {
            let path = root.path_of(names::MANIFEST);
            let reason = "there are no numbers left for later files and updates".into();
            return Err(Error::CorruptFile { path, offset: 0, reason });
        }
        Ok(Opening { directories, lock, manifest, claim, recovered, next_file })
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
        let name = names::run(info.file);
        let missing = |error| match is_missing(&error) {
            true => {
                let path = self.directories.root.path_of(names::RUNS).join(&name);
                Error::CorruptFile { path, offset: 0, reason: "the run is missing".into() }
            }
            false => error,
        };
        let file = self.directories.runs().and_then(|runs| runs.open(&name)).map_err(missing)?;
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
    pub fn finish(mut self, storage: &Storage, options: Options) -> Result<Arc<Folder>, Error> {
        // The process that wrote the manifest may have ended before its name was durable.
        let root = self.directories.root.clone();
        root.sync()?;
        if self.manifest.generation == 0 {
            storage.open_directory(parent_of(root.path()))?.sync()?;
        }
        self.directories.ensure()?;
        self.manifest.owner =
            Owner { number: self.manifest.owner.number + 1, token: random().max(1) };
        let log = self.start_log(&options)?;
        if let Some((number, _)) = &log {
            self.manifest.last_log = *number;
            self.manifest.synced = self.recovered.last;
        }
        let number = self.take_number();
        self.manifest.next_file = self.next_file;
        self.manifest.generation += 1;
        publish(&root, &self.manifest, number, &mut self.claim).map_err(|failed| failed.error)?;
        let needed = self.recovered.needed_logs();
        let current = log.as_ref().map(|(number, _)| *number);
        let keeps_log = |number| {
            needed.contains(&number) || Some(number) == current || number == self.manifest.last_log
        };
        remove_orphans(&self.directories, &self.manifest, &keeps_log);
        let log = log.map(|(_, log)| log).filter(|_| options.durability.has_log());
        let opened = Opened {
            directories: self.directories,
            lock: self.lock,
            manifest: self.manifest,
            claim: self.claim,
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
        let header = LogHeader::new(number, &self.manifest, watermark + 1);
        let log = LogWriter::create(self.directories.logs()?, header, |log| {
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

/// Opens a folder; `None` if there is none.
fn open_root(storage: &Storage, path: &Path) -> Result<Option<Directory>, Error> {
    match storage.open_directory(path) {
        Ok(root) => Ok(Some(root)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(Error::Io { kind: io::ErrorKind::NotADirectory, .. }) => {
            let reason = "it is a file, not a folder: saved files are loaded, not opened";
            Err(Error::NotADictionary { path: path.into(), reason })
        }
        Err(error) => Err(error),
    }
}

/// Returns whether a folder has a manifest. If it has none, it must be empty, or what a crash left of its creation.
fn holds_manifest(root: &Directory) -> Result<bool, Error> {
    let names = root.list()?;
    if names.iter().any(|name| name == names::MANIFEST) {
        return Ok(true);
    }
    let is_ours = |name: &String| {
        [names::LOCK, names::RUNS, names::LOGS].contains(&name.as_str())
            || matches!(Named::parse(name), Some(Named::Unfinished(_)))
    };
    if !names.iter().all(is_ours) {
        let reason = "there are other files in it: choose a new or an empty folder";
        return Err(Error::NotADictionary { path: root.path().into(), reason });
    }
    let numbered = Directories::open(root.clone())?.numbered()?;
    if numbered.iter().all(|named| matches!(named, Named::Unfinished(_))) {
        return Ok(false);
    }
    let path = root.path_of(names::MANIFEST);
    Err(Error::CorruptFile { path, offset: 0, reason: "the manifest is missing".into() })
}

/// Creates an empty dictionary in a folder. It exists as soon as its manifest does.
fn initialize(root: &Directory, schema: &Schema, settings: &[(String, u64)]) -> Result<(), Error> {
    let mut directories = Directories::open(root.clone())?;
    directories.ensure()?;
    let number = directories.numbered()?.iter().map(|named| named.number() + 1).max();
    let number = number.unwrap_or(1);
    let manifest = Manifest {
        identity: random(),
        generation: 0,
        owner: Owner::default(),
        schema: schema.clone(),
        settings: settings.to_vec(),
        sequence: 0,
        synced: 0,
        next_file: number + 1,
        first_log: number + 1,
        last_log: 0,
        runs: Vec::new(),
    };
    root.sync()?;
    publish_first(root, &manifest, number)
}

/// Returns a random number.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
