//! Merging many sources on one thread, block by block, so that each byte is read from and written
//! to memory once.
//!
//! Within a block, sources that are adjacent in age are merged two at a time, the shortest first;
//! the last merge writes to the output. Since each run is about twice as long as the next newer
//! one, an entry is moved twice on average.

use std::ops::Range;

use crate::combine::CombineFn;
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::block::{BlockCursor, block_capacity};
use crate::cpu::merge::combine::combine_two;
use crate::cpu::merge::entries::{Entries, EntriesBuffer, EntriesMut, EntriesRef, copy_kept};
use crate::cpu::merge::keep::Keep;
use crate::cpu::merge::source::{Source, SourceMarks, total_len};
use crate::cpu::merge::two::merge_two;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::{Mark, MarkSet};
use crate::value::Value;

/// Working memory of merges, reused from one to the next.
pub(crate) struct Merger<'c, B, V> {
    cpu: &'c Cpu,
    keep: Keep,
    /// Combines the values of equal keys; `None` if the newer one wins.
    combine: Option<CombineFn<V>>,
    /// Whether any source has marks that matter to what is kept.
    marked: bool,
    /// Whether marks matter in the current block.
    block_marked: bool,
    /// Zeros in place of the values that deletes do not have.
    no_values: Buffer<V>,
    /// [`Mark::NEW`] for sources without marks.
    new_marks: Buffer<Mark>,
    /// The marks of each source in the current block, if the source has packed marks.
    unpacked: Vec<Buffer<Mark>>,
    /// The most entries in a block.
    block: usize,
    /// The most entries that an intermediate merge writes…
    capacity: usize,
    /// …and buffers for them.
    free: Vec<EntriesBuffer<B, V>>,
}

impl<'c, B: OrderedKey, V: Value> Merger<'c, B, V> {
    /// Allocates the memory to merge these sources, or parts of them, in blocks of at most this many
    /// entries, and at least one of each source.
    pub fn with_block(
        cpu: &'c Cpu,
        sources: &[Source<'_, B, V>],
        keep: Keep,
        block: usize,
    ) -> Result<Self, Error> {
        let longest = sources.iter().map(|source| source.keys.len()).max().unwrap_or(0);
        let block = block.max(sources.len());
        let capacity = total_len(sources).min(block);
        let room = longest.min(capacity);
        let marked = sources.iter().any(|source| source.marks.matter(keep));
        let has_deletes = sources.iter().any(|source| source.values.is_none());
        let mark_room = if marked { room } else { 0 };
        let mut new_marks = cpu.memory.zeroed(mark_room)?;
        new_marks.fill(Mark::NEW);
        let unpacked = sources.iter().map(|_| cpu.memory.zeroed(mark_room));
        Ok(Merger {
            cpu,
            keep,
            combine: cpu.combine_fn(),
            marked,
            block_marked: false,
            no_values: cpu.memory.zeroed(if has_deletes { room } else { 0 })?,
            new_marks,
            unpacked: unpacked.collect::<Result<_, _>>()?,
            block,
            capacity,
            free: Vec::new(),
        })
    }

    /// Allocates everything that merges may need, so that none of them fails.
    pub fn prepared(mut self) -> Result<Self, Error> {
        let sources = self.unpacked.len();
        for _ in 0..intermediate_merges(sources) {
            self.free.push(self.intermediate()?);
        }
        Ok(self)
    }

    /// Allocates a buffer for an intermediate merge.
    fn intermediate(&self) -> Result<EntriesBuffer<B, V>, Error> {
        Ok(Entries {
            keys: self.cpu.memory.zeroed(self.capacity)?,
            values: self.cpu.memory.zeroed(self.capacity)?,
            marks: self.cpu.memory.zeroed(if self.marked { self.capacity } else { 0 })?,
        })
    }

    /// Returns the most bytes that merging this many sources, with this many entries in all, may
    /// take.
    pub fn working_bytes(sources: usize, entries: usize) -> usize {
        Self::working_bytes_of_blocks(sources, block_capacity(sources).min(entries.max(1)))
    }

    /// Returns the most bytes that merging this many sources in blocks of this many entries may take.
    pub fn working_bytes_of_blocks(sources: usize, block: usize) -> usize {
        let entry = size_of::<B>() + size_of::<V>() + size_of::<Mark>();
        let marks_and_values = block * ((sources + 1) * size_of::<Mark>() + size_of::<V>());
        let intermediate_merges = block * entry * intermediate_merges(sources);
        marks_and_values + intermediate_merges
    }

    /// Returns whether any source has marks that matter: whether, if live entries are kept, any hides
    /// older ones.
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// Merges the sources, newest first, into `out`; returns how many entries were kept.
    pub fn merge(
        &mut self,
        sources: &[Source<'_, B, V>],
        mut out: EntriesMut<'_, B, V>,
    ) -> Result<usize, Error> {
        let mut cursor = BlockCursor::default();
        cursor.start(sources.iter().map(|source| 0..source.keys.len()));
        let mut written = 0;
        loop {
            cursor.find_block(sources, self.block);
            written += self.merge_block(sources, &cursor.block, out.after(written))?;
            cursor.advance();
            if cursor.is_done() {
                return Ok(written);
            }
        }
    }

    /// Merges one block, a range of each source, into `out`; returns how many entries were kept.
    pub fn merge_block(
        &mut self,
        sources: &[Source<'_, B, V>],
        block: &[Range<usize>],
        out: EntriesMut<'_, B, V>,
    ) -> Result<usize, Error> {
        self.block_marked = self.marked && self.marks_matter(sources, block);
        // Moved out of `self` while pieces borrow `self`.
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let mut free = std::mem::take(&mut self.free);
        let kept = self.merge_pieces(sources, block, &mut unpacked, &mut free, out);
        self.unpacked = unpacked;
        self.free = free;
        kept
    }

    /// Returns whether the marks in this block matter: if live entries are kept, only if an entry may
    /// hide older ones.
    fn marks_matter(&self, sources: &[Source<'_, B, V>], block: &[Range<usize>]) -> bool {
        let mut ranges = sources.iter().zip(block);
        self.keep == Keep::Stored || ranges.any(|(source, range)| source.may_hide(range.clone()))
    }

    fn merge_pieces(
        &self,
        sources: &[Source<'_, B, V>],
        block: &[Range<usize>],
        unpacked: &mut [Buffer<Mark>],
        free: &mut Vec<EntriesBuffer<B, V>>,
        out: EntriesMut<'_, B, V>,
    ) -> Result<usize, Error> {
        let mut pieces = Vec::with_capacity(sources.len());
        for ((source, range), unpacked) in sources.iter().zip(block).zip(unpacked) {
            if !range.is_empty() {
                pieces.push(self.piece(source.slice(range.clone()), unpacked));
            }
        }
        while pieces.len() > 2 {
            self.merge_shortest(&mut pieces, free, MarkSet::ALL)?;
        }
        // A merge of two always writes values and marks: if `out` has no room for them, it goes to
        // a buffer.
        let unwanted =
            out.values.len() < out.keys.len() || self.block_marked && out.marks.is_empty();
        if pieces.len() == 2 && unwanted {
            self.merge_shortest(&mut pieces, free, self.keep.marks())?;
        }
        let kept = match &pieces[..] {
            [] => 0,
            [only] => copy_kept(only.entries(), self.keep.marks(), out, self.block_marked),
            [newer, older, ..] => self.merge_two(newer, older, self.keep.marks(), out),
        };
        free.extend(pieces.into_iter().filter_map(Piece::into_buffer));
        Ok(kept)
    }

    /// Returns a source's part of the block, whose marks are written to `unpacked` if they are
    /// packed.
    fn piece<'a>(&'a self, source: Source<'a, B, V>, unpacked: &'a mut [Mark]) -> Piece<'a, B, V> {
        let len = source.keys.len();
        let marks = match source.marks {
            _ if !self.block_marked => &[],
            SourceMarks::New | SourceMarks::Inserts => &self.new_marks[..len],
            SourceMarks::Unpacked(marks) => marks,
            SourceMarks::Packed(marks, from) => {
                marks.unpack(from..from + len, unpacked);
                &unpacked[..len]
            }
        };
        let values = source.values.unwrap_or_else(|| &self.no_values[..len]);
        Piece::Source(Entries { keys: source.keys, values, marks })
    }

    /// Merges the two pieces, adjacent in age, that are the shortest together.
    fn merge_shortest(
        &self,
        pieces: &mut Vec<Piece<'_, B, V>>,
        free: &mut Vec<EntriesBuffer<B, V>>,
        keep: MarkSet,
    ) -> Result<(), Error> {
        let len_of_two = |at: usize| pieces[at].len() + pieces[at + 1].len();
        let at = (0..pieces.len() - 1).min_by_key(|&at| len_of_two(at)).expect("two pieces");
        let mut buffer = match free.pop() {
            Some(buffer) => buffer,
            None => self.intermediate()?,
        };
        let out = Entries {
            keys: &mut buffer.keys[..],
            values: &mut buffer.values[..],
            marks: &mut buffer.marks[..],
        };
        let len = self.merge_two(&pieces[at], &pieces[at + 1], keep, out);
        let replaced = pieces.splice(at..at + 2, [Piece::Merged(buffer, len)]);
        free.extend(replaced.filter_map(Piece::into_buffer));
        Ok(())
    }

    fn merge_two(
        &self,
        newer: &Piece<'_, B, V>,
        older: &Piece<'_, B, V>,
        keep: MarkSet,
        out: EntriesMut<'_, B, V>,
    ) -> usize {
        let (newer, older) = (newer.entries(), older.entries());
        match (self.combine, self.block_marked) {
            (Some(combine), true) => combine_two::<B, V, true>(newer, older, combine, keep, out),
            (Some(combine), false) => combine_two::<B, V, false>(newer, older, combine, keep, out),
            (None, true) => merge_two::<B, V, true>(newer, older, keep, out),
            (None, false) => merge_two::<B, V, false>(newer, older, keep, out),
        }
    }
}

/// Returns the most results of intermediate merges that there are at a time: of each two sources, and of the merge that
/// is being done.
fn intermediate_merges(sources: usize) -> usize {
    sources / 2 + 1
}

/// A piece of a block: entries of one source, or the result of merging two pieces.
enum Piece<'a, B, V> {
    Source(EntriesRef<'a, B, V>),
    /// The first entries of a buffer.
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

    /// Returns the buffer, to be used again.
    fn into_buffer(self) -> Option<EntriesBuffer<B, V>> {
        match self {
            Piece::Source(_) => None,
            Piece::Merged(buffer, _) => Some(buffer),
        }
    }
}
