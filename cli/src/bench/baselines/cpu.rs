//! Baselines on the CPU, on all cores.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;
use std::ops::Range;

use rayon::prelude::*;
use rdst::{RadixKey, RadixSort as _};

use super::{HashTable, Sort, SortedArray};
use crate::bench::backend::cpu::{vec, vec_mut};
use crate::bench::backend::{Array, LookupOut, Outcome, Pairs, RangeEnds, RangeOut};
use crate::bench::numbers::Number;

/// Queries that a core answers at a time.
const CHUNK: usize = 1 << 12;

/// A pair to be sorted by its key.
#[derive(Clone, Copy)]
struct KeyValue<K, V>(K, V);

impl<K: Number, V: Number> RadixKey for KeyValue<K, V> {
    const LEVELS: usize = size_of::<K>();

    #[inline]
    fn get_level(&self, level: usize) -> u8 {
        (self.0.widen() >> (8 * level)) as u8
    }
}

fn sort_pairs<K: Number, V: Number>(keys: &[K], values: &[V]) -> Vec<KeyValue<K, V>> {
    let pairs = keys.par_iter().zip(values).map(|(&key, &value)| KeyValue(key, value));
    let mut pairs: Vec<_> = pairs.collect();
    pairs.radix_sort_unstable();
    pairs
}

/// The radix sort of the crate `rdst`.
pub struct RadixSort<K, V> {
    output: Pairs,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> RadixSort<K, V> {
    pub fn new(output: Pairs) -> Self {
        RadixSort { output, types: PhantomData }
    }
}

impl<K: Number, V: Number> Sort for RadixSort<K, V> {
    fn sort(&mut self, pairs: &Pairs) -> Outcome<()> {
        let keys: &mut Vec<K> = vec_mut(&mut self.output.keys);
        let values: &mut Vec<V> = vec_mut(&mut self.output.values);
        let len = keys.len();
        let sorted = sort_pairs::<K, V>(&vec(&pairs.keys)[..len], &vec(&pairs.values)[..len]);
        let out = keys.par_iter_mut().zip(values);
        out.zip(sorted).for_each(|(out, pair)| (*out.0, *out.1) = (pair.0, pair.1));
        Ok(())
    }

    fn output(&self) -> &Pairs {
        &self.output
    }
}

/// Pairs in key order, and room for as many: a batch is merged from one into the other.
pub struct SortedVecs<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    spare: (Vec<K>, Vec<V>),
}

impl<K: Number, V: Number> SortedVecs<K, V> {
    pub fn with_capacity(capacity: usize) -> Self {
        let room = || (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        let (keys, values) = room();
        SortedVecs { keys, values, spare: room() }
    }

    /// Merges sorted pairs with all there are; each core writes a part of the output.
    fn merge(&mut self, batch: &[KeyValue<K, V>]) {
        let len = self.keys.len() + batch.len();
        let (mut keys, mut values) = std::mem::take(&mut self.spare);
        keys.resize(len, K::narrow(0));
        values.resize(len, V::narrow(0));
        let part = len.div_ceil(rayon::current_num_threads() * 4).max(CHUNK);
        let out = keys.par_chunks_mut(part).zip(values.par_chunks_mut(part));
        out.enumerate().for_each(|(number, (keys, values))| {
            let mut a = self.merge_path(batch, number * part);
            let mut b = number * part - a;
            for (key, value) in keys.iter_mut().zip(values) {
                let old = b == batch.len() || (a < self.keys.len() && self.keys[a] <= batch[b].0);
                (*key, *value) =
                    if old { (self.keys[a], self.values[a]) } else { (batch[b].0, batch[b].1) };
                a += usize::from(old);
                b += usize::from(!old);
            }
        });
        self.spare =
            (std::mem::replace(&mut self.keys, keys), std::mem::replace(&mut self.values, values));
    }

    /// Returns how many of the first `merged` pairs of the output come from the old pairs.
    #[inline]
    fn merge_path(&self, batch: &[KeyValue<K, V>], merged: usize) -> usize {
        let (mut low, mut high) = (merged.saturating_sub(batch.len()), merged.min(self.keys.len()));
        while low < high {
            let middle = low.midpoint(high);
            match self.keys[middle] <= batch[merged - 1 - middle].0 {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Returns where a range's pairs lie.
    #[inline]
    fn window(&self, lo: K, hi: K) -> Range<usize> {
        let start = self.keys.partition_point(|&key| key < lo);
        start..start.max(self.keys.partition_point(|&key| key <= hi))
    }
}

impl<K: Number, V: Number> SortedArray for SortedVecs<K, V> {
    fn insert(&mut self, pairs: &Pairs, part: Range<usize>) -> Outcome<()> {
        let (keys, values) = (&vec(&pairs.keys)[part.clone()], &vec(&pairs.values)[part]);
        self.merge(&sort_pairs(keys, values));
        Ok(())
    }

    fn lookup(&self, keys: &Array, out: &mut LookupOut) -> Outcome<()> {
        answer(keys, out, |key: K| {
            let index = self.keys.binary_search(&key).ok()?;
            Some(self.values[index])
        });
        Ok(())
    }

    fn count(&self, ranges: &RangeEnds, counts: &mut Array) -> Outcome<()> {
        let ends = vec::<K>(&ranges.lo).par_iter().zip(vec::<K>(&ranges.hi)).with_min_len(CHUNK);
        ends.zip(vec_mut::<u64>(counts))
            .for_each(|((&lo, &hi), count)| *count = self.window(lo, hi).len() as u64);
        Ok(())
    }

    fn range(&mut self, ranges: &RangeEnds, out: &mut RangeOut) -> Outcome<()> {
        let ends = vec::<K>(&ranges.lo).par_iter().zip(vec::<K>(&ranges.hi)).with_min_len(CHUNK);
        let windows: Vec<_> = ends.map(|(&lo, &hi)| self.window(lo, hi)).collect();
        let offsets: &mut Vec<u64> = vec_mut(&mut out.offsets);
        let mut total = 0;
        for (offset, window) in offsets.iter_mut().zip(&windows) {
            *offset = total;
            total += window.len() as u64;
        }
        offsets[windows.len()] = total;
        // Split where ranges begin, so that each core writes to memory of its own.
        let mut keys = &mut vec_mut::<K>(&mut out.keys)[..];
        let mut values = &mut vec_mut::<V>(&mut out.values)[..];
        let mut jobs = Vec::with_capacity(windows.len());
        for window in windows {
            let (own_keys, rest) = keys.split_at_mut(window.len());
            let (own_values, other) = values.split_at_mut(window.len());
            (keys, values) = (rest, other);
            jobs.push((window, own_keys, own_values));
        }
        jobs.into_par_iter().with_min_len(64).for_each(|(window, keys, values)| {
            keys.copy_from_slice(&self.keys[window.clone()]);
            values.copy_from_slice(&self.values[window]);
        });
        Ok(())
    }
}

/// The standard library's hash tables, one for each core, which owns the keys that hash to it.
pub struct ShardedTable<K, V>(Vec<Table<K, V>>);

type Table<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// Hashes by multiplication, which suffices for keys that are scattered.
#[derive(Default)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, key: u32) {
        self.write_u64(key.into());
    }

    #[inline]
    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl<K: Number, V: Number> ShardedTable<K, V> {
    pub fn with_capacity(capacity: usize) -> Self {
        let shards = rayon::current_num_threads();
        let table = || Table::with_capacity_and_hasher(capacity / shards, Default::default());
        ShardedTable((0..shards).map(|_| table()).collect())
    }

    #[inline]
    fn shard_of(key: K, shards: usize) -> usize {
        let hash = key.widen().wrapping_mul(0xc2b2_ae3d_27d4_eb4f) >> 32;
        ((hash * shards as u64) >> 32) as usize
    }
}

impl<K: Number, V: Number> HashTable for ShardedTable<K, V> {
    fn build(&mut self, pairs: &Pairs, len: usize) -> Outcome<()> {
        let shards = self.0.len();
        let (keys, values) = (&vec::<K>(&pairs.keys)[..len], vec::<V>(&pairs.values));
        // Every core reads all keys and inserts its own: reading costs little beside inserting.
        self.0.par_iter_mut().enumerate().for_each(|(number, table)| {
            table.clear();
            let pairs = keys.iter().zip(values);
            let own = pairs.filter(|(key, _)| Self::shard_of(**key, shards) == number);
            table.extend(own.map(|(&key, &value)| (key, value)));
        });
        Ok(())
    }

    fn lookup(&self, keys: &Array, out: &mut LookupOut) -> Outcome<()> {
        let shards = self.0.len();
        answer(keys, out, |key: K| self.0[Self::shard_of(key, shards)].get(&key).copied());
        Ok(())
    }
}

/// Answers lookups chunk by chunk, on all cores.
fn answer<K: Number, V: Number>(
    keys: &Array,
    out: &mut LookupOut,
    find: impl Fn(K) -> Option<V> + Sync,
) {
    let keys: &Vec<K> = vec(keys);
    let values: &mut Vec<V> = vec_mut(&mut out.values);
    let found: &mut Vec<bool> = vec_mut(&mut out.found);
    let chunks = keys.par_chunks(CHUNK).zip(values.par_chunks_mut(CHUNK));
    chunks.zip(found.par_chunks_mut(CHUNK)).for_each(|((keys, values), found)| {
        for ((&key, value), found) in keys.iter().zip(values).zip(found) {
            let answer = find(key);
            (*value, *found) = (answer.unwrap_or(V::narrow(0)), answer.is_some());
        }
    });
}
