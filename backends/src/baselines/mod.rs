//! What the dictionary is measured against: a sort, a sorted array, and a hash table, on each device.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;

use std::ops::Range;

use crate::backend::{Array, LookupOut, Outcome, Pairs, RangeEnds, RangeOut};

/// A sort of pairs by key, as a build must do.
pub trait Sort {
    /// Sorts pairs into [`output`](Sort::output).
    fn sort(&mut self, pairs: &Pairs) -> Outcome<()>;
    fn output(&self) -> &Pairs;
}

/// Pairs in key order. A batch is sorted, then merged with everything there is.
pub trait SortedArray {
    fn insert(&mut self, pairs: &Pairs, part: Range<usize>) -> Outcome<()>;
    fn lookup(&self, keys: &Array, out: &mut LookupOut) -> Outcome<()>;
    fn count(&self, ranges: &RangeEnds, counts: &mut Array) -> Outcome<()>;
    fn range(&mut self, ranges: &RangeEnds, out: &mut RangeOut) -> Outcome<()>;
}

/// A hash table that is built at once.
pub trait HashTable {
    /// Replaces its contents with the first `len` pairs.
    fn build(&mut self, pairs: &Pairs, len: usize) -> Outcome<()>;
    fn lookup(&self, keys: &Array, out: &mut LookupOut) -> Outcome<()>;
}
