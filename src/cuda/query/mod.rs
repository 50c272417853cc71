//! Answering queries over a list of runs, newest first.

pub(super) mod aggregate;
pub(super) mod asof;
pub(super) mod bucket_policy;
pub(super) mod buckets;
mod combine;
pub(super) mod count;
pub(super) mod lookup;
pub(super) mod nearest;
pub(super) mod pairs;
pub(super) mod range;
pub(super) mod select;
