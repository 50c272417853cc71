//! Applying a batch: buffer it, or merge it into the levels.

use std::sync::Arc;

use super::cleanup::Count;
use super::levels::Levels;
use super::state::Store;
use crate::engine::{DeviceBatch, Engine};
use crate::error::Error;

/// Deletes without memory to merge them are added as runs of their own while there are fewer runs than this:
/// queries search every one.
const MAX_RUNS_FOR_DELETES: usize = 32;

impl<E: Engine> Store<E> {
    /// Applies one batch that is on the device, as a whole or not at all.
    pub fn apply_staged(&mut self, batch: &E::Batch<'_>) -> Result<(), Error> {
        if batch.len() == 0 {
            return Ok(());
        }
        let levels = self.state_mut().levels.clone();
        let shrunk = self.shrunk(&levels);
        self.replace_levels(levels, shrunk);
        if self.try_buffer(batch)? {
            return Ok(());
        }
        self.apply_buffered()?;
        let mut levels = Levels::clone(&self.state_mut().levels);
        let merged = match self.install(&self.engine, &mut levels, batch) {
            Err(Error::OutOfMemory { .. })
                if batch.inserts() == 0 && levels.runs().len() < MAX_RUNS_FOR_DELETES =>
            {
                self.add_deletes(&mut levels, batch)?
            }
            installed => installed?,
        };
        let state = self.state_mut();
        state.levels = Arc::new(levels);
        state.count_updates(batch.len());
        self.after_batch(batch.len(), merged);
        Ok(())
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
        if carry.runs > 0 && self.deferred.defers(engine, levels, len, entries) {
            let run = self.with_memory(|| engine.absorb(batch, &[], levels.runs()))?;
            levels.gather(&carry, run);
            return Ok(0);
        }
        let run = self.with_memory(|| engine.absorb(batch, carried, older))?;
        levels.install(&carry, run);
        Ok(entries)
    }

    /// Adds a batch of deletes for whose merge there is no memory, as a run of its own, which takes little
    /// and may use up the reserve: whoever is out of memory must be able to delete. It is merged later, as a
    /// deferred merge is. Returns how many entries were merged: none.
    fn add_deletes(
        &self,
        levels: &mut Levels<E::Run>,
        batch: &E::Batch<'_>,
    ) -> Result<usize, Error> {
        let engine = match &self.reserve {
            Some(reserve) => self.engine.drawing_on(reserve),
            None => self.engine.clone(),
        };
        let carry = levels.walk(batch.len(), |run| engine.bound(run));
        let run = self.with_memory(|| engine.absorb(batch, &[], levels.runs()))?;
        levels.gather(&carry, run);
        Ok(0)
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

    /// Returns the same levels with every run in no more memory than it needs, if any has much more.
    pub(super) fn shrunk(&self, levels: &Levels<E::Run>) -> Option<Levels<E::Run>> {
        let mut shrunk = levels.clone();
        shrunk.replace(|run| self.engine.shrink_to_fit(run)).then_some(shrunk)
    }
}
