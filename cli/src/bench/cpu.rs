//! The CPU as a place for experiments: vectors, the monotonic clock, all cores for everything.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::time::Instant;

use gpulsm::{Batch, Builder, Device, Dictionary, Snapshot};
use rayon::prelude::*;
use rdst::{RadixKey, RadixSort};

use super::numbers::Number;
use super::site::{Ends, Listed, Nearest, Outcome, Pairs, Site};

pub struct Cpu;

/// Queries that a core takes at a time.
const CHUNK: usize = 1 << 12;

/// Pairs in key order, and room for as many: a batch is merged from one into the other.
pub struct Sorted<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    spare: (Vec<K>, Vec<V>),
}

/// A table for each core, which has the keys that hash to it; the standard library's, which probe an open
/// table.
pub struct Hash<K, V>(Vec<Table<K, V>>);

type Table<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// Multiplies keys: enough for such as these.
#[derive(Default)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    fn write_u32(&mut self, key: u32) {
        self.write_u64(key.into());
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// A pair to be sorted by its key.
#[derive(Clone, Copy)]
struct Pair<K, V>(K, V);

impl<K: Number, V: Number> RadixKey for Pair<K, V> {
    const LEVELS: usize = size_of::<K>();

    fn get_level(&self, level: usize) -> u8 {
        (self.0.wide() >> (8 * level)) as u8
    }
}

/// Pairs sorted by key.
fn sort_pairs<K: Number, V: Number>(keys: &[K], values: &[V]) -> Vec<Pair<K, V>> {
    let pairs = keys.par_iter().zip(values).map(|(&key, &value)| Pair(key, value));
    let mut pairs: Vec<_> = pairs.collect();
    pairs.radix_sort_unstable();
    pairs
}

impl<K: Number, V: Number> Sorted<K, V> {
    /// Merges sorted pairs with all there are, each core a part of the output.
    fn merge(&mut self, batch: &[Pair<K, V>]) {
        let len = self.keys.len() + batch.len();
        let (mut keys, mut values) = std::mem::take(&mut self.spare);
        keys.resize(len, K::of(0));
        values.resize(len, V::of(0));
        let part = len.div_ceil(rayon::current_num_threads() * 4).max(CHUNK);
        let out = keys.par_chunks_mut(part).zip(values.par_chunks_mut(part));
        out.enumerate().for_each(|(number, (keys, values))| {
            let mut a = self.firsts(batch, number * part);
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

    /// How many of the first so many merged pairs were there before.
    fn firsts(&self, batch: &[Pair<K, V>], merged: usize) -> usize {
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

    /// Where a range's pairs lie.
    fn window(&self, lo: K, hi: K) -> Range<usize> {
        let start = self.keys.partition_point(|&key| key < lo);
        start..start.max(self.keys.partition_point(|&key| key <= hi))
    }
}

impl<K: Number, V: Number> Hash<K, V> {
    fn table_of(key: K, tables: usize) -> usize {
        let hash = key.wide().wrapping_mul(0xc2b2_ae3d_27d4_eb4f) >> 32;
        ((hash * tables as u64) >> 32) as usize
    }
}

/// Answers queries chunk by chunk, on all cores.
fn answer<K: Number, V: Number>(
    keys: &[K],
    values: &mut [V],
    found: &mut [bool],
    find: impl Fn(K) -> Option<V> + Sync,
) {
    let chunks = keys.par_chunks(CHUNK).zip(values.par_chunks_mut(CHUNK));
    chunks.zip(found.par_chunks_mut(CHUNK)).for_each(|((keys, values), found)| {
        for ((&key, value), found) in keys.iter().zip(values).zip(found) {
            let answer = find(key);
            (*value, *found) = (answer.unwrap_or(V::of(0)), answer.is_some());
        }
    });
}

impl<K: Number, V: Number> Site<K, V> for Cpu {
    const LISTED: u64 = 8; // More would take minutes.

    type Array<T: bytemuck::Pod + Send + Sync> = Vec<T>;
    type Found = Vec<bool>;
    type Sorting = Pairs<Self, K, V>;
    type Sorted = Sorted<K, V>;
    type Hash = Hash<K, V>;

    fn build(&self, settings: Builder<K, V>) -> Outcome<Dictionary<K, V>> {
        Ok(settings.device(Device::cpu()).build()?)
    }

    fn array<T: bytemuck::Pod + Send + Sync>(&self, data: Vec<T>) -> Outcome<Vec<T>> {
        Ok(data)
    }

    fn zeroed<T: bytemuck::Pod + Send + Sync>(&self, len: usize) -> Outcome<Vec<T>> {
        // Written, not only promised by the system: nothing is to be mapped inside a clock.
        let mut zeros = Vec::with_capacity(len);
        zeros.resize(len, T::zeroed());
        Ok(zeros)
    }

    fn most_listed(&self) -> u64 {
        u64::MAX // `LISTED` sees to it.
    }

    fn found(&self, len: usize) -> Outcome<Vec<bool>> {
        Ok(vec![false; len])
    }

    fn copy<T: bytemuck::Pod + Send + Sync>(
        &self,
        array: &Vec<T>,
        part: Range<usize>,
    ) -> Outcome<Vec<T>> {
        Ok(array[part].to_vec())
    }

    fn copy_found(&self, found: &Vec<bool>, part: Range<usize>) -> Outcome<Vec<bool>> {
        Ok(found[part].to_vec())
    }

    fn time(&self, job: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
        let start = Instant::now();
        job()?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn insert(
        &self,
        dictionary: &mut Dictionary<K, V>,
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
    ) -> Outcome<()> {
        Ok(dictionary.insert(&pairs.keys[part.clone()], &pairs.values[part])?)
    }

    fn update(
        &self,
        dictionary: &mut Dictionary<K, V>,
        (inserts, part): (&Pairs<Self, K, V>, Range<usize>),
        (deletes, deleted): (&Vec<K>, Range<usize>),
    ) -> Outcome<()> {
        let batch = Batch::inserting(&inserts.keys[part.clone()], &inserts.values[part]);
        Ok(dictionary.update(batch.deleting(&deletes[deleted]))?)
    }

    fn lookup(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &Vec<K>,
        values: &mut Vec<V>,
        found: &mut Vec<bool>,
    ) -> Outcome<()> {
        Ok(dictionary.lookup_into(keys, values, found)?)
    }

    fn count(
        &self,
        dictionary: &Snapshot<K, V>,
        ranges: &Ends<Self, K, V>,
        counts: &mut Vec<u64>,
    ) -> Outcome<()> {
        Ok(dictionary.count_into(&ranges.lo, &ranges.hi, counts)?)
    }

    fn range(
        &self,
        dictionary: &Snapshot<K, V>,
        ranges: &Ends<Self, K, V>,
        answers: &mut Listed<Self, K, V>,
    ) -> Outcome<()> {
        let offsets = bytemuck::cast_slice_mut(&mut answers.offsets);
        let (keys, values) = (&mut answers.keys, &mut answers.values);
        dictionary.range_into(&ranges.lo, &ranges.hi, offsets, keys, values)?;
        Ok(())
    }

    fn rank(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &Vec<K>,
        ranks: &mut Vec<u64>,
    ) -> Outcome<()> {
        Ok(dictionary.rank_into(keys, ranks)?)
    }

    fn successor(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &Vec<K>,
        answers: &mut Nearest<Self, K, V>,
    ) -> Outcome<()> {
        let Nearest { keys: out, values, found } = answers;
        Ok(dictionary.successor_into(keys, out, values, found)?)
    }

    fn select(
        &self,
        dictionary: &Snapshot<K, V>,
        indices: &Vec<u64>,
        answers: &mut Nearest<Self, K, V>,
    ) -> Outcome<()> {
        let Nearest { keys, values, found } = answers;
        Ok(dictionary.select_into(indices, keys, values, found)?)
    }

    fn sorting(&self, _: &Pairs<Self, K, V>, len: usize) -> Outcome<Pairs<Self, K, V>> {
        Ok(Pairs { keys: vec![K::of(0); len], values: vec![V::of(0); len] })
    }

    fn sort(&self, sorting: &mut Pairs<Self, K, V>, pairs: &Pairs<Self, K, V>) -> Outcome<()> {
        let Pairs { keys, values } = sorting;
        let sorted = sort_pairs(&pairs.keys[..keys.len()], &pairs.values[..keys.len()]);
        let out = keys.par_iter_mut().zip(values);
        out.zip(sorted).for_each(|(out, pair)| (*out.0, *out.1) = (pair.0, pair.1));
        Ok(())
    }

    fn output(sorting: &Pairs<Self, K, V>) -> &Pairs<Self, K, V> {
        sorting
    }

    fn sorted(&self, capacity: usize, _batch: usize) -> Outcome<Sorted<K, V>> {
        let room = || (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        let (keys, values) = room();
        Ok(Sorted { keys, values, spare: room() })
    }

    fn sorted_insert(
        &self,
        sorted: &mut Sorted<K, V>,
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
    ) -> Outcome<()> {
        sorted.merge(&sort_pairs(&pairs.keys[part.clone()], &pairs.values[part]));
        Ok(())
    }

    fn sorted_lookup(
        &self,
        sorted: &Sorted<K, V>,
        keys: &Vec<K>,
        values: &mut Vec<V>,
        found: &mut Vec<bool>,
    ) -> Outcome<()> {
        answer(keys, values, found, |key| {
            let place = sorted.keys.binary_search(&key).ok()?;
            Some(sorted.values[place])
        });
        Ok(())
    }

    fn sorted_count(
        &self,
        sorted: &Sorted<K, V>,
        ranges: &Ends<Self, K, V>,
        counts: &mut Vec<u64>,
    ) -> Outcome<()> {
        let ends = ranges.lo.par_iter().zip(&ranges.hi).with_min_len(CHUNK);
        ends.zip(counts)
            .for_each(|((&lo, &hi), count)| *count = sorted.window(lo, hi).len() as u64);
        Ok(())
    }

    fn sorted_range(
        &self,
        sorted: &mut Sorted<K, V>,
        ranges: &Ends<Self, K, V>,
        answers: &mut Listed<Self, K, V>,
    ) -> Outcome<()> {
        let ends = ranges.lo.par_iter().zip(&ranges.hi).with_min_len(CHUNK);
        let windows: Vec<_> = ends.map(|(&lo, &hi)| sorted.window(lo, hi)).collect();
        let mut total = 0;
        for (offset, window) in answers.offsets.iter_mut().zip(&windows) {
            *offset = total;
            total += window.len() as u64;
        }
        answers.offsets[windows.len()] = total;
        // Cut where ranges begin, so that cores write next to each other and never into each other.
        let (mut keys, mut values) = (&mut answers.keys[..], &mut answers.values[..]);
        let mut jobs = Vec::with_capacity(windows.len());
        for window in windows {
            let (own_keys, rest) = keys.split_at_mut(window.len());
            let (own_values, other) = values.split_at_mut(window.len());
            (keys, values) = (rest, other);
            jobs.push((window, own_keys, own_values));
        }
        jobs.into_par_iter().with_min_len(64).for_each(|(window, keys, values)| {
            keys.copy_from_slice(&sorted.keys[window.clone()]);
            values.copy_from_slice(&sorted.values[window]);
        });
        Ok(())
    }

    fn hash(&self, capacity: usize) -> Outcome<Hash<K, V>> {
        let tables = rayon::current_num_threads();
        let table = || Table::with_capacity_and_hasher(capacity / tables, Default::default());
        Ok(Hash((0..tables).map(|_| table()).collect()))
    }

    fn hash_build(
        &self,
        hash: &mut Hash<K, V>,
        pairs: &Pairs<Self, K, V>,
        len: usize,
    ) -> Outcome<()> {
        let tables = hash.0.len();
        // Every core reads all keys and takes its own: reading is little beside inserting.
        hash.0.par_iter_mut().enumerate().for_each(|(number, table)| {
            table.clear();
            let pairs = pairs.keys[..len].iter().zip(&pairs.values);
            let own = pairs.filter(|(key, _)| Hash::<K, V>::table_of(**key, tables) == number);
            table.extend(own.map(|(&key, &value)| (key, value)));
        });
        Ok(())
    }

    fn hash_lookup(
        &self,
        hash: &Hash<K, V>,
        keys: &Vec<K>,
        values: &mut Vec<V>,
        found: &mut Vec<bool>,
    ) -> Outcome<()> {
        let tables = hash.0.len();
        answer(keys, values, found, |key| {
            hash.0[Hash::<K, V>::table_of(key, tables)].get(&key).copied()
        });
        Ok(())
    }
}
