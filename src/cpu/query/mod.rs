//! Answering queries over a list of runs, newest first.

pub(super) mod aggregate;
pub(super) mod asof;
mod bounds;
pub(super) mod count;
mod dead;
mod fingers;
mod fold;
pub(super) mod lookup;
pub(super) mod nearest;
pub(super) mod pairs;
pub(super) mod range;
mod range_merge;
mod range_plan;
pub(super) mod select;
mod windows;
