//! A frozen view of a dictionary: everything that can be asked.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::device::Device;
use crate::error::{Error, check_buffer, check_lengths, try_with_capacity, try_zeroed};
use crate::iter::Iter;
use crate::key::{self, Key, OrderedKey};
use crate::query::{PairsOut, Query, Ranges, Side};
use crate::stats::Stats;
use crate::store::{AnyStore, CleanupPolicy};
use crate::value::Value;

/// A dictionary as it was at one moment, made by [`Dictionary::snapshot`](crate::Dictionary::snapshot).
///
/// Snapshots share their memory with the dictionary and with each other, cost next to nothing, and
/// can be sent to and read from any thread while the dictionary goes on taking updates.
///
/// Each query answers a whole batch. The variants that end in `_into` write into the caller's
/// buffers, whose first elements are used if they are longer than needed; the others return vectors.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// let mut dictionary: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i * 10, i)).collect();
/// let before = dictionary.snapshot();
/// dictionary.clear();
/// let answers = std::thread::spawn(move || before.lookup(&[500, 501])).join().unwrap()?;
/// assert_eq!(answers, [Some(50), None]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot<K: Key, V: Value> {
    device: Device,
    store: Box<dyn AnyStore<K::Ordered>>,
    values: PhantomData<V>,
}

/// Answers of at most one pair per query.
type MaybePairs<K, V> = Vec<Option<(K, V)>>;

/// Queries that return at most one pair each.
enum PairQuery<'a, B> {
    Nearest(Side, &'a [B]),
    Select(&'a [u64]),
}

impl<B> PairQuery<'_, B> {
    fn len(&self) -> usize {
        match self {
            PairQuery::Nearest(_, keys) => keys.len(),
            PairQuery::Select(indices) => indices.len(),
        }
    }
}

impl<K: Key, V: Value> Snapshot<K, V> {
    pub(crate) fn new(device: Device, store: Box<dyn AnyStore<K::Ordered>>) -> Self {
        Snapshot { device, store, values: PhantomData }
    }

    #[cfg(any(feature = "cuda", feature = "testing"))]
    pub(crate) fn store(&self) -> &dyn AnyStore<K::Ordered> {
        &*self.store
    }

    pub(crate) fn store_mut(&mut self) -> &mut dyn AnyStore<K::Ordered> {
        &mut *self.store
    }

    /// The device that holds the dictionary.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The batch size b.
    pub fn batch_size(&self) -> usize {
        self.store.batch_size()
    }

    /// When stale entries are removed.
    pub fn cleanup_policy(&self) -> CleanupPolicy {
        self.store.policy()
    }

    /// How many keys there are, exactly.
    pub fn len(&self) -> Result<usize, Error> {
        Ok(self.store.len()? as usize)
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// For each key its value, or nothing.
    pub fn lookup(&self, keys: &[K]) -> Result<Vec<Option<V>>, Error> {
        let mut values = try_zeroed(keys.len())?;
        let mut found = try_zeroed(keys.len())?;
        self.lookup_into(keys, &mut values, &mut found)?;
        let answers = values.into_iter().zip(found);
        collect(keys.len(), answers.map(|(value, found)| found.then_some(value)))
    }

    /// [`lookup`](Snapshot::lookup) into buffers: `found[i]` says whether `keys[i]` is there;
    /// `values[i]` is its value, or 0.
    pub fn lookup_into(
        &self,
        keys: &[K],
        values: &mut [V],
        found: &mut [bool],
    ) -> Result<(), Error> {
        let values = Some(bytemuck::cast_slice_mut(first("values", values, keys.len())?));
        let found = first("found", found, keys.len())?;
        self.store.answer(Query::Lookup { keys: &key::encode(keys)?, values, found })
    }

    /// For each key whether it is there.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>, Error> {
        let mut found = try_zeroed(keys.len())?;
        self.contains_into(keys, &mut found)?;
        Ok(found)
    }

    /// [`contains`](Snapshot::contains) into a buffer.
    pub fn contains_into(&self, keys: &[K], found: &mut [bool]) -> Result<(), Error> {
        let found = first("found", found, keys.len())?;
        self.store.answer(Query::Lookup { keys: &key::encode(keys)?, values: None, found })
    }

    /// For each i, how many keys k there are with `lo[i]` ≤ k ≤ `hi[i]`; 0 if `lo[i]` > `hi[i]`.
    pub fn count(&self, lo: &[K], hi: &[K]) -> Result<Vec<u64>, Error> {
        let mut counts = try_zeroed(lo.len())?;
        self.count_into(lo, hi, &mut counts)?;
        Ok(counts)
    }

    /// [`count`](Snapshot::count) into a buffer.
    pub fn count_into(&self, lo: &[K], hi: &[K], counts: &mut [u64]) -> Result<(), Error> {
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        let counts = first("counts", counts, lo.len())?;
        self.store.answer(Query::Count { lo: &key::encode(lo)?, hi: &key::encode(hi)?, counts })
    }

    /// For each i, the pairs with `lo[i]` ≤ key ≤ `hi[i]`, in key order.
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let squares: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i * i)).collect();
    /// let ranges = squares.range(&[10, 98], &[12, 1000])?;
    /// assert_eq!(ranges.get(0), (&[10, 11, 12][..], &[100, 121, 144][..]));
    /// assert_eq!(ranges.get(1).0, [98, 99]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, lo: &[K], hi: &[K]) -> Result<Ranges<K, V>, Error> {
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        self.ordered_ranges(&key::encode(lo)?, &key::encode(hi)?)
    }

    /// The pairs of ranges whose ends are mapped already.
    fn ordered_ranges(&self, lo: &[K::Ordered], hi: &[K::Ordered]) -> Result<Ranges<K, V>, Error> {
        let mut offsets = try_zeroed(lo.len() + 1)?;
        self.store.answer(Query::RangeOffsets { lo, hi, offsets: &mut offsets })?;
        let total = offsets[lo.len()];
        let (mut keys, mut values) = (try_zeroed(total)?, try_zeroed(total)?);
        self.ordered_ranges_into(lo, hi, &mut offsets, &mut keys, &mut values)?;
        Ok(Ranges { offsets, keys, values })
    }

    /// [`range`](Snapshot::range) into buffers: answer i lies from `offsets[i]` to `offsets[i + 1]`
    /// of `keys` and `values`. Returns how many pairs there are in all.
    ///
    /// If `keys` or `values` is too short, the error says how much is needed, and `offsets` is
    /// filled all the same.
    pub fn range_into(
        &self,
        lo: &[K],
        hi: &[K],
        offsets: &mut [usize],
        keys: &mut [K],
        values: &mut [V],
    ) -> Result<usize, Error> {
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        let offsets = first("offsets", offsets, lo.len() + 1)?;
        self.ordered_ranges_into(&key::encode(lo)?, &key::encode(hi)?, offsets, keys, values)
    }

    /// [`range_into`](Snapshot::range_into) with ends that are mapped already.
    fn ordered_ranges_into(
        &self,
        lo: &[K::Ordered],
        hi: &[K::Ordered],
        offsets: &mut [usize],
        keys: &mut [K],
        values: &mut [V],
    ) -> Result<usize, Error> {
        let (keys_given, values_given) = (keys.len(), values.len());
        let room = keys_given.min(values_given);
        let (keys, values) = (&mut keys[..room], &mut values[..room]);
        self.store.answer(Query::Range {
            lo,
            hi,
            offsets: &mut *offsets,
            keys: key::lend(keys),
            values: Some(bytemuck::cast_slice_mut(values)),
        })?;
        let total = offsets[lo.len()];
        check_buffer("keys", keys_given, total)?;
        check_buffer("values", values_given, total)?;
        key::decode(&mut keys[..total]);
        Ok(total)
    }

    /// The offsets alone of what [`range_into`](Snapshot::range_into) would write, and their sum:
    /// what to allocate.
    pub fn range_offsets_into(
        &self,
        lo: &[K],
        hi: &[K],
        offsets: &mut [usize],
    ) -> Result<usize, Error> {
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        let offsets = first("offsets", offsets, lo.len() + 1)?;
        let (lo, hi) = (&key::encode(lo)?, &key::encode(hi)?);
        self.store.answer(Query::RangeOffsets { lo, hi, offsets: &mut *offsets })?;
        Ok(offsets[lo.len()])
    }

    /// For each key the nearest pair whose key is not less, or nothing.
    pub fn successor(&self, keys: &[K]) -> Result<MaybePairs<K, V>, Error> {
        self.pairs(&PairQuery::Nearest(Side::Successor, &key::encode(keys)?))
    }

    /// [`successor`](Snapshot::successor) into buffers; 0 where `found` says there is none.
    pub fn successor_into(
        &self,
        keys: &[K],
        out_keys: &mut [K],
        values: &mut [V],
        found: &mut [bool],
    ) -> Result<(), Error> {
        let keys = key::encode(keys)?;
        let query = PairQuery::Nearest(Side::Successor, &keys);
        self.pairs_into(&query, ("out_keys", out_keys), values, found)
    }

    /// For each key the nearest pair whose key is not greater, or nothing.
    pub fn predecessor(&self, keys: &[K]) -> Result<MaybePairs<K, V>, Error> {
        self.pairs(&PairQuery::Nearest(Side::Predecessor, &key::encode(keys)?))
    }

    /// [`predecessor`](Snapshot::predecessor) into buffers; 0 where `found` says there is none.
    pub fn predecessor_into(
        &self,
        keys: &[K],
        out_keys: &mut [K],
        values: &mut [V],
        found: &mut [bool],
    ) -> Result<(), Error> {
        let keys = key::encode(keys)?;
        let query = PairQuery::Nearest(Side::Predecessor, &keys);
        self.pairs_into(&query, ("out_keys", out_keys), values, found)
    }

    /// For each key, how many keys are less.
    pub fn rank(&self, keys: &[K]) -> Result<Vec<u64>, Error> {
        let mut ranks = try_zeroed(keys.len())?;
        self.rank_into(keys, &mut ranks)?;
        Ok(ranks)
    }

    /// [`rank`](Snapshot::rank) into a buffer.
    pub fn rank_into(&self, keys: &[K], ranks: &mut [u64]) -> Result<(), Error> {
        let ranks = first("ranks", ranks, keys.len())?;
        self.store.answer(Query::Rank { keys: &key::encode(keys)?, ranks })
    }

    /// For each index the pair at that place in key order, counted from 0, or nothing.
    pub fn select(&self, indices: &[u64]) -> Result<MaybePairs<K, V>, Error> {
        self.pairs(&PairQuery::Select(indices))
    }

    /// [`select`](Snapshot::select) into buffers; 0 where `found` says there is none.
    pub fn select_into(
        &self,
        indices: &[u64],
        keys: &mut [K],
        values: &mut [V],
        found: &mut [bool],
    ) -> Result<(), Error> {
        self.pairs_into(&PairQuery::Select(indices), ("keys", keys), values, found)
    }

    /// Answers queries that return at most one pair each.
    fn pairs(&self, query: &PairQuery<'_, K::Ordered>) -> Result<MaybePairs<K, V>, Error> {
        let len = query.len();
        let (mut keys, mut values) = (try_zeroed(len)?, try_zeroed(len)?);
        let mut found = try_zeroed(len)?;
        self.pairs_into(query, ("keys", &mut keys), &mut values, &mut found)?;
        let answers = keys.into_iter().zip(values).zip(found);
        collect(len, answers.map(|(pair, found)| found.then_some(pair)))
    }

    /// [`pairs`](Snapshot::pairs) into buffers; 0 where `found` says there is none.
    fn pairs_into(
        &self,
        query: &PairQuery<'_, K::Ordered>,
        (name, keys): (&'static str, &mut [K]),
        values: &mut [V],
        found: &mut [bool],
    ) -> Result<(), Error> {
        let keys = first(name, keys, query.len())?;
        let values = bytemuck::cast_slice_mut(first("values", values, query.len())?);
        let found = first("found", found, query.len())?;
        let pairs = PairsOut { keys: key::lend(keys), values, found: &mut *found };
        self.store.answer(match *query {
            PairQuery::Nearest(side, keys) => Query::Nearest { side, keys, pairs },
            PairQuery::Select(indices) => Query::Select { indices, pairs },
        })?;
        key::decode(keys);
        for (key, _) in keys.iter_mut().zip(found).filter(|(_, found)| !**found) {
            *key = K::zeroed();
        }
        Ok(())
    }

    /// The value of one key, or nothing. A batch of many costs far less than many of one.
    pub fn get(&self, key: K) -> Result<Option<V>, Error> {
        let (mut value, mut found) = ([V::zeroed()], [false]);
        self.lookup_into(&[key], &mut value, &mut found)?;
        Ok(found[0].then_some(value[0]))
    }

    /// Whether one key is there.
    pub fn contains_key(&self, key: K) -> Result<bool, Error> {
        let mut found = [false];
        self.contains_into(&[key], &mut found)?;
        Ok(found[0])
    }

    /// The pair with the least key, or nothing.
    pub fn first(&self) -> Result<Option<(K, V)>, Error> {
        Ok(self.successor(&[K::LOWEST])?[0])
    }

    /// The pair with the greatest key, or nothing.
    pub fn last(&self) -> Result<Option<(K, V)>, Error> {
        Ok(self.predecessor(&[K::HIGHEST])?[0])
    }

    /// How many keys are in one range, written as Rust writes ranges: `..`, `1..5`, `2.5..=3.0`.
    pub fn count_in(&self, range: impl RangeBounds<K>) -> Result<u64, Error> {
        let mut count = [0];
        if let Some((lo, hi)) = closed(range) {
            self.store.answer(Query::Count { lo: &[lo], hi: &[hi], counts: &mut count })?;
        }
        Ok(count[0])
    }

    /// The pairs of one range, in key order.
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let d: gpulsm::Dictionary<f64, u32> = [(0.5, 1), (1.5, 2), (2.5, 3)].into_iter().collect();
    /// assert_eq!(d.pairs_in(..2.5)?, [(0.5, 1), (1.5, 2)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pairs_in(&self, range: impl RangeBounds<K>) -> Result<Vec<(K, V)>, Error> {
        match closed(range) {
            Some((lo, hi)) => {
                let Ranges { keys, values, .. } = self.ordered_ranges(&[lo], &[hi])?;
                collect(keys.len(), keys.into_iter().zip(values))
            }
            None => Ok(Vec::new()),
        }
    }

    /// Every key and every value, in key order.
    pub fn to_vecs(&self) -> Result<(Vec<K>, Vec<V>), Error> {
        let Ranges { keys, values, .. } = self.range(&[K::LOWEST], &[K::HIGHEST])?;
        Ok((keys, values))
    }

    /// Every pair in key order, from either end, read a few thousand at a time.
    ///
    /// # Panics
    ///
    /// The iterator panics if it finds no memory for a few thousand pairs.
    pub fn iter(&self) -> Iter<K, V> {
        Iter::new(self.clone())
    }

    /// What the levels hold, and how many bytes that takes: once all that was left for later batches is
    /// merged, and every run is in no more memory than it needs.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.store.stats(self.device)
    }

    /// Checks every invariant of the structure (each run is sorted, without repeats and with the right
    /// marks, each level is within its capacity, …). The error says which one is broken.
    #[cfg(feature = "testing")]
    pub fn validate(&self) -> Result<(), String> {
        self.store.validate()
    }

    /// Takes in the batches that wait (see [`Dictionary`](crate::Dictionary)), as any query would.
    pub fn settle(&self) -> Result<(), Error> {
        self.store.flush()
    }

    /// Takes in the batches that wait, waits until everything that was begun is done, and says if any
    /// of it failed. On a GPU, taking in a batch only begins it.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.store.synchronize()
    }

    /// On a GPU: the same snapshot, asked on another stream, at the same time as others are asked on
    /// theirs.
    #[cfg(feature = "cuda")]
    pub fn on_stream(&self, stream: &crate::cuda::Stream) -> Result<Self, Error> {
        if stream.device() != self.device && self.device.is_cuda() {
            let index = |device: Device| device.cuda_index().unwrap_or_default();
            let (data, dictionary) = (index(stream.device()), index(self.device));
            return Err(Error::OtherDevice { data, dictionary });
        }
        let mut store = self.store.share();
        crate::cuda::move_to_stream(&mut *store, stream)?;
        Ok(Snapshot { device: self.device, store, values: PhantomData })
    }

    /// On a GPU: queries on data in its memory.
    #[cfg(feature = "cuda")]
    pub fn resident(&self) -> Result<crate::cuda::Resident<'_, K, V>, Error> {
        crate::cuda::Resident::new(self.store())
    }

    /// How many keys there are, if that is known without doing or waiting for anything.
    #[doc(hidden)]
    pub fn len_if_known(&self) -> Option<usize> {
        self.store.quick_stats()?.live.map(|live| live as usize)
    }

    pub(crate) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct(name);
        text.field("device", &format_args!("\"{}\"", self.device));
        text.field("batch_size", &self.batch_size());
        if let Some(quick_stats) = self.store.quick_stats() {
            match quick_stats.live {
                Some(live) => text.field("len", &live),
                None => text.field("len", &format_args!("unknown")),
            };
            if quick_stats.buffered > 0 {
                text.field("buffered", &quick_stats.buffered);
            }
            let levels: Vec<u64> =
                quick_stats.runs.iter().map(|&(_, _, entries)| entries).collect();
            text.field("entries", &quick_stats.entries()).field("levels", &levels);
        }
        text.finish_non_exhaustive()
    }
}

impl<K: Key, V: Value> IntoIterator for &Snapshot<K, V> {
    type Item = (K, V);
    type IntoIter = Iter<K, V>;

    fn into_iter(self) -> Iter<K, V> {
        self.iter()
    }
}

impl<K: Key, V: Value> fmt::Debug for Snapshot<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("Snapshot", f)
    }
}

/// Writes a small picture of the levels, as far as they are known: nothing is done or waited for.
/// [`stats`](Snapshot::stats) has every figure.
impl<K: Key, V: Value> fmt::Display for Snapshot<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.store.quick_stats() {
            Some(quick_stats) => quick_stats.write(f, self.device),
            None => write!(f, "a dictionary on {}, in use by another thread", self.device),
        }
    }
}

/// The first `len` elements of a caller's buffer, or an error that says it is too short.
fn first<'a, T>(name: &'static str, buffer: &'a mut [T], len: usize) -> Result<&'a mut [T], Error> {
    check_buffer(name, buffer.len(), len)?;
    Ok(&mut buffer[..len])
}

/// Collects `len` items, or fails where there is no memory for them.
fn collect<T>(len: usize, items: impl Iterator<Item = T>) -> Result<Vec<T>, Error> {
    let mut vec = try_with_capacity(len)?;
    vec.extend(items);
    Ok(vec)
}

/// The ends of a range, mapped; `None` if no key can be in it.
///
/// The integer beside an excluded float may be no key's (there is one below that of 0, where −0 would
/// be, and there are some below that of NaN), so it is not turned back into a key.
fn closed<K: Key>(range: impl RangeBounds<K>) -> Option<(K::Ordered, K::Ordered)> {
    let lo = match range.start_bound() {
        Bound::Included(key) => key.to_ordered(),
        Bound::Excluded(key) => key.to_ordered().next()?,
        Bound::Unbounded => K::LOWEST.to_ordered(),
    };
    let hi = match range.end_bound() {
        Bound::Included(key) => key.to_ordered(),
        Bound::Excluded(key) => key.to_ordered().previous()?,
        Bound::Unbounded => K::HIGHEST.to_ordered(),
    };
    (lo <= hi).then_some((lo, hi))
}
