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
mod workers;

pub(crate) use context::Cpu;
pub(crate) use engine::CpuEngine;
#[cfg(all(test, feature = "cuda"))]
pub(crate) use run::filter::{FilterPlace, filter_place};
pub(crate) use workers::{MIN_SHARED_WORK, Workers, cut};
