//! The inputs of a merge: runs, parts of them, and the sorted batch.

use std::ops::Range;

use crate::cpu::merge::keep::Keep;
use crate::cpu::run::Run;
use crate::cpu::run::marks::PackedMarks;
use crate::key::OrderedKey;
use crate::mark::Mark;
use crate::value::Value;

/// Sorted entries with unique keys: a run or a batch, or part of one.
pub(crate) struct Source<'a, B, V> {
    pub keys: &'a [B],
    /// `None` for a batch of deletes.
    pub values: Option<&'a [V]>,
    pub marks: SourceMarks<'a>,
}

/// The marks of a source.
#[derive(Clone, Copy)]
pub(crate) enum SourceMarks<'a> {
    /// Of a run: every entry is new.
    New,
    /// Of the inserts of a batch that is merged with all runs: every entry is live, and its shadow
    /// is not known, nor needed. If the dictionary combines values, every entry combines.
    Inserts,
    /// Of a batch.
    Unpacked(&'a [Mark]),
    /// Of a run, from the given position on.
    Packed(&'a PackedMarks, usize),
}

impl SourceMarks<'_> {
    /// Returns whether a merge needs these marks. One that keeps live entries only has to tell
    /// entries that hide older ones from the others; shadows do not matter to it.
    pub fn matter(&self, keep: Keep) -> bool {
        match self {
            SourceMarks::New | SourceMarks::Inserts => false,
            SourceMarks::Unpacked(_) => true,
            SourceMarks::Packed(marks, _) => keep == Keep::Stored || marks.any_hides(),
        }
    }
}

impl<'a, B, V> Source<'a, B, V> {
    /// Returns the entries in `range`.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Source {
            keys: &self.keys[range.clone()],
            values: self.values.map(|values| &values[range.clone()]),
            marks: match self.marks {
                SourceMarks::New | SourceMarks::Inserts => self.marks,
                SourceMarks::Unpacked(marks) => SourceMarks::Unpacked(&marks[range]),
                SourceMarks::Packed(marks, from) => SourceMarks::Packed(marks, from + range.start),
            },
        }
    }
}

impl<B, V> Source<'_, B, V> {
    /// Returns Σ (live − shadow) over all entries of a run; `None` for a batch. (The shadows of a
    /// batch refer to the runs outside its carry only, so they cannot be added to the sums of the
    /// carried runs.)
    #[inline]
    pub fn sum(&self) -> Option<i64> {
        self.sum_of(0..self.keys.len())
    }

    /// Returns the same sum over the entries in `range`.
    #[inline]
    fn sum_of(&self, range: Range<usize>) -> Option<i64> {
        match self.marks {
            SourceMarks::New => Some(range.len() as i64),
            SourceMarks::Inserts | SourceMarks::Unpacked(_) => None,
            SourceMarks::Packed(marks, from) => {
                Some(marks.sum_before(from + range.end) - marks.sum_before(from + range.start))
            }
        }
    }

    /// Returns Σ (live − shadow) over the entries in `range` of a run. Added up over the entries of
    /// all runs between two keys, this is the number of live keys there.
    #[inline]
    pub fn live_in(&self, range: Range<usize>) -> i64 {
        self.sum_of(range).expect("a run has running sums")
    }

    /// Returns whether an entry in `range` may hide older ones; `false` is certain.
    #[inline]
    pub fn may_hide(&self, range: Range<usize>) -> bool {
        match self.marks {
            SourceMarks::New | SourceMarks::Inserts => false,
            SourceMarks::Unpacked(_) => !range.is_empty(),
            // If the sum is the length, all entries are new.
            SourceMarks::Packed(marks, _) => {
                marks.any_hides() && self.live_in(range.clone()) != range.len() as i64
            }
        }
    }
}

impl<'a, B: OrderedKey, V: Value> From<&'a Run<B>> for Source<'a, B, V> {
    fn from(run: &'a Run<B>) -> Self {
        let marks = run.marks().map_or(SourceMarks::New, |marks| SourceMarks::Packed(marks, 0));
        Source { keys: run.keys(), values: Some(run.values()), marks }
    }
}

/// Returns the entries in these ranges, one for each source.
pub(crate) fn slices<'a, B, V>(
    sources: &[Source<'a, B, V>],
    ranges: &[Range<usize>],
) -> Vec<Source<'a, B, V>> {
    sources.iter().zip(ranges).map(|(source, range)| source.slice(range.clone())).collect()
}

/// Returns the keys of each source.
pub(crate) fn key_lists<'a, B, V>(sources: &[Source<'a, B, V>]) -> Vec<&'a [B]> {
    sources.iter().map(|source| source.keys).collect()
}

/// Returns the number of entries of all sources.
pub(crate) fn total_len<B, V>(sources: &[Source<'_, B, V>]) -> usize {
    sources.iter().map(|source| source.keys.len()).sum()
}
