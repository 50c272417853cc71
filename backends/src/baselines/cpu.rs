//! Baselines on the CPU, on all cores.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Zeroable;
use rdst::{RadixKey, RadixSort as _};

use super::{HashTable, Sort, SortedArray};
use crate::backend::cpu::{vec, vec_mut};
use crate::backend::{Array, LookupOut, Outcome, Pairs, RangeEnds, RangeOut};
use crate::numbers::{BenchKey, BenchValue, Numbered};
use crate::parallel::{Task, part_of, run_all};

/// Queries that a core answers at a time.
const CHUNK: usize = 1 << 12;

/// Ranges whose pairs a core copies at a time.
const RANGES_PER_TASK: usize = 64;

/// A pair to be sorted by its key.
#[derive(Clone, Copy, Zeroable)]
struct KeyValue<K, V>(K, V);

impl<K: BenchKey, V: BenchValue> RadixKey for KeyValue<K, V> {
    const LEVELS: usize = size_of::<K>();

    #[inline]
    fn get_level(&self, level: usize) -> u8 {
        self.0.byte(level)
    }
}

/// The record that a pair is sorted as.
type Record<K, V> = KeyValue<K, <K as BenchKey>::ValueBeside<V>>;

fn sort_pairs<K: BenchKey, V: BenchValue>(keys: &[K], values: &[V]) -> Vec<Record<K, V>> {
    let mut pairs = bytemuck::zeroed_vec::<Record<K, V>>(keys.len());
    let part = part_of(keys.len());
    let inputs = keys.chunks(part).zip(values.chunks(part));
    let tasks = pairs.chunks_mut(part).zip(inputs).map(|(pairs, (keys, values))| -> Task<'_> {
        Box::new(move || {
            for (pair, (&key, &value)) in pairs.iter_mut().zip(keys.iter().zip(values)) {
                *pair = KeyValue(key, K::ValueBeside::<V>::of_number(value.number()));
            }
        })
    });
    run_all(tasks.collect());
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

impl<K: BenchKey, V: BenchValue> Sort for RadixSort<K, V> {
    fn sort(&mut self, pairs: &Pairs) -> Outcome<()> {
        let keys: &mut Vec<K> = vec_mut(&mut self.output.keys);
        let values: &mut Vec<V> = vec_mut(&mut self.output.values);
        let len = keys.len();
        let sorted = sort_pairs::<K, V>(&vec(&pairs.keys)[..len], &vec(&pairs.values)[..len]);
        let part = part_of(len);
        let out = keys.chunks_mut(part).zip(values.chunks_mut(part));
        let tasks = out.zip(sorted.chunks(part)).map(|((keys, values), pairs)| -> Task<'_> {
            Box::new(move || {
                for ((key, value), pair) in keys.iter_mut().zip(values).zip(pairs) {
                    (*key, *value) = (pair.0, V::of_number(pair.1.number()));
                }
            })
        });
        run_all(tasks.collect());
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

impl<K: BenchKey, V: BenchValue> SortedVecs<K, V> {
    pub fn with_capacity(capacity: usize) -> Self {
        let room = || (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        let (keys, values) = room();
        SortedVecs { keys, values, spare: room() }
    }

    /// Merges sorted pairs with all there are; each core writes a part of the output.
    fn merge(&mut self, batch: &[Record<K, V>]) {
        let len = self.keys.len() + batch.len();
        let (mut keys, mut values) = std::mem::take(&mut self.spare);
        keys.resize(len, K::of_number(0));
        values.resize(len, V::of_number(0));
        let part = part_of(len);
        let old = &*self;
        let out = keys.chunks_mut(part).zip(values.chunks_mut(part));
        let tasks = out.enumerate().map(|(number, (keys, values))| -> Task<'_> {
            Box::new(move || old.merge_part(batch, number * part, keys, values))
        });
        run_all(tasks.collect());
        self.spare =
            (std::mem::replace(&mut self.keys, keys), std::mem::replace(&mut self.values, values));
    }

    /// Writes the part of the merged pairs that begins at `start`.
    fn merge_part(&self, batch: &[Record<K, V>], start: usize, keys: &mut [K], values: &mut [V]) {
        let mut a = self.merge_path(batch, start);
        let mut b = start - a;
        for (key, value) in keys.iter_mut().zip(values) {
            let old = b == batch.len() || (a < self.keys.len() && self.keys[a] <= batch[b].0);
            (*key, *value) = if old {
                (self.keys[a], self.values[a])
            } else {
                (batch[b].0, V::of_number(batch[b].1.number()))
            };
            a += usize::from(old);
            b += usize::from(!old);
        }
    }

    /// Returns how many of the first `merged` pairs of the output come from the old pairs.
    #[inline]
    fn merge_path(&self, batch: &[Record<K, V>], merged: usize) -> usize {
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

    /// Writes what `answer` makes of each range's window, on all cores.
    fn each_window<T: Send>(
        &self,
        ranges: &RangeEnds,
        answers: &mut [T],
        answer: impl Fn(Range<usize>) -> T + Sync,
    ) {
        let (lo, hi) = (vec::<K>(&ranges.lo), vec::<K>(&ranges.hi));
        let answer = &answer;
        let ends = lo.chunks(CHUNK).zip(hi.chunks(CHUNK));
        let tasks = ends.zip(answers.chunks_mut(CHUNK)).map(|((lo, hi), answers)| -> Task<'_> {
            Box::new(move || {
                for ((&lo, &hi), out) in lo.iter().zip(hi).zip(answers) {
                    *out = answer(self.window(lo, hi));
                }
            })
        });
        run_all(tasks.collect());
    }
}

impl<K: BenchKey, V: BenchValue> SortedArray for SortedVecs<K, V> {
    fn insert(&mut self, pairs: &Pairs, part: Range<usize>) -> Outcome<()> {
        let (keys, values) = (&vec(&pairs.keys)[part.clone()], &vec(&pairs.values)[part]);
        self.merge(&sort_pairs::<K, V>(keys, values));
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
        self.each_window(ranges, vec_mut::<u64>(counts), |window| window.len() as u64);
        Ok(())
    }

    fn range(&mut self, ranges: &RangeEnds, out: &mut RangeOut) -> Outcome<()> {
        let mut windows = vec![0..0; ranges.len];
        self.each_window(ranges, &mut windows, |window| window);
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
        let mut tasks = Vec::new();
        for windows in windows.chunks(RANGES_PER_TASK) {
            let own = windows.iter().map(Range::len).sum();
            let (mut own_keys, mut own_values);
            (own_keys, keys) = keys.split_at_mut(own);
            (own_values, values) = values.split_at_mut(own);
            let (all_keys, all_values) = (&self.keys, &self.values);
            tasks.push(Box::new(move || {
                for window in windows {
                    let keys = own_keys.split_off_mut(..window.len()).expect("room for all");
                    keys.copy_from_slice(&all_keys[window.clone()]);
                    let values = own_values.split_off_mut(..window.len()).expect("room for all");
                    values.copy_from_slice(&all_values[window.clone()]);
                }
            }) as Task<'_>);
        }
        run_all(tasks);
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
        self.write_u64(self.0.rotate_left(32) ^ u64::from(key)); // Perhaps the second part of a key.
    }

    #[inline]
    fn write_u128(&mut self, key: u128) {
        self.write_u64(key as u64 ^ (key >> 64) as u64);
    }

    #[inline]
    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl<K: BenchKey, V: BenchValue> ShardedTable<K, V> {
    pub fn with_capacity(capacity: usize) -> Self {
        let shards = rayon::current_num_threads();
        let table = || Table::with_capacity_and_hasher(capacity / shards, Default::default());
        ShardedTable((0..shards).map(|_| table()).collect())
    }

    #[inline]
    fn shard_of(key: K, shards: usize) -> usize {
        let hash = key.number().wrapping_mul(0xc2b2_ae3d_27d4_eb4f) >> 32;
        ((hash * shards as u64) >> 32) as usize
    }
}

impl<K: BenchKey, V: BenchValue> HashTable for ShardedTable<K, V> {
    fn build(&mut self, pairs: &Pairs, len: usize) -> Outcome<()> {
        let shards = self.0.len();
        let (keys, values) = (&vec::<K>(&pairs.keys)[..len], vec::<V>(&pairs.values));
        // Every core reads all keys and inserts its own: reading costs little beside inserting.
        let tasks = self.0.iter_mut().enumerate().map(|(number, table)| -> Task<'_> {
            Box::new(move || {
                table.clear();
                let pairs = keys.iter().zip(values);
                let own = pairs.filter(|(key, _)| Self::shard_of(**key, shards) == number);
                table.extend(own.map(|(&key, &value)| (key, value)));
            })
        });
        run_all(tasks.collect());
        Ok(())
    }

    fn lookup(&self, keys: &Array, out: &mut LookupOut) -> Outcome<()> {
        let shards = self.0.len();
        answer(keys, out, |key: K| self.0[Self::shard_of(key, shards)].get(&key).copied());
        Ok(())
    }
}

/// Answers lookups chunk by chunk, on all cores.
fn answer<K: BenchKey, V: BenchValue>(
    keys: &Array,
    out: &mut LookupOut,
    find: impl Fn(K) -> Option<V> + Sync,
) {
    let keys: &Vec<K> = vec(keys);
    let values: &mut Vec<V> = vec_mut(&mut out.values);
    let found: &mut Vec<bool> = vec_mut(&mut out.found);
    let find = &find;
    let out = values.chunks_mut(CHUNK).zip(found.chunks_mut(CHUNK));
    let tasks = keys.chunks(CHUNK).zip(out).map(|(keys, (values, found))| -> Task<'_> {
        Box::new(move || {
            for ((&key, value), found) in keys.iter().zip(values).zip(found) {
                let answer = find(key);
                (*value, *found) = (answer.unwrap_or(V::of_number(0)), answer.is_some());
            }
        })
    });
    run_all(tasks.collect());
}
