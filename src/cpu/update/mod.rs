//! Applying a batch: it is buffered, or sorted, marked with its shadows and merged.

pub(super) mod absorb;
pub(super) mod buffer;
mod co_scan;
mod radix;
mod shadows;
pub(super) mod sort;
