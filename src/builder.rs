//! How a dictionary is to be.

use std::marker::PhantomData;

use crate::batch::{Batch, Updates};
use crate::cpu::{Cpu, CpuEngine};
use crate::device::Device;
use crate::dictionary::Dictionary;
use crate::error::{Error, check_lengths};
use crate::key::{self, Key};
use crate::snapshot::Snapshot;
use crate::store::{AnyStore, CleanupPolicy, Store};
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
    batch_size: usize,
    device: Option<Device>,
    threads: Option<usize>,
    memory_limit: Option<u64>,
    cleanup: CleanupPolicy,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Builder<K, V> {
    /// The batch size b of a dictionary that isn't told another.
    pub const DEFAULT_BATCH_SIZE: usize = 1 << 16;

    /// The largest batch size there can be.
    pub const MAX_BATCH_SIZE: usize = 1 << 40;
}

impl<K: Key, V: Value> Default for Builder<K, V> {
    fn default() -> Self {
        Builder {
            batch_size: Self::DEFAULT_BATCH_SIZE,
            device: None,
            threads: None,
            memory_limit: None,
            cleanup: CleanupPolicy::default(),
            types: PhantomData,
        }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    /// The size b that batches are expected to have; 65,536 if nothing is said.
    ///
    /// Any call may be shorter or longer. A larger b means fewer levels and faster queries; with a
    /// b near the usual length of a call, taking one in costs least.
    pub fn batch_size(self, batch_size: usize) -> Self {
        Builder { batch_size, ..self }
    }

    /// Where the dictionary lives; [`Device::best`] if nothing is said.
    pub fn device(self, device: Device) -> Self {
        Builder { device: Some(device), ..self }
    }

    /// On the CPU: this many worker threads of the dictionary's own, at most 1,024. If nothing is
    /// said it shares the process's pool, with a thread for each core.
    pub fn threads(self, threads: usize) -> Self {
        Builder { threads: Some(threads), ..self }
    }

    /// The most bytes that the dictionary, its clones and its snapshots may take together, with the
    /// working space of sorting, merging and searching. (Answers, and keys on their way in or out of a
    /// call, are the caller's and not counted.) A call that would need more is an [`Error::OutOfMemory`], and changes
    /// nothing. Taking in a batch needs room for what is merged beside what there is: allow about
    /// 2.5 times the size of the pairs.
    pub fn memory_limit(self, bytes: u64) -> Self {
        Builder { memory_limit: Some(bytes), ..self }
    }

    /// When stale entries are removed; by itself, if nothing is said.
    pub fn cleanup(self, cleanup: CleanupPolicy) -> Self {
        Builder { cleanup, ..self }
    }

    /// An empty dictionary.
    pub fn build(self) -> Result<Dictionary<K, V>, Error> {
        let _ = V::WIDTH; // A width that no device knows does not compile.
        if self.batch_size == 0 || self.batch_size > Self::MAX_BATCH_SIZE {
            return Err(Error::BatchSize { given: self.batch_size });
        }
        let device = self.device.unwrap_or_else(Device::best);
        let engine = CpuEngine::new(Cpu::new(self.memory_limit, self.threads)?);
        let store = AnyStore::Cpu(Store::new(engine, self.batch_size, self.cleanup));
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
        dictionary.take_in(&Updates::sorted(ordered, values))?;
        Ok(dictionary)
    }
}
