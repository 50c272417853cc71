//! An open folder: updates go to its log, and checkpoints replace its runs.

use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::files::directories::Directories;
use crate::files::log::{LogHeader, LogWriter};
use crate::files::manifest::Manifest;
use crate::files::publish::{Claim, PublishError, lost, publish};
use crate::files::record::Update;

/// What is durable when an update returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The update: it is synced to the disk before the call returns.
    #[default]
    Batch,
    /// Nothing yet, but the operating system has it: it survives the end of the process. After a crash of the
    /// machine, the last updates may be missing.
    Os,
    /// Nothing: updates since the last checkpoint are lost with the process. No log is written.
    Checkpoint,
}

impl Durability {
    pub(crate) fn has_log(self) -> bool {
        self != Durability::Checkpoint
    }
}

/// How a folder is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub durability: Durability,
    /// How many bytes of logs there may be. Default: as many as the runs have, but at least 256 MiB.
    pub log_limit: Option<u64>,
}

/// How often it is looked up whether the folder is still this handle's, while updates are made: every so many
/// milliseconds.
const CHECK_INTERVAL: u64 = 1000;

const LOST_LOG: &str = "its log was removed or replaced";

/// How long updates that need a checkpoint are refused after one has failed, before another is tried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The bytes that the log may have, however small the dictionary is, unless another limit is set.
const LEAST_LOG_LIMIT: u64 = 256 << 20;

/// A folder that is open for updates.
pub(crate) struct Folder {
    pub(super) directories: Directories,
    options: Options,
    /// The process that opened it: a forked child must not write.
    process: u32,
    state: Mutex<State>,
    claim: Mutex<Claim>,
    /// When the claim was checked last, in milliseconds since the folder was opened.
    checked_at: AtomicU64,
    opened_at: Instant,
    /// Why the folder is no longer this handle's.
    lost: OnceLock<Error>,
    /// Whether an error has said so.
    has_told_loss: AtomicBool,
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// What opening a folder found and made.
pub(super) struct Opened {
    pub directories: Directories,
    pub lock: Box<dyn Send + Sync>,
    pub manifest: Manifest,
    pub claim: Claim,
    pub next_file: u64,
    pub sequence: u64,
    pub log: Option<LogWriter>,
    pub old_log_bytes: u64,
}

pub(super) struct State {
    pub manifest: Manifest,
    next_file: u64,
    /// The last update.
    pub sequence: u64,
    pub log: Option<Arc<LogWriter>>,
    /// The number of the log, or of the last one.
    pub log_number: u64,
    /// How many bytes there are in older logs that are still needed.
    pub old_log_bytes: u64,
    pub is_checkpointing: bool,
    /// Whether the checkpoint contains an update that is in no log: nothing else can be appended meanwhile.
    pub is_exclusive: bool,
    checkpoint_failure: Option<Error>,
    /// When a checkpoint failed last.
    failed_at: Instant,
    is_closed: bool,
}

impl State {
    /// Keeps what a checkpoint ended with.
    pub fn note_checkpoint(&mut self, failure: Option<Error>) {
        self.checkpoint_failure = failure;
        self.failed_at = Instant::now();
    }

    pub fn take_number(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }

    pub fn next_file(&self) -> u64 {
        self.next_file
    }

    fn log_bytes(&self) -> u64 {
        self.old_log_bytes + self.log.as_ref().map_or(0, |log| log.len())
    }
}

impl Folder {
    pub(super) fn new(opened: Opened, options: Options) -> Self {
        let state = State {
            log_number: opened.manifest.last_log,
            manifest: opened.manifest,
            next_file: opened.next_file,
            sequence: opened.sequence,
            log: opened.log.map(Arc::new),
            old_log_bytes: opened.old_log_bytes,
            is_checkpointing: false,
            is_exclusive: false,
            checkpoint_failure: None,
            failed_at: Instant::now(),
            is_closed: false,
        };
        Folder {
            directories: opened.directories,
            options,
            process: process::id(),
            state: Mutex::new(state),
            claim: Mutex::new(opened.claim),
            checked_at: AtomicU64::new(0),
            opened_at: Instant::now(),
            lost: OnceLock::new(),
            has_told_loss: AtomicBool::new(false),
            lock: Mutex::new(Some(opened.lock)),
        }
    }

    pub fn path(&self) -> &Path {
        self.directories.root.path()
    }

    pub fn durability(&self) -> Durability {
        self.options.durability
    }

    /// Returns the manifest of the last checkpoint.
    pub fn manifest(&self) -> Manifest {
        self.state().manifest.clone()
    }

    /// Sets a setting that the next checkpoint stores.
    pub fn set_setting(&self, name: &str, value: u64) {
        let settings = &mut self.state().manifest.settings;
        match settings.iter_mut().find(|(known, _)| known == name) {
            Some(setting) => setting.1 = value,
            None => settings.push((name.into(), value)),
        }
    }

    /// Appends an update to the log, if there is one, and returns its sequence number, with which
    /// [`commit`](Folder::commit) waits until it is as durable as the folder's setting says. After an error the
    /// update is not in the log.
    pub fn append(&self, update: &Update<'_>) -> Result<u64, Error> {
        self.check_claim_if_due()?;
        let mut state = self.usable_state()?;
        if state.is_exclusive {
            return Err(refused("a checkpoint with an update that is in no log is being written"));
        }
        if let Some(log) = &state.log {
            let payload = update.payload(state.manifest.schema.widths);
            if let Some(failure) = &state.checkpoint_failure
                && state.log_bytes() >= self.log_limit(&state)
            {
                return Err(refused(&format!(
                    "the log is full, and the last checkpoint failed ({failure}): make room; it is tried again \
                     with later updates, and by `checkpoint`"
                )));
            }
            log.append(payload.kind, state.sequence + 1, &payload.parts())?;
        }
        state.sequence += 1;
        Ok(state.sequence)
    }

    /// Takes back the update that was appended last, because it could not be applied. After an error nobody knows
    /// whether it will be there after a crash, and updates are refused until the folder is opened again.
    pub fn undo(&self, sequence: u64) -> Result<(), Error> {
        let mut state = self.usable_state()?;
        if let Some(log) = &state.log {
            log.undo(sequence)?;
        }
        state.sequence -= 1;
        Ok(())
    }

    /// Returns once an update is as durable as the folder's setting says. Threads that wait at the same time
    /// share syncs. After an error nobody knows whether the update will be there after a crash, and updates are
    /// refused until the folder is opened again.
    pub fn commit(&self, sequence: u64) -> Result<(), Error> {
        if self.options.durability == Durability::Batch {
            self.sync_to(sequence)?;
        }
        self.check_claim_if_due()
    }

    /// Returns an error if the folder is known to be no longer this handle's. That is looked up once a second.
    fn check_claim_if_due(&self) -> Result<(), Error> {
        let now = self.opened_at.elapsed().as_millis() as u64;
        let is_due = now.saturating_sub(self.checked_at.load(Relaxed)) >= CHECK_INTERVAL;
        let check = || {
            // While a manifest is published, that is looked up as well.
            if is_due && let Ok(claim) = self.claim.try_lock() {
                self.check_with(claim)?;
                self.check_log()?;
            }
            self.check_not_lost()
        };
        check().map_err(|error| self.told(error))
    }

    /// Returns an error if the folder is known to be no longer this handle's.
    fn check_not_lost(&self) -> Result<(), Error> {
        self.lost.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// Returns an error if the name of the log leads to another file, or to none.
    fn check_log(&self) -> Result<(), Error> {
        let Some(log) = self.state().log.clone() else { return Ok(()) };
        // A checkpoint may have followed it by another one meanwhile, and have removed it.
        if log.is_in(self.directories.logs()?)?
            || !self.state().log.as_ref().is_some_and(|now| Arc::ptr_eq(now, &log))
        {
            return Ok(());
        }
        Err(lost(&self.directories.root, LOST_LOG))
    }

    /// Returns an error if the folder is no longer this handle's, or if that can't be found out now.
    pub(super) fn check_claim(&self) -> Result<(), Error> {
        self.check_with(self.claim.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn check_with(&self, mut claim: MutexGuard<'_, Claim>) -> Result<(), Error> {
        let checked = claim.check(&self.directories.root).and_then(|()| self.check_places());
        checked.inspect_err(|error| self.note_loss(error))?;
        self.checked_at.store(self.opened_at.elapsed().as_millis() as u64, Relaxed);
        Ok(())
    }

    /// Makes a manifest the folder's, if that is still this handle's; `number` is new.
    pub(super) fn publish(&self, manifest: &Manifest, number: u64) -> Result<(), PublishError> {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        let unpublished = |error| PublishError { error, may_be_published: false };
        let published = self
            .check_places()
            .map_err(unpublished)
            .and_then(|()| publish(&self.directories.root, manifest, number, &mut claim));
        published.inspect_err(|failed| self.note_loss(&failed.error))
    }

    /// Returns an error if a folder in this one is not where it was opened.
    fn check_places(&self) -> Result<(), Error> {
        match self.directories.misplaced()? {
            None => Ok(()),
            Some(name) => {
                let reason = format!("its folder `{name}` was removed or replaced");
                Err(lost(&self.directories.root, &reason))
            }
        }
    }

    /// Returns an error that the caller gets; one that says that the folder is lost need not be told again.
    fn told(&self, error: Error) -> Error {
        self.note_loss(&error);
        self.has_told_loss.store(self.lost.get().is_some(), Relaxed);
        error
    }

    fn note_loss(&self, error: &Error) {
        if matches!(error, Error::UpdatesRefused { .. }) {
            self.lost.set(error.clone()).ok();
        }
    }

    /// Returns once all updates so far are durable, if there is a log.
    pub fn sync(&self) -> Result<(), Error> {
        let sequence = self.state().sequence;
        self.sync_to(sequence)
    }

    fn sync_to(&self, sequence: u64) -> Result<(), Error> {
        self.check_process()?;
        let log = self.state().log.clone();
        log.map_or(Ok(()), |log| log.sync_to(sequence))
    }

    /// Returns the number of the last update.
    pub fn sequence(&self) -> u64 {
        self.state().sequence
    }

    /// Returns an error if updates are refused.
    pub fn check(&self) -> Result<(), Error> {
        self.usable_state()?.log.as_ref().map_or(Ok(()), |log| log.check())
    }

    /// Returns how many bytes the logs have.
    pub fn log_bytes(&self) -> u64 {
        self.state().log_bytes()
    }

    /// Returns how many bytes of the log are not synced yet.
    pub fn unsynced_bytes(&self) -> u64 {
        self.state().log.as_ref().map_or(0, |log| log.unsynced_bytes())
    }

    /// Returns whether it is time for a checkpoint: the log has reached half its limit, or the files of runs are
    /// large compared with the runs that the dictionary has now (`live_bytes`).
    pub fn wants_checkpoint(&self, live_bytes: u64) -> bool {
        let state = self.state();
        let half = self.log_limit(&state) / 2;
        let has_dead_bytes =
            state.manifest.run_bytes() > live_bytes.saturating_mul(2).saturating_add(half);
        !state.is_checkpointing && (state.log_bytes() >= half.max(1) || has_dead_bytes)
    }

    /// Returns whether updates should wait for a checkpoint: the log has reached its limit.
    pub fn must_stall(&self) -> bool {
        let state = self.state();
        state.log_bytes() >= self.log_limit(&state)
    }

    /// Returns whether the last checkpoint failed.
    pub fn has_failed_checkpoint(&self) -> bool {
        self.state().checkpoint_failure.is_some()
    }

    /// Returns whether a checkpoint that updates wait for should be tried: unless one has just failed.
    pub fn may_try_checkpoint(&self) -> bool {
        let state = self.state();
        state.checkpoint_failure.is_none() || state.failed_at.elapsed() >= RETRY_INTERVAL
    }

    fn log_limit(&self, state: &State) -> u64 {
        let limit = self.options.log_limit;
        limit.unwrap_or_else(|| state.manifest.run_bytes().max(LEAST_LOG_LIMIT))
    }

    /// Returns whether an update is so large that it should become part of a checkpoint instead of the log
    /// (see [`begin_unlogged`](Folder::begin_unlogged)).
    pub fn is_too_large_for_log(&self, update: &Update<'_>) -> bool {
        let state = self.state();
        let payload = update.payload(state.manifest.schema.widths);
        let bytes: usize = payload.parts().iter().map(|part| part.len()).sum();
        self.options.durability.has_log() && bytes as u64 > self.log_limit(&state)
    }

    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Syncs the log and releases the lock. Without a log, what is not in a checkpoint is lost. After an error
    /// the folder is open as before. If it is no longer this handle's, and an error has said so, there is nothing to do.
    pub fn close(&self) -> Result<(), Error> {
        if self.has_told_loss.load(Relaxed) {
            self.release();
            return Ok(());
        }
        let ended = self.usable_state().and_then(|mut state| self.end_session(&mut state));
        ended.map_err(|error| self.told(error))?;
        self.release();
        Ok(())
    }

    /// Releases the lock, and refuses everything from now on. A forked child has none.
    pub fn release(&self) {
        self.state().is_closed = true;
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Syncs the log, and says so in the manifest: a log that ends earlier the next time is damaged.
    fn end_session(&self, state: &mut State) -> Result<(), Error> {
        let Some(log) = state.log.clone() else { return Ok(()) };
        log.sync()?;
        log.check()?;
        if !log.is_in(self.directories.logs()?)? {
            self.check_claim()?; // If the whole folder is lost, that is what is said.
            return Err(lost(&self.directories.root, LOST_LOG));
        }
        if state.is_checkpointing || state.manifest.synced == state.sequence {
            return Ok(());
        }
        let number = state.take_number();
        let manifest = Manifest {
            synced: state.sequence,
            last_log: state.log_number,
            next_file: state.next_file,
            generation: state.manifest.generation + 1,
            ..state.manifest.clone()
        };
        self.publish(&manifest, number).map_err(|failed| failed.error)?;
        state.manifest = manifest;
        Ok(())
    }

    /// Creates the log that follows everything so far, and makes it the current one.
    pub(super) fn switch_log(&self, state: &mut State, number: u64) -> Result<(), Error> {
        let header = LogHeader::new(number, &state.manifest, state.sequence + 1);
        let log = LogWriter::create(self.directories.logs()?, header, |_| Ok(()));
        let log = log.map_err(|failed| {
            if let (true, Some(log)) = (failed.may_exist, &state.log) {
                log.refuse(failed.error.clone());
            }
            failed.error
        })?;
        let old = state.log.replace(Arc::new(log));
        state.old_log_bytes += old.map_or(0, |old| old.len());
        state.log_number = number;
        Ok(())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usable_state(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.check_process()?;
        self.check_not_lost()?;
        let state = self.state();
        if state.is_closed { Err(refused("the dictionary is closed")) } else { Ok(state) }
    }

    pub fn check_process(&self) -> Result<(), Error> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(refused("the dictionary was opened by the process that this one was forked from"))
    }
}

pub(super) fn refused(reason: &str) -> Error {
    Error::UpdatesRefused { reason: reason.into() }
}
