//! Merging runs.

pub(super) mod incremental;
