//! Stores behind one trait: what dictionaries are built on.

use std::any::Any;

use super::settings::CleanupPolicy;
use super::state::Store;
use crate::batch::Updates;
use crate::combine::Combiner;
use crate::device::Device;
use crate::engine::{Engine, WriteBuffer, WritePairs};
use crate::error::Error;
use crate::holders::HolderKind;
use crate::key::OrderedKey;
use crate::query::{PairsOut, Query};
use crate::ranges::RangeEnds;
use crate::stats::{Bytes, QuickStats, Stats};
use crate::value::ValueBuffer;
use crate::workers::Workers;

/// A change that a store has prepared: nothing of it can fail any more.
pub type PreparedChange = Box<dyn Any + Send>;

/// A store whose device and width of values were chosen at run time.
///
/// Behind it stand few types of store, all compiled once, here; a dictionary of any types is a thin
/// layer on top that maps keys and hands values over as bytes.
pub trait AnyStore<B: OrderedKey>: Any + Send + Sync {
    /// Returns a store that shares every run with this one, and counts as a holder of the same kind.
    fn share(&self) -> Box<dyn AnyStore<B>>;

    /// Lets the store count as another kind of holder.
    fn hold_as(&mut self, kind: HolderKind);

    fn batch_size(&self) -> usize;

    /// Returns how many bytes a value has.
    fn value_width(&self) -> usize;

    fn policy(&self) -> CleanupPolicy;

    /// Returns how the values of equal keys combine; `None` if the newer one wins.
    fn combiner(&self) -> Option<Combiner>;

    /// Returns the threads that share work which is done before a batch is brought to its device.
    fn workers(&self) -> Result<Workers, Error>;

    fn len(&self) -> Result<u64, Error>;

    /// Applies one batch, as a whole or not at all.
    fn apply(&mut self, updates: &Updates<'_, B>) -> Result<(), Error>;

    /// Deletes every key of these ranges, which are in ascending order and do not meet, as a whole or not at
    /// all.
    fn delete_ranges(&mut self, ranges: &RangeEnds<'_, B>) -> Result<(), Error>;

    /// Does everything that can fail of applying one batch. Answers stay the same until it is committed or undone, which
    /// must be the next call.
    fn prepare(&mut self, updates: &Updates<'_, B>) -> Result<PreparedChange, Error>;

    /// Does the same of deleting every key of these ranges, which are in ascending order and do not meet.
    fn prepare_range_deletes(&mut self, ranges: &RangeEnds<'_, B>)
    -> Result<PreparedChange, Error>;

    /// Does the same of deleting every key of these ranges, which are in ascending order and do not meet, in another
    /// way, which takes hardly more memory than a cleanup: everything is cleaned up, and then the keys are removed
    /// from the run that is left. Nobody else may hold the runs.
    fn prepare_removal(&mut self, ranges: &RangeEnds<'_, B>) -> Result<PreparedChange, Error>;

    /// Makes a change that this store has prepared part of it.
    fn commit(&mut self, change: PreparedChange);

    /// Undoes a change that this store has prepared.
    fn undo(&mut self, change: PreparedChange);

    /// Fills a store that holds nothing with `len` pairs with strictly ascending keys, which `write` writes, a
    /// part at a time, in order. Parts begin at multiples of 2^20.
    fn fill(&mut self, len: usize, write: &mut WritePairs<'_, B>) -> Result<(), Error>;

    /// Counts the different keys that a batch inserts; it must have no deletes.
    fn count_distinct(&self, inserts: &Updates<'_, B>) -> Result<u64, Error>;

    /// Merges everything into one run without stale entries.
    fn cleanup(&mut self) -> Result<(), Error>;

    /// Returns whether runs wait to be merged in place only because a checkpoint holds them.
    fn waits_for_checkpoint(&mut self) -> bool;

    /// Merges runs that wait, as far as that can be done in place.
    fn merge_waiting(&mut self);

    /// Sets whether updates are refused unless there is room for a cleanup after them. (They are, but for those that
    /// find none when files are opened.)
    fn keep_room(&mut self, keeps: bool);

    fn clear(&mut self);

    /// Replaces everything by what another store of the same kind holds.
    fn take_over(&mut self, other: Box<dyn AnyStore<B>>);

    fn answer(&self, query: Query<'_, B>) -> Result<(), Error>;

    fn stats(&self, device: Device) -> Result<Stats, Error>;

    /// Returns the bytes that the levels take.
    fn level_bytes(&self) -> Bytes;

    /// Returns what can be told at once; `None` while another thread is changing it.
    fn quick_stats(&self) -> Option<QuickStats>;

    /// Returns how many updates are buffered.
    fn buffered(&self) -> usize;

    /// Applies the buffered batches, as a query does: the next batch is not buffered.
    fn flush(&self) -> Result<(), Error>;

    /// Applies the buffered batches to make room for others.
    fn apply_buffered(&self) -> Result<(), Error>;

    /// Applies the buffered batches, waits until all work that was started is done, and reports whether
    /// any of it failed.
    fn synchronize(&self) -> Result<(), Error>;

    /// Checks every invariant of runs and levels; the error says which one is broken and where.
    #[cfg(feature = "testing")]
    fn validate(&self) -> Result<(), String>;

    /// Makes the allocation after the next `n` fail, once.
    #[cfg(feature = "testing")]
    fn fail_after(&self, n: u64);

    /// Returns how many merges were done in place.
    #[cfg(feature = "testing")]
    fn merges_in_place(&self) -> u64;
}

/// Returns the keys, and the bytes of the values, at two places in the key order of a store, which must have pairs there.
pub(crate) fn select_two<B: OrderedKey>(
    store: &dyn AnyStore<B>,
    indices: [u64; 2],
) -> Result<([B; 2], ValueBuffer), Error> {
    let (mut keys, mut found) = ([B::LOWEST; 2], [false; 2]);
    let mut values = ValueBuffer::new(2, store.value_width())?;
    let pairs = PairsOut { keys: &mut keys, values: values.bytes_mut(), found: &mut found };
    store.answer(Query::Select { indices: &indices, pairs })?;
    Ok((keys, values))
}

impl<B: OrderedKey> Clone for Box<dyn AnyStore<B>> {
    fn clone(&self) -> Self {
        self.share()
    }
}

impl<E: Engine> AnyStore<E::Key> for Store<E> {
    fn share(&self) -> Box<dyn AnyStore<E::Key>> {
        Box::new(self.clone())
    }

    fn hold_as(&mut self, kind: HolderKind) {
        self.hold = self.hold.share(kind);
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn value_width(&self) -> usize {
        self.engine.pair_bytes() as usize - size_of::<E::Key>()
    }

    fn policy(&self) -> CleanupPolicy {
        self.policy
    }

    fn combiner(&self) -> Option<Combiner> {
        self.engine.combiner()
    }

    fn workers(&self) -> Result<Workers, Error> {
        self.engine.workers()
    }

    fn len(&self) -> Result<u64, Error> {
        self.engine.len(self.flushed()?.runs())
    }

    fn apply(&mut self, updates: &Updates<'_, E::Key>) -> Result<(), Error> {
        let batch = self.stage(updates)?;
        self.apply_staged(&batch)
    }

    fn delete_ranges(&mut self, ranges: &RangeEnds<'_, E::Key>) -> Result<(), Error> {
        let prepared = self.prepare_deletes(ranges)?;
        self.install_prepared(prepared);
        Ok(())
    }

    fn prepare(&mut self, updates: &Updates<'_, E::Key>) -> Result<PreparedChange, Error> {
        let batch = self.stage(updates)?;
        Ok(Box::new(self.prepare_staged(&batch)?))
    }

    fn prepare_range_deletes(
        &mut self,
        ranges: &RangeEnds<'_, E::Key>,
    ) -> Result<PreparedChange, Error> {
        Ok(Box::new(self.prepare_deletes(ranges)?))
    }

    fn prepare_removal(&mut self, ranges: &RangeEnds<'_, E::Key>) -> Result<PreparedChange, Error> {
        Ok(Box::new(self.prepare_removal(ranges)?))
    }

    fn commit(&mut self, change: PreparedChange) {
        self.install_prepared(*change.downcast().expect("this store has prepared it"));
    }

    fn undo(&mut self, change: PreparedChange) {
        self.undo(*change.downcast().expect("this store has prepared it"));
    }

    fn fill(&mut self, len: usize, write: &mut WritePairs<'_, E::Key>) -> Result<(), Error> {
        self.fill(len, write)
    }

    fn count_distinct(&self, inserts: &Updates<'_, E::Key>) -> Result<u64, Error> {
        self.with_memory(|| {
            let run = self.engine.absorb(&self.engine.stage(inserts)?, &[], &[])?;
            self.engine.len(run.as_slice())
        })
    }

    fn cleanup(&mut self) -> Result<(), Error> {
        self.cleanup()
    }

    fn waits_for_checkpoint(&mut self) -> bool {
        self.waits_for_checkpoint()
    }

    fn merge_waiting(&mut self) {
        self.merge_waiting_runs();
    }

    fn keep_room(&mut self, keeps: bool) {
        self.keeps_room = keeps;
    }

    fn clear(&mut self) {
        self.clear();
    }

    fn take_over(&mut self, other: Box<dyn AnyStore<E::Key>>) {
        let other: Box<dyn Any> = other;
        let other = other.downcast::<Self>().expect("the stores are of the same kind");
        *self.state_mut() = other.state().clone();
        self.deferred.abandon();
    }

    fn answer(&self, query: Query<'_, E::Key>) -> Result<(), Error> {
        let runs = self.flushed()?;
        self.engine_for_queries().answer(runs.runs(), query).map_err(|error| self.explain(error))
    }

    fn stats(&self, device: Device) -> Result<Stats, Error> {
        self.stats(device)
    }

    fn level_bytes(&self) -> Bytes {
        self.level_bytes()
    }

    fn quick_stats(&self) -> Option<QuickStats> {
        self.quick_stats()
    }

    fn buffered(&self) -> usize {
        self.state().buffered.as_ref().map_or(0, |buffered| buffered.buffer.len())
    }

    fn flush(&self) -> Result<(), Error> {
        self.flushed().map(drop)
    }

    fn apply_buffered(&self) -> Result<(), Error> {
        self.apply_buffered().map(drop)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.flushed()?;
        self.engine.synchronize()
    }

    #[cfg(feature = "testing")]
    fn validate(&self) -> Result<(), String> {
        self.validate()
    }

    #[cfg(feature = "testing")]
    fn fail_after(&self, n: u64) {
        self.engine.budget().fail_after(n);
    }

    #[cfg(feature = "testing")]
    fn merges_in_place(&self) -> u64 {
        self.merges_in_place
    }
}
