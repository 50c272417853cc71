//! Which shard each key belongs to, and the keys of each shard together.

use std::ops::Range;

use crate::error::{Error, try_zeroed};
use crate::workers::{Workers, cut};

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

    /// Copies keys and their values, of `width` bytes, to where those of each shard are together.
    pub fn group_pairs<T: Copy + Send + Sync>(
        &self,
        (keys, values): (&[T], &[u8]),
        width: usize,
        (grouped, grouped_values): (&mut [T], &mut [u8]),
    ) -> Result<(), Error> {
        match width {
            0 => self.group(keys, grouped),
            4 => self.group_both(keys, arrays::<4>(values), grouped, arrays_mut(grouped_values)),
            8 => self.group_both(keys, arrays::<8>(values), grouped, arrays_mut(grouped_values)),
            16 => self.group_both(keys, arrays::<16>(values), grouped, arrays_mut(grouped_values)),
            _ => unreachable!("values have 0, 4, 8 or 16 bytes"),
        }
    }

    /// Copies items and values of `width` bytes, those of each shard together, back to the order of the keys.
    pub fn ungroup_pairs<T: Copy + Send + Sync>(
        &self,
        (grouped, grouped_values): (&[T], &[u8]),
        width: usize,
        (items, values): (&mut [T], &mut [u8]),
    ) -> Result<(), Error> {
        let from = grouped_values;
        match width {
            0 => self.ungroup(grouped, items),
            4 => self.ungroup_both(grouped, arrays::<4>(from), items, arrays_mut(values)),
            8 => self.ungroup_both(grouped, arrays::<8>(from), items, arrays_mut(values)),
            16 => self.ungroup_both(grouped, arrays::<16>(from), items, arrays_mut(values)),
            _ => unreachable!("values have 0, 4, 8 or 16 bytes"),
        }
    }

    /// Copies items, one for each key, to where those of each shard are together.
    pub fn group<T: Copy + Send + Sync>(
        &self,
        items: &[T],
        grouped: &mut [T],
    ) -> Result<(), Error> {
        self.group_both(items, &nothing(items.len()), grouped, &mut nothing(items.len()))
    }

    /// Copies items, those of each shard together, back to the order of the keys.
    pub fn ungroup<T: Copy + Send + Sync>(
        &self,
        grouped: &[T],
        items: &mut [T],
    ) -> Result<(), Error> {
        self.ungroup_both(grouped, &nothing(items.len()), items, &mut nothing(items.len()))
    }

    /// Groups items of two kinds in one pass.
    fn group_both<T: Copy + Send + Sync, U: Copy + Send + Sync>(
        &self,
        items: &[T],
        others: &[U],
        grouped: &mut [T],
        grouped_others: &mut [U],
    ) -> Result<(), Error> {
        let parts = cut(grouped, self.lens_by_shard());
        let parts = parts.into_iter().zip(cut(grouped_others, self.lens_by_shard())).collect();
        let parts = by_chunk(parts, self.counts.len());
        let chunks = self.ids.chunks(self.chunk_len).zip(items.chunks(self.chunk_len));
        let chunks = chunks.zip(others.chunks(self.chunk_len)).zip(parts);
        self.workers.each(chunks, |(((ids, items), others), mut parts)| {
            let mut next = [0; 256];
            for ((&id, &item), &other) in ids.iter().zip(items).zip(others) {
                let next = &mut next[usize::from(id)];
                let (to, to_other) = &mut parts[usize::from(id)];
                (to[*next], to_other[*next]) = (item, other);
                *next += 1;
            }
            Ok(())
        })
    }

    /// Brings items of two kinds back in one pass.
    fn ungroup_both<T: Copy + Send + Sync, U: Copy + Send + Sync>(
        &self,
        grouped: &[T],
        grouped_others: &[U],
        items: &mut [T],
        others: &mut [U],
    ) -> Result<(), Error> {
        let (mut rest, mut rest_of_others) = (grouped, grouped_others);
        let part = |len| {
            let part = rest.split_off(..len).expect("there is an item for each key");
            (part, rest_of_others.split_off(..len).expect("there is one for each key"))
        };
        let parts = by_chunk(self.lens_by_shard().map(part).collect(), self.counts.len());
        let chunks = self.ids.chunks(self.chunk_len).zip(items.chunks_mut(self.chunk_len));
        let chunks = chunks.zip(others.chunks_mut(self.chunk_len)).zip(parts);
        self.workers.each(chunks, |(((ids, items), others), parts)| {
            let mut next = [0; 256];
            for ((&id, item), other) in ids.iter().zip(items).zip(others) {
                let next = &mut next[usize::from(id)];
                let (from, from_other) = parts[usize::from(id)];
                (*item, *other) = (from[*next], from_other[*next]);
                *next += 1;
            }
            Ok(())
        })
    }

    /// Returns how many items each shard has of each chunk, shard by shard.
    fn lens_by_shard(&self) -> impl Iterator<Item = usize> {
        let shards = self.bounds.len() - 1;
        (0..shards).flat_map(move |shard| self.counts.iter().map(move |counts| counts[shard]))
    }
}

/// Returns as many items without bytes.
fn nothing(len: usize) -> Vec<()> {
    vec![(); len]
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
            let mut grouped_values = vec![0u8; keys.len() * 4];
            let values: &[u8] = bytemuck::cast_slice(&keys);
            let to = (&mut grouped[..], &mut grouped_values[..]);
            partition.group_pairs((&keys, values), 4, to).unwrap();
            assert_eq!(grouped_values, bytemuck::cast_slice::<_, u8>(&grouped));
            for shard in 0..5 {
                let expected = keys.iter().filter(|key| shard_of(&splitters, key) == shard);
                assert!(grouped[partition.range(shard)].iter().eq(expected));
            }
            let mut back = (vec![0u32; keys.len()], vec![0u8; keys.len() * 4]);
            let to = (&mut back.0[..], &mut back.1[..]);
            partition.ungroup_pairs((&grouped, &grouped_values), 4, to).unwrap();
            assert_eq!((&back.0, &back.1[..]), (&keys, values));
            let mut alone = vec![0u32; keys.len()];
            partition.group(&keys, &mut alone).unwrap();
            assert_eq!(alone, grouped);
            partition.ungroup(&grouped, &mut alone).unwrap();
            assert_eq!(alone, keys);
            assert_eq!(partition.only_shard(), (len <= 1).then_some(0));
        }
    }
}
