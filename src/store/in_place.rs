//! Merging in place: where memory is too short for a merge beside the runs that it merges, it reuses theirs.
//!
//! That takes the runs apart, so nobody else may hold them: no snapshot, clone, view or graph, and no checkpoint that
//! is being written. And it takes one call, however long the runs are; a merge beside them is spread over batches
//! (`deferred.rs`).

use std::ops::Range;
use std::sync::Arc;

use super::levels::{Carry, Levels};
use super::state::Store;
use crate::engine::Engine;
use crate::error::Error;

impl<E: Engine> Store<E> {
    /// Merges runs that wait to be merged in place, if there is no memory to merge them beside. The batch is applied:
    /// an error only means that they wait longer.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.state_mut().wants_cleanup) {
            self.clean_up_in_place().ok();
        }
        while let Some(range) = self.state_mut().levels.unmerged() {
            let levels = self.state_mut().levels.clone();
            let runs = &levels.runs()[range.clone()];
            if self.deferred.is_affordable(&self.engine, runs)
                || !self.deferred.may_merge_in_place(&self.engine, runs)
            {
                return;
            }
            let entries = runs.iter().map(|run| self.engine.bound(run)).sum();
            drop(levels);
            if self.merge_in_place(range).is_err() {
                return self.deferred.refuse_in_place(&self.engine, entries);
            }
        }
    }

    fn merge_in_place(&mut self, range: Range<usize>) -> Result<(), Error> {
        let engine = self.engine.clone();
        let levels = self.unshared_levels()?;
        let (newer, older) = levels.runs_mut().split_at_mut(range.end);
        let run = engine.merge_in_place(&mut newer[range.start..], older)?;
        count_merge();
        levels.merged(range, run);
        Ok(())
    }

    /// Merges everything into one run without stale entries, in place. After an error everything is as it was.
    pub(super) fn clean_up_in_place(&mut self) -> Result<(), Error> {
        let engine = self.engine.clone();
        let levels = self.unshared_levels()?;
        let run = engine.merge_in_place(levels.runs_mut(), &[])?;
        count_merge();
        let entries = run.as_ref().map_or(0, |run| engine.bound(run));
        let level = levels.capacities().level_for(entries);
        levels.install(&Carry { runs: levels.runs().len(), level }, run);
        Ok(())
    }

    /// Returns the most bytes that a cleanup in place takes, if nothing is in its way now.
    pub(super) fn in_place_cleanup_bytes(&mut self) -> Option<u64> {
        let engine = self.engine.clone();
        let levels = self.unshared_levels().ok()?;
        engine.in_place_bytes(levels.runs())
    }

    /// Returns the levels, if nobody else holds them or any of their runs. A merge that is under way, which would,
    /// is abandoned.
    fn unshared_levels(&mut self) -> Result<&mut Levels<E::Run>, Error> {
        self.deferred.abandon();
        let levels = self.state_mut().levels.clone();
        let error = Error::OutOfMemory {
            wanted: self.engine.merge_bytes(levels.runs()),
            free: self.engine.available_bytes(),
        };
        drop(levels);
        let levels = Arc::get_mut(&mut self.state_mut().levels);
        let unshared = levels
            .and_then(|levels| levels.runs_mut().iter_mut().all(E::is_unshared).then_some(levels));
        unshared.ok_or(error)
    }
}

/// How many merges were done in place.
#[cfg(feature = "testing")]
static MERGES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn count_merge() {
    #[cfg(feature = "testing")]
    MERGES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// Returns how many merges this process did in place.
#[must_use]
#[cfg(feature = "testing")]
pub fn merges_in_place() -> u64 {
    MERGES.load(std::sync::atomic::Ordering::Relaxed)
}
