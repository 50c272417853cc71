//! Deferred merges: a carry that would take too long for one batch is merged a part with each of the next.
//!
//! A carry of more entries than one batch merges only gathers its runs in their new level (see
//! [`Levels::gather`]). From then on every batch merges a part of them, until all are one run. Queries
//! search the gathered runs like any others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::levels::Levels;
use crate::engine::{Engine, IncrementalMerge, MergeProgress};

/// A batch merges at least this many times its own length: then a deferred merge is done before its run is
/// needed for the next.
const MIN_BATCHES: usize = 16;

/// With this many runs, nothing more is deferred: queries must search all of them.
pub(super) const MAX_RUNS_TO_DEFER: usize = 32;

/// How much one batch merges, and the merge that is under way.
pub(crate) struct DeferredMerges<E: Engine> {
    max_merge_per_batch: usize,
    merge: Mutex<Option<E::Merge>>,
    /// The merge beside its runs, and that in place, for which there was no memory.
    refused: Mutex<[Option<Refusal>; 2]>,
    /// How many merges were begun.
    #[cfg(test)]
    begun: std::sync::atomic::AtomicUsize,
}

/// A merge for which there was no memory. It is not tried again until there is more, or the runs are others.
#[derive(Clone, Copy)]
struct Refusal {
    entries: usize,
    available: u64,
}

const BESIDE: usize = 0;
const IN_PLACE: usize = 1;

impl<E: Engine> DeferredMerges<E> {
    pub fn new(max_merge_per_batch: usize) -> Self {
        DeferredMerges {
            max_merge_per_batch,
            merge: Mutex::default(),
            refused: Mutex::default(),
            #[cfg(test)]
            begun: Default::default(),
        }
    }

    pub fn max_merge_per_batch(&self) -> usize {
        self.max_merge_per_batch
    }

    /// Returns about how many entries a batch of `len` updates merges at most.
    fn max_merge(&self, len: usize) -> usize {
        self.max_merge_per_batch.max(len.saturating_mul(MIN_BATCHES))
    }

    /// Abandons the merge under way if it is of any of the newest `runs` runs, which are about to be merged
    /// with others.
    pub fn abandon_if_among(&self, levels: &Levels<E::Run>, runs: usize) {
        if levels.unmerged().is_some_and(|unmerged| unmerged.start < runs) {
            self.abandon();
        }
    }

    /// Returns whether a batch of `len` updates defers a carry of `entries` entries.
    pub fn defers(&self, engine: &E, levels: &Levels<E::Run>, len: usize, entries: usize) -> bool {
        let bytes = engine.pair_bytes().saturating_mul(entries as u64);
        entries > self.max_merge(len)
            && levels.runs().len() < MAX_RUNS_TO_DEFER
            && engine.budget().allows_deferred_merge(bytes)
    }

    /// Advances the merge under way, after a batch of `len` updates that merged `merged` entries. Returns
    /// the levels, if all runs that were gathered in one of them are now one.
    pub fn after_batch(
        &self,
        engine: &E,
        levels: &Levels<E::Run>,
        len: usize,
        merged: usize,
    ) -> Option<Levels<E::Run>> {
        let max = self.max_merge(len);
        self.advance(engine, levels, max.saturating_sub(merged).max(max / 4))
    }

    /// Does all deferred merges. Returns the levels, if there was anything to merge, and memory for it.
    pub fn finish(&self, engine: &E, levels: &Levels<E::Run>) -> Option<Levels<E::Run>> {
        let mut finished = self.advance(engine, levels, usize::MAX)?;
        while let Some(next) = self.advance(engine, &finished, usize::MAX) {
            finished = next;
        }
        Some(finished)
    }

    /// Abandons the merge under way, which frees its memory; returns whether there was one.
    pub fn abandon(&self) -> bool {
        self.merge().take().is_some()
    }

    /// Returns whether a merge is under way.
    pub fn is_under_way(&self) -> bool {
        self.merge().is_some()
    }

    fn merge(&self) -> MutexGuard<'_, Option<E::Merge>> {
        self.merge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether these runs can be merged beside themselves, as far as is known: there is memory, or a merge is
    /// under way that has it.
    pub fn is_affordable(&self, engine: &E, runs: &[E::Run]) -> bool {
        if self.merge().as_ref().is_some_and(|merge| merge.merges(runs)) {
            return true;
        }
        #[cfg(feature = "testing")]
        if prefers_in_place() && engine.in_place_bytes(runs, 0).is_some() {
            return false;
        }
        let needed = engine.merge_bytes(runs);
        let has_memory = needed < E::MIN_BYTES_TO_ASK
            || engine.available_bytes().is_none_or(|available| needed <= available);
        has_memory && self.may_try(engine, runs, BESIDE)
    }

    /// Returns whether these runs may be merged in place, as far as is known.
    pub fn may_merge_in_place(&self, engine: &E, runs: &[E::Run]) -> bool {
        engine.in_place_bytes(runs, 0).is_some() && self.may_try(engine, runs, IN_PLACE)
    }

    /// Notes that there was no memory to merge this many entries in place.
    pub fn refuse_in_place(&self, engine: &E, entries: usize) {
        self.refuse(engine, entries, IN_PLACE);
    }

    /// Returns whether such a merge of these runs was not refused before, or there is more memory since.
    fn may_try(&self, engine: &E, runs: &[E::Run], way: usize) -> bool {
        let refused = self.refused()[way];
        refused.is_none_or(|Refusal { entries, available }| {
            let more = engine.merge_bytes(runs) / 8;
            entries != entries_of(engine, runs)
                || engine.available_bytes().is_none_or(|now| now > available.saturating_add(more))
        })
    }

    fn refuse(&self, engine: &E, entries: usize, way: usize) {
        let available = engine.available_bytes();
        self.refused()[way] = available.map(|available| Refusal { entries, available });
    }

    fn refused(&self) -> MutexGuard<'_, [Option<Refusal>; 2]> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(
        &self,
        engine: &E,
        levels: &Levels<E::Run>,
        entries: usize,
    ) -> Option<Levels<E::Run>> {
        // Not under the lock: another thread that arrives meanwhile starts over rather than waits.
        let begun = self.merge().take();
        let unmerged = levels.unmerged()?;
        let (newer, older) = levels.runs().split_at(unmerged.end);
        let runs = &newer[unmerged.start..];
        let begun = match begun {
            Some(merge) if merge.merges(runs) => Ok(merge),
            _ if !self.is_affordable(engine, runs) => return None,
            _ => {
                #[cfg(test)]
                self.begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                E::Merge::begin(engine, runs, older)
            }
        };
        match begun.and_then(|merge| merge.advance(engine, entries)) {
            // The runs stay as they are, until there is memory, or a carry meets them.
            Err(_) => {
                self.refuse(engine, entries_of(engine, runs), BESIDE);
                None
            }
            Ok(MergeProgress::Partial(merge)) => {
                self.merge().get_or_insert(merge); // Another thread's may have come as far.
                None
            }
            Ok(MergeProgress::Done(run)) => {
                let mut levels = levels.clone();
                levels.merged(unmerged, run);
                Some(levels)
            }
        }
    }
}

/// Returns whether tests want every merge that can be done in place to be.
#[cfg(feature = "testing")]
pub(crate) fn prefers_in_place() -> bool {
    static IS_SET: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *IS_SET.get_or_init(|| std::env::var_os("GPULSM_IN_PLACE").is_some())
}

/// Returns an upper bound of the number of entries of these runs.
pub(super) fn entries_of<E: Engine>(engine: &E, runs: &[E::Run]) -> usize {
    runs.iter().map(|run| engine.bound(run)).sum()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::batch::{Order, Updates};
    use crate::budget::Allowance;
    use crate::cpu::{Cpu, CpuEngine};
    use crate::query::Query;
    use crate::store::{AnyStore, Settings, Store};

    type OnCpu = Store<CpuEngine<u32>>;

    fn store(batch_size: usize, max_merge_per_batch: usize, memory_limit: Option<u64>) -> OnCpu {
        let settings = Settings {
            batch_size,
            threads: Some(2),
            memory_limit,
            max_merge_per_batch: Some(max_merge_per_batch),
            ..Settings::default()
        };
        Store::new(CpuEngine::new(Cpu::new(memory_limit, Some(2)).unwrap(), 4), &settings)
    }

    /// Applies a batch of keys that none before had, alone. Keys of one batch are spread over all.
    fn apply(store: &mut OnCpu, batch: u32, len: u32) {
        let keys: Vec<u32> = (0..len).map(|at| at << 16 | batch).collect();
        let values: Vec<u8> = keys.iter().flat_map(|key| key.to_ne_bytes()).collect();
        let updates = Updates {
            keys: Cow::Owned(keys),
            values: &values,
            assigned: 0,
            deletes: Cow::Borrowed(&[]),
            order: Order::Any,
        };
        store.flushed().unwrap();
        store.apply(&updates).unwrap();
        store.flushed().unwrap();
    }

    /// 32 batches of 64, of which the last deferred the merge of all.
    fn gathered() -> OnCpu {
        let mut store = store(64, 1000, None);
        for batch in 0..32 {
            apply(&mut store, batch, 64);
        }
        store
    }

    fn lengths(store: &OnCpu) -> Vec<usize> {
        let levels = store.flushed().unwrap();
        levels.runs().iter().map(|run| store.engine.bound(run)).collect()
    }

    /// Checks that the keys of this many batches are there, and no others.
    fn holds(store: &OnCpu, batches: u32, len: u32) {
        let queried: Vec<u32> =
            (0..batches + 1).flat_map(|b| (0..len).map(move |at| at << 16 | b)).collect();
        let mut found = vec![false; queried.len()];
        let query = Query::Lookup { keys: &queried, values: None, found: &mut found };
        store.engine.answer(store.flushed().unwrap().runs(), query).unwrap();
        assert!(found.iter().zip(&queried).all(|(&found, key)| found == (key & 0xffff < batches)));
        assert_eq!(store.len().unwrap(), u64::from(batches * len));
        store.validate().unwrap();
    }

    #[test]
    fn a_long_carry_is_merged_a_part_with_every_batch() {
        let mut store = store(64, 1000, None);
        for batch in 0..31 {
            apply(&mut store, batch, 64);
        }
        assert_eq!(lengths(&store), [64, 128, 256, 512, 1024]);
        // 2,048 entries, of which each batch merges a thousand or so.
        apply(&mut store, 31, 64);
        assert_eq!(lengths(&store), [64, 64, 128, 256, 512, 1024]);
        holds(&store, 32, 64);
        apply(&mut store, 32, 64);
        assert_eq!(lengths(&store), [64, 64, 64, 128, 256, 512, 1024]);
        holds(&store, 33, 64);
        apply(&mut store, 33, 64);
        assert_eq!(lengths(&store), [128, 2048]);
        holds(&store, 34, 64);
    }

    #[test]
    fn deferred_merges_keep_up_with_batches() {
        let mut store = store(16, 0, None);
        let mut most = 0;
        for batch in 0..2000 {
            apply(&mut store, batch, 16);
            most = most.max(lengths(&store).len());
        }
        // Eleven levels, and what is gathered on the way.
        assert!((12..=32).contains(&most), "{most} runs");
        holds(&store, 2000, 16);
    }

    #[test]
    fn stats_finish_every_deferred_merge() {
        let store = gathered();
        assert_eq!(store.at_rest().unwrap().runs().len(), 1);
        holds(&store, 32, 64);
    }

    #[test]
    fn a_clone_merges_by_itself() {
        let mut one = gathered();
        let mut other = one.clone();
        for batch in 32..34 {
            apply(&mut one, batch, 64);
        }
        holds(&other, 32, 64);
        apply(&mut other, 32, 64);
        assert_eq!((lengths(&one).len(), lengths(&other).len()), (2, 7));
        holds(&one, 34, 64);
        holds(&other, 33, 64);
    }

    #[test]
    fn a_carry_that_meets_gathered_runs_takes_them_along() {
        let mut store = gathered();
        apply(&mut store, 32, 2000);
        assert_eq!(lengths(&store), [32 * 64 + 2000]);
        store.validate().unwrap();
        assert!(store.deferred.merge().is_none());
    }

    #[test]
    fn with_little_memory_nothing_is_deferred() {
        for (limit, runs) in [(Some(900_000), 1), (None, 6)] {
            let mut store = store(1024, 16_000, limit);
            for batch in 0..32 {
                apply(&mut store, batch, 1024);
            }
            assert_eq!(lengths(&store).len(), runs);
        }
    }

    #[test]
    fn for_want_of_memory_a_merge_under_way_is_abandoned() {
        let mut store = gathered();
        assert!(store.deferred.merge().is_some());
        store.engine.budget().fail_after(0);
        apply(&mut store, 32, 64);
        holds(&store, 33, 64);
    }

    /// Returns how often a merge was begun.
    fn begun(store: &OnCpu) -> usize {
        store.deferred.begun.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[test]
    fn a_merge_without_memory_is_begun_again_only_when_there_is_more() {
        let mut store = store(64, 1000, Some(1 << 22));
        let ballast = Allowance::new(store.engine.budget());
        assert!(ballast.grow_to(1 << 20));
        for batch in 0..32 {
            apply(&mut store, batch, 64);
        }
        assert_eq!((lengths(&store).len(), begun(&store)), (6, 1));
        // As if it had found no memory on its way.
        store.deferred.abandon();
        store.deferred.refuse(&store.engine, 32 * 64, BESIDE);
        for batch in 32..40 {
            apply(&mut store, batch, 64);
        }
        assert_eq!(begun(&store), 1);
        assert!(lengths(&store).ends_with(&[64, 64, 128, 256, 512, 1024]));
        holds(&store, 40, 64);
        drop(ballast);
        for batch in 40..44 {
            apply(&mut store, batch, 64);
        }
        assert_eq!(begun(&store), 2);
        assert!(lengths(&store).ends_with(&[2048]));
        holds(&store, 44, 64);
    }

    #[test]
    fn cleanup_and_clear_abandon_the_merge_under_way() {
        for clean in [true, false] {
            let mut store = gathered();
            assert!(store.deferred.merge().is_some());
            if clean {
                store.cleanup().unwrap();
                holds(&store, 32, 64);
            } else {
                store.clear();
            }
            assert!(store.deferred.merge().is_none());
        }
    }
}
