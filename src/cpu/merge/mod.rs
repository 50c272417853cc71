//! Merging runs, and the sorted batch on top of them, into one run.
//!
//! Of entries with the same key one remains, by the rule of
//! [`Mark::over`](crate::mark::Mark::over), or of
//! [`Mark::combined_over`](crate::mark::Mark::combined_over) if the dictionary combines values. An entry that is then neither live nor a shadow is
//! dropped: a tombstone disappears together with the entry that it deletes. The oldest run holds
//! live entries only.

pub(super) mod block;
mod combine;
pub(super) mod entries;
pub(super) mod in_place;
pub(super) mod incremental;
pub(super) mod keep;
pub(super) mod merger;
pub(super) mod parallel;
pub(super) mod source;
pub(super) mod split;
mod two;
