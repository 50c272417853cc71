//! Applying a batch: buffer it, or sort it, find its shadows and merge it.

pub(super) mod absorb;
pub(super) mod batch;
pub(super) mod buffer;
pub(super) mod plan;
mod radix_sort;
mod scratch;
pub(super) mod sort;
pub(super) mod splitters;
