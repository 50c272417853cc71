//! Queries on data that is on the GPU already: nothing is copied, and nothing is waited for.

use std::borrow::Cow;
use std::marker::PhantomData;

use crate::aggregate::{Aggregate, Fold, Number};
use crate::cuda::context::Cuda;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::{Address, PairsOutput};
use crate::cuda::query::range::{PairsRoom, RangeQueries};
use crate::cuda::resident::device_query::DeviceQuery;
use crate::cuda::resident::keys::decode;
use crate::cuda::resident::lend::Lent;
use crate::cuda::resident::shards;
use crate::cuda::resident::slice::{DeviceSlice, DeviceSliceMut};
use crate::cuda::resident::store::{CudaStore, on_cuda, on_shards};
use crate::cuda::resident::view::View;
use crate::error::Error;
use crate::key::{OrderedKey, ScalarKey};
use crate::query::{AsOf, Side};
use crate::shards::Shards;
use crate::store::AnyStore;
use crate::value::Value;

/// Queries on data in the GPU's memory, made by [`Dictionary::resident`](crate::Dictionary::resident) and
/// [`Snapshot::resident`](crate::Snapshot::resident).
///
/// Calls are put on the dictionary's stream and return at once. The first elements of an output are
/// written if it is longer than needed. They can be captured into a CUDA graph, if no batch is buffered
/// ([`flush`](crate::Dictionary::flush) before); the snapshot that was queried must then live for as long
/// as the graph is used.
///
/// ```no_run
/// # fn main() -> Result<(), gpulsm::Error> {
/// use gpulsm::cuda::{DeviceVec, Stream};
/// use gpulsm::{Device, Dictionary};
///
/// let device = Device::cuda(0)?;
/// let stream = Stream::new(device)?;
/// let mut dictionary = Dictionary::<u32, u32>::builder().stream(&stream).build()?;
/// let keys = DeviceVec::from_slice(&stream, &[30, 10, 20])?;
/// let values = DeviceVec::from_slice(&stream, &[3, 1, 2])?;
/// dictionary.resident_mut()?.insert(&keys, &values)?;
///
/// let mut answers = DeviceVec::zeroed(&stream, 3)?;
/// let mut found = DeviceVec::zeroed(&stream, 3)?;
/// dictionary.resident()?.lookup(&keys, &mut answers, &mut found)?;
/// assert_eq!(answers.to_vec()?, [3, 1, 2]);
/// # Ok(())
/// # }
/// ```
pub struct Resident<'a, K: ScalarKey, V: Value> {
    store: Target<'a, K::Ordered>,
    types: PhantomData<V>,
}

/// What answers queries.
enum Target<'a, B: OrderedKey> {
    /// A store on the GPU of the data.
    One(&'a dyn CudaStore),
    /// Several, of which at least one is on a GPU.
    Shards(&'a Shards<B>),
}

impl<'a, B: OrderedKey> Target<'a, B> {
    /// Returns an error if the store is not on a GPU.
    fn of(store: &'a dyn AnyStore<B>) -> Result<Self, Error> {
        match on_shards(store) {
            Some(shards) if shards::first_cuda(shards).is_some() => Ok(Target::Shards(shards)),
            _ => Ok(Target::One(on_cuda(store)?)),
        }
    }
}

impl<'a, K: ScalarKey, V: Value> Resident<'a, K, V> {
    pub(crate) fn new(store: &'a dyn AnyStore<K::Ordered>) -> Result<Self, Error> {
        Ok(Resident { store: Target::of(store)?, types: PhantomData })
    }

    /// Returns the stream that queries run on; that of the first shard on a GPU, if the dictionary has several.
    pub fn stream(&self) -> &'a Stream {
        match self.store {
            Target::One(store) => &store.cuda().stream,
            Target::Shards(shards) => &shards::first_cuda(shards).expect("one is on a GPU").stream,
        }
    }

    /// Returns the context that a call on data of this stream uses.
    fn cuda(&self, stream: &Stream) -> Result<Cow<'a, Cuda>, Error> {
        Ok(match self.store {
            Target::One(store) => Cow::Borrowed(store.cuda()),
            Target::Shards(shards) => Cow::Owned(shards::dividing_cuda(shards, stream)?),
        })
    }

    /// Returns whether each key is there (1 or 0), and its value, or zeros.
    pub fn lookup<'d>(
        &self,
        keys: impl Into<DeviceSlice<'d, K>>,
        values: impl Into<DeviceSliceMut<'d, V>>,
        found: impl Into<DeviceSliceMut<'d, u8>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let values: DeviceSliceMut<'_, V> = values.into();
        let found: DeviceSliceMut<'_, u8> = found.into();
        let cuda = self.cuda(keys.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = keys.len() as u64;
        let (keys, values) = (lent.keys(keys)?, lent.output("values", &values, len)?);
        let found = lent.output("found", &found, len)?;
        let query = DeviceQuery::Lookup { keys: keys.address, len, values, found };
        self.answer(&lent, &query)?;
        lent.end()
    }

    /// Returns whether each key is there (1 or 0).
    pub fn contains<'d>(
        &self,
        keys: impl Into<DeviceSlice<'d, K>>,
        found: impl Into<DeviceSliceMut<'d, u8>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let found: DeviceSliceMut<'_, u8> = found.into();
        let cuda = self.cuda(keys.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = keys.len() as u64;
        let (keys, found) = (lent.keys(keys)?, lent.output("found", &found, len)?);
        let query = DeviceQuery::Lookup { keys: keys.address, len, values: 0, found };
        self.answer(&lent, &query)?;
        lent.end()
    }

    /// Counts, for each i, the keys k with `lo[i]` ≤ k ≤ `hi[i]`.
    pub fn count<'d>(
        &self,
        lo: impl Into<DeviceSlice<'d, K>>,
        hi: impl Into<DeviceSlice<'d, K>>,
        counts: impl Into<DeviceSliceMut<'d, u64>>,
    ) -> Result<(), Error> {
        let lo: DeviceSlice<'_, K> = lo.into();
        let hi: DeviceSlice<'_, K> = hi.into();
        let counts: DeviceSliceMut<'_, u64> = counts.into();
        let cuda = self.cuda(lo.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = lo.len() as u64;
        let ranges = lent.ranges(lo, hi)?;
        let counts = lent.output("counts", &counts, len)?;
        let ranges = RangeQueries { lo: ranges.0.address, hi: ranges.1.address, len };
        self.answer(&lent, &DeviceQuery::Count { ranges, counts })?;
        lent.end()
    }

    /// Counts, for each key, the keys that are less.
    pub fn rank<'d>(
        &self,
        keys: impl Into<DeviceSlice<'d, K>>,
        ranks: impl Into<DeviceSliceMut<'d, u64>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let ranks: DeviceSliceMut<'_, u64> = ranks.into();
        let cuda = self.cuda(keys.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = keys.len() as u64;
        let (keys, ranks) = (lent.keys(keys)?, lent.output("ranks", &ranks, len)?);
        self.answer(&lent, &DeviceQuery::Rank { keys: keys.address, len, ranks })?;
        lent.end()
    }

    /// Returns where the pairs of each range begin when all are laid end to end, and where the last end:
    /// one offset more than there are ranges.
    pub fn range_offsets<'d>(
        &self,
        lo: impl Into<DeviceSlice<'d, K>>,
        hi: impl Into<DeviceSlice<'d, K>>,
        offsets: impl Into<DeviceSliceMut<'d, u64>>,
    ) -> Result<(), Error> {
        let lo: DeviceSlice<'_, K> = lo.into();
        let hi: DeviceSlice<'_, K> = hi.into();
        let offsets: DeviceSliceMut<'_, u64> = offsets.into();
        let cuda = self.cuda(lo.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = lo.len() as u64;
        let ranges = lent.ranges(lo, hi)?;
        let offsets = lent.output("offsets", &offsets, len + 1)?;
        let ranges = RangeQueries { lo: ranges.0.address, hi: ranges.1.address, len };
        self.answer(&lent, &DeviceQuery::RangeOffsets { ranges, offsets })?;
        lent.end()
    }

    /// Returns the same offsets and, if there is room for all of them in `keys` and `values`, the pairs of
    /// each range at its own. If there is not, no pair is written: the last offset says how many
    /// there are.
    pub fn range<'d>(
        &self,
        lo: impl Into<DeviceSlice<'d, K>>,
        hi: impl Into<DeviceSlice<'d, K>>,
        offsets: impl Into<DeviceSliceMut<'d, u64>>,
        keys: impl Into<DeviceSliceMut<'d, K>>,
        values: impl Into<DeviceSliceMut<'d, V>>,
    ) -> Result<(), Error> {
        let lo: DeviceSlice<'_, K> = lo.into();
        let hi: DeviceSlice<'_, K> = hi.into();
        let offsets: DeviceSliceMut<'_, u64> = offsets.into();
        let keys: DeviceSliceMut<'_, K> = keys.into();
        let values: DeviceSliceMut<'_, V> = values.into();
        let room =
            keys.len().min(if size_of::<V>() == 0 { keys.len() } else { values.len() }) as u64;
        let cuda = self.cuda(lo.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = lo.len() as u64;
        let ranges = lent.ranges(lo, hi)?;
        let offsets = lent.output("offsets", &offsets, len + 1)?;
        let values = lent.output("values", &values, if size_of::<V>() == 0 { 0 } else { room })?;
        let keys = lent.output("keys", &keys, room)?;
        let ranges = RangeQueries { lo: ranges.0.address, hi: ranges.1.address, len };
        let pairs = PairsRoom { keys, values, len: room };
        self.answer(&lent, &DeviceQuery::Range { ranges, offsets, pairs })?;
        decode::<K>(lent.cuda(), keys, room, 0, offsets + len * size_of::<u64>() as u64)?;
        lent.end()
    }

    /// Returns what the values of each range are combined to, and how many keys it has: zeros for a range
    /// without keys.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::cuda::{DeviceVec, Stream};
    /// use gpulsm::{Device, Dictionary, Sum};
    ///
    /// let stream = Stream::new(Device::cuda(0)?)?;
    /// let mut dictionary = Dictionary::<u32, u32>::builder().stream(&stream).build()?;
    /// dictionary.insert(&[10, 20, 30], &[1, 2, 3])?;
    /// let lo = DeviceVec::from_slice(&stream, &[0, 15])?;
    /// let hi = DeviceVec::from_slice(&stream, &[25, 99])?;
    /// let mut sums = DeviceVec::<u64>::zeroed(&stream, 2)?;
    /// let mut counts = DeviceVec::<u64>::zeroed(&stream, 2)?;
    /// dictionary.resident()?.aggregate(&lo, &hi, Sum, &mut sums, &mut counts)?;
    /// assert_eq!(sums.to_vec()?, [3, 5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn aggregate<'d, A: Aggregate<V>>(
        &self,
        lo: impl Into<DeviceSlice<'d, K>>,
        hi: impl Into<DeviceSlice<'d, K>>,
        _aggregate: A,
        answers: impl Into<DeviceSliceMut<'d, A::Answer>>,
        counts: impl Into<DeviceSliceMut<'d, u64>>,
    ) -> Result<(), Error>
    where
        V: Number,
    {
        let answers: DeviceSliceMut<'_, A::Answer> = answers.into();
        let counts: DeviceSliceMut<'_, u64> = counts.into();
        let lo: DeviceSlice<'_, K> = lo.into();
        let cuda = self.cuda(lo.stream())?;
        let lent = Lent::new(&cuda)?;
        let out = lent.output("answers", &answers, lo.len() as u64)?;
        self.fold(lent, (lo, hi.into()), Fold::new::<V, A>(), out, &counts)
    }

    /// The same for what is known at run time only: the values must be made of such elements.
    #[doc(hidden)]
    pub fn aggregate_bytes<'d>(
        &self,
        lo: impl Into<DeviceSlice<'d, K>>,
        hi: impl Into<DeviceSlice<'d, K>>,
        fold: Fold,
        answers: impl Into<DeviceSliceMut<'d, u8>>,
        counts: impl Into<DeviceSliceMut<'d, u64>>,
    ) -> Result<(), Error> {
        let answers: DeviceSliceMut<'_, u8> = answers.into();
        let counts: DeviceSliceMut<'_, u64> = counts.into();
        let lo: DeviceSlice<'_, K> = lo.into();
        let cuda = self.cuda(lo.stream())?;
        let lent = Lent::new(&cuda)?;
        let bytes = (lo.len() * fold.answer_width(size_of::<V>())) as u64;
        let out = lent.output("answers", &answers, bytes)?;
        self.fold(lent, (lo, hi.into()), fold, out, &counts)
    }

    fn fold(
        &self,
        lent: Lent<'_>,
        (lo, hi): (DeviceSlice<'_, K>, DeviceSlice<'_, K>),
        fold: Fold,
        answers: Address,
        counts: &DeviceSliceMut<'_, u64>,
    ) -> Result<(), Error> {
        let len = lo.len() as u64;
        let ranges = lent.ranges(lo, hi)?;
        let counts = lent.output("counts", counts, len)?;
        let ranges = RangeQueries { lo: ranges.0.address, hi: ranges.1.address, len };
        self.answer(&lent, &DeviceQuery::Aggregate { ranges, fold, answers, counts })?;
        lent.end()
    }

    /// Returns, for each index, the pair at that position in key order, and whether there is one (1 or 0).
    pub fn select<'d>(
        &self,
        indices: impl Into<DeviceSlice<'d, u64>>,
        keys: impl Into<DeviceSliceMut<'d, K>>,
        values: impl Into<DeviceSliceMut<'d, V>>,
        found: impl Into<DeviceSliceMut<'d, u8>>,
    ) -> Result<(), Error> {
        let indices: DeviceSlice<'_, u64> = indices.into();
        let keys: DeviceSliceMut<'_, K> = keys.into();
        let values: DeviceSliceMut<'_, V> = values.into();
        let found: DeviceSliceMut<'_, u8> = found.into();
        let cuda = self.cuda(indices.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = indices.len() as u64;
        let indices = lent.input(indices)?;
        let pairs = lent.pairs(("keys", &keys), &values, &found, len)?;
        self.answer(&lent, &DeviceQuery::Select { indices, len, pairs })?;
        decode::<K>(lent.cuda(), pairs.keys, len, pairs.found, 0)?;
        lent.end()
    }

    /// Returns, for each key, the nearest pair whose key is not less, and whether there is one (1 or 0).
    pub fn successor<'d>(
        &self,
        keys: impl Into<DeviceSlice<'d, K>>,
        out_keys: impl Into<DeviceSliceMut<'d, K>>,
        values: impl Into<DeviceSliceMut<'d, V>>,
        found: impl Into<DeviceSliceMut<'d, u8>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let out_keys: DeviceSliceMut<'_, K> = out_keys.into();
        let values: DeviceSliceMut<'_, V> = values.into();
        let found: DeviceSliceMut<'_, u8> = found.into();
        self.nearest(Side::Successor, keys, out_keys, values, found)
    }

    /// Returns, for each key, the nearest pair whose key is not greater, and whether there is one (1 or 0).
    pub fn predecessor<'d>(
        &self,
        keys: impl Into<DeviceSlice<'d, K>>,
        out_keys: impl Into<DeviceSliceMut<'d, K>>,
        values: impl Into<DeviceSliceMut<'d, V>>,
        found: impl Into<DeviceSliceMut<'d, u8>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let out_keys: DeviceSliceMut<'_, K> = out_keys.into();
        let values: DeviceSliceMut<'_, V> = values.into();
        let found: DeviceSliceMut<'_, u8> = found.into();
        self.nearest(Side::Predecessor, keys, out_keys, values, found)
    }

    fn nearest(
        &self,
        side: Side,
        keys: DeviceSlice<'_, K>,
        out_keys: DeviceSliceMut<'_, K>,
        values: DeviceSliceMut<'_, V>,
        found: DeviceSliceMut<'_, u8>,
    ) -> Result<(), Error> {
        self.pairs(keys, out_keys, values, found, |keys, len, pairs| DeviceQuery::Nearest {
            side,
            keys,
            len,
            pairs,
        })
    }

    /// Returns, for each key, the nearest pair that agrees with it in all parts but the last, and whether there
    /// is one (1 or 0). The keys are packed, unless they have one part.
    #[doc(hidden)]
    pub fn asof<'d>(
        &self,
        query: &AsOf,
        keys: impl Into<DeviceSlice<'d, K>>,
        out_keys: impl Into<DeviceSliceMut<'d, K>>,
        values: impl Into<DeviceSliceMut<'d, V>>,
        found: impl Into<DeviceSliceMut<'d, u8>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let out_keys: DeviceSliceMut<'_, K> = out_keys.into();
        let values: DeviceSliceMut<'_, V> = values.into();
        let found: DeviceSliceMut<'_, u8> = found.into();
        self.pairs(keys, out_keys, values, found, |keys, len, pairs| DeviceQuery::AsOf {
            asof: query,
            keys,
            len,
            pairs,
        })
    }

    /// Has at most one pair found for each key.
    fn pairs<'q>(
        &self,
        keys: DeviceSlice<'_, K>,
        out_keys: DeviceSliceMut<'_, K>,
        values: DeviceSliceMut<'_, V>,
        found: DeviceSliceMut<'_, u8>,
        query: impl FnOnce(Address, u64, PairsOutput) -> DeviceQuery<'q>,
    ) -> Result<(), Error> {
        let cuda = self.cuda(keys.stream())?;
        let lent = Lent::new(&cuda)?;
        let len = keys.len() as u64;
        let keys = lent.keys(keys)?;
        let pairs = lent.pairs(("out_keys", &out_keys), &values, &found, len)?;
        self.answer(&lent, &query(keys.address, len, pairs))?;
        decode::<K>(lent.cuda(), pairs.keys, len, pairs.found, 0)?;
        lent.end()
    }

    /// Returns the dictionary as a user's own kernel sees it: see [`View`].
    ///
    /// # Errors
    ///
    /// [`Sharded`](Error::Sharded) if the dictionary has several shards.
    pub fn view(&self) -> Result<View<'a, K, V>, Error> {
        match self.store {
            Target::One(store) => View::new(store),
            Target::Shards(shards) => Err(Error::Sharded { shards: shards.count() }),
        }
    }

    /// Answers a query on data that was lent for it.
    fn answer(&self, lent: &Lent<'_>, query: &DeviceQuery<'_>) -> Result<(), Error> {
        match self.store {
            Target::One(store) => query.answer(store, lent.cuda()),
            Target::Shards(shards) => shards::answer(shards, lent.cuda(), query),
        }
    }
}
