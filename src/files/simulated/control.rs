//! Making calls fail, recording states, and looking at files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::files::simulated::state::{Contents, State, Survivors, split};

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

#[derive(Default)]
pub(super) struct Inner {
    pub state: State,
    calls: u64,
    faults: BTreeMap<u64, Fault>,
    all_fail: Option<io::ErrorKind>,
    pub syncs: u64,
    pub sync_time: Duration,
    /// The folder whose files are not written for now.
    held_folder: Option<PathBuf>,
    /// How many writes wait for it.
    held_writes: usize,
    mark: u64,
    recorded: Option<Vec<Moment>>,
    /// The most bytes that all files had since this was asked for last.
    peak: Option<u64>,
}

/// The state after a call, which a crash may hit.
#[derive(Clone)]
pub struct Moment {
    pub(super) state: State,
    /// The last [mark](Simulated::mark) before the call.
    pub mark: u64,
}

impl Moment {
    /// Returns a storage as a crash at this moment may leave it. What is random depends on the seed alone.
    pub fn crash(&self, survivors: Survivors, seed: u64) -> Simulated {
        let state = self.state.crash(survivors, seed);
        Simulated(Arc::new(Mutex::new(Inner { state, ..Inner::default() })))
    }

    /// Returns a storage with everything as the process left it: only the process ended.
    pub fn end_process(&self) -> Simulated {
        let mut state = self.state.clone();
        state.locked.clear();
        Simulated(Arc::new(Mutex::new(Inner { state, ..Inner::default() })))
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

    /// Lets writes to the files of a folder wait, until this is called again.
    pub fn hold_writes(&self, folder: Option<&Path>) {
        self.inner().held_folder = folder.map(Path::to_path_buf);
    }

    /// Returns how many writes wait now.
    pub fn held_writes(&self) -> usize {
        self.inner().held_writes
    }

    /// Waits while writes to a file are held.
    pub(super) fn wait_to_write(&self, file: usize) {
        let is_held = |inner: &Inner| {
            let folder = inner.held_folder.as_ref().and_then(|path| inner.state.folders.get(path));
            folder.is_some_and(|names| names.current.values().any(|&held| held == file))
        };
        if !is_held(&self.inner()) {
            return;
        }
        self.inner().held_writes += 1;
        while is_held(&self.inner()) {
            thread::sleep(Duration::from_millis(1));
        }
        self.inner().held_writes -= 1;
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

    /// Returns how many bytes all files have.
    pub fn bytes(&self) -> u64 {
        self.inner().state.bytes()
    }

    /// Returns the most bytes that all files had after any call since this was asked for last.
    pub fn take_peak(&self) -> u64 {
        let mut inner = self.inner();
        let bytes = inner.state.bytes();
        inner.peak.replace(bytes).unwrap_or(bytes)
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
        let file = contents.map(|bytes| {
            let file = names.current.get(&name).copied().unwrap_or(state.files.len());
            state.files.resize_with(state.files.len().max(file + 1), Contents::default);
            state.files[file] = Contents::durable(bytes);
            file
        });
        for map in [&mut names.durable, &mut names.current] {
            match file {
                Some(file) => map.insert(name.clone(), file),
                None => map.remove(&name),
            };
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and makes it fail if that was asked for.
    pub(super) fn call(&self) -> Result<MutexGuard<'_, Inner>, (MutexGuard<'_, Inner>, Fault)> {
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
    pub(super) fn simple_call<T>(
        &self,
        body: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut inner = self.call().map_err(|(_, fault)| fault.error())?;
        let result = body(&mut inner.state);
        inner.record();
        result
    }
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        let (Fault::Error(kind) | Fault::ShortWrite(kind) | Fault::AllFrom(kind)) = self;
        kind.into()
    }
}

impl Inner {
    pub(super) fn record(&mut self) {
        if let Some(peak) = self.peak {
            self.peak = Some(peak.max(self.state.bytes()));
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Moment { state: self.state.clone(), mark: self.mark });
        }
    }
}
