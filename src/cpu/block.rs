//! Merging block by block: many sources, each byte of memory once.
//!
//! A block is what all sources have between two keys, and stays in the cache. Within it neighbours in
//! age are merged two at a time, the shortest first; the last merge writes to the output. Since each
//! run is about twice as long as the one before it, an entry is moved twice on average.

use std::ops::Range;

use crate::cpu::Cpu;
use crate::cpu::entries::{Entries, EntriesBuffer, EntriesMut, EntriesRef, copy_kept, merge_two};
use crate::cpu::marks::byte;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::Keep;
use crate::cpu::source::{Source, SourceMarks};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Entries in a block, all sources together: small enough for the cache nearest to a core.
const BLOCK: usize = 1 << 12;

/// A piece of a block: a source's own entries, or what two pieces were merged into.
enum Piece<'a, B, V> {
    Source(EntriesRef<'a, B, V>),
    Merged(EntriesBuffer<B, V>, usize),
}

impl<B, V> Piece<'_, B, V> {
    fn entries(&self) -> EntriesRef<'_, B, V> {
        match self {
            Piece::Source(entries) => entries.from(0),
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
    /// At most this many entries of each source are in a block.
    quota: usize,
    /// Whether any entry is a tombstone or a replacement.
    marked: bool,
    /// Stand in for the values of deletes and for the marks of sources without.
    no_values: Buffer<V>,
    new_marks: Buffer<u8>,
    /// The block's marks of each source that has them packed.
    unpacked: Vec<Buffer<u8>>,
    free: Vec<EntriesBuffer<B, V>>,
}

impl<'c, B: OrderedKey, V: Value> Merger<'c, B, V> {
    /// Space to merge these sources, or parts of them.
    pub fn new(cpu: &'c Cpu, sources: &[Source<'_, B, V>]) -> Result<Self, Error> {
        let longest = sources.iter().map(|source| source.keys.len()).max().unwrap_or(0);
        let quota = longest.min(BLOCK / sources.len().max(1)).max(1);
        let plain = |marks| matches!(marks, SourceMarks::New | SourceMarks::Inserts);
        let marked = sources.iter().any(|source| !plain(source.marks));
        let valueless = sources.iter().any(|source| source.values.is_none());
        let mut new_marks = cpu.memory.zeroed(if marked { quota } else { 0 })?;
        new_marks.fill(byte::NEW);
        let room = |source: &Source<'_, B, V>| match source.marks {
            SourceMarks::Packed(..) => quota,
            _ => 0,
        };
        Ok(Merger {
            cpu,
            quota,
            marked,
            no_values: cpu.memory.zeroed(if valueless { quota } else { 0 })?,
            new_marks,
            unpacked: sources
                .iter()
                .map(|source| cpu.memory.zeroed(room(source)))
                .collect::<Result<_, _>>()?,
            free: Vec::new(),
        })
    }

    /// Merges the sources, newest first, into `out`; returns how many entries were kept.
    pub fn merge(
        &mut self,
        sources: &[Source<'_, B, V>],
        keep: Keep,
        mut out: EntriesMut<'_, B, V>,
    ) -> Result<usize, Error> {
        let mut written = 0;
        let mut at = vec![0; sources.len()];
        let mut done = false;
        while !done {
            let ranges = self.next_block(sources, &at);
            at = ranges.iter().map(|range| range.end).collect();
            done = at.iter().zip(sources).all(|(&at, source)| at == source.keys.len());
            written += self.merge_block(sources, &ranges, keep, out.after(written))?;
        }
        Ok(written)
    }

    /// The live entries of the sources as an answer: exactly as many as `keys` holds.
    pub fn answer(
        &mut self,
        sources: &[Source<'_, B, V>],
        keys: &mut [B],
        values: &mut [V],
    ) -> Result<(), Error> {
        let expected = keys.len();
        let written = self.merge(sources, Keep::Live, Entries { keys, values, marks: &mut [] })?;
        debug_assert_eq!(written, expected, "the marks promised another number of live entries");
        Ok(())
    }

    /// The next stretch of every source, cut at one key, each no longer than the quota.
    fn next_block(&self, sources: &[Source<'_, B, V>], at: &[usize]) -> Vec<Range<usize>> {
        let cut = sources.iter().zip(at).filter_map(|(s, &at)| s.keys.get(at + self.quota)).min();
        sources
            .iter()
            .zip(at)
            .map(|(source, &at)| {
                let end = source.keys.len().min(at + self.quota);
                let len = match cut {
                    Some(cut) => source.keys[at..end].partition_point(|key| key < cut),
                    None => end - at,
                };
                at..at + len
            })
            .collect()
    }

    fn merge_block(
        &mut self,
        sources: &[Source<'_, B, V>],
        ranges: &[Range<usize>],
        keep: Keep,
        out: EntriesMut<'_, B, V>,
    ) -> Result<usize, Error> {
        // Out of `self` while pieces borrow from it.
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let mut free = std::mem::take(&mut self.free);
        for ((source, range), bytes) in sources.iter().zip(ranges).zip(&mut unpacked) {
            if let SourceMarks::Packed(marks, from) = source.marks {
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
        while pieces.len() > 2 {
            self.merge_shortest(&mut pieces, &mut free, sources.len() * self.quota)?;
        }
        let kept = match &pieces[..] {
            [] => 0,
            [only] => copy_kept(only.entries(), keep.mask(), out, self.marked),
            [newer, older, ..] => self.merge_two(newer, older, keep.mask(), out),
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
            _ if !self.marked => &[],
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
        let len = self.merge_two(&pieces[at], &pieces[at + 1], byte::PRESENT, out);
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
        if self.marked {
            merge_two::<B, V, true>(newer.entries(), older.entries(), keep, out)
        } else {
            merge_two::<B, V, false>(newer.entries(), older.entries(), keep, out)
        }
    }
}
