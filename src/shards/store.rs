//! The store over stores.

use std::any::Any;

use super::balance::Balance;
use super::parallel::at_once;
use crate::batch::Updates;
use crate::combine::Combiner;
use crate::device::Device;
use crate::engine::WritePairs;
use crate::error::Error;
use crate::holders::HolderKind;
use crate::key::OrderedKey;
use crate::query::Query;
use crate::ranges::RangeEnds;
use crate::stats::{Bytes, QuickStats, Stats};
use crate::store::{AnyStore, CleanupPolicy, PreparedChange, Settings};
use crate::workers::Workers;

/// A store whose keys are divided among several.
pub(crate) struct Shards<B: OrderedKey> {
    /// At least two.
    pub(super) shards: Vec<Shard<B>>,
    /// The least key of each shard but the first, ascending; two may be equal, and the shard between them empty.
    pub(super) splitters: Vec<B>,
    pub(super) batch_size: usize,
    pub(super) balance: Balance,
    /// The threads that divide batches and queries, as many as all shards have on the CPU…
    pub(super) workers: Workers,
    /// …and those on which shards work at the same time.
    pub(super) runners: Workers,
    /// Shards that share memory of which this much is taken change one after the other: each sees what is left.
    pub(super) tight_from: u64,
}

/// One of the stores.
pub(crate) struct Shard<B: OrderedKey> {
    pub device: Device,
    pub store: Box<dyn AnyStore<B>>,
    /// Which shards have the same memory limit: those with the same number.
    pub account: usize,
}

impl<B: OrderedKey> Clone for Shard<B> {
    fn clone(&self) -> Self {
        Shard { store: self.store.share(), ..*self }
    }
}

impl<B: OrderedKey> Shards<B> {
    /// Makes one store of these, which hold nothing yet.
    pub fn new(shards: Vec<Shard<B>>, settings: &Settings) -> Result<Self, Error> {
        let threads = settings.threads.filter(|_| are_on_cpu(&shards));
        let threads = threads.map(|threads| threads.saturating_mul(shards.len()));
        Ok(Shards {
            splitters: vec![B::LOWEST; shards.len() - 1],
            batch_size: settings.batch_size,
            balance: Balance::default(),
            workers: Workers::at_most(threads)?,
            runners: Workers::new(Some(shards.len()))?,
            tight_from: settings
                .memory_limit
                .or(settings.memory_limit_per_device)
                .map_or(u64::MAX, |limit| limit / 2),
            shards,
        })
    }

    /// Returns the same shards.
    fn shared(&self) -> Self {
        Shards {
            shards: self.shards.clone(),
            splitters: self.splitters.clone(),
            batch_size: self.batch_size,
            balance: self.balance,
            workers: self.workers.clone(),
            runners: self.runners.clone(),
            tight_from: self.tight_from,
        }
    }

    /// Returns the threads for a change by all shards, if it is best made at the same time.
    pub(super) fn runners_for_change(&self) -> Workers {
        if self.tight_from == u64::MAX {
            return self.runners.clone();
        }
        let used = self.shards.iter().filter_map(|shard| shard.store.quick_stats());
        match used.map(|stats| stats.bytes_shared).max() {
            Some(used) if used >= self.tight_from => Workers::caller_only(),
            _ => self.runners.clone(),
        }
    }

    /// Returns how many shards there are.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// Returns the shards, in the order of their keys.
    #[cfg(feature = "cuda")]
    pub fn all(&self) -> impl Iterator<Item = &Shard<B>> {
        self.shards.iter()
    }

    /// Returns their stores, in the same order.
    #[cfg(feature = "cuda")]
    pub fn stores_mut(&mut self) -> impl Iterator<Item = &mut dyn AnyStore<B>> {
        self.shards.iter_mut().map(|shard| &mut *shard.store)
    }

    /// Returns the least key of each shard but the first.
    #[cfg(feature = "cuda")]
    pub fn splitters(&self) -> &[B] {
        &self.splitters
    }

    /// Returns how many keys each shard has.
    pub(super) fn lens(&self) -> Result<Vec<u64>, Error> {
        // On the CPU it is known once nothing is buffered. Runners may wait for the thread that this is on, if it answers a
        // chunk of queries, so it must not wait for them.
        if are_on_cpu(&self.shards) {
            self.flush()?;
            return self.shards.iter().map(|shard| shard.named(shard.store.len())).collect();
        }
        // Elsewhere counting may take as long as applying what is buffered.
        let is_known = self.sum_of_quick_stats().is_some_and(|stats| stats.live.is_some());
        let (runners, work) = (self.runners_for_change(), if is_known { 0 } else { usize::MAX });
        let shards = self.shards.iter().collect();
        let count = |shard: &Shard<B>| shard.named(shard.store.len());
        at_once(&runners, shards, work, count).into_iter().collect()
    }

    /// Lets each shard apply what it has buffered, at the same time.
    fn apply_on_each(
        &self,
        apply: impl Fn(&dyn AnyStore<B>) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let (runners, shards) = (self.runners_for_change(), self.shards.iter().collect());
        let applied = at_once(&runners, shards, self.buffered(), |shard: &Shard<B>| {
            shard.named(apply(&*shard.store))
        });
        applied.into_iter().collect()
    }
}

/// Returns whether all shards are on the CPU.
pub(super) fn are_on_cpu<B: OrderedKey>(shards: &[Shard<B>]) -> bool {
    shards.iter().all(|shard| !shard.device.is_cuda())
}

impl<B: OrderedKey> Shard<B> {
    /// Adds to an error on which device it happened.
    pub fn named<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        outcome.map_err(|error| error.on_device(self.device))
    }
}

impl<B: OrderedKey> AnyStore<B> for Shards<B> {
    fn share(&self) -> Box<dyn AnyStore<B>> {
        Box::new(self.shared())
    }

    fn hold_as(&mut self, kind: HolderKind) {
        self.shards.iter_mut().for_each(|shard| shard.store.hold_as(kind));
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn value_width(&self) -> usize {
        self.shards[0].store.value_width()
    }

    fn policy(&self) -> CleanupPolicy {
        self.shards[0].store.policy()
    }

    fn combiner(&self) -> Option<Combiner> {
        self.shards[0].store.combiner()
    }

    fn workers(&self) -> Result<Workers, Error> {
        Ok(self.workers.clone())
    }

    fn len(&self) -> Result<u64, Error> {
        Ok(self.lens()?.iter().sum())
    }

    fn apply(&mut self, updates: &Updates<'_, B>) -> Result<(), Error> {
        let prepared = self.prepare_batch(updates)?;
        self.commit_on_all(prepared);
        self.rebalance(updates.keys.len(), updates.deletes.len());
        Ok(())
    }

    fn delete_ranges(&mut self, ranges: &RangeEnds<'_, B>) -> Result<(), Error> {
        let prepared =
            self.prepare_ranges(ranges, &|store, part| store.prepare_range_deletes(part))?;
        self.commit_on_all(prepared);
        self.balance.has_changed_much();
        self.rebalance(0, 0);
        Ok(())
    }

    fn prepare(&mut self, updates: &Updates<'_, B>) -> Result<PreparedChange, Error> {
        Ok(Box::new(self.prepare_batch(updates)?))
    }

    fn prepare_range_deletes(
        &mut self,
        ranges: &RangeEnds<'_, B>,
    ) -> Result<PreparedChange, Error> {
        Ok(Box::new(self.prepare_ranges(ranges, &|store, part| store.prepare_range_deletes(part))?))
    }

    fn prepare_removal(&mut self, ranges: &RangeEnds<'_, B>) -> Result<PreparedChange, Error> {
        Ok(Box::new(self.prepare_ranges(ranges, &|store, part| store.prepare_removal(part))?))
    }

    fn commit(&mut self, change: PreparedChange) {
        self.commit_on_all(*change.downcast().expect("these shards have prepared it"));
    }

    fn undo(&mut self, change: PreparedChange) {
        self.undo_on_all(*change.downcast().expect("these shards have prepared it"));
    }

    fn fill(&mut self, len: usize, write: &mut WritePairs<'_, B>) -> Result<(), Error> {
        let filled = self.fill_evenly(len, write);
        if filled.is_err() {
            self.clear();
        }
        filled
    }

    fn count_distinct(&self, inserts: &Updates<'_, B>) -> Result<u64, Error> {
        let divided = self.divided(inserts)?;
        let counts = divided.parts(inserts).into_iter().zip(&self.shards);
        counts.map(|(part, shard)| shard.named(shard.store.count_distinct(&part))).sum()
    }

    fn cleanup(&mut self) -> Result<(), Error> {
        // One after the other: memory may suffice for one at a time.
        self.shards.iter_mut().try_for_each(|shard| {
            let cleaned = shard.store.cleanup();
            shard.named(cleaned)
        })
    }

    fn waits_for_checkpoint(&mut self) -> bool {
        self.shards.iter_mut().any(|shard| shard.store.waits_for_checkpoint())
    }

    fn merge_waiting(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.store.merge_waiting());
    }

    fn keep_room(&mut self, keeps: bool) {
        self.shards.iter_mut().for_each(|shard| shard.store.keep_room(keeps));
    }

    fn clear(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.store.clear());
        self.balance = Balance::default();
    }

    fn take_over(&mut self, other: Box<dyn AnyStore<B>>) {
        let other: Box<dyn Any> = other;
        let other = other.downcast::<Self>().expect("the stores are of the same kind");
        let Shards { shards, splitters, balance, .. } = *other;
        for (shard, other) in self.shards.iter_mut().zip(shards) {
            shard.store.take_over(other.store);
        }
        (self.splitters, self.balance) = (splitters, balance);
    }

    fn answer(&self, query: Query<'_, B>) -> Result<(), Error> {
        self.answer_query(query)
    }

    fn stats(&self, device: Device) -> Result<Stats, Error> {
        self.sum_of_stats(device)
    }

    fn level_bytes(&self) -> Bytes {
        self.sum_of_level_bytes()
    }

    fn quick_stats(&self) -> Option<QuickStats> {
        self.sum_of_quick_stats()
    }

    fn buffered(&self) -> usize {
        self.shards.iter().map(|shard| shard.store.buffered()).sum()
    }

    fn flush(&self) -> Result<(), Error> {
        self.apply_on_each(|store| store.flush())
    }

    fn apply_buffered(&self) -> Result<(), Error> {
        self.apply_on_each(|store| store.apply_buffered())
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.flush()?;
        self.shards.iter().try_for_each(|shard| shard.named(shard.store.synchronize()))
    }

    #[cfg(feature = "testing")]
    fn validate(&self) -> Result<(), String> {
        self.validate_all()
    }

    #[cfg(feature = "testing")]
    fn fail_after(&self, n: u64) {
        self.shards[0].store.fail_after(n);
    }

    #[cfg(feature = "testing")]
    fn merges_in_place(&self) -> u64 {
        self.shards.iter().map(|shard| shard.store.merges_in_place()).sum()
    }
}
