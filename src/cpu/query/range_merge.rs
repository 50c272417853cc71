//! Merging windows of all runs into the answer to a range query.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::merge::block::{BLOCK, BlockCursor};
use crate::cpu::merge::entries::{Entries, EntriesMut, copy_kept};
use crate::cpu::merge::keep::Keep;
use crate::cpu::merge::merger::Merger;
use crate::cpu::merge::source::Source;
use crate::cpu::query::dead::{DeadStretches, count_live};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::MarkSet;
use crate::value::Value;

/// If the windows hold more stale entries than this, dead stretches are searched for.
const MIN_STALE: usize = 1 << 9;

/// The fewest entries in a block when dead stretches are searched for.
const MIN_BLOCK: usize = 32;

/// A search for the next live key costs about as much as merging this many entries.
const ENTRIES_PER_SEARCH: usize = 1 << 9;

/// The most blocks that are merged before the next search, after searches that did not pay.
const MAX_BLOCKS_BETWEEN_SEARCHES: usize = 64;

/// Writes the answers to range queries, and reuses working memory from one to the next.
pub(crate) struct RangeMerger<'a, B, V> {
    /// All runs, newest first.
    runs: &'a [Source<'a, B, V>],
    merger: Merger<'a, B, V>,
    dead: DeadStretches<B>,
    cursor: BlockCursor,
}

impl<'a, B: OrderedKey, V: Value> RangeMerger<'a, B, V> {
    pub fn new(cpu: &'a Cpu, runs: &'a [Source<'a, B, V>]) -> Result<Self, Error> {
        let merger = Merger::new(cpu, runs, Keep::Live)?;
        Ok(RangeMerger {
            runs,
            merger,
            dead: DeadStretches::default(),
            cursor: BlockCursor::default(),
        })
    }

    /// Writes the live pairs of a window of every run. `keys` must be exactly as long as there are
    /// pairs; `values` is as long, or empty if they are not wanted.
    pub fn write(
        &mut self,
        windows: impl Iterator<Item = Range<usize>> + Clone,
        keys: &mut [B],
        values: &mut [V],
    ) -> Result<(), Error> {
        let pairs = keys.len();
        if pairs == 0 {
            return Ok(()); // All entries are dead, if there are any.
        }
        let out = Entries { keys, values, marks: &mut [][..] };
        let entries: usize = windows.clone().map(|window| window.len()).sum();
        if self.merger.is_marked() && entries > MIN_STALE + pairs {
            return self.write_between_dead(windows, out);
        }
        let sources = self.runs.iter().zip(windows).filter(|(_, window)| !window.is_empty());
        let sources: Vec<_> = sources.map(|(run, window)| run.slice(window)).collect();
        if let ([Source { keys, values: Some(values), .. }], false) =
            (&sources[..], self.merger.is_marked())
        {
            copy_kept(Entries { keys, values, marks: &[][..] }, MarkSet::ALL, out, false);
            return Ok(());
        }
        let written = self.merger.merge(&sources, out)?;
        debug_assert_eq!(written, pairs, "the running sums tell the number of live entries");
        Ok(())
    }

    /// Does the same if many entries are stale. Before a block is merged, the running sums tell how
    /// many of its entries are live: if few are, a shorter block is tried; if none is, the dead
    /// range is skipped. Where live keys lie so close to each other that this does not pay, ever more
    /// blocks are merged as they are in between.
    fn write_between_dead(
        &mut self,
        windows: impl Iterator<Item = Range<usize>> + Clone,
        mut out: EntriesMut<'_, B, V>,
    ) -> Result<(), Error> {
        let RangeMerger { runs, merger, dead, cursor } = self;
        let pairs = out.keys.len();
        cursor.start(windows);
        let (mut written, mut max_len) = (0, BLOCK);
        let mut searches = SearchPacing::default();
        while written < pairs {
            if searches.are_paused() {
                cursor.find_block(runs, BLOCK.max(runs.len()));
                written += merger.merge_block(runs, &cursor.block, out.after(written))?;
                cursor.advance();
                continue;
            }
            max_len = max_len.min(MIN_BLOCK + 2 * (pairs - written)).max(runs.len());
            cursor.find_block(runs, max_len);
            let entries: usize = cursor.block.iter().map(|range| range.len()).sum();
            let live = count_live(runs, cursor.block.iter().cloned());
            let is_dense = is_dense(live, entries, max_len);
            if live == 0 {
                let before: usize = cursor.positions.iter().sum();
                dead.skip(runs, &mut cursor.positions, &cursor.ends);
                let skipped = cursor.positions.iter().sum::<usize>() - before;
                searches.record(skipped >= ENTRIES_PER_SEARCH);
            } else if is_dense || max_len <= MIN_BLOCK.max(runs.len()) {
                if !is_dense {
                    searches.record(false);
                }
                written += merger.merge_block(runs, &cursor.block, out.after(written))?;
                cursor.advance();
                max_len = (2 * max_len).min(BLOCK);
            } else {
                max_len = (max_len / 2).max(MIN_BLOCK);
            }
        }
        Ok(())
    }
}

/// How often dead stretches are searched for: less and less, as long as that does not pay.
#[derive(Default)]
struct SearchPacing {
    /// Blocks that are still merged before the next search…
    paused: usize,
    /// …and how many there will be after the next search that does not pay.
    next_pause: usize,
}

impl SearchPacing {
    /// Returns whether the next block is merged as it is, and counts it.
    fn are_paused(&mut self) -> bool {
        let is_paused = self.paused > 0;
        self.paused -= usize::from(is_paused);
        is_paused
    }

    /// Notes whether a search has paid.
    fn record(&mut self, has_paid: bool) {
        if has_paid {
            self.next_pause = 0;
        } else {
            self.paused = self.next_pause;
            self.next_pause = (2 * self.next_pause).clamp(1, MAX_BLOCKS_BETWEEN_SEARCHES);
        }
    }
}

/// Returns whether so much of a block of at most `max_len` entries is live that a shorter block would
/// not pay: four fifths of the longest block, and proportionally less of shorter ones.
fn is_dense(live: usize, entries: usize, max_len: usize) -> bool {
    5 * live * BLOCK >= 4 * entries * max_len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_that_do_not_pay_become_rare_until_one_pays() {
        let mut searches = SearchPacing::default();
        let mut blocks = 0;
        for _ in 0..20 {
            searches.record(false);
            while searches.are_paused() {
                blocks += 1;
            }
        }
        assert_eq!(blocks, 1 + 2 + 4 + 8 + 16 + 32 + 13 * 64);
        searches.record(true);
        searches.record(false);
        assert!(!searches.are_paused());
    }
}
