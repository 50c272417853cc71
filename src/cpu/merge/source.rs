//! What a merge reads: runs, parts of them, and the sorted batch.

use std::ops::Range;

use crate::cpu::merge::Keep;
use crate::cpu::run::Run;
use crate::cpu::run::marks::Marks;
use crate::key::OrderedKey;
use crate::value::Value;

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

impl SourceMarks<'_> {
    /// Whether these marks tell any entry from another, as far as what is kept goes: for live
    /// entries alone, it is tombstones that matter, not what an entry shadows.
    pub fn matter(&self, keep: Keep) -> bool {
        match self {
            SourceMarks::New | SourceMarks::Inserts => false,
            SourceMarks::Bytes(_) => true,
            SourceMarks::Packed(marks, _) => keep == Keep::Marked || marks.tombstones() > 0,
        }
    }
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
    pub fn sum(&self) -> Option<i64> {
        self.sum_of(0..self.keys.len())
    }

    /// The same over the entries in `range`.
    fn sum_of(&self, range: Range<usize>) -> Option<i64> {
        match self.marks {
            SourceMarks::New => Some(range.len() as i64),
            SourceMarks::Inserts | SourceMarks::Bytes(_) => None,
            SourceMarks::Packed(marks, from) => {
                Some(marks.sum_before(from + range.end) - marks.sum_before(from + range.start))
            }
        }
    }

    /// How many more entries in `range` are new than are tombstones; of a run, or a part of one. Over such
    /// parts of all runs that have the same keys, this adds up to the number of live keys.
    pub fn live_in(&self, range: Range<usize>) -> i64 {
        self.sum_of(range).expect("a run's marks add up")
    }

    /// Returns whether any entry in `range` may be a tombstone; `false` is certain.
    pub fn may_have_tombstones(&self, range: Range<usize>) -> bool {
        match self.marks {
            SourceMarks::New | SourceMarks::Inserts => false,
            SourceMarks::Bytes(_) => !range.is_empty(),
            // If the sum is the length, all are new.
            SourceMarks::Packed(marks, _) => {
                marks.tombstones() > 0 && self.live_in(range.clone()) != range.len() as i64
            }
        }
    }
}

impl<'a, B: OrderedKey, V: Value> From<&'a Run<B, V>> for Source<'a, B, V> {
    fn from(run: &'a Run<B, V>) -> Self {
        let marks = run.marks().map_or(SourceMarks::New, |marks| SourceMarks::Packed(marks, 0));
        Source { keys: run.keys(), values: Some(run.values()), marks }
    }
}
