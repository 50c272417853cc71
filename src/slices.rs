//! Long carries, merged in slices: no batch waits for all of a merge that many batches made necessary.
//!
//! A carry of more entries than are merged at once only gathers its runs in their new level (see
//! [`Levels::gather`]). From then on every batch merges a slice of them, until all are one run. Queries
//! ask the gathered runs as they ask any others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::{Engine, Merge, Merged};
use crate::levels::Levels;

/// A slice is at least as long as so many batches like the one that it comes with: then long merges
/// are done before their runs are needed for the next.
const BATCHES: usize = 16;

/// With so many runs, nothing more is put off: queries must ask all of them.
const MOST_RUNS: usize = 32;

/// How much is merged at once, and what is being merged in slices.
pub(crate) struct Slices<E: Engine> {
    most: usize,
    merge: Mutex<Option<E::Merge>>,
}

impl<E: Engine> Slices<E> {
    pub fn new(most: usize) -> Self {
        Slices { most, merge: Mutex::default() }
    }

    /// How much is merged at once.
    pub fn most(&self) -> usize {
        self.most
    }

    /// About how many entries a batch of `len` updates merges at most.
    fn of_batch(&self, len: usize) -> usize {
        self.most.max(len.saturating_mul(BATCHES))
    }

    /// Forgets it if it merges any of the newest so many runs, which are about to be merged with others.
    pub fn forget_if_among(&self, levels: &Levels<E::Run>, runs: usize) {
        if levels.unmerged().is_some_and(|unmerged| unmerged.start < runs) {
            self.forget();
        }
    }

    /// Whether a batch of `len` updates puts off a carry of so many entries.
    pub fn puts_off(
        &self,
        engine: &E,
        levels: &Levels<E::Run>,
        len: usize,
        entries: usize,
    ) -> bool {
        entries > self.of_batch(len)
            && levels.runs().len() < MOST_RUNS
            && engine.is_roomy_for_merge(entries)
    }

    /// Goes on with what was put off, after a batch of `len` updates that merged `merged` entries: the
    /// levels, if all that was gathered in one of them is now a run.
    pub fn after_batch(
        &self,
        engine: &E,
        levels: &Levels<E::Run>,
        len: usize,
        merged: usize,
    ) -> Option<Levels<E::Run>> {
        let most = self.of_batch(len);
        self.go_on(engine, levels, most.saturating_sub(merged).max(most / 4))
    }

    /// Merges all that was put off: the levels, if there was anything, and memory for it.
    pub fn finish(&self, engine: &E, levels: &Levels<E::Run>) -> Option<Levels<E::Run>> {
        let mut finished = self.go_on(engine, levels, usize::MAX)?;
        while let Some(next) = self.go_on(engine, &finished, usize::MAX) {
            finished = next;
        }
        Some(finished)
    }

    /// Forgets how far the merge has come, and gives its memory back; whether there was one.
    pub fn forget(&self) -> bool {
        self.merge().take().is_some()
    }

    fn merge(&self) -> MutexGuard<'_, Option<E::Merge>> {
        self.merge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_on(&self, engine: &E, levels: &Levels<E::Run>, entries: usize) -> Option<Levels<E::Run>> {
        // Not under the lock: another thread that comes meanwhile begins anew rather than waits.
        let begun = self.merge().take();
        let unmerged = levels.unmerged()?;
        let (newer, older) = levels.runs().split_at(unmerged.end);
        let runs = &newer[unmerged.start..];
        let begun = match begun {
            Some(merge) if merge.is_of(runs) => Ok(merge),
            _ => engine.begin_merge(runs, older),
        };
        // For want of memory the runs stay as they are, until the next batch, or a carry, meets them.
        match engine.go_on(begun.ok()?, entries).ok()? {
            Merged::InPart(merge) => {
                self.merge().get_or_insert(merge); // Another thread's may have come as far.
                None
            }
            Merged::Whole(run) => {
                let mut levels = levels.clone();
                levels.merged(unmerged, run);
                Some(levels)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::batch::{Order, Updates};
    use crate::cpu::{Cpu, CpuEngine};
    use crate::device::Query;
    use crate::store::{CleanupPolicy, Settings, Store};

    type OnCpu = Store<CpuEngine<u32, [u8; 4]>>;

    fn store(batch_size: usize, merged_at_once: usize, memory_limit: Option<u64>) -> OnCpu {
        let settings = Settings {
            batch_size,
            policy: CleanupPolicy::Automatic,
            threads: Some(2),
            memory_limit,
            merged_at_once: Some(merged_at_once),
            #[cfg(feature = "cuda")]
            stream: None,
        };
        Store::new(CpuEngine::new(Cpu::new(memory_limit, Some(2)).unwrap()), &settings)
    }

    /// Takes in a batch of keys that none before had, alone. Keys of one batch are spread over all.
    fn take_in(store: &mut OnCpu, batch: u32, len: u32) {
        let keys: Vec<u32> = (0..len).map(|at| at << 16 | batch).collect();
        let values: Vec<u8> = keys.iter().flat_map(|key| key.to_ne_bytes()).collect();
        let updates = Updates {
            keys: Cow::Owned(keys),
            values: &values,
            deletes: Cow::Borrowed(&[]),
            order: Order::Any,
        };
        store.settled().unwrap();
        store.take_in(&updates).unwrap();
        store.settled().unwrap();
    }

    /// 32 batches of 64, of which the last began to merge all in slices.
    fn gathered() -> OnCpu {
        let mut store = store(64, 1000, None);
        for batch in 0..32 {
            take_in(&mut store, batch, 64);
        }
        store
    }

    fn lengths(store: &OnCpu) -> Vec<usize> {
        let levels = store.settled().unwrap();
        levels.runs().iter().map(|run| store.engine.bound(run)).collect()
    }

    /// Whether the keys of so many batches are there, and no others.
    fn holds(store: &OnCpu, batches: u32, len: u32) {
        let asked: Vec<u32> =
            (0..batches + 1).flat_map(|b| (0..len).map(move |at| at << 16 | b)).collect();
        let mut found = vec![false; asked.len()];
        let query = Query::Lookup { keys: &asked, values: None, found: &mut found };
        store.engine.answer(store.settled().unwrap().runs(), query).unwrap();
        assert!(found.iter().zip(&asked).all(|(&found, key)| found == (key & 0xffff < batches)));
        assert_eq!(store.len().unwrap(), u64::from(batches * len));
        store.validate().unwrap();
    }

    #[test]
    fn a_long_carry_is_merged_a_slice_with_every_batch() {
        let mut store = store(64, 1000, None);
        for batch in 0..31 {
            take_in(&mut store, batch, 64);
        }
        assert_eq!(lengths(&store), [64, 128, 256, 512, 1024]);
        // 2,048 entries, of which each batch merges a thousand or so.
        take_in(&mut store, 31, 64);
        assert_eq!(lengths(&store), [64, 64, 128, 256, 512, 1024]);
        holds(&store, 32, 64);
        take_in(&mut store, 32, 64);
        assert_eq!(lengths(&store), [64, 64, 64, 128, 256, 512, 1024]);
        holds(&store, 33, 64);
        take_in(&mut store, 33, 64);
        assert_eq!(lengths(&store), [128, 2048]);
        holds(&store, 34, 64);
    }

    #[test]
    fn slices_keep_up_with_batches() {
        let mut store = store(16, 0, None);
        let mut most = 0;
        for batch in 0..2000 {
            take_in(&mut store, batch, 16);
            most = most.max(lengths(&store).len());
        }
        // Eleven levels, and what is gathered on the way.
        assert!((12..=32).contains(&most), "{most} runs");
        holds(&store, 2000, 16);
    }

    #[test]
    fn who_asks_for_figures_finds_all_merged() {
        let store = gathered();
        assert_eq!(store.settled_and_tidied().unwrap().runs().len(), 1);
        holds(&store, 32, 64);
    }

    #[test]
    fn a_clone_merges_by_itself() {
        let mut one = gathered();
        let mut other = one.clone();
        for batch in 32..34 {
            take_in(&mut one, batch, 64);
        }
        holds(&other, 32, 64);
        take_in(&mut other, 32, 64);
        assert_eq!((lengths(&one).len(), lengths(&other).len()), (2, 7));
        holds(&one, 34, 64);
        holds(&other, 33, 64);
    }

    #[test]
    fn a_carry_that_meets_gathered_runs_takes_them_along() {
        let mut store = gathered();
        take_in(&mut store, 32, 2000);
        assert_eq!(lengths(&store), [32 * 64 + 2000]);
        store.validate().unwrap();
        assert!(store.slices.merge().is_none());
    }

    #[test]
    fn with_little_memory_all_is_merged_at_once() {
        for (limit, runs) in [(Some(900_000), 1), (None, 6)] {
            let mut store = store(1024, 16_000, limit);
            for batch in 0..32 {
                take_in(&mut store, batch, 1024);
            }
            assert_eq!(lengths(&store).len(), runs);
        }
    }

    #[test]
    fn for_want_of_memory_a_merge_in_part_makes_room() {
        let mut store = gathered();
        assert!(store.slices.merge().is_some());
        store.engine.budget().fail_after(0);
        take_in(&mut store, 32, 64);
        holds(&store, 33, 64);
    }

    #[test]
    fn what_is_cleaned_up_or_cleared_is_merged_no_more() {
        for clean in [true, false] {
            let mut store = gathered();
            assert!(store.slices.merge().is_some());
            if clean {
                store.cleanup().unwrap();
                holds(&store, 32, 64);
            } else {
                use crate::store::AnyStore;
                store.clear();
            }
            assert!(store.slices.merge().is_none());
        }
    }
}
