//! Where experiments run. Each device implements [`Backend`] in a file of its own: arrays, clocks, and the
//! dictionary's calls on such arrays. Types of keys and values are erased here, so that experiments are
//! compiled once; a call costs a few nanoseconds more for it.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
#[cfg(feature = "cuda")]
pub(crate) mod ffi;
mod files;

use std::any::Any;
use std::error::Error;
use std::ops::Range;
use std::path::Path;

use gpulsm::{Builder, CleanupPolicy, Combine, Device, Dictionary, ScalarKey};

use crate::baselines::{HashTable, Sort, SortedArray};
use crate::dictionary::AnyDictionary;
use crate::numbers::{BenchKey, BenchValue, MeasuredKey, Numbered, Width};
use crate::parallel::generate;

#[cfg(feature = "cuda")]
pub use self::cuda::describe as describe_gpu;

pub use self::files::InFolder;

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Returns the backend of a device, for keys and values of these types.
pub fn open(device: Device, key: MeasuredKey, value: Width) -> Outcome<Box<dyn Backend>> {
    match (key, value) {
        (MeasuredKey::U32, Width::U32) => open_typed::<u32, u32>(device),
        (MeasuredKey::U32, Width::U64) => open_typed::<u32, u64>(device),
        (MeasuredKey::U64, Width::U32) => open_typed::<u64, u32>(device),
        (MeasuredKey::U64, Width::U64) => open_typed::<u64, u64>(device),
        (MeasuredKey::U128, Width::U64) => open_typed::<u128, u64>(device),
        // Arrays in a GPU's memory hold packed keys.
        (MeasuredKey::U32Pair, Width::U64) if device.is_cuda() => open_typed::<u64, u64>(device),
        (MeasuredKey::U32Pair, Width::U64) => Ok(Box::new(cpu::Cpu::<(u32, u32), u64>::new())),
        (key, Width::U32) => {
            Err(format!("keys of {key} are measured with values of u64: add --value u64").into())
        }
    }
}

fn open_typed<K: BenchKey + ScalarKey, V: BenchValue>(device: Device) -> Outcome<Box<dyn Backend>> {
    match device.is_cuda() {
        #[cfg(feature = "cuda")]
        true => Ok(Box::new(cuda::Cuda::<K, V>::new(device)?)),
        _ => Ok(Box::new(cpu::Cpu::<K, V>::new())),
    }
}

/// What the elements of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Key,
    Value,
    /// A count, a rank, or an offset.
    Count,
    /// Whether a key was found.
    Flag,
}

/// An array in a device's memory.
pub trait DeviceArray: Any {
    /// Copies a part to the host; flags become 0 or 1.
    fn copy(&self, part: Range<usize>) -> Outcome<Vec<u64>>;
}

pub type Array = Box<dyn DeviceArray>;

/// Returns the array that a backend made, with its own type.
fn typed<T: 'static>(array: &Array) -> &T {
    let array: &dyn Any = &**array;
    array.downcast_ref().expect("an array of this backend and kind")
}

fn typed_mut<T: 'static>(array: &mut Array) -> &mut T {
    let array: &mut dyn Any = &mut **array;
    array.downcast_mut().expect("an array of this backend and kind")
}

/// Returns `number(i)` for every i below `len`, computed on all cores.
fn numbers<T: Numbered>(len: usize, number: &(dyn Fn(usize) -> u64 + Sync)) -> Vec<T> {
    generate(len, &|index| T::of_number(number(index)))
}

/// Returns the dictionary that a backend made, with its own type.
fn dictionary<K: BenchKey, V: BenchValue>(any: &dyn AnyDictionary) -> &Dictionary<K, V> {
    let any: &dyn Any = any;
    any.downcast_ref().expect("a dictionary of this backend")
}

fn dictionary_mut<K: BenchKey, V: BenchValue>(
    any: &mut dyn AnyDictionary,
) -> &mut Dictionary<K, V> {
    let any: &mut dyn Any = any;
    any.downcast_mut().expect("a dictionary of this backend")
}

/// How a dictionary maintains itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// The library's defaults.
    Automatic,
    /// No cleanup but on request.
    Manual,
    /// The same, with a memory limit of as many bytes.
    Limited(u64),
    /// No cleanup but on request, and every merge is done with the batch that causes it: the paper's levels after every
    /// batch.
    PaperLevels,
}

fn settings<K: BenchKey, V: BenchValue>(
    batch_size: usize,
    upkeep: Upkeep,
    rule: Combine,
) -> Builder<K, V> {
    let settings = Dictionary::builder().batch_size(batch_size).combine(rule);
    match upkeep {
        Upkeep::Automatic => settings,
        Upkeep::Limited(bytes) => {
            settings.cleanup_policy(CleanupPolicy::Manual).memory_limit(bytes)
        }
        Upkeep::Manual => settings.cleanup_policy(CleanupPolicy::Manual),
        Upkeep::PaperLevels => {
            settings.cleanup_policy(CleanupPolicy::Manual).max_merge_per_batch(usize::MAX)
        }
    }
}

/// A device with its arrays and its clock.
pub trait Backend {
    /// Makes an empty dictionary on the device.
    fn dictionary(&self, batch_size: usize, upkeep: Upkeep) -> Outcome<Box<dyn AnyDictionary>> {
        self.combining(batch_size, upkeep, Combine::Replace)
    }

    /// Makes an empty dictionary on the device, whose values combine by a rule.
    fn combining(
        &self,
        batch_size: usize,
        upkeep: Upkeep,
        rule: Combine,
    ) -> Outcome<Box<dyn AnyDictionary>>;

    /// Makes an empty dictionary with several shards on the device, which share its threads if it is a CPU.
    fn sharded(&self, batch_size: usize, shards: usize) -> Outcome<Box<dyn AnyDictionary>>;

    /// Makes an array of which element i is `number(i)`.
    fn array(
        &self,
        kind: Kind,
        len: usize,
        number: &(dyn Fn(usize) -> u64 + Sync),
    ) -> Outcome<Array>;
    fn zeroed(&self, kind: Kind, len: usize) -> Outcome<Array>;

    /// Returns how many pairs one call may list, as a multiple of the pairs that a dictionary holds.
    fn max_listed_factor(&self) -> u64;
    /// Returns how many pairs one call may list if there is to be memory left for everything else.
    fn max_listed(&self) -> u64;

    /// Returns how many seconds the device takes for a job, from when it is idle until it is idle again.
    fn time(&self, job: &mut dyn FnMut() -> Outcome<()>) -> Outcome<f64>;

    /// Inserts a batch, which the dictionary may buffer.
    fn insert(
        &self,
        dictionary: &mut dyn AnyDictionary,
        pairs: &Pairs,
        part: Range<usize>,
    ) -> Outcome<()>;

    /// Inserts a batch and applies it.
    fn apply(
        &self,
        dictionary: &mut dyn AnyDictionary,
        pairs: &Pairs,
        part: Range<usize>,
    ) -> Outcome<()> {
        self.insert(dictionary, pairs, part)?;
        Ok(dictionary.flush()?)
    }

    /// Inserts and deletes in one batch, which the dictionary may buffer.
    fn update(
        &self,
        dictionary: &mut dyn AnyDictionary,
        inserts: (&Pairs, Range<usize>),
        deletes: (&Array, Range<usize>),
    ) -> Outcome<()>;

    /// Deletes the keys from that of one number to that of another, and applies it.
    fn delete_range(&self, dictionary: &mut dyn AnyDictionary, ends: (u64, u64)) -> Outcome<()>;

    /// Inserts the keys and values of two numbers, from the host's memory.
    fn insert_one(&self, dictionary: &mut dyn AnyDictionary, pair: (u64, u64)) -> Outcome<()>;
    /// Looks up the key of a number, for the host.
    fn lookup_one(&self, dictionary: &dyn AnyDictionary, key: u64) -> Outcome<Option<u64>>;

    fn lookup(
        &self,
        dictionary: &dyn AnyDictionary,
        keys: &Array,
        out: &mut LookupOut,
    ) -> Outcome<()>;
    fn count(
        &self,
        dictionary: &dyn AnyDictionary,
        ranges: &RangeEnds,
        counts: &mut Array,
    ) -> Outcome<()>;
    fn range(
        &self,
        dictionary: &dyn AnyDictionary,
        ranges: &RangeEnds,
        out: &mut RangeOut,
    ) -> Outcome<()>;
    /// Adds up the values of each range, and counts its keys.
    fn sum(
        &self,
        dictionary: &dyn AnyDictionary,
        ranges: &RangeEnds,
        sums: &mut Array,
        counts: &mut Array,
    ) -> Outcome<()>;
    fn rank(&self, dictionary: &dyn AnyDictionary, keys: &Array, ranks: &mut Array) -> Outcome<()>;
    fn successor(
        &self,
        dictionary: &dyn AnyDictionary,
        keys: &Array,
        out: &mut NearestOut,
    ) -> Outcome<()>;
    fn select(
        &self,
        dictionary: &dyn AnyDictionary,
        indices: &Array,
        out: &mut NearestOut,
    ) -> Outcome<()>;

    /// Saves a dictionary as one file.
    fn save(&self, dictionary: &dyn AnyDictionary, path: &Path) -> Outcome<()>;
    /// Loads a dictionary from one file.
    fn load(&self, path: &Path) -> Outcome<Box<dyn AnyDictionary>>;
    /// Opens the dictionary that lives in a folder. Dropping it closes the folder.
    fn open(&self, batch_size: usize, folder: InFolder<'_>) -> Outcome<Box<dyn AnyDictionary>>;
    /// Returns how many bytes a key and a value have.
    fn pair_bytes(&self) -> usize;
    /// Returns whether the device is a GPU.
    fn is_cuda(&self) -> bool {
        false
    }
    /// Copies pairs to fresh memory of the host, as bytes.
    fn copy_to_host(&self, pairs: &Pairs, part: Range<usize>) -> Outcome<()>;

    /// Returns whether there is what the dictionary is compared with, for keys of this type.
    fn has_baselines(&self) -> bool {
        true
    }

    /// Prepares a sort of the first `len` pairs.
    fn sort(&self, pairs: &Pairs, len: usize) -> Outcome<Box<dyn Sort>>;
    /// Makes an empty sorted array for `capacity` pairs, from batches of at most `batch`.
    fn sorted_array(&self, capacity: usize, batch: usize) -> Outcome<Box<dyn SortedArray>>;
    /// Makes a hash table for `capacity` pairs.
    fn hash_table(&self, capacity: usize) -> Outcome<Box<dyn HashTable>>;
}

/// Keys and their values.
pub struct Pairs {
    pub keys: Array,
    pub values: Array,
}

/// The closed ends of ranges.
pub struct RangeEnds {
    pub lo: Array,
    pub hi: Array,
    pub len: usize,
}

/// Room for the answers to lookups.
pub struct LookupOut {
    pub values: Array,
    pub found: Array,
}

/// Room for the pairs of ranges, and for where each range's pairs begin.
pub struct RangeOut {
    pub offsets: Array,
    pub keys: Array,
    pub values: Array,
}

/// Room for answers of at most one pair each.
pub struct NearestOut {
    pub keys: Array,
    pub values: Array,
    pub found: Array,
}
