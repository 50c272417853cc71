//! Merging in place: where memory is too short for a merge beside the runs that it merges, it reuses theirs.
//!
//! That takes the runs apart, so nobody else may hold them: no snapshot, clone, view or graph, and no checkpoint that
//! is being written. And it takes one call, however long the runs are; a merge beside them is spread over batches
//! (`deferred.rs`).

use std::ops::Range;
use std::sync::Arc;

use super::deferred::entries_of;
use super::levels::{Carry, Levels};
use super::settings::CleanupPolicy;
use super::state::{Store, merge_reserve_bytes, reserve_bytes};
use crate::engine::Engine;
use crate::error::Error;
use crate::holders::Holders;

impl<E: Engine> Store<E> {
    /// Merges runs that wait to be merged in place, if there is no memory to merge them beside. What was updated is
    /// applied: an error only means that they wait longer.
    pub(super) fn merge_waiting_runs(&mut self) {
        if self.state_mut().wants_cleanup && self.unshared_levels().is_some() {
            // A failure is tried again only when the cleanup is due again.
            self.state_mut().wants_cleanup = false;
            self.clean_up_in_place().ok();
        }
        while let Some(range) = self.state_mut().levels.unmerged() {
            let levels = self.state_mut().levels.clone();
            let runs = &levels.runs()[range.clone()];
            let must_wait = self.deferred.is_affordable(&self.engine, runs)
                || !self.deferred.may_merge_in_place(&self.engine, runs);
            let entries = entries_of(&self.engine, runs);
            drop(levels);
            // Whoever else holds the runs may drop them at any time; to find out takes no time.
            if must_wait || self.unshared_levels().is_none() {
                return;
            }
            if self.merge_in_place(range).is_err() {
                return self.deferred.refuse_in_place(&self.engine, entries);
            }
        }
    }

    /// Returns whether runs, or a cleanup, wait to be merged in place only because a checkpoint holds the runs.
    pub(super) fn waits_for_checkpoint(&mut self) -> bool {
        if !(Holders { checkpoints: 0, ..self.hold.others() }).is_empty() {
            return false;
        }
        let levels = self.state_mut().levels.clone();
        let wants_cleanup = self.state_mut().wants_cleanup;
        let waiting = levels.unmerged().map(|range| &levels.runs()[range]);
        wants_cleanup
            || waiting.is_some_and(|runs| {
                !self.deferred.is_affordable(&self.engine, runs)
                    && self.deferred.may_merge_in_place(&self.engine, runs)
            })
    }

    /// Frees what a batch that found no memory can do without; returns whether there was anything. Answers stay the
    /// same.
    pub(super) fn free_memory(&mut self, is_delete: bool) -> bool {
        let available = self.engine.available_bytes();
        let mut freed = self.deferred.abandon();
        freed |= self.state_mut().buffered.is_some() && self.apply_buffered().is_ok();
        self.merge_waiting_runs();
        freed |= self.engine.available_bytes() > available;
        freed |= self.release_caches();
        // Inserts have made room already.
        if is_delete && self.policy != CleanupPolicy::Manual && !self.is_clean() {
            freed |= self.clean_up_in_place().is_ok();
        }
        freed
    }

    /// Cleans up before deletes take the memory that a cleanup needs. If the policy forbids it, or somebody holds
    /// the runs, it is an error: the user must, and can once they are dropped.
    pub(super) fn keep_room_for_cleanup(&mut self, deletes: usize) -> Result<(), Error> {
        let levels = self.state_mut().levels.clone();
        let queries = self.engine.bytes_for_queries(levels.runs(), 0);
        let Some(free) = self.free_bytes(queries > 0) else { return Ok(()) };
        let in_place = self.engine.in_place_bytes(levels.runs(), deletes);
        let cleanup = match in_place {
            Some(bytes) => bytes,
            None if self.engine.budget().limit().is_some() => {
                self.bytes_beside(&levels) + self.working_bytes(deletes)
            }
            None => return Ok(()),
        };
        drop(levels);
        let wanted = cleanup + self.engine.pair_bytes() * 2 * deletes as u64;
        if free >= wanted {
            return Ok(());
        }
        let is_held = in_place.is_some() && self.in_place_cleanup_bytes(deletes).is_none();
        if is_held || self.policy == CleanupPolicy::Manual || self.is_clean() {
            return Err(Error::OutOfMemory { wanted, free: Some(free), memory: None });
        }
        match in_place {
            Some(_) => self.clean_up_in_place().ok(),
            None => self.cleanup().ok(),
        };
        match self.free_bytes(queries > 0).is_none_or(|free| free >= wanted) {
            true => Ok(()),
            false => Err(Error::OutOfMemory { wanted, free: Some(free), memory: None }),
        }
    }

    /// Returns how many bytes are free, the reserves included: of the memory limit, if there is one, and of the device,
    /// if little of it may be free.
    pub(super) fn free_bytes(&self, asks_device: bool) -> Option<u64> {
        let of_limit = self.engine.budget().free();
        let of_device = asks_device.then(|| self.engine.available_bytes()).flatten();
        let free = [of_limit, of_device].into_iter().flatten().min()?;
        let reserves = [&self.reserve, &self.merge_reserve].into_iter().flatten();
        Some(free + reserves.map(|reserve| reserve.left()).sum::<u64>())
    }

    /// Frees what queries have computed for runs that nobody else holds; returns whether there was anything.
    fn release_caches(&mut self) -> bool {
        let engine = self.engine.clone();
        let levels = Arc::get_mut(&mut self.state_mut().levels);
        levels.is_some_and(|levels| engine.release_caches(levels.runs_mut()))
    }

    /// Merges runs of one level in place, or, without the memory for all of them, the newest two.
    fn merge_in_place(&mut self, mut range: Range<usize>) -> Result<(), Error> {
        let run = self.merged_in_place(range.clone()).or_else(|error| {
            if range.len() <= 2 {
                return Err(error);
            }
            range.end = range.start + 2;
            self.merged_in_place(range.clone())
        })?;
        let levels = self.unshared_levels().expect("nobody else held them before");
        levels.merged(range, run);
        self.refill_reserves();
        Ok(())
    }

    /// Merges everything into one run without stale entries, in place. After an error all answers are as they were; a
    /// few of the newest runs may be merged.
    pub(super) fn clean_up_in_place(&mut self) -> Result<(), Error> {
        let run = loop {
            let runs = self.state_mut().levels.runs().len();
            if runs <= 1 {
                return Ok(()); // The oldest run never holds a stale entry.
            }
            match self.merged_in_place(0..runs) {
                // With nothing older, no marks are needed, and filters neither.
                Err(Error::OutOfMemory { .. }) if self.release_caches() => {}
                // Two at a time take less memory.
                Err(Error::OutOfMemory { .. }) if runs > 2 => self.merge_newest_in_place()?,
                merged => break merged?,
            }
        };
        let entries = entries_of(&self.engine, run.as_slice());
        let levels = self.unshared_levels().expect("nobody else held them before");
        levels.install_alone(run, entries);
        self.state_mut().wants_cleanup = false;
        self.refill_reserves();
        Ok(())
    }

    /// Merges the newest two runs in place.
    fn merge_newest_in_place(&mut self) -> Result<(), Error> {
        let run = self.merged_in_place(0..2)?;
        let engine = self.engine.clone();
        let levels = self.unshared_levels().expect("nobody else held them before");
        levels.install(&Carry { runs: 2, level: 0 }, None);
        if let Some(run) = run {
            let carry = levels.walk(engine.bound(&run), |run| engine.bound(run));
            levels.gather(&carry, Some(run));
        }
        self.refill_reserves();
        Ok(())
    }

    /// Merges these runs in place. After an error they are as they were; otherwise they must be replaced.
    fn merged_in_place(&mut self, range: Range<usize>) -> Result<Option<E::Run>, Error> {
        let engine = self.engine.clone();
        let reserves = [self.reserve.clone(), self.merge_reserve.clone()];
        let no_memory_beside = Error::OutOfMemory {
            wanted: engine.merge_bytes(&self.state_mut().levels.runs()[range.clone()]),
            free: engine.available_bytes(),
            memory: None,
        };
        let levels = self.unshared_levels().ok_or(no_memory_beside)?;
        let (newer, older) = levels.runs_mut().split_at_mut(range.end);
        let runs = &mut newer[range.start..];
        let merged = reserves.iter().flatten().fold(
            engine.merge_in_place(runs, older),
            |merged, reserve| {
                merged.or_else(|_| engine.drawing_on(reserve).merge_in_place(runs, older))
            },
        );
        let run = merged?;
        #[cfg(feature = "testing")]
        {
            self.merges_in_place += 1;
        }
        Ok(run)
    }

    /// Returns the most bytes that a cleanup in place takes, with a run that is yet to come, if nothing is in its way now. (A merge that is under way is
    /// not: it is abandoned if need be.)
    pub(super) fn in_place_cleanup_bytes(&mut self, to_come: usize) -> Option<u64> {
        let engine = self.engine.clone();
        let under_way = self.deferred.is_under_way();
        let levels = Arc::get_mut(&mut self.state_mut().levels)?;
        let merged = levels.unmerged().filter(|_| under_way).unwrap_or_default();
        let mut runs = levels.runs_mut().iter_mut().enumerate();
        let is_free = runs.all(|(at, run)| merged.contains(&at) || E::is_unshared(run));
        is_free.then(|| engine.in_place_bytes(levels.runs(), to_come)).flatten()
    }

    /// Returns the levels, if nobody else holds them or any of their runs. A merge that is under way, which would,
    /// is abandoned.
    pub(super) fn unshared_levels(&mut self) -> Option<&mut Levels<E::Run>> {
        self.deferred.abandon();
        let levels = Arc::get_mut(&mut self.state_mut().levels)?;
        levels.runs_mut().iter_mut().all(E::is_unshared).then_some(levels)
    }

    /// Returns whether it is known that no entry is stale.
    pub(super) fn is_clean(&mut self) -> bool {
        let levels = self.state_mut().levels.clone();
        self.engine.known_len(levels.runs()).exact == Some(self.entries(&levels))
    }

    /// Fills the reserves again: what runs have taken of them is no longer told from the rest of the merged run.
    pub(super) fn refill_reserves(&self) {
        let sizes = [
            (&self.merge_reserve, merge_reserve_bytes(&self.engine)),
            (&self.reserve, reserve_bytes(&self.engine, self.batch_size)),
        ];
        for (reserve, bytes) in sizes {
            if let (Some(reserve), Some(bytes)) = (reserve, bytes) {
                reserve.refill(bytes);
            }
        }
    }
}
