//! Calls on data that is on the GPU already.

pub mod columns;
mod device_query;
mod keys;
mod lend;
pub(super) mod query;
mod shards;
pub(super) mod slice;
pub(super) mod store;
pub(super) mod update;
pub(super) mod view;
