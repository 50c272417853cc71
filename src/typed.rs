//! A store of keys `K` and values `V`: the thin typed layer over [`AnyStore`] that both
//! [`Dictionary`](crate::Dictionary) and [`Snapshot`](crate::Snapshot) are made of.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::aggregate::{Aggregate, Fold, Number};
use crate::device::{Device, Devices};
use crate::error::{Error, check_buffer, try_with_capacity, try_zeroed};
use crate::holders::HolderKind;
use crate::key::{self, Key, Part};
use crate::query::{AsOf, PairsOut, Query, Side};
use crate::ranges::{RangeEnds, Ranges};
use crate::store::AnyStore;
use crate::value::Value;

/// The types that files name, of a dictionary whose `K` and `V` only stand for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTypes {
    /// The parts of a key, the most significant one first. Packed, they are `K`.
    pub key: Vec<Part>,
    /// The name of the type of values, which is as wide as `V`.
    pub value: String,
    /// What other languages call the types, by name.
    pub notes: Vec<(String, String)>,
}

/// A store whose keys are mapped and whose values are handed over as bytes.
#[derive(Clone)]
pub(crate) struct TypedStore<K: Key, V: Value> {
    /// One for each shard.
    pub devices: Devices,
    /// What files say of the types; `None` if `K` and `V` are the types.
    pub stored_as: Option<Arc<StoredTypes>>,
    store: Box<dyn AnyStore<K::Ordered>>,
    values: PhantomData<V>,
}

/// Answers of at most one pair per query.
pub(crate) type MaybePairs<K, V> = Vec<Option<(K, V)>>;

/// Queries that return at most one pair each.
pub(crate) enum PairQuery<'a, B> {
    /// The nearest pair on one side of each key.
    Nearest(Side, &'a [B]),
    /// The pair that answers each question of an as-of query.
    AsOf(AsOf, &'a [B]),
    /// The pair at each position in key order.
    Select(&'a [u64]),
}

impl<B> PairQuery<'_, B> {
    fn len(&self) -> usize {
        match self {
            PairQuery::Nearest(_, keys) | PairQuery::AsOf(_, keys) => keys.len(),
            PairQuery::Select(indices) => indices.len(),
        }
    }
}

impl<K: Key, V: Value> TypedStore<K, V> {
    pub fn new(devices: Devices, store: Box<dyn AnyStore<K::Ordered>>) -> Self {
        TypedStore { devices, stored_as: None, store, values: PhantomData }
    }

    /// Returns the device of the first shard.
    pub fn device(&self) -> Device {
        self.devices[0]
    }

    /// Returns a store that shares every run with this one, as a holder of another kind.
    pub fn share_as(&self, kind: HolderKind) -> Self {
        let mut shared = self.clone();
        shared.store.hold_as(kind);
        shared
    }

    /// Returns the store without its types.
    pub fn any(&self) -> &dyn AnyStore<K::Ordered> {
        &*self.store
    }

    /// Returns the store without its types, to be changed.
    pub fn any_mut(&mut self) -> &mut dyn AnyStore<K::Ordered> {
        &mut *self.store
    }

    /// Writes whether each key is present, and its value or zeros.
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

    /// Returns the pairs of ranges.
    pub fn range(&self, ends: &RangeEnds<'_, K::Ordered>) -> Result<Ranges<K, V>, Error> {
        let (lo, hi) = (&*ends.lo, &*ends.hi);
        let mut offsets = try_zeroed(lo.len() + 1)?;
        self.store.answer(Query::RangeOffsets { lo, hi, offsets: &mut offsets })?;
        let total = offsets[lo.len()] as usize;
        let (mut keys, mut values) = (try_zeroed(total)?, try_zeroed(total)?);
        self.range_into(ends, &mut offsets, &mut keys, &mut values)?;
        Ok(Ranges { offsets, keys, values })
    }

    /// Writes the offsets and pairs of ranges; returns how many pairs there are.
    pub fn range_into(
        &self,
        ends: &RangeEnds<'_, K::Ordered>,
        offsets: &mut [u64],
        keys: &mut [K],
        values: &mut [V],
    ) -> Result<u64, Error> {
        let (lo, hi) = (&*ends.lo, &*ends.hi);
        let offsets = first("offsets", offsets, lo.len() + 1)?;
        let (keys_given, values_given) = (keys.len(), values.len());
        let room = keys_given.min(values_given);
        let (keys, values) = (&mut keys[..room], &mut values[..room]);
        let written = key::fill(keys, |keys| {
            let values = Some(bytemuck::cast_slice_mut(values));
            self.store.answer(Query::Range { lo, hi, offsets: &mut *offsets, keys, values })?;
            let total = offsets[lo.len()] as usize;
            check_buffer("keys", keys_given, total)?;
            check_buffer("values", values_given, total)?;
            Ok(total)
        })?;
        Ok(written as u64)
    }

    /// Writes the offsets alone; returns the last.
    pub fn range_offsets_into(
        &self,
        ends: &RangeEnds<'_, K::Ordered>,
        offsets: &mut [u64],
    ) -> Result<u64, Error> {
        let offsets = first("offsets", offsets, ends.len() + 1)?;
        let (lo, hi) = (&*ends.lo, &*ends.hi);
        self.store.answer(Query::RangeOffsets { lo, hi, offsets: &mut *offsets })?;
        Ok(offsets[ends.len()])
    }

    /// Writes how many keys each range has.
    pub fn count_into(
        &self,
        ends: &RangeEnds<'_, K::Ordered>,
        counts: &mut [u64],
    ) -> Result<(), Error> {
        let counts = first("counts", counts, ends.len())?;
        self.store.answer(Query::Count { lo: &ends.lo, hi: &ends.hi, counts })
    }

    /// Writes the bytes of what the values of each range are combined to, and how many keys it has.
    pub fn aggregate_bytes_into(
        &self,
        ends: &RangeEnds<'_, K::Ordered>,
        fold: Fold,
        answers: &mut [u8],
        counts: &mut [u64],
    ) -> Result<(), Error> {
        assert!(
            fold.fits(size_of::<V>()),
            "values of {} bytes are not made of {fold:?}",
            size_of::<V>()
        );
        let answers = first("answers", answers, ends.len() * fold.answer_width(size_of::<V>()))?;
        let counts = first("counts", counts, ends.len())?;
        let (lo, hi) = (&*ends.lo, &*ends.hi);
        self.store.answer(Query::Aggregate { lo, hi, fold, answers, counts })
    }

    /// Writes what the values of each range are combined to, and how many keys it has.
    pub fn aggregate_into<A: Aggregate<V>>(
        &self,
        ends: &RangeEnds<'_, K::Ordered>,
        _: A,
        answers: &mut [A::Answer],
        counts: &mut [u64],
    ) -> Result<(), Error>
    where
        V: Number,
    {
        let answers = bytemuck::cast_slice_mut(first("answers", answers, ends.len())?);
        self.aggregate_bytes_into(ends, Fold::new::<V, A>(), answers, counts)
    }

    /// Returns the answers to queries of at most one pair each.
    pub fn pairs(&self, query: &PairQuery<'_, K::Ordered>) -> Result<MaybePairs<K, V>, Error> {
        let len = query.len();
        let (mut keys, mut values) = (try_zeroed(len)?, try_zeroed(len)?);
        let mut found = try_zeroed(len)?;
        self.pairs_into(query, ("keys", &mut keys), &mut values, &mut found)?;
        let answers = keys.into_iter().zip(values).zip(found);
        collect(len, answers.map(|(pair, found)| found.then_some(pair)))
    }

    /// Writes the answers to queries of at most one pair each; zeros where nothing is found.
    pub fn pairs_into(
        &self,
        query: &PairQuery<'_, K::Ordered>,
        (name, keys): (&'static str, &mut [K]),
        values: &mut [V],
        found: &mut [bool],
    ) -> Result<(), Error> {
        let keys = first(name, keys, query.len())?;
        let values = bytemuck::cast_slice_mut(first("values", values, query.len())?);
        let found = first("found", found, query.len())?;
        key::fill(keys, |keys| {
            let pairs = PairsOut { keys, values, found: &mut *found };
            self.store.answer(match *query {
                PairQuery::Nearest(side, keys) => Query::Nearest { side, keys, pairs },
                PairQuery::AsOf(asof, keys) => Query::AsOf { asof, keys, pairs },
                PairQuery::Select(indices) => Query::Select { indices, pairs },
            })?;
            Ok(query.len())
        })?;
        for (key, _) in keys.iter_mut().zip(found).filter(|(_, found)| !**found) {
            *key = K::zeroed();
        }
        Ok(())
    }

    /// Writes what can be told at once, as `Debug` shows it.
    pub fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct(name);
        text.field("device", &format_args!("\"{}\"", self.devices));
        text.field("batch_size", &self.store.batch_size());
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

/// Writes a small picture of the levels, as far as they are known.
impl<K: Key, V: Value> fmt::Display for TypedStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.store.quick_stats() {
            Some(quick_stats) => quick_stats.write(f, &self.devices),
            None => write!(f, "a dictionary on {}, in use by another thread", self.devices),
        }
    }
}

/// Returns the first `len` elements of a caller's buffer, or an error that says it is too short.
pub(crate) fn first<'a, T>(
    name: &'static str,
    buffer: &'a mut [T],
    len: usize,
) -> Result<&'a mut [T], Error> {
    check_buffer(name, buffer.len(), len)?;
    Ok(&mut buffer[..len])
}

/// Collects `len` items, or fails where there is no memory for them.
pub(crate) fn collect<T>(len: usize, items: impl Iterator<Item = T>) -> Result<Vec<T>, Error> {
    let mut vec = try_with_capacity(len)?;
    vec.extend(items);
    Ok(vec)
}
