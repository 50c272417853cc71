//! What every device does with runs: the trait that each engine implements in a folder of its own.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::{Order, Updates};
use crate::budget::{Allowance, Budget};
use crate::combine::Combiner;
use crate::error::Error;
use crate::key::OrderedKey;
#[cfg(feature = "testing")]
use crate::mark::Mark;
use crate::query::Query;
use crate::ranges::RangeEnds;
use crate::stats::{Bytes, DeviceMemory, RunStats};
use crate::workers::Workers;

/// What a device does with runs.
///
/// A *run* is an immutable sorted array of entries with unique keys. Lists of runs are always newest
/// first: for one key, the first run that holds it decides.
///
/// Methods take everything at once, so that a device may fuse steps, and never need a run's true length:
/// merging drops entries, so a GPU knows that length before the host does. The host works with
/// [`bound`](Engine::bound). Values are bytes here: an engine knows their width and nothing else.
pub(crate) trait Engine: Clone + Send + Sync + Sized + 'static {
    /// Keys as this engine sorts them.
    type Key: OrderedKey;

    /// A run on this device. Cheap to clone: clones share their memory.
    type Run: Clone + Send + Sync;

    /// A batch on this device, ready to be sorted.
    type Batch<'a>: DeviceBatch;

    /// Buffered batches on this device.
    type Buffer: WriteBuffer<Self>;

    /// A merge of runs that is done a part at a time.
    type Merge: IncrementalMerge<Self>;

    /// The most updates that are buffered: applying more at a time is hardly faster.
    const MAX_BUFFERED: usize;

    /// Whether there is memory for a merge of fewer bytes is found out by trying: it takes less time than
    /// [`available_bytes`](Engine::available_bytes).
    const MIN_BYTES_TO_ASK: u64 = 64 << 20;

    /// Returns an upper bound of the run's length, as far as the host knows it now.
    fn bound(&self, run: &Self::Run) -> usize;

    /// Brings a batch of the host's to the device.
    fn stage<'a>(&self, updates: &'a Updates<'_, Self::Key>) -> Result<Self::Batch<'a>, Error>;

    /// Returns a batch that deletes every live key of these ranges, which are in ascending order and do not
    /// meet; `None` if no other key is live.
    fn stage_range_deletes(
        &self,
        runs: &[Self::Run],
        ranges: &RangeEnds<'_, Self::Key>,
    ) -> Result<Option<Self::Batch<'static>>, Error>;

    /// Sorts the batch, finds which of its keys the older runs hold (or leaves that for when it is
    /// needed), and merges it with the carried runs into one run. `carried` and then `older` are all runs
    /// there are, newest first; with nothing older, the output is the oldest run and holds no tombstone.
    ///
    /// With an empty batch and every run carried, this is a cleanup. Returns `None` if nothing is left.
    fn absorb(
        &self,
        batch: &Self::Batch<'_>,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error>;

    /// Makes a run of `len` pairs with strictly ascending keys, which `write` writes, a part at a time, in order.
    /// Parts begin at multiples of [`PAIRS_PER_PART`].
    fn write_run(
        &self,
        len: usize,
        write: &mut WritePairs<'_, Self::Key>,
    ) -> Result<Option<Self::Run>, Error>;

    /// Merges runs that follow each other, on top of the older ones, into the memory that they have, which takes
    /// little more: as many bytes as [`in_place_bytes`](Engine::in_place_bytes) returns. Nobody else holds them
    /// ([`is_unshared`](Engine::is_unshared)). Afterwards they are only good to be dropped; after an error they
    /// are as they were.
    fn merge_in_place(
        &self,
        runs: &mut [Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error>;

    /// Returns the most bytes that merging these runs in place takes, with a newer one of this many entries that is yet to
    /// come, if there are any; `None` if they cannot be.
    fn in_place_bytes(&self, runs: &[Self::Run], to_come: usize) -> Option<u64>;

    /// Allocates what [`remove_entries`](Engine::remove_entries) takes.
    fn memory_for_removal(&self, run: &Self::Run) -> Result<Box<dyn Any + Send>, Error>;

    /// Removes the entries in these ranges of positions, which ascend and do not meet, and leaves some. All entries of
    /// the run are new, and nobody else holds it. Only an error of the device itself is possible.
    fn remove_entries(
        &self,
        run: &mut Self::Run,
        positions: &[Range<u64>],
        memory: Box<dyn Any + Send>,
    ) -> Result<(), Error>;

    /// Returns whether nobody else holds a run.
    fn is_unshared(run: &mut Self::Run) -> bool;

    /// Returns whether somebody else holds a run now, for reports.
    fn is_shared(run: &Self::Run) -> bool;

    /// Returns the most bytes that merging these runs takes, the new run included.
    fn merge_bytes(&self, runs: &[Self::Run]) -> u64;

    /// Returns how many bytes can still be allocated, as far as is known: of the memory limit, and of the device.
    fn available_bytes(&self) -> Option<u64> {
        self.budget().free()
    }

    /// Returns how many bytes queries of these runs and of this many inserts on top of them may take for good; 0 while
    /// there is plenty.
    fn bytes_for_queries(&self, _runs: &[Self::Run], _inserts: usize) -> u64 {
        0
    }

    /// Returns what is known of the memory limit or of the device's memory, of which less is free.
    fn memory(&self) -> Option<DeviceMemory> {
        self.budget().memory()
    }

    /// Frees what queries of runs that nobody else holds have computed, like filters; returns whether there was anything.
    /// It is computed again when it is needed, or worth it and there is memory.
    fn release_caches(&self, _runs: &mut [Self::Run]) -> bool {
        false
    }

    /// Returns how many entries one batch merges at most, unless the user sets another number: merging
    /// more would take much longer than most batches do.
    fn max_merge_per_batch(&self) -> usize;

    /// Returns the bytes of one key and its value.
    fn pair_bytes(&self) -> u64;

    /// Returns the most bytes that applying this many buffered updates on top of these runs may take,
    /// the new run included.
    fn bytes_to_apply(&self, updates: usize, runs: &[Self::Run]) -> u64;

    /// Returns the same engine, whose allocations use up what was set aside before anything else.
    fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self;

    /// Returns where the memory of this engine and its clones is counted.
    fn budget(&self) -> &Arc<Budget>;

    /// Returns how the values of equal keys combine; `None` if the newer one wins.
    fn combiner(&self) -> Option<Combiner>;

    /// Returns the threads that share work which is done before a batch is brought to the device.
    fn workers(&self) -> Result<Workers, Error>;

    /// Counts the live keys.
    fn len(&self, runs: &[Self::Run]) -> Result<u64, Error>;

    /// Returns what the host knows now of the number of live keys.
    fn known_len(&self, runs: &[Self::Run]) -> KnownLen;

    /// Writes the answers to a batch of queries where the query says.
    fn answer(&self, runs: &[Self::Run], query: Query<'_, Self::Key>) -> Result<(), Error>;

    /// Returns how many bytes the run takes.
    fn run_bytes(&self, run: &Self::Run) -> Bytes;

    /// Returns what the run holds and how many bytes it takes.
    fn run_stats(&self, run: &Self::Run) -> Result<RunStats, Error>;

    /// Returns the same run in no more memory than it needs, if it has much more and the host knows it now.
    fn shrink_to_fit(&self, _run: &Self::Run) -> Option<Self::Run> {
        None
    }

    /// Checks the parts of a run that only this device knows (fences, running sums) against its entries,
    /// and returns those.
    #[cfg(feature = "testing")]
    fn checked_entries(&self, run: &Self::Run) -> Result<Vec<(Self::Key, Mark)>, String>;

    /// Waits until all work that was started is done, and reports whether any of it failed.
    fn synchronize(&self) -> Result<(), Error>;
}

/// Writes pairs from an index on: keys, and the bytes of their values.
pub type WritePairs<'a, B> = dyn FnMut(usize, &mut [B], &mut [u8]) -> Result<(), Error> + 'a;

/// The parts in which the pairs of a run go from a file to a store, or from a store to a file, begin at multiples
/// of this.
pub(crate) const PAIRS_PER_PART: usize = 1 << 20;

/// A batch on a device, ready to be sorted.
pub(crate) trait DeviceBatch {
    /// Returns the number of inserts.
    fn inserts(&self) -> usize;

    /// Returns the number of deletes.
    fn deletes(&self) -> usize;

    /// Returns how many inserts, at the end, assign their values.
    fn assigned(&self) -> usize;

    /// Returns what is known of the order of the keys.
    fn order(&self) -> Order;

    /// Returns the number of updates.
    fn len(&self) -> usize {
        self.inserts() + self.deletes()
    }

    /// Returns the number of updates of each kind.
    fn counts(&self) -> Counts {
        let (inserts, deletes) = (self.inserts(), self.deletes());
        Counts { inserts, assigned: self.assigned(), deletes }
    }
}

/// How many updates of each kind a batch has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub inserts: usize,
    /// How many of the inserts assign their values.
    pub assigned: usize,
    pub deletes: usize,
}

/// Batches that are buffered on a device, to be applied as one.
pub(crate) trait WriteBuffer<E: Engine>: Default + Send + Sync {
    /// Returns the number of buffered updates.
    fn len(&self) -> usize;

    /// Returns whether the batch may be appended: whether all would still mean the same as one batch.
    fn accepts(&self, batch: &E::Batch<'_>) -> bool;

    /// Appends a batch; after an error the buffer is as it was.
    fn append(&mut self, engine: &E, batch: &E::Batch<'_>) -> Result<(), Error>;

    /// Removes the batch that was appended last.
    fn remove_last(&mut self, last: Counts);

    /// Returns all of it as one batch, in which the last update of a key wins.
    fn batch(&self) -> E::Batch<'_>;
}

/// A merge of adjacent runs that is done a part at a time.
pub(crate) trait IncrementalMerge<E: Engine>: Sized + Send + Sync {
    /// Starts a merge of runs that follow each other, on top of the older ones.
    fn begin(engine: &E, runs: &[E::Run], older: &[E::Run]) -> Result<Self, Error>;

    /// Merges about this many entries more.
    fn advance(self, engine: &E, entries: usize) -> Result<MergeProgress<Self, E::Run>, Error>;

    /// Returns whether these are the runs that it merges.
    fn merges(&self, runs: &[E::Run]) -> bool;
}

/// How far an incremental merge has come.
pub(crate) enum MergeProgress<M, R> {
    /// There is more to merge.
    Partial(M),
    /// The run that came of it; `None` if nothing is left.
    Done(Option<R>),
}

/// What the host knows of the number of live keys without waiting for the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownLen {
    /// There are at least this many.
    pub at_least: u64,
    /// There are exactly this many.
    pub exact: Option<u64>,
}
