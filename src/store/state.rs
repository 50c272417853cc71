//! The store and what it holds.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::deferred::DeferredMerges;
use super::levels::Levels;
use super::settings::{CleanupPolicy, Settings};
use crate::budget::Allowance;
use crate::engine::Engine;
use crate::holders::Hold;
#[cfg(feature = "cuda")]
use crate::holders::HolderKind;

/// An engine, its runs, and the batches that are buffered on top of them. A clone shares the runs.
pub(crate) struct Store<E: Engine> {
    pub engine: E,
    /// What the store counts as, among those that share its runs.
    pub(super) hold: Hold,
    pub(super) policy: CleanupPolicy,
    pub(super) batch_size: usize,
    /// Whether inserts keep room for a cleanup.
    pub(super) keeps_room: bool,
    pub(super) state: Mutex<State<E>>,
    /// Locked by the thread that applies the buffered batches.
    pub(super) flushing: Mutex<()>,
    pub(super) deferred: DeferredMerges<E>,
    /// The most updates that are buffered, if the user bounds what one batch merges.
    pub(super) max_buffered: usize,
    /// If there is a memory limit: what deletes and queries may take when nothing else is free…
    pub(super) reserve: Option<Arc<Allowance>>,
    /// …and what queries alone may take.
    query_reserve: Option<Arc<Allowance>>,
    /// If there is a memory limit: what merges in place may take when nothing else is free.
    pub(super) merge_reserve: Option<Arc<Allowance>>,
    /// Whether there was a query since the last batch.
    pub(super) queried: AtomicBool,
    /// How many merges were done in place.
    #[cfg(feature = "testing")]
    pub(super) merges_in_place: u64,
    /// Levels that live as long as the store: captured graphs hold their addresses.
    #[cfg(feature = "cuda")]
    pinned: Mutex<Vec<Pinned<E::Run>>>,
}

/// Levels that a captured graph reads.
#[cfg(feature = "cuda")]
struct Pinned<R> {
    levels: Arc<Levels<R>>,
    _hold: Hold,
}

pub(super) struct State<E: Engine> {
    pub levels: Arc<Levels<E::Run>>,
    /// Newer than all levels.
    pub buffered: Option<Buffered<E>>,
    /// Updates that were applied since stale entries were last counted.
    pub uncounted: usize,
    /// After a self-cleanup that found no memory: updates until the next attempt.
    pub cleanup_delay: usize,
    /// Whether such a cleanup is still to be done in place.
    pub wants_cleanup: bool,
}

/// Buffered batches, and the memory that applying them will need: clones that share a memory limit could
/// otherwise use it up.
pub(super) struct Buffered<E: Engine> {
    pub buffer: Arc<E::Buffer>,
    pub allowance: Arc<Allowance>,
}

impl<E: Engine> Clone for Buffered<E> {
    fn clone(&self) -> Self {
        Buffered { buffer: self.buffer.clone(), allowance: self.allowance.clone() }
    }
}

impl<E: Engine> Clone for State<E> {
    fn clone(&self) -> Self {
        let (levels, buffered) = (self.levels.clone(), self.buffered.clone());
        State { levels, buffered, ..*self }
    }
}

impl<E: Engine> State<E> {
    pub fn new(batch_size: usize) -> Self {
        let levels = Arc::new(Levels::new(batch_size));
        State { levels, buffered: None, uncounted: 0, cleanup_delay: 0, wants_cleanup: false }
    }

    /// Counts updates that were applied.
    pub fn count_updates(&mut self, len: usize) {
        self.uncounted = self.uncounted.saturating_add(len);
        self.cleanup_delay = self.cleanup_delay.saturating_sub(len);
    }
}

impl<E: Engine> Clone for Store<E> {
    fn clone(&self) -> Self {
        // Buffered batches are applied once for all clones. If that fails, each will have to try again.
        self.flushed().ok();
        Store {
            engine: self.engine.clone(),
            hold: self.hold.clone(),
            policy: self.policy,
            batch_size: self.batch_size,
            keeps_room: self.keeps_room,
            state: Mutex::new(self.state().clone()),
            flushing: Mutex::default(),
            deferred: DeferredMerges::new(self.deferred.max_merge_per_batch()),
            max_buffered: self.max_buffered,
            reserve: self.reserve.clone(),
            query_reserve: self.query_reserve.clone(),
            merge_reserve: self.merge_reserve.clone(),
            queried: AtomicBool::new(true),
            #[cfg(feature = "testing")]
            merges_in_place: 0,
            #[cfg(feature = "cuda")]
            pinned: Mutex::default(),
        }
    }
}

impl<E: Engine> Store<E> {
    pub fn new(engine: E, settings: &Settings) -> Self {
        let Settings { batch_size, policy, max_merge_per_batch, .. } = *settings;
        let max_merge = max_merge_per_batch.unwrap_or_else(|| engine.max_merge_per_batch());
        let max_buffered = max_merge_per_batch.unwrap_or(usize::MAX).max(batch_size);
        Store {
            reserve: set_aside(&engine, reserve_bytes(&engine, batch_size)),
            query_reserve: set_aside(
                &engine,
                engine.budget().limit_per_store().map(query_reserve_bytes),
            ),
            merge_reserve: set_aside(&engine, merge_reserve_bytes(&engine)),
            engine,
            hold: Hold::of_dictionary(),
            policy,
            batch_size,
            keeps_room: true,
            state: Mutex::new(State::new(batch_size)),
            flushing: Mutex::default(),
            deferred: DeferredMerges::new(max_merge),
            max_buffered,
            queried: AtomicBool::new(true),
            #[cfg(feature = "testing")]
            merges_in_place: 0,
            #[cfg(feature = "cuda")]
            pinned: Mutex::default(),
        }
    }

    /// Keeps these levels for as long as the store lives.
    #[cfg(feature = "cuda")]
    pub fn pin(&self, levels: Arc<Levels<E::Run>>) {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if !pinned.iter().any(|other| Arc::ptr_eq(&other.levels, &levels)) {
            pinned.push(Pinned { levels, _hold: self.hold.share(HolderKind::Graph) });
        }
    }

    /// Counts another holder of the store's runs.
    #[cfg(feature = "cuda")]
    pub fn hold(&self, kind: HolderKind) -> Hold {
        self.hold.share(kind)
    }

    /// Abandons a merge that is under way; it starts again with the next batch.
    #[cfg(feature = "cuda")]
    pub fn abandon_merge(&self) {
        self.deferred.abandon();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state_mut(&mut self) -> &mut State<E> {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces levels by others that answer the same, if `old` are still the store's. Returns the levels
    /// it has then.
    pub(super) fn replace_levels(
        &self,
        old: Arc<Levels<E::Run>>,
        new: Option<Levels<E::Run>>,
    ) -> Arc<Levels<E::Run>> {
        let mut state = self.state();
        if let Some(new) = new
            && Arc::ptr_eq(&state.levels, &old)
        {
            state.levels = Arc::new(new);
        }
        state.levels.clone()
    }

    /// Returns the engine for queries, which may use up one of the reserves.
    pub fn engine_for_queries(&self) -> E {
        let reserves = [&self.query_reserve, &self.reserve].into_iter().flatten();
        match reserves.max_by_key(|reserve| reserve.left()) {
            Some(reserve) => self.engine.drawing_on(reserve),
            None => self.engine.clone(),
        }
    }

    /// Returns the engine for deletes, which may use up the reserve.
    pub fn engine_with_reserve(&self) -> E {
        match &self.reserve {
            Some(reserve) => self.engine.drawing_on(reserve),
            None => self.engine.clone(),
        }
    }

    /// Returns an upper bound of the number of entries, live or stale.
    pub(super) fn entries(&self, levels: &Levels<E::Run>) -> u64 {
        levels.runs().iter().map(|run| self.engine.bound(run) as u64).sum()
    }
}

/// The reserves of deletes and of queries take at most this part of the memory limit…
const RESERVE_DIVISOR: u64 = 8;

/// …and that of queries alone at most this part…
const QUERY_RESERVE_DIVISOR: u64 = 32;

/// …and at most this many bytes.
const QUERY_RESERVE: u64 = 256 << 10;

/// What merges in place may take when nothing else is free…
const MERGE_RESERVE: u64 = 256 << 10;

/// …if the memory limit is at least this. Below, inserts keep enough memory free.
const MIN_LIMIT_FOR_MERGE_RESERVE: u64 = 64 << 20;

/// Sets bytes aside.
fn set_aside<E: Engine>(engine: &E, bytes: Option<u64>) -> Option<Arc<Allowance>> {
    let reserve = Allowance::new(engine.budget());
    reserve.grow_to(bytes?);
    Some(reserve)
}

/// Returns the size of the reserve, in use or not, if there is a memory limit: what a batch of b deletes takes if it is
/// merged with nothing.
pub(super) fn reserve_bytes<E: Engine>(engine: &E, batch_size: usize) -> Option<u64> {
    let limit = engine.budget().limit_per_store()?;
    let max = limit / RESERVE_DIVISOR - query_reserve_bytes(limit);
    Some(engine.bytes_to_apply(batch_size, &[]).min(max))
}

/// Returns the size of the reserve of queries, in use or not, under this memory limit.
fn query_reserve_bytes(limit: u64) -> u64 {
    (limit / QUERY_RESERVE_DIVISOR).min(QUERY_RESERVE)
}

/// Returns the size of the reserve of merges in place, in use or not, if there is a memory limit.
pub(super) fn merge_reserve_bytes<E: Engine>(engine: &E) -> Option<u64> {
    let limit = engine.budget().limit_per_store()?;
    (limit >= MIN_LIMIT_FOR_MERGE_RESERVE).then_some(MERGE_RESERVE)
}
