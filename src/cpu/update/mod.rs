//! Applying a batch: buffer it, or sort it, find its shadows and merge it.

pub(super) mod absorb;
pub(super) mod buffer;
mod co_scan;
mod shadows;
mod sort;
