//! What tests of dictionaries are made of, with the feature `testing`: the meaning of a dictionary as a
//! plain model, and random lists of operations that are applied to both and compared.
//!
//! The feature also adds `Snapshot::validate`, which checks every invariant of the structure, and
//! `Dictionary::fail_allocation_after`, which makes an allocation fail, and `Dictionary::merges_in_place`, which counts
//! merges for which memory was short.

mod aggregates;
pub mod bits;
pub mod check;
mod elements;
pub mod from_bytes;
mod home;
pub mod model;
pub mod readers;
mod rules;
pub mod script;
mod subject;

#[cfg(feature = "cuda")]
pub use crate::cuda::allocated_pinned_heads;
