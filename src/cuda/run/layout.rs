//! How many bytes each part of a run has, and where each is in a buffer.

use crate::cuda::ffi::{Head, NODE, SECTOR, Sector};

/// Parts of a run begin at multiples of this, so that vector loads are aligned.
const ALIGNMENT: u64 = 256;

/// The bytes of each part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartBytes {
    pub head: u64,
    pub keys: u64,
    pub inner: u64,
    pub outer: u64,
    pub values: u64,
    pub marks: u64,
}

impl PartBytes {
    pub fn new(bound: u64, key_width: u64, value_width: u64, has_marks: bool) -> Self {
        let nodes = bound.div_ceil(NODE);
        PartBytes {
            head: size_of::<Head>() as u64,
            keys: nodes * NODE * key_width,
            inner: nodes.next_multiple_of(NODE) * key_width,
            outer: nodes.div_ceil(NODE) * key_width,
            values: bound * value_width,
            marks: if has_marks { mark_bytes(bound) } else { 0 },
        }
    }

    /// Returns the number of sectors of marks.
    pub fn sectors(&self) -> u64 {
        self.marks / size_of::<Sector>() as u64
    }
}

/// The offsets of a run's parts in one buffer; the head is at 0.
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
    pub fn new(bytes: &PartBytes) -> Self {
        let after = |offset: u64, bytes: u64| (offset + bytes).next_multiple_of(ALIGNMENT);
        let keys = after(0, bytes.head);
        let inner = after(keys, bytes.keys);
        let outer = after(inner, bytes.inner);
        let values = after(outer, bytes.outer);
        let marks = after(values, bytes.values);
        let end = after(marks, bytes.marks);
        Layout { keys, inner, outer, values, marks, end }
    }
}

/// Returns the number of sectors that the marks of `bound` entries need.
pub(super) fn sectors_for(bound: u64) -> u64 {
    bound / SECTOR + 1
}

/// Returns the bytes of the marks of `bound` entries.
pub(crate) fn mark_bytes(bound: u64) -> u64 {
    sectors_for(bound) * size_of::<Sector>() as u64
}
