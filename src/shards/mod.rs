//! A store over several stores, its *shards*, on one device or several: each has the keys between two *splitters*.
//!
//! A batch is divided by key (`partition.rs`), prepared on every shard, and committed when all have (`update.rs`). Queries
//! go to the shards that know the answer (`query.rs`, and `pieces.rs` for ranges, which may span several), on the CPU some at a
//! time (`chunks.rs`). The splitters
//! come from a sample of the first keys; shards that drift apart are rebalanced (`rebalance.rs`).

mod balance;
mod chunks;
mod parallel;
mod partition;
mod pieces;
mod query;
mod rebalance;
mod stats;
mod store;
mod update;

pub(crate) use store::{Shard, Shards};
