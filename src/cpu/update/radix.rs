//! A stable radix sort on one thread, most significant bits first.
//!
//! Records are scattered into buckets by where their key lies between the smallest and the largest
//! key, until a bucket is small enough for insertion sort. Only as many bits are used as tell the
//! records apart, so that two scatters suffice for millions of keys of any width; keys in a narrow
//! range, dense keys and sorted input are no slower.

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// A key and its value.
pub(crate) type Record<B, V> = (B, V);

/// Buckets of at most this many records are sorted by insertion.
const INSERTION_MAX: usize = 24;

/// The mean number of records in a bucket of the last scatter: few enough that insertion is quick.
const RECORDS_PER_BUCKET: usize = 4;

/// The base-2 logarithm of the most buckets in one scatter: with more, the writes miss the caches.
const MAX_BUCKET_BITS: u32 = 11;

/// The most bytes that [`radix_sort`] allocates for one record: its own, a place to move it to, and its
/// part of a list of buckets.
pub(crate) const fn bytes_per_record<B, V>() -> usize {
    2 * size_of::<Record<B, V>>() + size_of::<[usize; 2]>() / INSERTION_MAX + 1
}

/// The bytes that [`radix_sort`] allocates besides.
pub(crate) const FIXED_BYTES: usize = (2 * size_of::<usize>()) << MAX_BUCKET_BITS;

/// Returns pairs as records sorted by key; those with equal keys keep their order.
pub(crate) fn radix_sort<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    values: &[V],
) -> Result<Buffer<Record<B, V>>, Error> {
    let mut records = cpu.memory.zeroed::<Record<B, V>>(keys.len())?;
    let pairs = keys.iter().copied().zip(values.iter().copied());
    if keys.len() <= INSERTION_MAX || keys.is_sorted() {
        records.iter_mut().zip(pairs).for_each(|(record, pair)| *record = pair);
        insertion_sort(&mut records);
        return Ok(records);
    }
    // A list of the buckets still to be sorted, instead of recursion: with adversarial keys, every
    // scatter splits off only a few records. Buckets in the list have more than `INSERTION_MAX`
    // records each, and do not overlap.
    let mut unsorted = cpu.memory.zeroed::<[usize; 2]>(keys.len() / INSERTION_MAX)?;
    let mut ends = cpu.memory.zeroed::<usize>(max_buckets(keys.len()))?;
    let ends_of = Buckets::of_all(keys.iter().copied()).scatter(pairs, &mut records, &mut ends);
    let mut left = sort_small_buckets(&mut records, 0, ends_of, &mut unsorted);
    // As long as the longest bucket that was sorted.
    let mut scratch = cpu.memory.zeroed::<Record<B, V>>(0)?;
    while left > 0 {
        left -= 1;
        let [start, end] = unsorted[left];
        let bucket = &mut records[start..end];
        if bucket.is_sorted_by_key(|record| record.0) {
            continue;
        }
        if scratch.len() < bucket.len() {
            scratch = cpu.memory.zeroed(bucket.len())?;
        }
        let scratch = &mut scratch[..bucket.len()];
        scratch.copy_from_slice(bucket);
        let buckets = Buckets::of_all(scratch.iter().map(|record| record.0));
        let ends_of = buckets.scatter(scratch.iter().copied(), bucket, &mut ends);
        left += sort_small_buckets(bucket, start, ends_of, &mut unsorted[left..]);
    }
    Ok(records)
}

/// Sorts the buckets that are small, of those that end at these places, and lists where the others begin and end,
/// counted from `start` before the first record. Returns how many those are.
fn sort_small_buckets<B: OrderedKey, V: Value>(
    records: &mut [Record<B, V>],
    start: usize,
    ends: &[usize],
    list: &mut [[usize; 2]],
) -> usize {
    let (mut from, mut listed) = (0, 0);
    for &to in ends {
        if to - from <= INSERTION_MAX {
            insertion_sort(&mut records[from..to]);
        } else {
            list[listed] = [start + from, start + to];
            listed += 1;
        }
        from = to;
    }
    listed
}

/// Sorts a few records, or records that are sorted, stably.
#[inline]
fn insertion_sort<B: OrderedKey, V: Value>(records: &mut [Record<B, V>]) {
    for index in 1..records.len() {
        let record = records[index];
        let mut at = index;
        while at > 0 && records[at - 1].0 > record.0 {
            records[at] = records[at - 1];
            at -= 1;
        }
        records[at] = record;
    }
}

/// Returns the smallest and the largest key.
pub(crate) fn span_of<B: OrderedKey>(keys: impl Iterator<Item = B>) -> Option<(B, B)> {
    keys.fold(None, |span, key| match span {
        None => Some((key, key)),
        Some((lo, hi)) => Some((lo.min(key), hi.max(key))),
    })
}

/// Returns the base-2 logarithm of the number of buckets if about `wanted` are wanted.
fn bucket_bits(wanted: usize) -> u32 {
    wanted.checked_ilog2().unwrap_or(0).clamp(1, MAX_BUCKET_BITS)
}

/// Returns the most buckets that this many records, or fewer, are scattered into.
fn max_buckets(records: usize) -> usize {
    1 << bucket_bits(records / RECORDS_PER_BUCKET)
}

/// A division of a span of keys into buckets of equal width, a power of two.
pub(crate) struct Buckets<B> {
    lowest: B,
    shift: u32,
    pub count: usize,
}

impl<B: OrderedKey> Buckets<B> {
    /// Divides the keys between the smallest and the largest of these, so that few are in each bucket.
    fn of_all(keys: impl ExactSizeIterator<Item = B>) -> Self {
        let wanted = keys.len() / RECORDS_PER_BUCKET;
        Buckets::new(span_of(keys).expect("there are keys"), wanted)
    }

    /// Divides the keys from `lo` to `hi` into about `wanted` buckets, at most
    /// 2^[`MAX_BUCKET_BITS`].
    pub fn new((lo, hi): (B, B), wanted: usize) -> Self {
        let width = hi.widen() - lo.widen();
        let shift = (u128::BITS - width.leading_zeros()).saturating_sub(bucket_bits(wanted));
        Buckets { lowest: lo, shift, count: hi.steps_above(lo, shift) + 1 }
    }

    /// Returns the bucket of a key.
    #[inline]
    pub fn of(&self, key: B) -> usize {
        key.steps_above(self.lowest, self.shift)
    }

    /// Adds to `counts` how many keys belong to each bucket.
    pub fn count_keys(&self, keys: impl Iterator<Item = B>, counts: &mut [usize]) {
        for key in keys {
            counts[self.of(key)] += 1;
        }
    }

    /// Writes the records bucket by bucket, keeping their order within each, and returns where each bucket
    /// ends, in memory that has room for all of them.
    fn scatter<'a, V: Value>(
        &self,
        records: impl Iterator<Item = Record<B, V>> + Clone,
        out: &mut [Record<B, V>],
        ends: &'a mut [usize],
    ) -> &'a [usize] {
        let ends = &mut ends[..self.count];
        ends.fill(0);
        self.count_keys(records.clone().map(|record| record.0), ends);
        let mut start = 0;
        for next in &mut *ends {
            start += std::mem::replace(next, start);
        }
        for record in records {
            let next = &mut ends[self.of(record.0)];
            out[*next] = record;
            *next += 1; // After the last record of a bucket, this is its end.
        }
        ends
    }
}
