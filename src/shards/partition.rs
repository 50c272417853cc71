//! Which shard each key belongs to, and the keys of each shard together.

use std::ops::Range;

use crate::cpu::{Workers, cut};
use crate::error::{Error, try_zeroed};

/// Returns the shard of a key: the number of splitters that are not greater.
pub(super) fn shard_of<T: Ord>(splitters: &[T], key: &T) -> usize {
    match splitters.len() {
        // Faster than a search, which branches.
        ..16 => splitters.iter().filter(|splitter| *splitter <= key).count(),
        _ => splitters.partition_point(|splitter| splitter <= key),
    }
}

/// A list of keys, divided by shard. Within a shard the order stays.
pub(super) struct Partition<'a> {
    workers: &'a Workers,
    /// The shard of each key.
    ids: Vec<u8>,
    chunk_len: usize,
    /// For each chunk of keys, how many belong to each shard.
    counts: Vec<Vec<usize>>,
    /// Where the keys of each shard begin when those of one follow those of another, and where the last end.
    bounds: Vec<usize>,
}

impl<'a> Partition<'a> {
    pub fn new<T: Ord + Sync>(
        keys: &[T],
        splitters: &[T],
        workers: &'a Workers,
    ) -> Result<Self, Error> {
        let shards = splitters.len() + 1;
        let mut ids = try_zeroed::<u8>(keys.len())?;
        let chunk_len = keys.len().div_ceil(workers.parts(keys.len())).max(1);
        let chunks = keys.chunks(chunk_len).zip(ids.chunks_mut(chunk_len));
        let counts = workers.map(chunks, |(keys, ids)| {
            let mut counts = vec![0; shards];
            for (key, id) in keys.iter().zip(ids) {
                let shard = shard_of(splitters, key);
                counts[shard] += 1;
                *id = shard as u8; // There are at most 256.
            }
            Ok(counts)
        })?;
        let mut bounds = vec![0; shards + 1];
        for shard in 0..shards {
            let in_shard: usize = counts.iter().map(|counts: &Vec<usize>| counts[shard]).sum();
            bounds[shard + 1] = bounds[shard] + in_shard;
        }
        Ok(Partition { workers, ids, chunk_len, counts, bounds })
    }

    /// Returns where the keys of a shard are, once they are grouped.
    pub fn range(&self, shard: usize) -> Range<usize> {
        self.bounds[shard]..self.bounds[shard + 1]
    }

    /// Returns how many keys each shard has.
    pub fn lens(&self) -> impl Iterator<Item = usize> {
        self.bounds.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// Returns where the keys of each shard begin when they are grouped, and where the last end.
    pub fn into_bounds(self) -> Vec<usize> {
        self.bounds
    }

    /// Returns the shard of the key at an index.
    pub fn shard(&self, index: usize) -> usize {
        usize::from(self.ids[index])
    }

    /// Returns the only shard that has keys; `None` if several have.
    pub fn only_shard(&self) -> Option<usize> {
        let all = self.ids.len();
        (0..self.bounds.len() - 1).find(|&shard| self.range(shard).len() == all)
    }

    /// Copies values of `width` bytes, one for each key, to where those of each shard are together.
    pub fn group_values(
        &self,
        values: &[u8],
        width: usize,
        grouped: &mut [u8],
    ) -> Result<(), Error> {
        match width {
            4 => self.group(arrays::<4>(values), 1, arrays_mut(grouped)),
            8 => self.group(arrays::<8>(values), 1, arrays_mut(grouped)),
            16 => self.group(arrays::<16>(values), 1, arrays_mut(grouped)),
            _ => self.group(values, width, grouped),
        }
    }

    /// Copies values of `width` bytes, those of each shard together, back to the order of the keys.
    pub fn ungroup_values(
        &self,
        grouped: &[u8],
        width: usize,
        values: &mut [u8],
    ) -> Result<(), Error> {
        match width {
            4 => self.ungroup(arrays::<4>(grouped), 1, arrays_mut(values)),
            8 => self.ungroup(arrays::<8>(grouped), 1, arrays_mut(values)),
            16 => self.ungroup(arrays::<16>(grouped), 1, arrays_mut(values)),
            _ => self.ungroup(grouped, width, values),
        }
    }

    /// Copies items of `width` elements, one for each key, to where those of each shard are together.
    pub fn group<T: Copy + Send + Sync>(
        &self,
        items: &[T],
        width: usize,
        grouped: &mut [T],
    ) -> Result<(), Error> {
        if width == 0 {
            return Ok(());
        }
        let lens = self.lens_by_shard(width);
        let mut parts = by_chunk(cut(grouped, lens), self.counts.len());
        let chunks = self.ids.chunks(self.chunk_len).zip(items.chunks(self.chunk_len * width));
        self.workers.each(chunks.zip(parts.drain(..)), |((ids, items), mut parts)| {
            copy_each(ids, width, |shard, at, to| match width {
                1 => parts[shard][to] = items[at], // Not a call of a function that copies any number.
                _ => parts[shard][to..to + width].copy_from_slice(&items[at..at + width]),
            });
            Ok(())
        })
    }

    /// Copies items of `width` elements, those of each shard together, back to the order of the keys.
    pub fn ungroup<T: Copy + Send + Sync>(
        &self,
        grouped: &[T],
        width: usize,
        items: &mut [T],
    ) -> Result<(), Error> {
        if width == 0 {
            return Ok(());
        }
        let mut rest = grouped;
        let lens = self.lens_by_shard(width);
        let parts =
            lens.map(|len| rest.split_off(..len).expect("there is an item for each key")).collect();
        let mut parts = by_chunk(parts, self.counts.len());
        let chunks = self.ids.chunks(self.chunk_len).zip(items.chunks_mut(self.chunk_len * width));
        self.workers.each(chunks.zip(parts.drain(..)), |((ids, items), parts)| {
            copy_each(ids, width, |shard, at, from| match width {
                1 => items[at] = parts[shard][from],
                _ => items[at..at + width].copy_from_slice(&parts[shard][from..from + width]),
            });
            Ok(())
        })
    }

    /// Returns the elements of the items of each shard, chunk by chunk.
    fn lens_by_shard(&self, width: usize) -> impl Iterator<Item = usize> {
        let shards = self.bounds.len() - 1;
        (0..shards)
            .flat_map(move |shard| self.counts.iter().map(move |counts| counts[shard] * width))
    }
}

/// Calls `copy` for each key with its shard, the offset of its item, and that among the items of the chunk in that shard.
#[inline]
fn copy_each(ids: &[u8], width: usize, mut copy: impl FnMut(usize, usize, usize)) {
    let mut next = [0; 256];
    for (at, &id) in ids.iter().enumerate() {
        let next = &mut next[usize::from(id)];
        copy(usize::from(id), at * width, *next);
        *next += width;
    }
}

/// Returns the bytes of values as arrays, whose copies are as fast as those of integers.
fn arrays<const WIDTH: usize>(values: &[u8]) -> &[[u8; WIDTH]] {
    values.as_chunks().0
}

fn arrays_mut<const WIDTH: usize>(values: &mut [u8]) -> &mut [[u8; WIDTH]] {
    values.as_chunks_mut().0
}

/// Returns parts that are ordered by shard and then by chunk as a list for each chunk.
fn by_chunk<T>(parts: Vec<T>, chunks: usize) -> Vec<Vec<T>> {
    let mut lists: Vec<Vec<T>> = (0..chunks).map(|_| Vec::new()).collect();
    for (index, part) in parts.into_iter().enumerate() {
        lists[index % chunks].push(part);
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_on_a_splitter_belong_to_the_shard_above() {
        let splitters = [10, 20, 20, 30];
        for (key, shard) in [(0, 0), (9, 0), (10, 1), (19, 1), (20, 3), (29, 3), (30, 4), (99, 4)] {
            assert_eq!(shard_of(&splitters, &key), shard);
        }
        let many: Vec<u32> = (1..40).collect();
        assert_eq!([0, 1, 20, 39, 90].map(|key| shard_of(&many, &key)), [0, 1, 20, 39, 39]);
    }

    #[test]
    fn items_are_grouped_in_order_and_back() {
        for (len, threads) in [(0, 1), (1, 2), (100, 1), (50_000, 3)] {
            let keys: Vec<u32> = (0..len).map(|at: u32| at.wrapping_mul(2_654_435_761)).collect();
            let workers = Workers::new(Some(threads)).unwrap();
            let splitters = [1 << 28, 1 << 30, 1 << 30, 3 << 30];
            let partition = Partition::new(&keys, &splitters, &workers).unwrap();
            let mut grouped = vec![0u32; keys.len()];
            partition.group(&keys, 1, &mut grouped).unwrap();
            for shard in 0..5 {
                let expected = keys.iter().filter(|key| shard_of(&splitters, key) == shard);
                assert!(grouped[partition.range(shard)].iter().eq(expected));
            }
            let mut back = vec![0u8; keys.len() * 4];
            partition.ungroup(bytemuck::cast_slice(&grouped), 4, &mut back).unwrap();
            assert_eq!(back, bytemuck::cast_slice::<_, u8>(&keys));
            assert_eq!(partition.only_shard(), (len <= 1).then_some(0));
        }
    }
}
