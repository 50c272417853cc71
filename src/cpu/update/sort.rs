//! Sorting a batch and removing duplicate keys: of equal keys the last insert wins, or their values combine.
//!
//! A long batch is sorted by all threads: they scatter a part of it each into buckets by key, and
//! then sort different buckets.

use crate::batch::Order;
use crate::combine::CombineFn;
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::run::key_capacity;
use crate::cpu::update::radix::{self, Buckets, Record, radix_sort, span_of};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;
use crate::workers::cut;

/// The mean number of records in a bucket that one thread sorts: few enough to fit into its cache.
const RECORDS_PER_SHARED_BUCKET: usize = 1 << 13;

/// The bytes that sorting one update takes: the records, and the output.
pub(crate) const fn bytes_per_update<B, V>() -> usize {
    radix::bytes_per_record::<B, V>() + size_of::<B>() + size_of::<V>()
}

/// The bytes that sorting any batch takes besides.
pub(crate) const FIXED_BYTES: usize = radix::FIXED_BYTES;

/// The sorted inserts, or deletes, of a batch: unique keys with their values.
pub(crate) struct SortedBatch<B, V> {
    /// Long enough to become the keys of a run; only the first `len` are keys of the batch.
    pub keys: Buffer<B>,
    /// At least as many.
    pub values: Buffer<V>,
    pub len: usize,
}

impl<B: OrderedKey, V: Value> SortedBatch<B, V> {
    /// Copies keys that are strictly ascending, with their values.
    pub fn from_sorted(cpu: &Cpu, keys: &[B], values: &[V]) -> Result<Self, Error> {
        let mut batch = Self::zeroed(cpu, keys.len())?;
        batch.keys[..keys.len()].copy_from_slice(keys);
        batch.values.copy_from_slice(values);
        Ok(batch)
    }

    /// Makes room for `len` pairs.
    pub fn zeroed(cpu: &Cpu, len: usize) -> Result<Self, Error> {
        let keys = cpu.memory.zeroed(key_capacity(len))?;
        Ok(SortedBatch { keys, values: cpu.memory.zeroed(len)?, len })
    }

    pub fn keys(&self) -> &[B] {
        &self.keys[..self.len]
    }

    pub fn values(&self) -> &[V] {
        &self.values[..self.len]
    }

    /// Removes what is behind the unique keys of each bucket.
    fn close_gaps(&mut self, sizes: &[usize], unique: &[usize]) {
        let (mut from, mut to) = (0, 0);
        for (&size, &unique) in sizes.iter().zip(unique) {
            if from > to {
                self.keys.copy_within(from..from + unique, to);
                self.values.copy_within(from..from + unique, to);
            }
            from += size;
            to += unique;
        }
        self.len = to;
    }
}

/// Sorts by key, unless the keys are in order already: strictly ascending. Of equal keys the last one remains or, if there
/// is a function for that, one with the combined values of all.
pub(crate) fn sort<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    values: &[V],
    order: Order,
    combine: Option<CombineFn<V>>,
) -> Result<SortedBatch<B, V>, Error> {
    if order.is_sorted() {
        return SortedBatch::from_sorted(cpu, keys, values);
    }
    let is_ascending = |keys: &[B]| keys.is_sorted_by(|a, b| a < b);
    if is_ascending(keys) {
        let batch = SortedBatch::from_sorted(cpu, keys, values)?;
        // Another language's arrays may have changed since: what was copied counts.
        if is_ascending(batch.keys()) {
            return Ok(batch);
        }
    }
    if cpu.workers.parts(keys.len()) > 1 {
        return sort_shared(cpu, keys, values, combine);
    }
    let records = radix_sort(cpu, keys, values)?;
    let mut batch = SortedBatch::zeroed(cpu, records.len())?;
    batch.len = write_unique(&records, combine, &mut batch.keys, &mut batch.values);
    Ok(batch)
}

/// Sorts with all threads.
fn sort_shared<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    values: &[V],
    combine: Option<CombineFn<V>>,
) -> Result<SortedBatch<B, V>, Error> {
    let mut batch = SortedBatch::zeroed(cpu, keys.len())?;
    let sizes = scatter(cpu, keys, values, &mut batch)?;

    // Each bucket is sorted by one thread, in records that stay in its cache.
    let buckets = cut(&mut batch.keys, sizes.iter().copied());
    let buckets = buckets.into_iter().zip(cut(&mut batch.values, sizes.iter().copied()));
    let unique = cpu.workers.map(buckets, |(keys, values)| {
        let records = radix_sort(cpu, keys, values)?;
        Ok(write_unique(&records, combine, keys, values))
    })?;
    batch.close_gaps(&sizes, &unique);
    Ok(batch)
}

/// Writes a batch bucket by bucket, in the order of the batch within each, and returns how long they are.
fn scatter<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    values: &[V],
    to: &mut SortedBatch<B, V>,
) -> Result<Vec<usize>, Error> {
    let part = keys.len().div_ceil(cpu.workers.parts(keys.len()));
    let spans = cpu.workers.map(keys.chunks(part), |keys| Ok(span_of(keys.iter().copied())))?;
    let ends = spans.into_iter().flatten().flat_map(|(lo, hi)| [lo, hi]);
    let span = span_of(ends).expect("a shared batch is not empty");
    let buckets = Buckets::new(span, keys.len() / RECORDS_PER_SHARED_BUCKET);

    // Each thread counts the keys of its part of the batch that belong to each bucket.
    let counts = cpu.workers.map(keys.chunks(part), |keys| {
        let mut counts = vec![0; buckets.count];
        buckets.count_keys(keys.iter().copied(), &mut counts);
        Ok(counts)
    })?;

    // Each thread scatters its part. A bucket has a section for every part, in the order of the
    // batch.
    let of_all_parts = |bucket: usize| counts.iter().map(move |counts| counts[bucket]);
    let sizes: Vec<usize> = (0..buckets.count).map(|bucket| of_all_parts(bucket).sum()).collect();
    let lengths = || (0..buckets.count).flat_map(of_all_parts);
    let mut sections: Vec<Vec<_>> =
        counts.iter().map(|_| Vec::with_capacity(buckets.count)).collect();
    let cut_sections = cut(&mut to.keys, lengths()).into_iter().zip(cut(&mut to.values, lengths()));
    for (index, (keys, values)) in cut_sections.enumerate() {
        sections[index % counts.len()].push(keys.iter_mut().zip(values));
    }
    let parts = keys.chunks(part).zip(values.chunks(part)).zip(sections);
    cpu.workers.each(parts, |((keys, values), mut sections)| {
        for (&key, &value) in keys.iter().zip(values) {
            let to = sections[buckets.of(key)].next();
            let (to_key, to_value) = to.expect("as much room as was counted");
            (*to_key, *to_value) = (key, value);
        }
        Ok(())
    })?;
    Ok(sizes)
}

/// Writes one pair of every key of sorted records: the last one or, if there is a function for that, the key with
/// the combined values of all. Returns how many there are.
fn write_unique<B: OrderedKey, V: Value>(
    records: &[Record<B, V>],
    combine: Option<CombineFn<V>>,
    keys: &mut [B],
    values: &mut [V],
) -> usize {
    let mut written = 0;
    match combine {
        None => {
            for (index, &(key, value)) in records.iter().enumerate() {
                (keys[written], values[written]) = (key, value);
                let is_last = records.get(index + 1).is_none_or(|next| next.0 != key);
                written += usize::from(is_last);
            }
        }
        Some(combine) => {
            for &(key, value) in records {
                match written.checked_sub(1) {
                    Some(last) if keys[last] == key => values[last] = combine(values[last], value),
                    _ => {
                        (keys[written], values[written]) = (key, value);
                        written += 1;
                    }
                }
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use std::collections::BTreeMap;

    /// Returns pseudo-random numbers.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        (1..).map(move |i: u64| {
            let mixed = (i ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
        })
    }

    fn check<B: OrderedKey>(threads: usize, keys: &[B]) {
        let cpu = Cpu::new(None, Some(threads)).unwrap();
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        let expected: BTreeMap<B, u32> = keys.iter().copied().zip(values.iter().copied()).collect();
        let batch = sort(&cpu, keys, &values, Order::Any, None).unwrap();
        assert_eq!(batch.len, expected.len());
        let sorted = batch.keys().iter().copied().zip(batch.values().iter().copied());
        assert!(sorted.eq(expected), "{} keys on {threads} threads", keys.len());

        let mut sums = BTreeMap::new();
        for (&key, &value) in keys.iter().zip(&values) {
            *sums.entry(key).or_insert(0u32) += value;
        }
        let batch = sort(&cpu, keys, &values, Order::Any, Some(|a, b| a + b)).unwrap();
        let sorted = batch.keys().iter().copied().zip(batch.values().iter().copied());
        assert!(sorted.eq(sums), "{} sums on {threads} threads", keys.len());
    }

    #[test]
    fn batches_of_every_shape_are_sorted_and_the_last_insert_wins() {
        for threads in [1, 3] {
            for len in [0, 1, 2, 39, 40, 41, 1000, 60_000] {
                let random: Vec<u64> = numbers(1).take(len).collect();
                check(threads, &random);
                check(threads, &random.iter().map(|&key| key as u32).collect::<Vec<_>>());
                check(threads, &random.iter().map(|key| key % 100).collect::<Vec<_>>());
                check(threads, &random.iter().map(|key| u64::MAX - key % 5000).collect::<Vec<_>>());
                check(threads, &random.iter().map(|key| 1u64 << (key % 64)).collect::<Vec<_>>());
                check(threads, &(0..len as u32).collect::<Vec<_>>());
                check(threads, &(0..len as u32).rev().collect::<Vec<_>>());
                check(threads, &vec![7u32; len]);
                let ends: Vec<u32> = random.iter().map(|key| (key & 1) as u32 * u32::MAX).collect();
                check(threads, &ends);
            }
        }
    }

    #[test]
    fn wide_keys_of_every_shape_are_sorted() {
        for threads in [1, 3] {
            for len in [0, 1, 2, 24, 25, 1000, 60_000] {
                let random: Vec<u64> = numbers(2).take(len).collect();
                let wide = |key: &u64| u128::from(*key) << 64 | u128::from(key.rotate_left(23));
                check(threads, &random.iter().map(wide).collect::<Vec<_>>());
                check(threads, &random.iter().map(|key| 1u128 << (key % 128)).collect::<Vec<_>>());
                check(threads, &vec![u128::MAX; len]);
                // Of each symbol, times that ascend, descend, repeat, or come in any order.
                let of_symbols = |time: &dyn Fn(usize, u64) -> i64| -> Vec<u128> {
                    let keys = random.iter().enumerate();
                    keys.map(|(at, &key)| ((key % 50) as u32, time(at, key)).to_ordered()).collect()
                };
                check(threads, &of_symbols(&|at, _| at as i64 - 500));
                check(threads, &of_symbols(&|at, _| 500 - at as i64));
                check(threads, &of_symbols(&|at, _| at as i64 / 100));
                check(threads, &of_symbols(&|_, key| key.cast_signed()));
                check(
                    threads,
                    &of_symbols(&|at, key| match key % 50 {
                        7 => key.cast_signed(),
                        _ => at as i64,
                    }),
                );
            }
        }
    }

    /// Each scatter splits off only the largest of these keys: a recursive sort took one stack
    /// frame of 16 KiB for each of their bits.
    #[test]
    fn adversarial_keys_need_no_more_stack_than_others() {
        let adversarial = (0..64).rev().map(|bit| 1u64 << bit).chain(0..20).collect::<Vec<_>>();
        let random: Vec<u64> = numbers(3).take(3000).collect();
        let narrow = (0..4000u64).map(|i| i % 3 + ((i % 7) << 40)).collect::<Vec<_>>();
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || [adversarial, random, narrow].iter().for_each(|keys| check(1, keys)))
            .unwrap()
            .join()
            .unwrap();
    }
}
