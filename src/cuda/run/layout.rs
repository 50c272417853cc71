//! Where each part of a run is in its buffer.

use crate::cuda::ffi::{Head, NODE, SECTOR, Sector};

/// Parts of a run begin at multiples of this, so that vector loads are aligned.
const ALIGNMENT: u64 = 256;

/// The offsets of a run's parts in its buffer; the head is at 0.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub keys: u64,
    pub inner: u64,
    pub outer: u64,
    pub values: u64,
    pub marks: u64,
    /// Where the marks end; where they would begin if there are none.
    pub end: u64,
}

impl Layout {
    pub fn new(bound: u64, key_width: u64, value_width: u64, has_marks: bool) -> Self {
        let nodes = bound.div_ceil(NODE);
        let after = |offset: u64, bytes: u64| (offset + bytes).next_multiple_of(ALIGNMENT);
        let keys = after(0, size_of::<Head>() as u64);
        let inner = after(keys, nodes * NODE * key_width);
        let outer = after(inner, nodes.next_multiple_of(NODE) * key_width);
        let values = after(outer, nodes.div_ceil(NODE) * key_width);
        let marks = after(values, bound * value_width);
        let end = after(marks, if has_marks { mark_bytes(bound) } else { 0 });
        Layout { keys, inner, outer, values, marks, end }
    }

    pub fn has_marks(&self) -> bool {
        self.end > self.marks
    }

    /// Returns the number of sectors of marks that there is room for.
    pub fn sectors(&self) -> u64 {
        (self.end - self.marks) / size_of::<Sector>() as u64
    }
}

/// Returns the number of sectors that the marks of `bound` entries need.
pub(super) fn sectors_for(bound: u64) -> u64 {
    bound / SECTOR + 1
}

/// Returns the bytes of the marks of `bound` entries.
pub(super) fn mark_bytes(bound: u64) -> u64 {
    sectors_for(bound) * size_of::<Sector>() as u64
}
