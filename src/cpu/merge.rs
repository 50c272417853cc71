//! Merging runs, and the sorted batch on top of them: one pass over the memory, however many meet.
//!
//! Keys are taken block by block. Within a block, which stays in the cache, neighbours in age are
//! merged two at a time, the shortest first; the last merge of a block writes to the output. Since
//! each run is about twice as long as the one above it, an entry is moved twice on average.
//!
//! The rule: of two entries with one key, the newer says whether the key is *live* (and its value),
//! the older whether it *shadows* something older still. An entry that ends neither live nor
//! shadowing hides nothing and is dropped. Into the oldest run only live entries go.

use std::hint::select_unpredictable;
use std::ops::Range;

use crate::cpu::Cpu;
use crate::cpu::marks::{Marks, byte};
use crate::cpu::memory::Buffer;
use crate::cpu::run::key_room;
use crate::cpu::workers::cut;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Entries in a block, all sources together: small enough for the cache nearest to a core.
const BLOCK: usize = 1 << 12;

/// Sorted entries with unique keys: (part of) a run, or of a batch.
pub(crate) struct Source<'a, B, V> {
    pub keys: &'a [B],
    /// `None` for a batch of deletes.
    pub values: Option<&'a [V]>,
    pub marks: SourceMarks<'a>,
}

/// The marks of a source.
#[derive(Clone, Copy)]
pub(crate) enum SourceMarks<'a> {
    /// A run's: every entry is new.
    New,
    /// A batch's that comes in with nothing older than the runs it is merged with: all are live.
    Inserts,
    /// A batch's: a byte for each entry.
    Bytes(&'a [u8]),
    /// A run's, from the given position on.
    Packed(&'a Marks, usize),
}

impl<'a, B, V> Source<'a, B, V> {
    /// The entries in `range`.
    pub fn slice(&self, range: Range<usize>) -> Self {
        Source {
            keys: &self.keys[range.clone()],
            values: self.values.map(|values| &values[range.clone()]),
            marks: match self.marks {
                SourceMarks::New | SourceMarks::Inserts => self.marks,
                SourceMarks::Bytes(bytes) => SourceMarks::Bytes(&bytes[range]),
                SourceMarks::Packed(marks, from) => SourceMarks::Packed(marks, from + range.start),
            },
        }
    }
}

impl<B, V> Source<'_, B, V> {
    /// Σ (live − shadow) over all entries, where the marks are a run's own. (A batch's are found
    /// among the runs outside its carry only: they don't add up with the carried runs'.)
    fn sum(&self) -> Option<i64> {
        match self.marks {
            SourceMarks::New => Some(self.keys.len() as i64),
            SourceMarks::Inserts | SourceMarks::Bytes(_) => None,
            SourceMarks::Packed(marks, from) => {
                Some(marks.sum_before(from + self.keys.len()) - marks.sum_before(from))
            }
        }
    }
}

/// Which merged entries are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Those that are live: into the oldest run, or as an answer. Their marks are not wanted.
    Live,
    /// Those that are live or shadow something older, with their marks.
    Marked,
}

impl Keep {
    fn mask(self) -> u8 {
        match self {
            Keep::Live => byte::LIVE,
            Keep::Marked => byte::LIVE | byte::SHADOW,
        }
    }
}

/// What a merge wrote.
pub(crate) struct Merged<B, V> {
    /// With room to become the keys of a run.
    pub keys: Buffer<B>,
    pub values: Buffer<V>,
    /// Where they were wanted.
    pub marks: Option<Buffer<u8>>,
    pub len: usize,
}

/// Merges all sources, newest first, with all threads.
pub(crate) fn merge<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    sources: &[Source<'_, B, V>],
    keep: Keep,
) -> Result<Merged<B, V>, Error> {
    // Each thread merges the sources' entries between two keys.
    let entries = sources.iter().map(|source| source.keys.len()).sum();
    let parts: Vec<Vec<Source<'_, B, V>>> = split(sources, cpu.workers.parts(entries))
        .into_iter()
        .map(|ranges| sources.iter().zip(ranges).map(|(source, range)| source.slice(range)).collect())
        .collect();
    let sizes: Vec<usize> = parts.iter().map(|part| room_for(part, keep)).collect();
    let room = sizes.iter().sum();
    let mut keys = cpu.memory.zeroed(key_room(room))?;
    let mut values = cpu.memory.zeroed(room)?;
    let mut marks = cpu.memory.zeroed(if keep == Keep::Marked { room } else { 0 })?;
    let mark_sizes = sizes.iter().map(|&size| if keep == Keep::Marked { size } else { 0 });
    let outputs = cut(&mut keys, sizes.iter().copied())
        .into_iter()
        .zip(cut(&mut values, sizes.iter().copied()))
        .zip(cut(&mut marks, mark_sizes))
        .map(|((keys, values), marks)| Entries { keys, values, marks });
    let written = cpu.workers.each(parts.iter().zip(outputs), |(part, out)| {
        Merger::new(cpu, part)?.merge(part, keep, out)
    })?;

    // What was dropped left gaps between the parts.
    let gaps = || sizes.iter().copied().zip(written.iter().copied());
    let len = close_gaps(&mut keys, gaps());
    close_gaps(&mut values, gaps());
    close_gaps(&mut marks, gaps().filter(|_| keep == Keep::Marked));
    Ok(Merged { keys, values, marks: (keep == Keep::Marked).then_some(marks), len })
}

/// How many entries a merge may write: exactly as many, where only live ones are kept and the marks
/// of all sources tell how many that are; else as if none was dropped.
fn room_for<B, V>(sources: &[Source<'_, B, V>], keep: Keep) -> usize {
    let live: Option<i64> = match keep {
        Keep::Live => sources.iter().map(Source::sum).sum(),
        Keep::Marked => None,
    };
    live.map_or_else(|| sources.iter().map(|source| source.keys.len()).sum(), |live| live as usize)
}

/// Cuts all sources at the same keys into about equal parts: the entries of each in every part.
pub(crate) fn split<B: OrderedKey, V>(
    sources: &[Source<'_, B, V>],
    parts: usize,
) -> Vec<Vec<Range<usize>>> {
    let total: usize = sources.iter().map(|source| source.keys.len()).sum();
    let mut samples: Vec<B> = sources
        .iter()
        .filter(|_| parts > 1)
        .flat_map(|source| source.keys.iter().step_by(source.keys.len() / (parts * 64) + 1))
        .copied()
        .collect();
    samples.sort_unstable();
    let below = |key: B| sources.iter().map(move |s| s.keys.partition_point(|&k| k < key));
    let mut starts = vec![0; sources.len()];
    (1..=parts)
        .map(|part| {
            let goal = total / parts * part;
            let at = samples.partition_point(|&sample| below(sample).sum::<usize>() < goal);
            let ends: Vec<usize> = match samples.get(at) {
                Some(&key) if part < parts => below(key).collect(),
                _ => sources.iter().map(|source| source.keys.len()).collect(),
            };
            std::mem::replace(&mut starts, ends.clone()).into_iter().zip(ends).map(|(s, e)| s..e).collect()
        })
        .collect()
}

/// Moves the written beginning of every stretch to the left, and returns how much there is in all.
fn close_gaps<T: Copy>(data: &mut [T], stretches: impl Iterator<Item = (usize, usize)>) -> usize {
    let (mut from, mut to) = (0, 0);
    for (size, written) in stretches {
        if from != to {
            data.copy_within(from..from + written, to);
        }
        from += size;
        to += written;
    }
    to
}

/// Entries as parallel slices; `marks` is empty where marks don't matter.
struct Entries<K, V, M> {
    keys: K,
    values: V,
    marks: M,
}

type EntriesRef<'a, B, V> = Entries<&'a [B], &'a [V], &'a [u8]>;
type EntriesMut<'a, B, V> = Entries<&'a mut [B], &'a mut [V], &'a mut [u8]>;
type EntriesBuffer<B, V> = Entries<Buffer<B>, Buffer<V>, Buffer<u8>>;

impl<'a, B, V> EntriesRef<'a, B, V> {
    fn from(&self, start: usize) -> EntriesRef<'a, B, V> {
        let marks = if self.marks.is_empty() { &[] } else { &self.marks[start..] };
        Entries { keys: &self.keys[start..], values: &self.values[start..], marks }
    }
}

impl<B, V> EntriesMut<'_, B, V> {
    /// What follows the first `len` entries; `values` and `marks` may be unwanted, that is empty.
    fn after(&mut self, len: usize) -> EntriesMut<'_, B, V> {
        fn rest<T>(slice: &mut [T], len: usize) -> &mut [T] {
            let start = len.min(slice.len());
            &mut slice[start..]
        }
        Entries {
            keys: rest(self.keys, len),
            values: rest(self.values, len),
            marks: rest(self.marks, len),
        }
    }


    /// Writes one entry. Past the end there is nothing to write: the entry will not be kept.
    fn set(&mut self, at: usize, key: B, value: V, mark: u8) {
        if let Some(slot) = self.keys.get_mut(at) {
            *slot = key;
        }
        if let Some(slot) = self.values.get_mut(at) {
            *slot = value;
        }
        if let Some(slot) = self.marks.get_mut(at) {
            *slot = mark;
        }
    }
}

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
    fn merge(
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
            [only] => self.copy_one(only.entries(), keep, out),
            [newer, older, ..] => self.merge_two(newer, older, keep.mask(), out),
        };
        free.extend(pieces.into_iter().filter_map(|piece| match piece {
            Piece::Merged(buffer, _) => Some(buffer),
            Piece::Source(_) => None,
        }));
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
        free.extend(merged.filter_map(|piece| match piece {
            Piece::Merged(buffer, _) => Some(buffer),
            Piece::Source(_) => None,
        }));
        Ok(())
    }

    fn copy_one(
        &self,
        entries: EntriesRef<'_, B, V>,
        keep: Keep,
        out: EntriesMut<'_, B, V>,
    ) -> usize {
        copy_kept(entries, keep.mask(), out, self.marked)
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

/// Merges `newer` over `older`, writing what has a bit of `keep` in its mark.
fn merge_two<B: OrderedKey, V: Value, const MARKED: bool>(
    newer: EntriesRef<'_, B, V>,
    older: EntriesRef<'_, B, V>,
    keep: u8,
    mut out: EntriesMut<'_, B, V>,
) -> usize {
    let (mut i, mut j, mut kept) = (0, 0, 0);
    while i < newer.keys.len() && j < older.keys.len() {
        let (a, b) = (newer.keys[i], older.keys[j]);
        let value = select_unpredictable(a <= b, newer.values[i], older.values[j]);
        let mark = if MARKED {
            let live = select_unpredictable(a <= b, newer.marks[i], older.marks[j]);
            let shadow = select_unpredictable(a < b, newer.marks[i], older.marks[j]);
            (live & !byte::SHADOW) | (shadow & byte::SHADOW)
        } else {
            byte::NEW
        };
        out.set(kept, a.min(b), value, mark);
        kept += usize::from(mark & keep != 0);
        i += usize::from(a <= b);
        j += usize::from(b <= a);
    }
    kept += copy_kept(newer.from(i), keep, out.after(kept), MARKED);
    kept += copy_kept(older.from(j), keep, out.after(kept), MARKED);
    kept
}

/// Copies what has a bit of `keep` in its mark: everything, where there are no marks.
fn copy_kept<B: OrderedKey, V: Value>(
    entries: EntriesRef<'_, B, V>,
    keep: u8,
    mut out: EntriesMut<'_, B, V>,
    marked: bool,
) -> usize {
    let len = entries.keys.len();
    if !marked {
        out.keys[..len].copy_from_slice(entries.keys);
        if !out.values.is_empty() {
            out.values[..len].copy_from_slice(entries.values);
        }
        if !out.marks.is_empty() {
            out.marks[..len].fill(byte::NEW);
        }
        return len;
    }
    let mut kept = 0;
    for index in 0..len {
        let mark = entries.marks[index];
        out.set(kept, entries.keys[index], entries.values[index], mark);
        kept += usize::from(mark & keep != 0);
    }
    kept
}
