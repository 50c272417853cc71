//! Settings of a dictionary, and its construction.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::aggregate::{Element, Number};
use crate::batch::{Batch, Duplicates, Updates};
use crate::combine::{Combine, Combiner};
use crate::device::{Device, Devices};
use crate::dictionary::Dictionary;
use crate::durable::FileTypes;
use crate::error::{Error, MAX_BATCH_SIZE, MAX_SHARDS, check_lengths};
use crate::files::Durability;
use crate::key::{self, Key};
use crate::open::{Location, open};
use crate::store::{CleanupPolicy, Settings};
use crate::typed::{StoredTypes, TypedStore};
use crate::value::Value;

/// Creates a [`Dictionary`] with settings other than the defaults.
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
    /// Default: the best one. Several: a shard on each.
    devices: Option<Vec<Device>>,
    #[cfg(feature = "cuda")]
    stream: Option<crate::cuda::Stream>,
    pub(crate) batch_size: Option<usize>,
    pub(crate) settings: Settings,
    pub(crate) durability: Durability,
    pub(crate) log_limit: Option<u64>,
    pub(crate) creates: bool,
    pub(crate) stored_as: Option<Arc<StoredTypes>>,
    duplicates: Duplicates,
    /// Default: the rule of the files, if any, or to replace.
    combine: Option<(Combine, Element)>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Default for Builder<K, V> {
    fn default() -> Self {
        Builder {
            devices: None,
            #[cfg(feature = "cuda")]
            stream: None,
            batch_size: None,
            settings: Settings::default(),
            durability: Durability::default(),
            log_limit: None,
            creates: true,
            stored_as: None,
            duplicates: Duplicates::default(),
            combine: None,
            types: PhantomData,
        }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    /// Sets the size b that batches are expected to have, from 1 to [`MAX_BATCH_SIZE`]. Default:
    /// [`DEFAULT_BATCH_SIZE`](crate::DEFAULT_BATCH_SIZE).
    ///
    /// Any call may be shorter or longer. A larger b means fewer levels and faster queries; with a b near
    /// the usual length of a call, updates cost least.
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.batch_size = Some(batch_size);
        self
    }

    /// Sets where the dictionary lives. Default: [`Device::best`].
    pub fn device(mut self, device: Device) -> Self {
        #[cfg(feature = "cuda")]
        self.stream.take_if(|stream| stream.device() != device);
        self.devices = Some(vec![device]);
        self
    }

    /// Sets several devices for the dictionary to live on: from 1 to [`MAX_SHARDS`], in any mixture, and the same one
    /// as often as it is named.
    ///
    /// Each has a *shard*: the keys between two *splitters*, which come from a sample of the first batch. A shard that
    /// has over 1.5 times as many keys as the others on average gives some to its neighbours, at most a batch with each
    /// update. Answers are those of a dictionary on one device. An update happens on all shards or on none, a snapshot
    /// is one of all shards, and files have one log. Shards work at the same time.
    ///
    /// [`threads`](Builder::threads) is for each shard on the CPU, and [`memory_limit`](Builder::memory_limit) for all
    /// together. Data in the memory of a GPU that has a shard is taken and answered there, though not in graphs.
    /// Streams and views belong to one device: a dictionary on several refuses them with [`Error::Sharded`].
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Device, Dictionary};
    ///
    /// let devices = [Device::cpu(), Device::cpu()];
    /// let mut d = Dictionary::<u64, u64>::builder().devices(&devices).build()?;
    /// d.insert(&[1, 2, 3, 4], &[10, 20, 30, 40])?;
    /// assert_eq!(d.count_one(2..)?, 3);
    /// assert_eq!(d.stats()?.shards.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn devices(mut self, devices: &[Device]) -> Self {
        #[cfg(feature = "cuda")]
        self.stream.take_if(|stream| devices != [stream.device()]);
        self.devices = Some(devices.to_vec());
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

    /// Sets the most bytes that the dictionary, its clones and its snapshots may take together, with the
    /// working space of sorting, merging and searching. Answers, and keys on their way in or out of a
    /// call, are the caller's and not counted. Default: no limit.
    ///
    /// A call that would need more fails with [`Error::OutOfMemory`] and changes nothing. How full a dictionary gets
    /// is in `docs/memory.md`: on Linux, pairs can take about four fifths of a limit of 1 MB, and more of larger ones, as
    /// long as no clone or snapshot shares them; otherwise two fifths.
    ///
    /// Inserts are refused once there would be no room left for a cleanup. So a dictionary that is full has
    /// room again after keys are deleted, in batches of at most b or a tenth of all keys, and
    /// [`Dictionary::cleanup`] is called. There is no such promise while clones or snapshots hold memory of
    /// the same limit, or if the limit is less than 300 kB.
    /// [`Dictionary::clear`] always works.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.settings.memory_limit = Some(bytes);
        self
    }

    /// Sets the same limit for each of [several devices](Builder::devices), instead of one for all together. Shards on
    /// the same device share it.
    pub fn memory_limit_per_device(mut self, bytes: u64) -> Self {
        self.settings.memory_limit_per_device = Some(bytes);
        self
    }

    /// Sets about how many entries one batch merges at most. Default: as many as take a few times as long
    /// as a usual batch.
    ///
    /// Now and then a batch would merge many runs into one, which takes long. If that is more entries than
    /// this (and than 16 times the batch), the merge is deferred: a part of it is done with each of the
    /// following batches. Until then queries have more runs to search, and memory holds both. If it is set,
    /// it also bounds how many updates are buffered, so that applying them takes no longer than other batches
    /// do. `usize::MAX` merges everything at once.
    pub fn max_merge_per_batch(mut self, entries: usize) -> Self {
        self.settings.max_merge_per_batch = Some(entries);
        self
    }

    /// Sets when stale entries are removed. Default: [`CleanupPolicy::Automatic`].
    pub fn cleanup_policy(mut self, policy: CleanupPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Sets which pair wins if [`bulk_build`](Builder::bulk_build) is given a key several times. Default: the
    /// last. (For later updates, see [`Batch::duplicates`].)
    pub fn duplicates(mut self, duplicates: Duplicates) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// Sets what an insert does to a key that is already there. Default: the rule of the dictionary that is
    /// [opened](Builder::open) or [loaded](Builder::load); of a new one, [`Combine::Replace`].
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Combine, Dictionary};
    ///
    /// let mut counters = Dictionary::<u64, u32>::builder().combine(Combine::Add).build()?;
    /// counters.insert(&[7, 8, 7], &[1, 1, 1])?;
    /// counters.insert(&[7], &[10])?;
    /// assert_eq!(counters.lookup(&[7, 8])?, [Some(12), Some(1)]);
    /// counters.set(&[7], &[0])?;
    /// assert_eq!(counters.lookup_one(7)?, Some(0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Values that are not numbers, or arrays of them, don't compile:
    ///
    /// ```compile_fail
    /// use gpulsm::{Combine, Dictionary};
    ///
    /// let builder = Dictionary::<u64, u128>::builder().combine(Combine::Add);
    /// ```
    pub fn combine(self, rule: Combine) -> Self
    where
        V: Number,
    {
        self.combine_as(rule, V::ELEMENT)
    }

    /// Sets how values combine that are made of such elements.
    #[doc(hidden)]
    pub fn combine_as(mut self, rule: Combine, element: Element) -> Self {
        self.combine = Some((rule, element));
        self
    }

    /// Sets the stream that the dictionary's calls run on, and with it the device. Default: a stream of its
    /// own.
    #[cfg(feature = "cuda")]
    pub fn stream(mut self, stream: &crate::cuda::Stream) -> Self {
        self.devices = Some(vec![stream.device()]);
        self.stream = Some(stream.clone());
        self
    }

    /// Creates an empty dictionary.
    ///
    /// # Errors
    ///
    /// [`BatchSize`](Error::BatchSize), [`Setting`](Error::Setting) or [`Threads`](Error::Threads) for a
    /// setting out of its range; [`CannotCombine`](Error::CannotCombine) for bitwise operations on floats;
    /// [`NoCudaDevice`](Error::NoCudaDevice) for a GPU that can't be used.
    pub fn build(self) -> Result<Dictionary<K, V>, Error> {
        Ok(Dictionary { store: self.validated()?.empty_store()?, journal: None })
    }

    /// Returns the same builder if its settings are possible ones.
    pub(crate) fn validated(mut self) -> Result<Self, Error> {
        let given = self.batch_size.unwrap_or(self.settings.batch_size);
        if given == 0 || given > MAX_BATCH_SIZE {
            return Err(Error::BatchSize { given });
        }
        let devices = self.devices.as_ref().map_or(1, Vec::len);
        if !(1..=MAX_SHARDS).contains(&devices) {
            return Err(Error::Devices { given: devices });
        }
        let entries = self.settings.max_merge_per_batch.map(|entries| entries as u64);
        let threads = self.settings.threads.map(|threads| threads as u64);
        for (setting, given) in [
            ("memory_limit", self.settings.memory_limit),
            ("memory_limit_per_device", self.settings.memory_limit_per_device),
            ("max_merge_per_batch", entries),
            ("threads", threads),
            ("log_limit", self.log_limit),
        ] {
            if given == Some(0) {
                return Err(Error::Setting { setting, given: 0 });
            }
        }
        self.settings.batch_size = given;
        if let Some((rule, element)) = self.combine {
            self.settings.combiner = Combiner::new(rule, element, V::TYPE.width())?;
        }
        Ok(self)
    }

    /// Returns the same builder with the rule of files, unless one is set.
    pub(crate) fn with_stored_rule(mut self, types: &FileTypes) -> Result<Self, Error> {
        if let (None, Some(element)) = (self.combine, types.element) {
            self.settings.combiner = Combiner::new(types.rule, element, types.value_width)?;
        }
        Ok(self)
    }

    /// Creates an empty store by settings that were validated.
    pub(crate) fn empty_store(self) -> Result<TypedStore<K, V>, Error> {
        #[cfg_attr(not(feature = "testing"), expect(unused_mut))]
        let mut devices = self.devices.unwrap_or_else(|| vec![Device::best()]);
        #[cfg(feature = "testing")]
        if let [device] = devices[..] {
            devices = vec![device; shards_for_tests()];
        }
        let location = |&device| Location {
            device,
            #[cfg(feature = "cuda")]
            stream: self.stream.clone(),
        };
        let locations: Vec<Location> = devices.iter().map(location).collect();
        let store = open(&locations, &self.settings, V::TYPE.width())?;
        let mut store = TypedStore::new(Devices::new(&devices), store);
        store.stored_as = self.stored_as;
        Ok(store)
    }

    /// Creates a dictionary of these pairs, at the cost of one sort.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Builder::build); [`LengthMismatch`](Error::LengthMismatch);
    /// [`DuplicateKey`](Error::DuplicateKey) if none are allowed;
    /// [`DuplicatesCombine`](Error::DuplicatesCombine) if both `duplicates` and `combine` are set;
    /// [`OutOfMemory`](Error::OutOfMemory).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Dictionary, Duplicates};
    ///
    /// let builder = Dictionary::<u32, u32>::builder().duplicates(Duplicates::First);
    /// let dictionary = builder.bulk_build(&[7, 8, 7], &[1, 2, 3])?;
    /// assert_eq!(dictionary.to_vecs()?, (vec![7, 8], vec![1, 2]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_build(self, keys: &[K], values: &[V]) -> Result<Dictionary<K, V>, Error> {
        let batch = Batch::new().insert(keys, values).duplicates(self.duplicates);
        let mut dictionary = self.build()?;
        dictionary.update(batch)?;
        Ok(dictionary)
    }

    /// Creates a dictionary of these pairs, whose keys are strictly ascending, without sorting.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Builder::build); [`LengthMismatch`](Error::LengthMismatch);
    /// [`NotSorted`](Error::NotSorted), which names the first key out of order;
    /// [`OutOfMemory`](Error::OutOfMemory).
    pub fn from_sorted(self, keys: &[K], values: &[V]) -> Result<Dictionary<K, V>, Error> {
        check_lengths(("keys", keys.len()), ("values", values.len()))?;
        let ordered = key::encode(keys)?;
        if let Some(index) = ordered.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Error::NotSorted { index: index + 1 });
        }
        let mut dictionary = self.build()?;
        dictionary
            .store
            .any_mut()
            .apply(&Updates::sorted(ordered, bytemuck::cast_slice(values)))?;
        Ok(dictionary)
    }
}

/// Returns how many shards tests want a dictionary on one device to have.
#[cfg(feature = "testing")]
fn shards_for_tests() -> usize {
    static SHARDS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *SHARDS.get_or_init(|| {
        let shards = std::env::var("GPULSM_SHARDS").ok();
        shards.and_then(|shards| shards.parse().ok()).unwrap_or(1)
    })
}
