//! Order & dedupe: a batch in any order becomes a sorted tile in which the last insert of a key won.
//!
//! A stable radix sort from the top: records are scattered into buckets by where their key lies
//! between the smallest and the largest, until a bucket is small enough for insertion. Two scatters
//! do for millions of keys of any width, since only as many bits are looked at as tell the records
//! apart; narrow bands, dense keys and sorted input are no slower. Threads first scatter a part of the
//! batch each, and then sort different buckets.

use std::slice::IterMut;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::run::key_room;
use crate::cpu::workers::cut;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// A sorted batch: unique keys with their values, ready to be a run.
pub(crate) struct Tile<B, V> {
    /// With room to become the keys of a run: only the first `len` count.
    pub keys: Buffer<B>,
    pub values: Buffer<V>,
    pub len: usize,
}

impl<B, V> Tile<B, V> {
    pub fn keys(&self) -> &[B] {
        &self.keys[..self.len]
    }
}

type Record<B, V> = (B, V);

/// Buckets of at most this many records are sorted by insertion.
const SMALL: usize = 24;

/// How many records a bucket of the last scatter should have: so few that insertion is quick.
const AIM: usize = 4;

/// How many records a bucket that one thread sorts should have: they fit its cache.
const SHARED_AIM: usize = 1 << 13;

/// At most this many buckets in one scatter: more and the writes miss the caches.
const MOST_BITS: u32 = 11;

/// Bytes that sorting one update takes: its record, a place to move it to, and the tile that it ends in.
pub(crate) const fn bytes_per_update<B, V>() -> usize {
    2 * size_of::<Record<B, V>>()
        + size_of::<[usize; 2]>() / SMALL
        + 1
        + size_of::<B>()
        + size_of::<V>()
}

/// Bytes that sorting any batch takes besides.
pub(crate) const FIXED_BYTES: usize = (2 * size_of::<usize>()) << MOST_BITS;

/// Sorts by key; of equal keys the last one stays.
pub(crate) fn sort<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    values: &[V],
) -> Result<Tile<B, V>, Error> {
    let mut records = cpu.memory.zeroed::<Record<B, V>>(keys.len())?;
    let lengths = if cpu.workers.parts(keys.len()) == 1 {
        for (record, (&key, &value)) in records.iter_mut().zip(keys.iter().zip(values)) {
            *record = (key, value);
        }
        sort_records(cpu, &mut records)?;
        vec![(keys.len(), keep_last(&mut records))]
    } else {
        sort_shared(cpu, keys, values, &mut records)?
    };
    unzip(cpu, &records, &lengths)
}

/// Sorts with all threads, into `records`. Returns how the records are cut into stretches, in key
/// order, and how many unique records each stretch begins with.
fn sort_shared<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    values: &[V],
    records: &mut [Record<B, V>],
) -> Result<Vec<(usize, usize)>, Error> {
    let part = keys.len().div_ceil(cpu.workers.parts(keys.len()));
    let span = span_of(keys.iter().copied()).expect("a shared batch is not empty");
    let buckets = Buckets::new(span, keys.len() / SHARED_AIM);

    // Each thread counts what its part of the batch has for each bucket…
    let counts = cpu.workers.each(keys.chunks(part), |keys| {
        let mut counts = vec![0; buckets.count];
        buckets.count_keys(keys.iter().copied(), &mut counts);
        Ok(counts)
    })?;
    // …and scatters it: a bucket has a place for every thread, in the order of the batch…
    let of_all = |bucket: usize| counts.iter().map(move |counts| counts[bucket]);
    let sizes: Vec<usize> = (0..buckets.count).map(|bucket| of_all(bucket).sum()).collect();
    let mut places: Vec<Vec<IterMut<'_, Record<B, V>>>> =
        counts.iter().map(|_| Vec::with_capacity(buckets.count)).collect();
    for (index, place) in cut(records, (0..buckets.count).flat_map(of_all)).into_iter().enumerate()
    {
        places[index % counts.len()].push(place.iter_mut());
    }
    let parts = keys.chunks(part).zip(values.chunks(part)).zip(places);
    cpu.workers.each(parts, |((keys, values), mut places)| {
        for (&key, &value) in keys.iter().zip(values) {
            let place = places[buckets.of(key)].next();
            *place.expect("as many places as were counted") = (key, value);
        }
        Ok(())
    })?;

    // …then each bucket is sorted.
    let stretches = cut(records, sizes.iter().copied());
    let uniques = cpu.workers.each(stretches, |records| {
        sort_records(cpu, records)?;
        Ok(keep_last(records))
    })?;
    Ok(sizes.into_iter().zip(uniques).collect())
}

/// Keys and values apart, from stretches that each begin with their unique records.
fn unzip<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    records: &[Record<B, V>],
    stretches: &[(usize, usize)],
) -> Result<Tile<B, V>, Error> {
    let len = stretches.iter().map(|&(_, unique)| unique).sum();
    let mut keys = cpu.memory.zeroed(key_room(len))?;
    let mut values = cpu.memory.zeroed(len)?;
    let per_task = stretches.len().div_ceil(cpu.workers.parts(len));
    let groups = || stretches.chunks(per_task.max(1));
    let uniques = || groups().map(|group| group.iter().map(|&(_, unique)| unique).sum());
    let starts = groups().scan(0, |start, group| {
        let here = *start;
        *start += group.iter().map(|&(size, _)| size).sum::<usize>();
        Some(here)
    });
    let outputs = cut(&mut keys, uniques()).into_iter().zip(cut(&mut values, uniques()));
    cpu.workers.each(groups().zip(starts).zip(outputs), |((group, start), (keys, values))| {
        let mut start = start;
        let mut outputs = keys.iter_mut().zip(values);
        for &(size, unique) in group {
            for (record, (key, value)) in records[start..][..unique].iter().zip(&mut outputs) {
                (*key, *value) = *record;
            }
            start += size;
        }
        Ok(())
    })?;
    Ok(Tile { keys, values, len })
}

/// Sorts by key, stably. Buckets that are still to be sorted are kept in a list, not on the stack: chosen
/// keys can make every scatter split off only a few records.
fn sort_records<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    records: &mut [Record<B, V>],
) -> Result<(), Error> {
    if records.is_sorted_by_key(|record| record.0) {
        return Ok(());
    }
    let mut scratch = cpu.memory.zeroed::<Record<B, V>>(records.len())?;
    if records.len() <= SMALL {
        scratch.copy_from_slice(records);
        insert_each(&scratch, records);
        return Ok(());
    }
    // Those in the list have more than `SMALL` records each, and none is in two of them.
    let mut unsorted = cpu.memory.zeroed::<[usize; 2]>(records.len() / SMALL)?;
    let mut ends = cpu.memory.zeroed::<usize>(Buckets::most(records.len()))?;
    unsorted[0] = [0, records.len()];
    let mut left = 1;
    while left > 0 {
        left -= 1;
        let [start, end] = unsorted[left];
        let (bucket, scratch) = (&mut records[start..end], &mut scratch[start..end]);
        if bucket.is_sorted_by_key(|record| record.0) {
            continue;
        }
        let span = span_of(bucket.iter().map(|record| record.0)).expect("not empty");
        let buckets = Buckets::new(span, bucket.len() / AIM);
        let ends = &mut ends[..buckets.count];
        buckets.scatter(bucket, scratch, ends);
        let mut from = 0;
        for &mut to in ends {
            if to - from <= SMALL {
                insert_each(&scratch[from..to], &mut bucket[from..to]);
            } else {
                bucket[from..to].copy_from_slice(&scratch[from..to]);
                unsorted[left] = [start + from, start + to];
                left += 1;
            }
            from = to;
        }
    }
    Ok(())
}

/// Writes a few records in order, stably.
fn insert_each<B: OrderedKey, V: Value>(from: &[Record<B, V>], to: &mut [Record<B, V>]) {
    let to = &mut to[..from.len()];
    for (index, &record) in from.iter().enumerate() {
        let mut at = index;
        while at > 0 && to[at - 1].0 > record.0 {
            to[at] = to[at - 1];
            at -= 1;
        }
        to[at] = record;
    }
}

/// The smallest and the largest key.
fn span_of<B: OrderedKey>(keys: impl Iterator<Item = B>) -> Option<(B, B)> {
    keys.fold(None, |span, key| match span {
        None => Some((key, key)),
        Some((lo, hi)) => Some((lo.min(key), hi.max(key))),
    })
}

/// Cuts the span of keys into equal buckets.
struct Buckets {
    lowest: u64,
    shift: u32,
    count: usize,
}

impl Buckets {
    /// About `wanted` buckets, at most 2^[`MOST_BITS`], over the keys from `lo` to `hi`.
    fn new<B: OrderedKey>((lo, hi): (B, B), wanted: usize) -> Self {
        let width = hi.widen() - lo.widen();
        let shift = (u64::BITS - width.leading_zeros()).saturating_sub(Self::bits(wanted));
        Buckets { lowest: lo.widen(), shift, count: (width >> shift) as usize + 1 }
    }

    /// Returns the base-2 logarithm of the number of buckets, where about `wanted` are wanted.
    fn bits(wanted: usize) -> u32 {
        wanted.checked_ilog2().unwrap_or(0).clamp(1, MOST_BITS)
    }

    /// Returns the most buckets that this many records, or fewer, are scattered into.
    fn most(records: usize) -> usize {
        1 << Self::bits(records / AIM)
    }

    fn of<B: OrderedKey>(&self, key: B) -> usize {
        ((key.widen() - self.lowest) >> self.shift) as usize
    }

    /// Adds up how many keys belong to each bucket.
    fn count_keys<B: OrderedKey>(&self, keys: impl Iterator<Item = B>, counts: &mut [usize]) {
        for key in keys {
            counts[self.of(key)] += 1;
        }
    }

    /// Writes the records bucket by bucket, keeping their order within each, and where each bucket ends.
    fn scatter<B: OrderedKey, V: Value>(
        &self,
        records: &[Record<B, V>],
        out: &mut [Record<B, V>],
        ends: &mut [usize],
    ) {
        ends.fill(0);
        self.count_keys(records.iter().map(|record| record.0), ends);
        let mut start = 0;
        for next in &mut *ends {
            start += std::mem::replace(next, start);
        }
        for &record in records {
            let next = &mut ends[self.of(record.0)];
            out[*next] = record;
            *next += 1; // In the end, each bucket's next place is its end.
        }
    }
}

/// Moves the last record of every key to the front, in order, and returns how many there are.
fn keep_last<B: OrderedKey, V: Value>(records: &mut [Record<B, V>]) -> usize {
    let mut kept = 0;
    for index in 0..records.len() {
        let is_last = records.get(index + 1).is_none_or(|next| next.0 != records[index].0);
        records[kept] = records[index];
        kept += usize::from(is_last);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A generator good enough to scatter keys.
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
        let tile = sort(&cpu, keys, &values).unwrap();
        assert_eq!(tile.len, expected.len());
        let sorted = tile.keys[..tile.len].iter().copied().zip(tile.values.iter().copied());
        assert!(sorted.eq(expected), "{} keys on {threads} threads", keys.len());
    }

    #[test]
    fn every_shape_of_batch_is_sorted_and_the_last_insert_wins() {
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

    /// Each scatter splits off the largest keys only: 84 such keys once took as many stack frames of 16 KiB
    /// as there are bits to tell them apart.
    #[test]
    fn chosen_keys_need_no_more_stack_than_others() {
        let chosen = (0..64).rev().map(|bit| 1u64 << bit).chain(0..20).collect::<Vec<_>>();
        let random: Vec<u64> = numbers(3).take(3000).collect();
        let narrow = (0..4000u64).map(|i| i % 3 + ((i % 7) << 40)).collect::<Vec<_>>();
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || [chosen, random, narrow].iter().for_each(|keys| check(1, keys)))
            .unwrap()
            .join()
            .unwrap();
    }
}
