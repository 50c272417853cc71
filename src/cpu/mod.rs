//! The CPU engine. Its folders mirror those of the CUDA engine (`cuda/`) and of its kernels: `run`
//! holds the parts of a run, `update` applies batches, `merge` merges runs, and `query` answers
//! queries.

mod context;
mod engine;
mod memory;
mod merge;
mod prefetch;
mod query;
pub(crate) mod run;
mod update;

use crate::batch::Order;
use crate::budget::Account;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::workers::Workers;
use update::sort::{SortedBatch, sort};

pub(crate) use context::Cpu;
pub(crate) use engine::CpuEngine;
#[cfg(all(test, feature = "cuda"))]
pub(crate) use run::filter::{FilterPlace, filter_place};

/// Returns pairs in the order of their keys, of equal keys the last one, in memory that no limit applies to.
pub(crate) fn sorted_without_duplicates<B: OrderedKey>(
    workers: &Workers,
    keys: &[B],
    values: &[u64],
) -> Result<SortedBatch<B, u64>, Error> {
    let cpu = Cpu::on_workers(workers.clone(), Account::of_stores(None, 1));
    sort(&cpu, keys, values, Order::Any, None)
}
