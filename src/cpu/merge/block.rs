//! Merging block by block: many sources, each byte of memory once.
//!
//! A block is what all sources have between two keys, and stays in the cache. Within it neighbours in
//! age are merged two at a time, the shortest first; the last merge writes to the output. Since each
//! run is about twice as long as the one before it, an entry is moved twice on average.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::Keep;
use crate::cpu::merge::dead::{DeadStretches, Walk, live_in};
use crate::cpu::merge::entries::{Entries, EntriesBuffer, EntriesMut, EntriesRef, copy_kept};
use crate::cpu::merge::source::{Source, SourceMarks};
use crate::cpu::merge::two::merge_two;
use crate::cpu::run::marks::byte;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Entries in a block, all sources together: small enough for the cache nearest to a core.
const BLOCK: usize = 1 << 12;

/// An answer whose windows have more stale entries than this is looked through for stretches without a live
/// key…
const FEW_STALE: usize = 1 << 9;

/// …block by block, the shortest of this many entries.
const SHORT_BLOCK: usize = 32;

/// Returns whether enough of a block of at most `most` entries is live, so that cutting it shorter would not pay:
/// four fifths of the longest block, and less of shorter ones.
fn is_dense(live: usize, entries: usize, most: usize) -> bool {
    5 * live * BLOCK >= 4 * entries * most
}

fn move_to_ends(at: &mut [usize], block: &[Range<usize>]) {
    at.iter_mut().zip(block).for_each(|(at, range)| *at = range.end);
}

/// Entries in a block of so many sources: at least one of each.
fn block_of(sources: usize) -> usize {
    BLOCK.max(sources)
}

/// Finds the next stretch of every source before its end, cut at one key: no more than `most` entries in all, but
/// at least one, if there is any.
fn next_block<B: OrderedKey, V>(
    sources: &[Source<'_, B, V>],
    at: &[usize],
    ends: &[usize],
    most: usize,
    block: &mut Vec<Range<usize>>,
) {
    let left = || at.iter().zip(ends).map(|(&at, &end)| at..end);
    block.clear();
    if left().map(|left| left.len()).sum::<usize>() <= most {
        block.extend(left());
        return;
    }
    let quota = (most / left().filter(|left| !left.is_empty()).count()).max(1);
    let within = || sources.iter().zip(left());
    let cut = within()
        .filter(|(_, left)| left.len() > quota)
        .map(|(source, left)| source.keys[left.start + quota])
        .min();
    let stretch = |(source, left): (&Source<'_, B, V>, Range<usize>)| {
        let end = left.end.min(left.start + quota);
        let len = match cut {
            Some(cut) => source.keys[left.start..end].partition_point(|&key| key < cut),
            None => end - left.start,
        };
        left.start..left.start + len
    };
    block.extend(within().map(stretch));
}

/// A piece of a block: a source's own entries, or what two pieces were merged into.
enum Piece<'a, B, V> {
    Source(EntriesRef<'a, B, V>),
    Merged(EntriesBuffer<B, V>, usize),
}

impl<B, V> Piece<'_, B, V> {
    fn entries(&self) -> EntriesRef<'_, B, V> {
        match self {
            Piece::Source(entries) => entries.slice(0..entries.keys.len()),
            Piece::Merged(buffer, len) => Entries {
                keys: &buffer.keys[..*len],
                values: &buffer.values[..*len],
                marks: &buffer.marks[..buffer.marks.len().min(*len)],
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            Piece::Source(entries) => entries.keys.len(),
            Piece::Merged(_, len) => *len,
        }
    }

    /// The buffer that can be used again.
    fn into_buffer(self) -> Option<EntriesBuffer<B, V>> {
        match self {
            Piece::Source(_) => None,
            Piece::Merged(buffer, _) => Some(buffer),
        }
    }
}

/// Working space for merging block by block, reused from one merge to the next.
pub(crate) struct Merger<'c, B, V> {
    cpu: &'c Cpu,
    keep: Keep,
    /// Whether marks tell any entry from another, as far as what is kept goes…
    marked: bool,
    /// …and whether they do in the block that is merged now.
    block_marked: bool,
    /// Stand in for the values of deletes and for the marks of sources without.
    no_values: Buffer<V>,
    new_marks: Buffer<u8>,
    /// The block's marks of each source that has them packed.
    unpacked: Vec<Buffer<u8>>,
    free: Vec<EntriesBuffer<B, V>>,
}

impl<'c, B: OrderedKey, V: Value> Merger<'c, B, V> {
    /// Space to merge these sources, or parts of them.
    pub fn new(cpu: &'c Cpu, sources: &[Source<'_, B, V>], keep: Keep) -> Result<Self, Error> {
        let longest = sources.iter().map(|source| source.keys.len()).max().unwrap_or(0);
        let room = longest.min(block_of(sources.len()));
        let marked = sources.iter().any(|source| source.marks.matter(keep));
        let valueless = sources.iter().any(|source| source.values.is_none());
        let mut new_marks = cpu.memory.zeroed(if marked { room } else { 0 })?;
        new_marks.fill(byte::NEW);
        let unpacked = |_| cpu.memory.zeroed(if marked { room } else { 0 });
        Ok(Merger {
            cpu,
            keep,
            marked,
            block_marked: false,
            no_values: cpu.memory.zeroed(if valueless { room } else { 0 })?,
            new_marks,
            unpacked: sources.iter().map(unpacked).collect::<Result<_, _>>()?,
            free: Vec::new(),
        })
    }

    /// Returns the most bytes that merging this many sources, with this many entries in all, takes.
    pub fn bytes(sources: usize, entries: usize) -> usize {
        let block = block_of(sources).min(entries.max(1));
        let entry = size_of::<B>() + size_of::<V>() + size_of::<u8>();
        // Marks of every source and of those without, values of deletes, and what neighbours are merged
        // into before the last merge.
        block * (sources + 1 + size_of::<V>()) + block_of(sources) * entry * (sources / 2 + 1)
    }

    /// Merges the sources, newest first, into `out`; returns how many entries were kept.
    pub fn merge(
        &mut self,
        sources: &[Source<'_, B, V>],
        mut out: EntriesMut<'_, B, V>,
    ) -> Result<usize, Error> {
        let (mut written, mut block) = (0, Vec::new());
        let mut at = vec![0; sources.len()];
        let ends: Vec<usize> = sources.iter().map(|source| source.keys.len()).collect();
        let most = block_of(sources.len());
        loop {
            next_block(sources, &at, &ends, most, &mut block);
            written += self.merge_block(sources, &block, out.after(written))?;
            move_to_ends(&mut at, &block);
            if at == ends {
                return Ok(written);
            }
        }
    }

    /// The live entries of a window of every run as an answer: exactly as many as `keys` holds. The sources
    /// are all runs.
    pub fn answer(
        &mut self,
        runs: &[Source<'_, B, V>],
        windows: impl Iterator<Item = Range<usize>> + Clone,
        keys: &mut [B],
        values: &mut [V],
        dead: &mut DeadStretches<B>,
    ) -> Result<(), Error> {
        let expected = keys.len();
        if expected == 0 {
            return Ok(()); // Whatever there is, it is dead.
        }
        let out = Entries { keys, values, marks: &mut [][..] };
        let entries: usize = windows.clone().map(|window| window.len()).sum();
        if self.marked && entries > FEW_STALE + expected {
            return self.answer_between_dead(runs, windows, out, dead);
        }
        let some = runs.iter().zip(windows).filter(|(_, window)| !window.is_empty());
        let some: Vec<_> = some.map(|(run, window)| run.slice(window)).collect();
        if let ([only], false) = (&some[..], self.marked) {
            let only = self.piece(only, 0..expected, &[]);
            copy_kept(only.entries(), byte::PRESENT, out, false);
            return Ok(());
        }
        let written = self.merge(&some, out)?;
        debug_assert_eq!(written, expected, "the marks promised another number of live entries");
        Ok(())
    }

    /// The same where many entries are stale. Before a block is merged, the running sums tell how many of
    /// its entries are live: one with few is cut short, and where there is none, the next live key is
    /// searched for. Nothing is read after the last live key.
    fn answer_between_dead(
        &mut self,
        runs: &[Source<'_, B, V>],
        windows: impl Iterator<Item = Range<usize>> + Clone,
        mut out: EntriesMut<'_, B, V>,
        dead: &mut DeadStretches<B>,
    ) -> Result<(), Error> {
        let expected = out.keys.len();
        let Walk { mut at, mut ends, mut block } = std::mem::take(&mut dead.walk);
        at.clear();
        at.extend(windows.clone().map(|window| window.start));
        ends.clear();
        ends.extend(windows.map(|window| window.end));
        let (mut written, mut most) = (0, BLOCK);
        while written < expected {
            most = most.min(SHORT_BLOCK + 2 * (expected - written)).max(runs.len());
            next_block(runs, &at, &ends, most, &mut block);
            let entries: usize = block.iter().map(|range| range.len()).sum();
            let live = live_in(runs, &block);
            if live == 0 {
                dead.skip(runs, &mut at, &ends);
            } else if is_dense(live, entries, most) || most <= SHORT_BLOCK.max(runs.len()) {
                written += self.merge_block(runs, &block, out.after(written))?;
                move_to_ends(&mut at, &block);
                most = (2 * most).min(BLOCK);
            } else {
                most = (most / 2).max(SHORT_BLOCK);
            }
        }
        dead.walk = Walk { at, ends, block };
        Ok(())
    }

    fn merge_block(
        &mut self,
        sources: &[Source<'_, B, V>],
        ranges: &[Range<usize>],
        out: EntriesMut<'_, B, V>,
    ) -> Result<usize, Error> {
        // Where only live entries are wanted, marks matter in blocks with tombstones only.
        let mut with_ranges = sources.iter().zip(ranges);
        self.block_marked = self.marked
            && (self.keep == Keep::Marked
                || with_ranges.any(|(source, range)| source.may_have_tombstones(range.clone())));
        // Out of `self` while pieces borrow from it.
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let mut free = std::mem::take(&mut self.free);
        for ((source, range), bytes) in sources.iter().zip(ranges).zip(&mut unpacked) {
            if let (SourceMarks::Packed(marks, from), true) = (source.marks, self.block_marked) {
                marks.unpack(from + range.start..from + range.end, bytes);
            }
        }
        let mut pieces: Vec<Piece<'_, B, V>> = sources
            .iter()
            .zip(ranges)
            .zip(&unpacked)
            .filter(|((_, range), _)| !range.is_empty())
            .map(|((source, range), bytes)| self.piece(source, range.clone(), bytes))
            .collect();
        let room = block_of(sources.len());
        while pieces.len() > 2 {
            self.merge_shortest(&mut pieces, &mut free, byte::PRESENT, room)?;
        }
        // A merge writes values and marks, wanted or not, and what it doesn't keep.
        let unwanted =
            out.values.len() < out.keys.len() || self.block_marked && out.marks.is_empty();
        if pieces.len() == 2 && unwanted {
            self.merge_shortest(&mut pieces, &mut free, self.keep.mask(), room)?;
        }
        let kept = match &pieces[..] {
            [] => 0,
            [only] => copy_kept(only.entries(), self.keep.mask(), out, self.block_marked),
            [newer, older, ..] => self.merge_two(newer, older, self.keep.mask(), out),
        };
        free.extend(pieces.into_iter().filter_map(Piece::into_buffer));
        self.unpacked = unpacked;
        self.free = free;
        Ok(kept)
    }

    fn piece<'a>(
        &'a self,
        source: &Source<'a, B, V>,
        range: Range<usize>,
        unpacked: &'a [u8],
    ) -> Piece<'a, B, V> {
        let len = range.len();
        let part = source.slice(range);
        let marks = match part.marks {
            _ if !self.block_marked => &[],
            SourceMarks::New | SourceMarks::Inserts => &self.new_marks[..len],
            SourceMarks::Bytes(bytes) => bytes,
            SourceMarks::Packed(..) => &unpacked[..len],
        };
        let values = part.values.unwrap_or_else(|| &self.no_values[..len]);
        Piece::Source(Entries { keys: part.keys, values, marks })
    }

    /// Merges the two neighbours in age that are shortest together.
    fn merge_shortest(
        &self,
        pieces: &mut Vec<Piece<'_, B, V>>,
        free: &mut Vec<EntriesBuffer<B, V>>,
        keep: u8,
        room: usize,
    ) -> Result<(), Error> {
        let together = |at: usize| pieces[at].len() + pieces[at + 1].len();
        let at = (0..pieces.len() - 1).min_by_key(|&at| together(at)).expect("two pieces");
        let mut buffer = match free.pop() {
            Some(buffer) => buffer,
            None => Entries {
                keys: self.cpu.memory.zeroed(room)?,
                values: self.cpu.memory.zeroed(room)?,
                marks: self.cpu.memory.zeroed(if self.marked { room } else { 0 })?,
            },
        };
        let out = Entries {
            keys: &mut buffer.keys[..],
            values: &mut buffer.values[..],
            marks: &mut buffer.marks[..],
        };
        let len = self.merge_two(&pieces[at], &pieces[at + 1], keep, out);
        let merged = pieces.splice(at..at + 2, [Piece::Merged(buffer, len)]);
        free.extend(merged.filter_map(Piece::into_buffer));
        Ok(())
    }

    fn merge_two(
        &self,
        newer: &Piece<'_, B, V>,
        older: &Piece<'_, B, V>,
        keep: u8,
        out: EntriesMut<'_, B, V>,
    ) -> usize {
        if self.block_marked {
            merge_two::<B, V, true>(newer.entries(), older.entries(), keep, out)
        } else {
            merge_two::<B, V, false>(newer.entries(), older.entries(), keep, out)
        }
    }
}
