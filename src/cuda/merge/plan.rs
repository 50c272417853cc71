//! Which blocks of memory a merge in place writes to: those of its sources, as soon as it has read them.

use crate::cuda::ffi::{SECTOR, Sector};
use crate::cuda::run::layout::PartBytes;
use crate::cuda::run::storage::SECTIONS;

/// The order of the parts of a run that are mapped.
const KEYS: usize = 0;
const INNER: usize = 1;
const VALUES: usize = 2;
const MARKS: usize = 3;

/// A merge in slices.
pub(super) struct Slices<'a> {
    /// The bytes of a block, of a key and of a value, and whether the new run has marks.
    pub block_bytes: u64,
    pub key_width: u64,
    pub value_width: u64,
    pub has_marks: bool,
    /// For each slice, and for the end of the last one: where it begins in every source.
    pub cuts: &'a [Vec<u64>],
    /// How many blocks each mapped part of every source has.
    pub blocks: &'a [[usize; SECTIONS]],
}

/// Where a block of the new run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is allocated.
    New,
    /// It is one of a source's.
    Source(SourceBlock),
}

/// A block of a source: of which, of which part, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceBlock {
    pub source: usize,
    pub section: usize,
    pub index: usize,
}

impl Slices<'_> {
    /// Returns the origin of each block of the new run's parts. No block is written before the slice after the last one
    /// that reads it.
    pub fn plan(&self) -> [Vec<Origin>; SECTIONS] {
        let mut waiting = self.source_blocks();
        let mut free = Vec::new();
        let mut plan: [Vec<Origin>; SECTIONS] = Default::default();
        for slice in 0..self.cuts.len() - 1 {
            let ready = waiting.partition_point(|&(from, _)| from <= slice);
            free.extend(waiting.drain(..ready).map(|(_, block)| block));
            let written = self.part_bytes(slice + 1).sections();
            for (section, bytes) in written.into_iter().enumerate() {
                while (plan[section].len() as u64) < bytes.div_ceil(self.block_bytes) {
                    plan[section].push(free.pop().map_or(Origin::New, Origin::Source));
                }
            }
        }
        plan
    }

    /// Returns how many entries were merged, at most, before a slice.
    pub fn entries_before(&self, slice: usize) -> u64 {
        self.cuts[slice].iter().sum()
    }

    /// Returns the bytes of the parts of the new run that slices before this one write, at most.
    fn part_bytes(&self, slice: usize) -> PartBytes {
        let entries = self.entries_before(slice);
        PartBytes::new(entries, self.key_width, self.value_width, self.has_marks)
    }

    /// Returns every block of the sources with the first slice that does not need it, in the order of those.
    fn source_blocks(&self) -> Vec<(usize, SourceBlock)> {
        let mut all = Vec::new();
        for (source, counts) in self.blocks.iter().enumerate() {
            for (section, &count) in counts.iter().enumerate() {
                all.extend((0..count).map(|index| {
                    let block = SourceBlock { source, section, index };
                    (self.first_free(&block), block)
                }));
            }
        }
        // Those that are free first are taken last: later slices have more to choose from anyway.
        all.sort_by_key(|&(from, _)| from);
        all
    }

    /// Returns the first slice that does not read a block, nor does any after it.
    fn first_free(&self, block: &SourceBlock) -> usize {
        let end = (block.index as u64 + 1) * self.block_bytes;
        let needed = match block.section {
            INNER => return 0, // A merge reads no fences.
            KEYS => end.div_ceil(self.key_width),
            VALUES => end.div_ceil(self.value_width),
            MARKS => end / size_of::<Sector>() as u64 * SECTOR,
            _ => unreachable!("there are four parts"),
        };
        let last = self.cuts.len() - 1;
        let needed = needed.min(self.cuts[last][block.source]);
        self.cuts.partition_point(|cuts| cuts[block.source] < needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator: tests need no more.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Cuts of sources with these lengths, in slices of random sizes.
    fn random_cuts(random: &mut Random, lens: &[u64], slices: u64) -> Vec<Vec<u64>> {
        let mut cuts = vec![vec![0; lens.len()]];
        for slice in 1..=slices {
            let before = &cuts[slice as usize - 1];
            let next = before.iter().zip(lens).map(|(&at, &len)| match slice == slices {
                true => len,
                false => at + random.below((len - at) / (slices - slice) * 2 + 1).min(len - at),
            });
            cuts.push(next.collect());
        }
        cuts
    }

    /// Plays a merge, byte by byte of the blocks' ends: whatever a slice writes must have been read before.
    fn check(slices: &Slices<'_>, plan: &[Vec<Origin>; SECTIONS]) -> usize {
        let mut used = Vec::new();
        let mut new = 0;
        for (section, origins) in plan.iter().enumerate() {
            for (index, origin) in origins.iter().enumerate() {
                let first_byte = index as u64 * slices.block_bytes;
                let writer = (0..slices.cuts.len() - 1)
                    .find(|&slice| slices.part_bytes(slice + 1).sections()[section] > first_byte)
                    .expect("every block is written to");
                let Origin::Source(block) = origin else {
                    new += 1;
                    continue;
                };
                assert!(!used.contains(block), "a block has one place");
                used.push(*block);
                // What later slices read of the source begins behind the block.
                let read = slices.cuts[writer][block.source];
                let all = slices.cuts[slices.cuts.len() - 1][block.source];
                let end = (block.index as u64 + 1) * slices.block_bytes;
                let is_read = match block.section {
                    KEYS => read == all || read * slices.key_width >= end,
                    VALUES => read == all || read * slices.value_width >= end,
                    MARKS => read == all || read / SECTOR * size_of::<Sector>() as u64 >= end,
                    _ => true,
                };
                assert!(is_read, "slice {writer} overwrites {block:?}");
            }
        }
        new
    }

    #[test]
    fn nothing_is_overwritten_that_is_still_to_be_read() {
        let mut random = Random(25);
        for round in 0..300 {
            let block_bytes = 4096;
            let key_width = [4, 8, 16][round % 3];
            let value_width = [0, 4, 8, 16][round % 4];
            let has_marks = round % 2 == 0;
            let sources = 1 + random.below(6) as usize;
            let lens: Vec<u64> = (0..sources).map(|_| random.below(40_000)).collect();
            let slices = 1 + random.below(40);
            let cuts = random_cuts(&mut random, &lens, slices);
            let blocks: Vec<[usize; SECTIONS]> = lens
                .iter()
                .map(|&len| {
                    let bytes = PartBytes::new(len, key_width, value_width, has_marks);
                    bytes.sections().map(|bytes| bytes.div_ceil(block_bytes) as usize)
                })
                .collect();
            let slices = Slices {
                block_bytes,
                key_width,
                value_width,
                has_marks,
                cuts: &cuts,
                blocks: &blocks,
            };
            let plan = slices.plan();
            check(&slices, &plan);
            let total: u64 = lens.iter().sum();
            let bytes = PartBytes::new(total, key_width, value_width, has_marks);
            let needed = bytes.sections().map(|bytes| bytes.div_ceil(block_bytes) as usize);
            assert_eq!(plan.each_ref().map(Vec::len), needed);
        }
    }

    #[test]
    fn a_long_merge_takes_few_new_blocks() {
        // Two runs of 2^25 pairs of 16 bytes, in 128 equal slices and blocks of 2 MiB.
        let len = 1u64 << 25;
        let cuts: Vec<Vec<u64>> = (0..=128).map(|slice| vec![len / 128 * slice; 2]).collect();
        let block_bytes = 2 << 20;
        let count = |bytes: u64| bytes.div_ceil(block_bytes) as usize;
        let blocks = [PartBytes::new(len, 8, 8, false).sections().map(count); 2];
        let (key_width, value_width) = (8, 8);
        let slices = Slices {
            block_bytes,
            key_width,
            value_width,
            has_marks: false,
            cuts: &cuts,
            blocks: &blocks,
        };
        let all: usize = blocks.iter().flatten().sum();
        let new = check(&slices, &slices.plan());
        assert!(new * 20 <= all, "{new} new blocks for {all}");
    }
}
