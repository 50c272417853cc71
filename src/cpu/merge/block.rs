//! Blocks: the entries of all sources between two keys, few enough to stay in the cache while they
//! are merged.

use std::ops::Range;

use crate::cpu::merge::source::Source;
use crate::key::OrderedKey;

/// Entries in a block, of all sources together: they fit into the L1 cache.
pub(crate) const BLOCK: usize = 1 << 12;

/// Returns the most entries in a block of this many sources: at least one of each.
pub(crate) fn block_capacity(sources: usize) -> usize {
    BLOCK.max(sources)
}

/// Walks through sources block by block.
#[derive(Default)]
pub(crate) struct BlockCursor {
    /// The entries of each source before these positions are merged.
    pub positions: Vec<usize>,
    /// Where the walk ends in each source.
    pub ends: Vec<usize>,
    /// The current block: a range of each source.
    pub block: Vec<Range<usize>>,
}

impl BlockCursor {
    /// Starts a walk through a window of each source.
    pub fn start(&mut self, windows: impl Iterator<Item = Range<usize>> + Clone) {
        self.positions.clear();
        self.positions.extend(windows.clone().map(|window| window.start));
        self.ends.clear();
        self.ends.extend(windows.map(|window| window.end));
    }

    /// Finds the next block: the entries of all sources up to some key, at most `max_len` in all, and
    /// at least one if there are any.
    pub fn find_block<B: OrderedKey, V>(&mut self, sources: &[Source<'_, B, V>], max_len: usize) {
        let BlockCursor { positions, ends, block } = self;
        let left = || positions.iter().zip(&*ends).map(|(&position, &end)| position..end);
        block.clear();
        if left().map(|left| left.len()).sum::<usize>() <= max_len {
            block.extend(left());
            return;
        }
        let quota = (max_len / left().filter(|left| !left.is_empty()).count()).max(1);
        let sources_left = || sources.iter().zip(left());
        let cut = sources_left()
            .filter(|(_, left)| left.len() > quota)
            .map(|(source, left)| source.keys[left.start + quota])
            .min();
        block.extend(sources_left().map(|(source, left)| {
            let end = left.end.min(left.start + quota);
            let len = match cut {
                Some(cut) => source.keys[left.start..end].partition_point(|&key| key < cut),
                None => end - left.start,
            };
            left.start..left.start + len
        }));
    }

    /// Moves past the current block.
    pub fn advance(&mut self) {
        for (position, range) in self.positions.iter_mut().zip(&self.block) {
            *position = range.end;
        }
    }

    /// Returns whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.positions == self.ends
    }
}
