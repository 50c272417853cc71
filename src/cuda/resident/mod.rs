//! Calls on data that is on the GPU already.

pub mod columns;
mod keys;
mod lend;
pub(super) mod query;
pub(super) mod slice;
pub(super) mod store;
pub(super) mod update;
pub(super) mod view;
