//! Files in memory for tests, which know what a crash may leave of them.
//!
//! What was written but not synced is kept apart from what is durable: the contents of files, and the names in
//! folders. [`Simulated::crash`] returns a storage as a crash may leave it. Calls can be made to fail, and the
//! states after all calls can be recorded, so that a crash after each of them can be tried without running
//! the calls before it again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::files::storage::{RawFile, RawStorage};

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
    /// As `Some`, and where writes were lost there are random bytes, or old ones of another file.
    Garbage,
}

impl Survivors {
    /// Every way.
    pub const EACH: [Survivors; 5] =
        [Survivors::All, Survivors::None, Survivors::Prefix, Survivors::Some, Survivors::Garbage];
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does nothing and returns this error. A sync that fails loses what it should have made durable,
    /// although it can still be read: so does a page cache.
    Error(io::ErrorKind),
    /// A write stops after half of its bytes and returns this error. Other calls: as `Error`.
    ShortWrite(io::ErrorKind),
    /// This call and all later ones fail.
    AllFrom(io::ErrorKind),
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Arc<[u8]> },
    Truncate(usize),
}

/// A file: what is durable, what is read, and the changes that lead from one to the other.
#[derive(Clone, Default)]
struct Contents {
    durable: Arc<Vec<u8>>,
    current: Arc<Vec<u8>>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum NameChange {
    Add(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

/// A folder: the files that its names mean, durable and current.
#[derive(Clone, Default)]
struct Names {
    durable: BTreeMap<String, usize>,
    current: BTreeMap<String, usize>,
    unsynced: Vec<NameChange>,
}

/// All files and folders. Folders themselves are durable as soon as they are created, which loses no generality:
/// a folder without durable names is as good as none to those who create it if it is missing.
#[derive(Clone, Default)]
struct State {
    folders: BTreeMap<PathBuf, Names>,
    files: Vec<Contents>,
    locked: Vec<PathBuf>,
}

#[derive(Default)]
struct Inner {
    state: State,
    calls: u64,
    faults: BTreeMap<u64, Fault>,
    all_fail: Option<io::ErrorKind>,
    syncs: u64,
    sync_time: Duration,
    mark: u64,
    recorded: Option<Vec<Moment>>,
}

/// The state after a call, which a crash may hit.
#[derive(Clone)]
pub struct Moment {
    state: State,
    /// The last [mark](Simulated::mark) before the call.
    pub mark: u64,
}

impl Moment {
    /// Returns a storage as a crash at this moment may leave it. What is random depends on the seed alone.
    pub fn crash(&self, survivors: Survivors, seed: u64) -> Simulated {
        let mut random = Random(seed);
        let mut state = self.state.clone();
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
        Simulated(Arc::new(Mutex::new(Inner { state, ..Inner::default() })))
    }

    /// Returns a storage with everything as the process left it: only the process ended.
    pub fn end_process(&self) -> Simulated {
        let mut state = self.state.clone();
        state.locked.clear();
        Simulated(Arc::new(Mutex::new(Inner { state, ..Inner::default() })))
    }
}

impl Contents {
    fn durable(bytes: Vec<u8>) -> Self {
        let bytes = Arc::new(bytes);
        Contents { durable: bytes.clone(), current: bytes, unsynced: Vec::new() }
    }

    fn change(&mut self, change: Change) {
        change.apply(Arc::make_mut(&mut self.current));
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
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
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                file.resize(file.len().max(end), 0);
                file[*offset..end].copy_from_slice(bytes);
            }
            Change::Truncate(len) => file.resize(*len, 0),
        }
    }

    /// Keeps the first or the last part of a write.
    fn tear(&mut self, random: &mut Random, either_end: bool) {
        if let Change::Write { offset, bytes } = self {
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
        *self = Change::Write { offset: 0, bytes: [].into() };
    }

    /// Replaces what a write writes by random bytes, or by those that another file has there.
    fn make_garbage(&mut self, random: &mut Random, other: &[u8]) {
        match self {
            Change::Write { offset, bytes } => {
                let old = other.get(*offset..*offset + bytes.len());
                *bytes = match old.filter(|_| random.below(2) == 0) {
                    Some(old) => old.into(),
                    None => bytes.iter().map(|_| random.next() as u8).collect(),
                };
            }
            Change::Truncate(_) => self.lose(),
        }
    }
}

impl Names {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
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

/// Files in memory. Clones are the same files.
#[derive(Clone, Default)]
pub struct Simulated(Arc<Mutex<Inner>>);

impl Simulated {
    /// Creates a storage without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many calls were made so far.
    pub fn calls(&self) -> u64 {
        self.inner().calls
    }

    /// Returns how many files were synced so far.
    pub fn syncs(&self) -> u64 {
        self.inner().syncs
    }

    /// Sets how long it takes to sync a file.
    pub fn set_sync_time(&self, time: Duration) {
        self.inner().sync_time = time;
    }

    /// Makes a call fail: the `call`-th from now on, counted from 0.
    pub fn fail(&self, call: u64, fault: Fault) {
        let mut inner = self.inner();
        let call = inner.calls + call;
        inner.faults.insert(call, fault);
    }

    /// Forgets the failures that are still to come, and ends those of [`Fault::AllFrom`].
    pub fn stop_failing(&self) {
        let mut inner = self.inner();
        inner.faults.clear();
        inner.all_fail = None;
    }

    /// Sets a number that is recorded with the states after the calls from now on.
    pub fn mark(&self, mark: u64) {
        self.inner().mark = mark;
    }

    /// Starts to record the state after every call that changes anything.
    pub fn record(&self) {
        self.inner().recorded = Some(Vec::new());
    }

    /// Returns what was recorded, and stops recording.
    pub fn take_recorded(&self) -> Vec<Moment> {
        self.inner().recorded.take().unwrap_or_default()
    }

    /// Returns the state now.
    pub fn moment(&self) -> Moment {
        let inner = self.inner();
        Moment { state: inner.state.clone(), mark: inner.mark }
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        let inner = self.inner();
        let folders = inner.state.folders.iter();
        folders.flat_map(|(path, names)| names.current.keys().map(|name| path.join(name))).collect()
    }

    /// Returns what a file holds.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let inner = self.inner();
        let file = inner.state.find(path).ok()?;
        Some(inner.state.files[file].current.as_ref().clone())
    }

    /// Replaces what a file holds, or creates it, durably. `None` removes it.
    pub fn replace(&self, path: &Path, contents: Option<Vec<u8>>) {
        let state = &mut self.inner().state;
        let (folder, name) = split(path);
        let names = state.folders.entry(folder).or_default();
        let file = match contents {
            Some(bytes) => {
                state.files.push(Contents::durable(bytes));
                Some(state.files.len() - 1)
            }
            None => None,
        };
        for map in [&mut names.durable, &mut names.current] {
            match file {
                Some(file) => map.insert(name.clone(), file),
                None => map.remove(&name),
            };
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and makes it fail if that was asked for.
    fn call(&self) -> Result<MutexGuard<'_, Inner>, (MutexGuard<'_, Inner>, Fault)> {
        let mut inner = self.inner();
        let fault = inner.faults.get(&inner.calls).copied();
        inner.calls += 1;
        if let Some(Fault::AllFrom(kind)) = fault {
            inner.all_fail = Some(kind);
        }
        match inner.all_fail.map(Fault::Error).or(fault) {
            Some(fault) => Err((inner, fault)),
            None => Ok(inner),
        }
    }

    /// Makes a call that changes nothing if it fails.
    fn simple_call<T>(&self, body: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.call().map_err(|(_, fault)| fault.error())?;
        let result = body(&mut inner.state);
        inner.record();
        result
    }

    fn handle(&self, file: usize) -> Box<dyn RawFile> {
        Box::new(SimulatedFile { storage: self.clone(), file })
    }
}

impl Fault {
    fn error(self) -> io::Error {
        let (Fault::Error(kind) | Fault::ShortWrite(kind) | Fault::AllFrom(kind)) = self;
        kind.into()
    }
}

impl Inner {
    fn record(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Moment { state: self.state.clone(), mark: self.mark });
        }
    }
}

impl State {
    fn folder(&mut self, path: &Path) -> io::Result<&mut Names> {
        self.folders.get_mut(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let (folder, name) = split(path);
        let names = self.folders.get(&folder).ok_or(io::ErrorKind::NotFound)?;
        names.current.get(&name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, path: &Path) -> io::Result<usize> {
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

fn split(path: &Path) -> (PathBuf, String) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    (path.parent().unwrap_or(Path::new("")).into(), name.unwrap_or_default())
}

struct SimulatedFile {
    storage: Simulated,
    file: usize,
}

struct SimulatedLock {
    storage: Simulated,
    path: PathBuf,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.storage.inner().state.locked.retain(|path| *path != self.path);
    }
}

impl RawStorage for Simulated {
    fn create(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        self.simple_call(|state| state.create(path)).map(|file| self.handle(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        let inner = self.call().map_err(|(_, fault)| fault.error())?;
        inner.state.find(path).map(|file| self.handle(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((folder, old), (to_folder, new)) = (split(from), split(to));
        assert_eq!(folder, to_folder, "files are renamed within a folder only");
        self.simple_call(|state| {
            let file = state.find(from)?;
            state.folder(&folder)?.change(NameChange::Rename(old, new, file));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = split(path);
        self.simple_call(|state| {
            state.find(path)?;
            state.folder(&folder)?.change(NameChange::Remove(name));
            Ok(())
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut inner = self.call().map_err(|(_, fault)| fault.error())?;
        if inner.state.find(folder).is_ok() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let inside: Vec<_> = inner.state.folders.keys().map(|path| split(path)).collect();
        let mut names: Vec<_> = inner.state.folder(folder)?.current.keys().cloned().collect();
        names.extend(
            inside.into_iter().filter(|(parent, _)| parent == folder).map(|(_, name)| name),
        );
        Ok(names)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.simple_call(|state| {
            if state.folders.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.folders.insert(path.into(), Names::default());
            Ok(())
        })
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match self.call() {
            Ok(mut inner) => {
                if let Ok(names) = inner.state.folder(path) {
                    names.sync();
                }
                inner.record();
                Ok(())
            }
            Err((mut inner, fault)) => {
                if let Ok(names) = inner.state.folder(path) {
                    names.unsynced.clear();
                }
                Err(fault.error())
            }
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.simple_call(|state| {
            if state.locked.iter().any(|locked| locked == path) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if state.find(path).is_err() {
                state.create(path)?;
            }
            state.locked.push(path.into());
            Ok(())
        })?;
        Ok(Box::new(SimulatedLock { storage: self.clone(), path: path.into() }))
    }
}

impl RawFile for SimulatedFile {
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut bytes = parts.concat();
        let (mut inner, result) = match self.storage.call() {
            Ok(inner) => (inner, Ok(())),
            Err((inner, fault @ Fault::ShortWrite(_))) => {
                bytes.truncate(bytes.len() / 2);
                (inner, Err(fault.error()))
            }
            Err((_, fault)) => return Err(fault.error()),
        };
        let change = Change::Write { offset: offset as usize, bytes: bytes.into() };
        inner.state.files[self.file].change(change);
        inner.record();
        result
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let inner = self.storage.call().map_err(|(_, fault)| fault.error())?;
        let contents = &inner.state.files[self.file].current;
        let start = (offset as usize).min(contents.len());
        let rest = contents[start..].get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(rest);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let inner = self.storage.call().map_err(|(_, fault)| fault.error())?;
        Ok(inner.state.files[self.file].current.len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.storage.simple_call(|state| {
            state.files[self.file].change(Change::Truncate(len as usize));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let time = self.storage.inner().sync_time;
        if !time.is_zero() {
            thread::sleep(time);
        }
        match self.storage.call() {
            Ok(mut inner) => {
                inner.syncs += 1;
                inner.state.files[self.file].sync();
                inner.record();
                Ok(())
            }
            Err((mut inner, fault)) => {
                inner.state.files[self.file].unsynced.clear();
                Err(fault.error())
            }
        }
    }
}

/// Random numbers that depend on a seed (SplitMix64).
pub struct Random(
    /// The seed.
    pub u64,
);

impl Random {
    /// Returns the next 64 random bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}
