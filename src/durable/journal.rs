//! The files of an open dictionary: every change goes to the log before it is acknowledged, and checkpoints are
//! written in the background.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::contents::{self, PairSource};
use super::lease::{AnyLease, Lease};
use crate::change::Change;
use crate::error::Error;
use crate::files::{Checkpoint, Folder, RunInfo, Update};
use crate::holders::HolderKind;
use crate::key::OrderedKey;
use crate::store::AnyStore;

/// Bytes beyond those of live pairs that are no reason for a checkpoint: files have headers and whole pages.
const SMALL: u64 = 1 << 16;

/// Applies an update to a store, as a whole or not at all.
type ApplyTo<'a, B> = dyn Fn(&mut dyn AnyStore<B>) -> Result<(), Error> + 'a;

/// Before a checkpoint, a log with more unsynced bytes is synced in the background: updates wait for what is left.
const MAX_UNSYNCED: u64 = 1 << 20;

/// What was replayed from the logs when a folder was opened.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many updates.
    pub updates: u64,
    /// How many bytes of an incomplete update, as a crash leaves it, were cut off.
    pub torn_bytes: u64,
}

/// The files that a dictionary lives in.
pub(crate) struct Journal {
    folder: Arc<Folder>,
    pub replayed: Replayed,
    /// What writes a checkpoint, or syncs the log before one.
    background: Option<Background>,
    /// Whether the last checkpoint in the background gave way to an update.
    gave_way: bool,
    /// Whether the log was synced in the background since the last checkpoint.
    is_synced_before: bool,
    /// After a checkpoint that failed or gave way: how long the log is when the next one is tried.
    retry_at: u64,
    /// Whether updates return before they are durable; somebody waits for them later.
    pub defers_commits: bool,
}

/// A thread that works for the files.
struct Background {
    thread: JoinHandle<()>,
    /// The contents that a checkpoint is written of; `None` if the log is synced.
    lease: Option<Arc<dyn AnyLease>>,
    /// Whether they were taken away.
    gave_way: bool,
}

impl Journal {
    pub fn new(folder: Arc<Folder>, replayed: Replayed) -> Self {
        Journal {
            folder,
            replayed,
            background: None,
            gave_way: false,
            is_synced_before: false,
            retry_at: 0,
            defers_commits: false,
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns whether updates are logged. Otherwise only checkpoints make them durable.
    #[cfg(feature = "cuda")]
    pub fn has_log(&self) -> bool {
        self.folder.durability().has_log()
    }

    /// Logs and applies a change. After an error it is neither in the store nor in the log, unless the error is
    /// that of a sync: then the store has it, nobody knows whether it is durable, and updates are refused.
    pub fn update<B: OrderedKey>(
        &mut self,
        store: &mut dyn AnyStore<B>,
        change: &Change<'_, B>,
    ) -> Result<(), Error> {
        if change.is_empty() {
            return Ok(());
        }
        self.log(store, &contents::record(change), &|store| change.apply(store))
    }

    /// Logs a record and applies what it stands for, as [`update`](Self::update) does. Without a
    /// [log](Self::has_log), nothing of the record is kept.
    pub fn log<B: OrderedKey>(
        &mut self,
        store: &mut dyn AnyStore<B>,
        record: &Update<'_>,
        apply: &ApplyTo<'_, B>,
    ) -> Result<(), Error> {
        self.make_room(store);
        if self.folder.is_too_large_for_log(record) {
            return self.update_unlogged(store, apply);
        }
        let sequence = self.folder.append(record)?;
        if let Err(error) = self.with_memory(store, apply) {
            self.folder.undo(sequence)?;
            return Err(error);
        }
        self.give_way_to_merges(store);
        if !self.defers_commits {
            self.folder.commit(sequence)?;
        }
        self.checkpoint_if_due(store);
        Ok(())
    }

    /// Changes a store. If there is no memory for that, the checkpoint in the background gives way.
    pub fn with_memory<B: OrderedKey>(
        &mut self,
        store: &mut dyn AnyStore<B>,
        apply: &ApplyTo<'_, B>,
    ) -> Result<(), Error> {
        let are_runs_held = self.checkpoint_holds_runs();
        match apply(store) {
            Err(Error::OutOfMemory { .. }) if are_runs_held => {
                self.give_way(); // Unless it was done with the runs just now.
                apply(store)
            }
            applied => applied,
        }
    }

    /// Returns whether a checkpoint in the background holds runs.
    fn checkpoint_holds_runs(&self) -> bool {
        let lease = self.background.as_ref().and_then(|background| background.lease.as_ref());
        lease.is_some_and(|lease| lease.is_held())
    }

    /// Merges runs that wait in place, if only the checkpoint in the background holds them. The one that follows a
    /// checkpoint that gave way lets them wait, so that it gets done; it gives way only to updates that would fail.
    fn give_way_to_merges<B: OrderedKey>(&mut self, store: &mut dyn AnyStore<B>) {
        if self.background.is_some()
            && !self.gave_way
            && store.waits_for_checkpoint()
            && self.give_way()
        {
            store.merge_waiting();
        }
    }

    /// Takes the runs that the checkpoint in the background holds away from it, without waiting for its files; returns
    /// whether it held any. It removes its files, and another one is begun when the log has grown.
    fn give_way(&mut self) -> bool {
        // A forked child has no thread that would ever unlock the lease.
        if self.folder.check_process().is_err() {
            return false;
        }
        let Some(Background { lease: Some(lease), gave_way, .. }) = &mut self.background else {
            return false;
        };
        let held = lease.end();
        *gave_way |= held;
        held
    }

    /// Waits for a checkpoint if the log has reached its limit. If it fails, the folder refuses updates.
    fn make_room<B: OrderedKey>(&mut self, store: &dyn AnyStore<B>) {
        if !self.folder.must_stall() {
            return;
        }
        self.wait();
        if self.folder.must_stall() && self.folder.may_try_checkpoint() {
            self.start_checkpoint(store);
            self.wait();
        }
    }

    /// Applies an update that is too large for the log: it becomes durable as part of a checkpoint.
    fn update_unlogged<B: OrderedKey>(
        &mut self,
        store: &mut dyn AnyStore<B>,
        apply: &ApplyTo<'_, B>,
    ) -> Result<(), Error> {
        self.wait();
        self.folder.check()?;
        let mut changed = store.share();
        changed.hold_as(HolderKind::Checkpoint);
        apply(&mut *changed)?;
        if let Some(checkpoint) = self.folder.begin_unlogged()? {
            write(checkpoint, &&*changed)?;
            store.take_over(changed);
        }
        Ok(())
    }

    /// Writes a checkpoint.
    pub fn checkpoint<B: OrderedKey>(&mut self, store: &dyn AnyStore<B>) -> Result<(), Error> {
        self.wait();
        self.folder.begin_checkpoint()?.map_or(Ok(()), |checkpoint| write(checkpoint, &store))?;
        self.retry_at = 0;
        self.gave_way = false;
        self.is_synced_before = false;
        Ok(())
    }

    fn checkpoint_if_due<B: OrderedKey>(&mut self, store: &dyn AnyStore<B>) {
        if self.background.as_ref().is_some_and(|background| background.thread.is_finished()) {
            self.wait();
        }
        if self.background.is_none()
            && self.folder.wants_checkpoint(live_bytes(store))
            && self.folder.log_bytes() >= self.retry_at
        {
            if !self.is_synced_before && self.folder.unsynced_bytes() > MAX_UNSYNCED {
                self.start_sync();
            } else {
                self.start_checkpoint(store);
            }
        }
    }

    /// Starts to sync the log in the background. If that fails, the log refuses everything else.
    fn start_sync(&mut self) {
        self.is_synced_before = true;
        let folder = self.folder.clone();
        self.spawn("gpulsm-sync", None, move || {
            folder.sync().ok();
        });
    }

    fn spawn(
        &mut self,
        name: &str,
        lease: Option<Arc<dyn AnyLease>>,
        job: impl FnOnce() + Send + 'static,
    ) {
        let thread = thread::Builder::new().name(name.into()).spawn(job).ok();
        self.background = thread.map(|thread| Background { thread, lease, gave_way: false });
    }

    /// Starts to write a checkpoint in the background. The folder keeps the error if it fails.
    pub fn start_checkpoint<B: OrderedKey>(&mut self, store: &dyn AnyStore<B>) {
        self.is_synced_before = false;
        let Ok(Some(checkpoint)) = self.folder.begin_checkpoint() else { return };
        let snapshot = match share_apart(store) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                checkpoint.give_up(error);
                return;
            }
        };
        let lease = Arc::new(Lease::new(snapshot));
        self.spawn("gpulsm-checkpoint", Some(lease.clone()), move || {
            write(checkpoint, &*lease).ok();
            lease.end(); // Also after an error.
        });
    }

    /// Waits for what is done in the background.
    pub fn wait(&mut self) {
        let Some(Background { thread, lease, gave_way }) = self.background.take() else { return };
        // A forked child has no such thread.
        if self.folder.check_process().is_ok() {
            thread.join().ok();
        }
        if lease.is_some() {
            let log_bytes = self.folder.log_bytes();
            let must_wait = self.folder.has_failed_checkpoint()
                || gave_way && self.folder.durability().has_log();
            self.retry_at = if must_wait { log_bytes + (log_bytes / 4).max(SMALL) } else { 0 };
            self.gave_way = gave_way;
        }
    }

    /// Returns once all updates so far are durable, if there is a log.
    pub fn sync(&self) -> Result<(), Error> {
        self.folder.sync()
    }

    /// Returns a ticket for all updates so far.
    pub fn ticket(&self) -> Ticket {
        Ticket { pending: Some((self.folder.clone(), self.folder.sequence())) }
    }

    /// Makes everything durable and releases the lock. After an error the folder is open as before.
    pub fn close<B: OrderedKey>(&mut self, store: &dyn AnyStore<B>) -> Result<(), Error> {
        self.folder.check_process()?;
        if self.folder.is_closed() {
            return Ok(());
        }
        self.wait();
        let is_saved = self.folder.durability().has_log()
            || self.folder.sequence() == self.folder.manifest().sequence;
        if !is_saved {
            self.checkpoint(store)?;
        }
        self.folder.close()
    }

    /// Closes the folder, and releases the lock even if that fails.
    pub fn release<B: OrderedKey>(&mut self, store: &dyn AnyStore<B>) {
        self.close(store).ok();
        self.folder.release();
    }
}

/// Returns a store with the same contents for another thread. On a GPU it has a stream of its own: calls of the two
/// neither wait for each other, nor become part of a graph that is being captured.
fn share_apart<B: OrderedKey>(store: &dyn AnyStore<B>) -> Result<Box<dyn AnyStore<B>>, Error> {
    let mut shared = store.share();
    shared.hold_as(HolderKind::Checkpoint);
    #[cfg(feature = "cuda")]
    crate::cuda::move_to_new_stream(&mut *shared)?;
    Ok(shared)
}

/// Writes all pairs as a checkpoint, which is cancelled if their store is taken away.
fn write<B: OrderedKey>(
    mut checkpoint: Checkpoint,
    source: &dyn PairSource<B>,
) -> Result<(), Error> {
    match write_runs(&mut checkpoint, source) {
        Ok(Some(runs)) => checkpoint.finish(runs),
        Ok(None) => {
            checkpoint.cancel();
            Ok(())
        }
        Err(error) => Err(checkpoint.give_up(error)),
    }
}

/// Writes all pairs as one run, or none if there are none; returns `None` if their store is taken away.
fn write_runs<B: OrderedKey>(
    checkpoint: &mut Checkpoint,
    source: &dyn PairSource<B>,
) -> Result<Option<Vec<RunInfo>>, Error> {
    let mut shape = None;
    source.read(&mut |store| {
        shape = Some(contents::shape(store)?);
        Ok(())
    })?;
    let Some(shape) = shape else { return Ok(None) };
    if shape.entries == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut run = checkpoint.create_run(shape)?;
    if !contents::write_pairs(source, shape, &mut run, &mut |_| ())? {
        return Ok(None);
    }
    Ok(Some(vec![checkpoint.finish_run(run, 0)?]))
}

/// Returns about how many bytes a checkpoint would have now, without waiting for anything.
fn live_bytes<B: OrderedKey>(store: &dyn AnyStore<B>) -> u64 {
    let Some(stats) = store.quick_stats() else { return u64::MAX };
    let live = stats.live.unwrap_or_else(|| stats.entries()) + stats.buffered as u64;
    live * (size_of::<B>() + store.value_width()) as u64 + SMALL
}

/// Stands for updates that are not durable yet, made by
/// [`Dictionary::commit_later`](crate::Dictionary::commit_later).
#[must_use = "the updates may not be durable until the ticket was waited for"]
pub struct Ticket {
    pending: Option<(Arc<Folder>, u64)>,
}

impl Ticket {
    /// Returns the ticket of updates of a dictionary in memory.
    pub(crate) fn of_nothing() -> Self {
        Ticket { pending: None }
    }

    /// Returns once the updates are as durable as the dictionary's setting says. Threads that wait at the same
    /// time share syncs.
    ///
    /// # Errors
    ///
    /// [`Io`](Error::Io) if the log can't be synced. Then nobody knows whether the updates will be there after a
    /// crash, and all others are refused until the dictionary is opened again.
    pub fn wait(self) -> Result<(), Error> {
        self.pending.map_or(Ok(()), |(folder, sequence)| folder.commit(sequence))
    }
}
