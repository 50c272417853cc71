//! What is durable, what is not, and what a crash makes of it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::bytes::checksum;
use crate::files::simulated::random::Random;
use crate::files::storage::Stamp;

/// What a crash leaves of the changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// All of them.
    All,
    /// None.
    None,
    /// The earlier ones, up to one that is cut off in the middle.
    Prefix,
    /// A random subset, in any order; some writes are cut off in the middle.
    Some,
    /// As `Some`, and where writes were lost there are random bytes, or old ones of this or another file.
    Garbage,
}

impl Survivors {
    /// Every way.
    pub const EACH: [Survivors; 5] =
        [Survivors::All, Survivors::None, Survivors::Prefix, Survivors::Some, Survivors::Garbage];
}

#[derive(Clone)]
pub(super) enum Change {
    /// The last field is what the disk had there before, even behind the end of the file.
    Write {
        offset: usize,
        bytes: Arc<[u8]>,
        old: Arc<[u8]>,
    },
    Truncate(usize),
}

/// A file: what is durable, what is read, and the changes that lead from one to the other.
#[derive(Clone, Default)]
pub(super) struct Contents {
    durable: Arc<Vec<u8>>,
    pub current: Arc<Vec<u8>>,
    pub unsynced: Vec<Change>,
    /// What was written last at each offset: cutting a file off leaves its blocks as they are.
    blocks: Arc<Vec<u8>>,
}

#[derive(Clone)]
pub(super) enum NameChange {
    Add(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

/// A folder: the files that its names mean, durable and current.
#[derive(Clone, Default)]
pub(super) struct Names {
    pub durable: BTreeMap<String, usize>,
    pub current: BTreeMap<String, usize>,
    pub unsynced: Vec<NameChange>,
}

/// All files and folders. As a simplification, folders themselves are durable as soon as they are created.
#[derive(Clone, Default)]
pub(super) struct State {
    pub folders: BTreeMap<PathBuf, Names>,
    pub files: Vec<Contents>,
    pub locked: Vec<PathBuf>,
}

impl Contents {
    pub fn durable(bytes: Vec<u8>) -> Self {
        let bytes = Arc::new(bytes);
        Contents {
            durable: bytes.clone(),
            current: bytes.clone(),
            unsynced: Vec::new(),
            blocks: bytes,
        }
    }

    pub fn write(&mut self, offset: usize, bytes: Vec<u8>) {
        let blocks = Arc::make_mut(&mut self.blocks);
        let end = offset + bytes.len();
        blocks.resize(blocks.len().max(end), 0);
        let old = blocks[offset..end].into();
        blocks[offset..end].copy_from_slice(&bytes);
        self.change(Change::Write { offset, bytes: bytes.into(), old });
    }

    pub fn truncate(&mut self, len: usize) {
        self.change(Change::Truncate(len));
    }

    fn change(&mut self, change: Change) {
        change.apply(Arc::make_mut(&mut self.current));
        self.unsynced.push(change);
    }

    pub fn sync(&mut self) {
        let durable = Arc::make_mut(&mut self.durable);
        self.unsynced.drain(..).for_each(|change| change.apply(durable));
    }

    /// Returns what survives; `other` is what the disk may have in place of lost writes.
    fn survive(&self, survivors: Survivors, random: &mut Random, other: &[u8]) -> Vec<u8> {
        let mut bytes = self.durable.as_ref().clone();
        let mut changes = self.unsynced.clone();
        match survivors {
            Survivors::All => {}
            Survivors::None => changes.clear(),
            Survivors::Prefix => {
                changes.truncate(random.below(changes.len() + 1));
                if let Some(last) = changes.last_mut() {
                    last.tear(random, false);
                }
            }
            Survivors::Some | Survivors::Garbage => {
                if random.below(4) == 0 {
                    random.shuffle(&mut changes);
                }
                for change in &mut changes {
                    match random.below(4) {
                        0 if survivors == Survivors::Garbage => change.make_garbage(random, other),
                        0 => change.lose(),
                        1 => change.tear(random, true),
                        _ => {}
                    }
                }
            }
        }
        changes.iter().for_each(|change| change.apply(&mut bytes));
        bytes
    }
}

impl Change {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes, .. } => {
                let end = offset + bytes.len();
                file.resize(file.len().max(end), 0);
                file[*offset..end].copy_from_slice(bytes);
            }
            Change::Truncate(len) => file.resize(*len, 0),
        }
    }

    /// Keeps the first or the last part of a write.
    fn tear(&mut self, random: &mut Random, either_end: bool) {
        if let Change::Write { offset, bytes, .. } = self {
            let at = random.below(bytes.len() + 1);
            if either_end && random.below(2) == 0 {
                *offset += at;
                *bytes = bytes[at..].into();
            } else {
                *bytes = bytes[..at].into();
            }
        }
    }

    fn lose(&mut self) {
        *self = Change::Write { offset: 0, bytes: [].into(), old: [].into() };
    }

    /// Replaces what a write writes by random bytes, or by those that this or another file had there.
    fn make_garbage(&mut self, random: &mut Random, other: &[u8]) {
        match self {
            Change::Write { offset, bytes, old } => {
                let other = other.get(*offset..*offset + bytes.len());
                *bytes = match (random.below(4), other) {
                    (0 | 1, Some(other)) => other.into(),
                    (2, _) => old.clone(),
                    _ => bytes.iter().map(|_| random.next() as u8).collect(),
                };
            }
            Change::Truncate(_) => self.lose(),
        }
    }
}

impl Names {
    pub fn change(&mut self, change: NameChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    pub fn sync(&mut self) {
        let durable = &mut self.durable;
        self.unsynced.drain(..).for_each(|change| change.apply(durable));
    }

    fn survive(&self, survivors: Survivors, random: &mut Random) -> BTreeMap<String, usize> {
        let mut names = self.durable.clone();
        let mut changes = self.unsynced.clone();
        match survivors {
            Survivors::All => {}
            Survivors::None => changes.clear(),
            Survivors::Prefix => changes.truncate(random.below(changes.len() + 1)),
            Survivors::Some | Survivors::Garbage => changes.retain(|_| random.below(2) == 0),
        }
        changes.iter().for_each(|change| change.apply(&mut names));
        names
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Add(name, file) => names.insert(name.clone(), *file),
            NameChange::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file)
            }
            NameChange::Remove(name) => names.remove(name),
        };
    }
}

impl State {
    /// Returns what a crash may leave.
    pub fn crash(&self, survivors: Survivors, seed: u64) -> State {
        let mut random = Random(seed);
        let mut state = self.clone();
        state.locked.clear();
        let other = match state.files.len() {
            0 => Arc::default(),
            files => state.files[random.below(files)].current.clone(),
        };
        for file in state.files.iter_mut().filter(|file| !file.unsynced.is_empty()) {
            *file = Contents::durable(file.survive(survivors, &mut random, &other));
        }
        for folder in state.folders.values_mut().filter(|folder| !folder.unsynced.is_empty()) {
            let names = folder.survive(survivors, &mut random);
            *folder = Names { durable: names.clone(), current: names, unsynced: Vec::new() };
        }
        // What a failed sync lost is still read until the crash, and not after it.
        for file in &mut state.files {
            file.current = file.durable.clone();
        }
        for folder in state.folders.values_mut() {
            folder.current = folder.durable.clone();
        }
        state
    }

    /// Returns how many bytes the files have that have a name.
    pub fn bytes(&self) -> u64 {
        let named = self.folders.values().flat_map(|names| names.current.values());
        named.map(|&file| self.files[file].current.len() as u64).sum()
    }

    pub fn folder(&mut self, path: &Path) -> io::Result<&mut Names> {
        self.folders.get_mut(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub fn find(&self, path: &Path) -> io::Result<usize> {
        let (folder, name) = split(path);
        let names = self.folders.get(&folder).ok_or(io::ErrorKind::NotFound)?;
        names.current.get(&name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns what tells a file, as it is now, from others.
    pub fn stamp(&self, file: usize) -> Stamp {
        let contents = &self.files[file].current;
        Stamp([file as u64, contents.len() as u64, checksum(contents), 0])
    }

    pub fn create(&mut self, path: &Path) -> io::Result<usize> {
        let (folder, name) = split(path);
        let file = self.files.len();
        let names = self.folder(&folder)?;
        if names.current.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        names.change(NameChange::Add(name, file));
        self.files.push(Contents::default());
        Ok(file)
    }
}

pub(super) fn split(path: &Path) -> (PathBuf, String) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    (path.parent().unwrap_or(Path::new("")).into(), name.unwrap_or_default())
}
