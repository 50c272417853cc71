//! Applying a batch: buffer it, or merge it into the levels.

use std::sync::Arc;

use super::cleanup::Count;
use super::deferred::MAX_RUNS_TO_DEFER;
use super::levels::{Carry, Levels};
use super::prepared::Prepared;
use super::settings::CleanupPolicy;
use super::state::{State, Store, reserve_bytes};
use crate::batch::Updates;
use crate::engine::{DeviceBatch, Engine, WritePairs};
use crate::error::Error;
use crate::ranges::RangeEnds;

impl<E: Engine> Store<E> {
    /// Brings a batch to the device.
    pub fn stage<'a>(&self, updates: &'a Updates<'a, E::Key>) -> Result<E::Batch<'a>, Error> {
        self.with_memory(|| self.engine.stage(updates)).map_err(|error| self.explain(error))
    }

    /// Applies one batch that is on the device, as a whole or not at all.
    pub fn apply_staged(&mut self, batch: &E::Batch<'_>) -> Result<(), Error> {
        let prepared = self.prepare_staged(batch)?;
        self.install_prepared(prepared);
        Ok(())
    }

    /// Does everything that can fail of applying one batch that is on the device. Answers stay the same, until it is
    /// installed or undone, which must be next.
    pub fn prepare_staged(&mut self, batch: &E::Batch<'_>) -> Result<Prepared<E::Run>, Error> {
        let prepared = match self.try_prepare(batch) {
            Err(Error::OutOfMemory { .. }) if self.free_memory(batch.inserts() == 0) => {
                self.try_prepare(batch)
            }
            prepared => prepared,
        };
        prepared.map_err(|error| self.explain(error))
    }

    /// Does the same of deleting every key of these ranges.
    pub fn prepare_deletes(
        &mut self,
        ranges: &RangeEnds<'_, E::Key>,
    ) -> Result<Prepared<E::Run>, Error> {
        let engine = self.engine_with_reserve();
        // No run is held while the batch is applied: what is merged is freed.
        let deletes = engine.stage_range_deletes(self.flushed()?.runs(), ranges)?;
        deletes.map_or(Ok(Prepared::Clear), |deletes| self.prepare_staged(&deletes))
    }

    /// Makes a batch that was prepared part of the store.
    pub fn install_prepared(&mut self, prepared: Prepared<E::Run>) {
        let (levels, updates, merged) = match prepared {
            Prepared::Nothing | Prepared::Buffered(_) => return,
            Prepared::Clear => return self.clear(),
            Prepared::Removal { positions, memory } => return self.remove(&positions, memory),
            Prepared::Levels { levels, updates, merged } => (levels, updates, merged),
        };
        let state = self.state_mut();
        state.levels = Arc::new(levels);
        state.count_updates(updates);
        drop(self.after_batch(updates, merged));
        self.merge_waiting_runs();
    }

    /// Deletes everything.
    pub fn clear(&mut self) {
        *self.state_mut() = State::new(self.batch_size);
        self.deferred.abandon();
    }

    fn try_prepare(&mut self, batch: &E::Batch<'_>) -> Result<Prepared<E::Run>, Error> {
        if batch.len() == 0 {
            return Ok(Prepared::Nothing);
        }
        self.shrink_levels();
        if self.try_buffer(batch)? {
            return Ok(Prepared::Buffered(batch.counts()));
        }
        self.apply_buffered()?;
        self.merge_waiting_runs();
        if batch.inserts() == 0 && self.keeps_room {
            self.keep_room_for_cleanup(batch.deletes())?;
        }
        self.make_room(batch.inserts())?;
        let mut levels = Levels::clone(&self.state_mut().levels);
        let merged = match self.install(&self.engine, &mut levels, batch) {
            Err(Error::OutOfMemory { .. })
                if batch.inserts() == 0 && levels.runs().len() < MAX_RUNS_TO_DEFER =>
            {
                self.add_deletes(&mut levels, batch)?
            }
            installed => installed?,
        };
        Ok(Prepared::Levels { levels, updates: batch.len(), merged })
    }

    /// Fills a store that holds nothing with `len` pairs, which `write` writes as
    /// [`Engine::write_run`] describes. After an error it still holds nothing.
    pub fn fill(&mut self, len: usize, write: &mut WritePairs<'_, E::Key>) -> Result<(), Error> {
        let mut levels = Levels::clone(&self.state_mut().levels);
        assert!(levels.runs().is_empty(), "the store holds nothing");
        // What once fitted a memory limit, with room for a cleanup, fits it again.
        let run = self.engine.write_run(len, write)?;
        levels.install(&levels.walk(len, |run| self.engine.bound(run)), run);
        let state = self.state_mut();
        state.levels = Arc::new(levels);
        state.count_updates(len);
        Ok(())
    }

    /// Returns an error unless there is room for this many inserts and, after them, for a cleanup. Whoever
    /// is out of memory can then delete keys and call `cleanup`: a delete stores one entry more, and the
    /// cleanup leaves one less.
    fn make_room(&mut self, inserts: usize) -> Result<(), Error> {
        if inserts == 0
            || !self.keeps_room
            || self.check_room(inserts).is_ok()
            || self.deferred.abandon() && self.check_room(inserts).is_ok()
        {
            return Ok(());
        }
        let is_clean = self.is_clean();
        let levels = self.state_mut().levels.clone();
        drop(self.clean_up_at_limit(levels));
        if self.policy != CleanupPolicy::Manual && !is_clean {
            self.clean_up_in_place().ok(); // Nothing is left to do if that was done.
        }
        self.check_room(inserts)
    }

    /// Returns an error unless the memory limit, or the device if little of it is free, has room for this many inserts,
    /// then for queries, and then for a cleanup.
    fn check_room(&mut self, inserts: usize) -> Result<(), Error> {
        let levels = self.state_mut().levels.clone();
        let queries = self.engine.bytes_for_queries(levels.runs(), inserts);
        let Some(free) = self.free_bytes(queries > 0) else { return Ok(()) };
        let has_limit = self.engine.budget().limit().is_some();
        let (beside, working) = (self.bytes_beside(&levels), self.working_bytes(inserts));
        drop(levels);
        let inserted = self.bytes_of(2 * inserts as u64);
        // A cleanup of what others hold takes more than a device may have; only a limit is a promise.
        let cleanup = match self.in_place_cleanup_bytes(inserts) {
            Some(in_place) => in_place.min(beside),
            None if has_limit => beside,
            None => 0,
        };
        let parts = [cleanup, inserted, queries, working];
        let wanted = parts.into_iter().fold(0, u64::saturating_add);
        match wanted <= free {
            true => Ok(()),
            false => Err(Error::OutOfMemory { wanted, free: Some(free), memory: None }),
        }
    }

    /// Returns how many bytes a run of all live pairs takes.
    pub(super) fn bytes_beside(&self, levels: &Levels<E::Run>) -> u64 {
        let live = self.engine.known_len(levels.runs()).exact;
        self.bytes_of(live.unwrap_or_else(|| self.entries(levels)))
    }

    /// Returns how many bytes a run of this many entries takes: a sixteenth is for fences, and it is filled up.
    fn bytes_of(&self, entries: u64) -> u64 {
        /// What the shortest run takes, with what is needed to write it.
        const SHORTEST: u64 = 512;
        entries.saturating_mul(self.engine.pair_bytes()).saturating_mul(17) / 16 + SHORTEST
    }

    /// Returns how many bytes are for the working space of a batch: as much as the reserve, whoever uses it now.
    pub(super) fn working_bytes(&self, updates: usize) -> u64 {
        let reserve = reserve_bytes(&self.engine, self.batch_size);
        reserve.unwrap_or_else(|| self.engine.bytes_to_apply(updates, &[]))
    }

    /// Merges the batch with the runs that the counter names, and installs the resulting run. Returns how
    /// many entries were merged. After an error the levels are as they were.
    pub(super) fn install(
        &self,
        engine: &E,
        levels: &mut Levels<E::Run>,
        batch: &E::Batch<'_>,
    ) -> Result<usize, Error> {
        let len = batch.len();
        // A device may find out late that a run has lost all its entries.
        levels.retain(|run| engine.bound(run) > 0);
        let carry = levels.walk(len, |run| engine.bound(run));
        let (carried, older) = levels.runs().split_at(carry.runs);
        let entries = carried.iter().map(|run| engine.bound(run)).sum::<usize>() + len;
        self.deferred.abandon_if_among(levels, carry.runs);
        // Runs for whose merge there is no memory wait to be merged in place.
        let can_wait = carry.runs > 0
            && levels.runs().len() < MAX_RUNS_TO_DEFER
            && engine.in_place_bytes(carried, 0).is_some();
        if carry.runs > 0 && self.deferred.defers(engine, levels, len, entries)
            || can_wait && !self.deferred.is_affordable(engine, carried)
        {
            return self.gather(engine, levels, batch, &carry);
        }
        match self.with_memory(|| engine.absorb(batch, carried, older)) {
            Err(Error::OutOfMemory { .. }) if can_wait => {
                self.gather(engine, levels, batch, &carry)
            }
            absorbed => {
                levels.install(&carry, absorbed?);
                Ok(entries)
            }
        }
    }

    /// Adds a batch as a run of its own, to be merged later with those of the carry. Returns how many entries were
    /// merged: none.
    fn gather(
        &self,
        engine: &E,
        levels: &mut Levels<E::Run>,
        batch: &E::Batch<'_>,
        carry: &Carry,
    ) -> Result<usize, Error> {
        let run = self.with_memory(|| engine.absorb(batch, &[], levels.runs()))?;
        levels.gather(carry, run);
        Ok(0)
    }

    /// Adds a batch of deletes for whose merge there is no memory, as a run of its own, which takes little
    /// and may use up the reserve: whoever is out of memory must be able to delete. It is merged later, as a
    /// deferred merge is. Returns how many entries were merged: none.
    fn add_deletes(
        &self,
        levels: &mut Levels<E::Run>,
        batch: &E::Batch<'_>,
    ) -> Result<usize, Error> {
        let engine = self.engine_with_reserve();
        let carry = levels.walk(batch.len(), |run| engine.bound(run));
        self.gather(&engine, levels, batch, &carry)
    }

    /// Cleans up if it is time to, and advances deferred merges, after `len` updates were applied for
    /// which `merged` entries were merged. Returns the levels afterwards.
    pub(super) fn after_batch(&self, len: usize, merged: usize) -> Arc<Levels<E::Run>> {
        let levels = self.clean_up_if_stale(Count::IfDue);
        let advanced = self.deferred.after_batch(&self.engine, &levels, len, merged);
        self.replace_levels(levels, advanced)
    }

    /// Calls `job`; if there is no memory for it, calls it once more without the merge that is under way.
    pub(super) fn with_memory<T>(&self, job: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match job() {
            Err(Error::OutOfMemory { .. }) if self.deferred.abandon() => job(),
            done => done,
        }
    }

    /// Has every run take no more memory than it needs.
    pub(super) fn shrink_levels(&mut self) {
        let levels = self.state_mut().levels.clone();
        let shrunk = self.shrunk(&levels);
        self.replace_levels(levels, shrunk);
    }

    /// Returns the same levels with every run in no more memory than it needs, if any has much more.
    pub(super) fn shrunk(&self, levels: &Levels<E::Run>) -> Option<Levels<E::Run>> {
        let mut shrunk = levels.clone();
        shrunk.replace(|run| self.engine.shrink_to_fit(run)).then_some(shrunk)
    }
}
