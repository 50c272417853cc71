//! Merging windows of all runs: into the answer to a range query, or into blocks that are visited one
//! after another.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::merge::block::{BLOCK, BlockCursor, block_capacity};
use crate::cpu::merge::entries::{Entries, EntriesBuffer, EntriesMut, copy_kept};
use crate::cpu::merge::keep::Keep;
use crate::cpu::merge::merger::Merger;
use crate::cpu::merge::source::{Source, total_len};
use crate::cpu::query::dead::{DeadStretches, count_live};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::{Mark, MarkSet};
use crate::value::Value;

/// If the windows hold more stale entries than this, dead stretches are searched for.
const MIN_STALE: usize = 1 << 9;

/// The fewest entries in a block when dead stretches are searched for.
const MIN_BLOCK: usize = 32;

/// A search for the next live key costs about as much as merging this many entries.
const ENTRIES_PER_SEARCH: usize = 1 << 9;

/// The most blocks that are merged before the next search, after searches that did not pay.
const MAX_BLOCKS_BETWEEN_SEARCHES: usize = 64;

/// Returns how this many tasks, each of which merges windows of these runs, fit into the memory that is available: on
/// which threads, and in blocks of how many entries at most.
pub(crate) fn fit_memory<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Source<'_, B, V>],
    tasks: usize,
) -> (Cpu, usize) {
    let longest = block_capacity(runs.len());
    let Some(available) = cpu.memory.available() else { return (cpu.clone(), longest) };
    let entry = size_of::<B>() + size_of::<V>() + size_of::<Mark>();
    let bytes_of =
        |block| Merger::<B, V>::working_bytes_of_blocks(runs.len(), block) + block * entry;
    // Others may query at the same time.
    let fits = |threads: usize, block| (threads * bytes_of(block)) as u64 <= available / 2;
    let blocks = || std::iter::successors(Some(longest), |block| Some(block / 2));
    let mut blocks = blocks().take_while(|&block| block >= runs.len().max(MIN_BLOCK));
    let threads = cpu.workers.count().min(tasks);
    match blocks.find(|&block| fits(threads, block)) {
        Some(block) => (cpu.clone(), block),
        None if fits(1, MIN_BLOCK) => (cpu.on_one_thread(), MIN_BLOCK),
        None => (cpu.on_one_thread(), 1),
    }
}

/// Merges the windows of ranges, and reuses working memory from one to the next.
pub(crate) struct RangeMerger<'a, B, V> {
    cpu: &'a Cpu,
    /// All runs, newest first.
    runs: &'a [Source<'a, B, V>],
    /// The most entries in a block: at least one of each run.
    max_block: usize,
    merger: Merger<'a, B, V>,
    dead: DeadStretches<B>,
    cursor: BlockCursor,
    /// Where blocks are merged to be visited; allocated when the first one is.
    block: Option<EntriesBuffer<B, V>>,
}

impl<'a, B: OrderedKey, V: Value> RangeMerger<'a, B, V> {
    /// Allocates memory to merge blocks of at most this many entries, and at least one of each run.
    pub fn new(
        cpu: &'a Cpu,
        runs: &'a [Source<'a, B, V>],
        max_block: usize,
    ) -> Result<Self, Error> {
        let merger = Merger::with_block(cpu, runs, Keep::Live, max_block)?;
        Ok(RangeMerger {
            cpu,
            runs,
            max_block: max_block.max(runs.len()),
            merger,
            dead: DeadStretches::default(),
            cursor: BlockCursor::default(),
            block: None,
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
        if self.has_many_stale(windows.clone(), pairs) {
            self.cursor.start(windows);
            return self.merge_between_dead(pairs, &mut Output { out, written: 0 });
        }
        let sources = self.runs.iter().zip(windows).filter(|(_, window)| !window.is_empty());
        let sources = sources.map(|(run, window)| run.slice(window));
        if let (false, Some(Source { keys, values: Some(values), .. }), None) =
            (self.merger.is_marked(), sources.clone().next(), sources.clone().nth(1))
        {
            copy_kept(Entries { keys, values, marks: &[][..] }, MarkSet::ALL, out, false);
            return Ok(());
        }
        let sources: Vec<_> = sources.collect();
        let written = self.merger.merge(&sources, out)?;
        debug_assert_eq!(written, pairs, "the running sums tell the number of live entries");
        Ok(())
    }

    /// Passes the values of the live entries of a window of every run, of which there are `pairs`, to
    /// `visit`, many at a time and in no particular order.
    pub fn visit_values(
        &mut self,
        windows: impl Iterator<Item = Range<usize>> + Clone,
        pairs: usize,
        visit: &mut dyn FnMut(&[V]),
    ) -> Result<(), Error> {
        if pairs == 0 {
            return Ok(()); // All entries are dead, if there are any.
        }
        if windows.clone().map(|window| window.len()).sum::<usize>() == pairs {
            // Every entry is live and the only one of its key, so there is nothing to merge.
            for (run, window) in self.runs.iter().zip(windows).filter(|(_, at)| !at.is_empty()) {
                visit(&run.values.expect("runs have values")[window]);
            }
            return Ok(());
        }
        let block = match self.block.take() {
            Some(block) => block,
            None => self.allocate_block()?,
        };
        let mut visited = Visited { block, visit };
        self.cursor.start(windows.clone());
        let merged = if self.has_many_stale(windows, pairs) {
            self.merge_between_dead(pairs, &mut visited)
        } else {
            self.merge_blocks(pairs, &mut visited)
        };
        self.block = Some(visited.block);
        merged
    }

    /// Allocates room for the entries of any block.
    fn allocate_block(&self) -> Result<EntriesBuffer<B, V>, Error> {
        let room = total_len(self.runs).min(self.max_block);
        Ok(Entries {
            keys: self.cpu.memory.zeroed(room)?,
            values: self.cpu.memory.zeroed(room)?,
            marks: self.cpu.memory.zeroed(if self.merger.is_marked() { room } else { 0 })?,
        })
    }

    /// Returns whether so many entries of these windows, which hold `pairs` live ones, are stale that dead
    /// stretches are searched for.
    fn has_many_stale(&self, windows: impl Iterator<Item = Range<usize>>, pairs: usize) -> bool {
        let entries: usize = windows.map(|window| window.len()).sum();
        self.merger.is_marked() && entries > MIN_STALE + pairs
    }

    /// Merges the windows at whose start the cursor is, which hold `pairs` live entries.
    fn merge_blocks(&mut self, pairs: usize, sink: &mut dyn PairSink<B, V>) -> Result<(), Error> {
        let RangeMerger { runs, max_block, merger, cursor, .. } = self;
        let mut written = 0;
        while written < pairs {
            cursor.find_block(runs, *max_block);
            written += merge_block_into(sink, merger, runs, &cursor.block)?;
            cursor.advance();
        }
        Ok(())
    }

    /// Does the same if many entries are stale. Before a block is merged, the running sums tell how
    /// many of its entries are live: if few are, a shorter block is tried; if none is, the dead
    /// range is skipped. Where live keys lie so close to each other that this does not pay, ever more
    /// blocks are merged as they are in between.
    fn merge_between_dead(
        &mut self,
        pairs: usize,
        sink: &mut dyn PairSink<B, V>,
    ) -> Result<(), Error> {
        let RangeMerger { runs, max_block, merger, dead, cursor, .. } = self;
        let (mut written, mut max_len) = (0, BLOCK.min(*max_block));
        let mut searches = SearchPacing::default();
        while written < pairs {
            if searches.are_paused() {
                cursor.find_block(runs, *max_block);
                written += merge_block_into(sink, merger, runs, &cursor.block)?;
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
                written += merge_block_into(sink, merger, runs, &cursor.block)?;
                cursor.advance();
                max_len = (2 * max_len).min(BLOCK).min(*max_block);
            } else {
                max_len = (max_len / 2).max(MIN_BLOCK.min(*max_block));
            }
        }
        Ok(())
    }
}

/// Where the live entries of blocks go, one block after another.
trait PairSink<B, V> {
    /// Returns room for the entries of the next block.
    fn room(&mut self) -> EntriesMut<'_, B, V>;

    /// Takes the first `len` entries that were written there.
    fn take(&mut self, len: usize);
}

/// Merges one block, a range of each run; returns how many of its entries are live.
fn merge_block_into<B: OrderedKey, V: Value>(
    sink: &mut dyn PairSink<B, V>,
    merger: &mut Merger<'_, B, V>,
    runs: &[Source<'_, B, V>],
    block: &[Range<usize>],
) -> Result<usize, Error> {
    let live = merger.merge_block(runs, block, sink.room())?;
    sink.take(live);
    Ok(live)
}

/// Lays blocks end to end.
struct Output<'a, B, V> {
    out: EntriesMut<'a, B, V>,
    written: usize,
}

impl<B, V> PairSink<B, V> for Output<'_, B, V> {
    fn room(&mut self) -> EntriesMut<'_, B, V> {
        self.out.after(self.written)
    }

    fn take(&mut self, len: usize) {
        self.written += len;
    }
}

/// Passes the values of each block on.
struct Visited<'a, B, V> {
    block: EntriesBuffer<B, V>,
    visit: &'a mut dyn FnMut(&[V]),
}

impl<B, V> PairSink<B, V> for Visited<'_, B, V> {
    fn room(&mut self) -> EntriesMut<'_, B, V> {
        let Entries { keys, values, marks } = &mut self.block;
        Entries { keys, values, marks }
    }

    fn take(&mut self, len: usize) {
        (self.visit)(&self.block.values[..len]);
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
