//! How a dictionary is to be.

use std::marker::PhantomData;

use crate::batch::{Batch, Updates};
use crate::device::Device;
use crate::dictionary::Dictionary;
use crate::error::{Error, MAX_BATCH_SIZE, check_lengths};
use crate::key::{self, Key};
use crate::open::{Location, open};
use crate::snapshot::Snapshot;
use crate::store::{CleanupPolicy, Settings};
use crate::value::Value;

/// Makes a [`Dictionary`] with other than the usual settings.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// use gpulsm::{Device, Dictionary};
///
/// let dictionary = Dictionary::<i64, [f32; 4]>::builder()
///     .batch_size(1 << 18)
///     .device(Device::cpu())
///     .threads(4)
///     .memory_limit(2 << 30)
///     .build()?;
/// assert!(dictionary.is_empty()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`, `bulk_build` or `from_sorted` is called"]
pub struct Builder<K, V> {
    device: Option<Device>,
    #[cfg(feature = "cuda")]
    stream: Option<crate::cuda::Stream>,
    settings: Settings,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Builder<K, V> {
    /// The batch size b of a dictionary that isn't told another.
    pub const DEFAULT_BATCH_SIZE: usize = Settings::DEFAULT_BATCH_SIZE;

    /// The largest batch size there can be.
    pub const MAX_BATCH_SIZE: usize = MAX_BATCH_SIZE;
}

impl<K: Key, V: Value> Default for Builder<K, V> {
    fn default() -> Self {
        Builder {
            device: None,
            #[cfg(feature = "cuda")]
            stream: None,
            settings: Settings::default(),
            types: PhantomData,
        }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    /// The size b that batches are expected to have; 65,536 if nothing is said.
    ///
    /// Any call may be shorter or longer. A larger b means fewer levels and faster queries; with a
    /// b near the usual length of a call, taking one in costs least.
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.settings.batch_size = batch_size;
        self
    }

    /// Where the dictionary lives; [`Device::best`] if nothing is said.
    pub fn device(mut self, device: Device) -> Self {
        #[cfg(feature = "cuda")]
        self.stream.take_if(|stream| stream.device() != device);
        self.device = Some(device);
        self
    }

    /// Sets how many worker threads of its own the dictionary has, on the CPU: from 1 to 1,024. Default:
    /// it shares one pool with all other dictionaries of the process, which has a thread for each core, or
    /// as many as the environment variable `RAYON_NUM_THREADS` says.
    ///
    /// Neither pool is rayon's global one, and a thread that makes a call does nothing but that call until
    /// it returns, even if it is a worker of a rayon pool itself. So a call may be made in any thread, with
    /// any lock held: for example with a `Mutex<Dictionary>` locked inside a parallel loop. (A rayon
    /// worker that makes a long call starts a thread for each of its parallel steps, to wait in its
    /// place; that takes some 20 µs.)
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.threads = Some(threads);
        self
    }

    /// The most bytes that the dictionary, its clones and its snapshots may take together, with the
    /// working space of sorting, merging and searching. (Answers, and keys on their way in or out of a
    /// call, are the caller's and not counted.) A call that would need more is an [`Error::OutOfMemory`], and changes
    /// nothing. Taking in a batch needs room for what is merged beside what there is: allow about
    /// 2.5 times the size of the pairs.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.settings.memory_limit = Some(bytes);
        self
    }

    /// About how many entries a batch merges at most; as many as take a few times as long as a usual
    /// batch, if nothing is said.
    ///
    /// Now and then a batch would make many runs into one, which takes long. With more entries than
    /// this (and than 16 times what the batch has), it is done in slices instead, one with each of the
    /// batches that come next; until then queries have more runs to ask, and memory holds both. `usize::MAX` for everything at once.
    pub fn merged_at_once(mut self, entries: usize) -> Self {
        self.settings.max_merge_per_batch = Some(entries);
        self
    }

    /// When stale entries are removed; by itself, if nothing is said.
    pub fn cleanup(mut self, cleanup: CleanupPolicy) -> Self {
        self.settings.policy = cleanup;
        self
    }

    /// On a GPU, and on that of the stream: the stream that the dictionary's calls run on. If nothing
    /// is said it has one of its own.
    #[cfg(feature = "cuda")]
    pub fn stream(mut self, stream: &crate::cuda::Stream) -> Self {
        self.device = Some(stream.device());
        self.stream = Some(stream.clone());
        self
    }

    /// An empty dictionary.
    pub fn build(self) -> Result<Dictionary<K, V>, Error> {
        let given = self.settings.batch_size;
        if given == 0 || given > Self::MAX_BATCH_SIZE {
            return Err(Error::BatchSize { given });
        }
        let device = self.device.unwrap_or_else(Device::best);
        let location = Location {
            device,
            #[cfg(feature = "cuda")]
            stream: self.stream,
        };
        let store = open(&location, &self.settings, V::WIDTH)?;
        Ok(Dictionary::from_snapshot(Snapshot::new(device, store)))
    }

    /// A dictionary of these pairs, at the speed of one sort. Of equal keys the last one wins.
    pub fn bulk_build(self, keys: &[K], values: &[V]) -> Result<Dictionary<K, V>, Error> {
        let mut dictionary = self.build()?;
        dictionary.update(Batch::inserting(keys, values))?;
        Ok(dictionary)
    }

    /// A dictionary of these pairs, whose keys are strictly ascending, without any sorting.
    pub fn from_sorted(self, keys: &[K], values: &[V]) -> Result<Dictionary<K, V>, Error> {
        check_lengths(("keys", keys.len()), ("values", values.len()))?;
        let ordered = key::encode(keys)?;
        if let Some(index) = ordered.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Error::NotSorted { index: index + 1 });
        }
        let mut dictionary = self.build()?;
        dictionary.apply(&Updates::sorted(ordered, values))?;
        Ok(dictionary)
    }
}
