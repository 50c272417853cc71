//! The CPU engine. The folders are those of the CUDA engine (`cuda/`) and of its kernels: `run` is what a run
//! is made of, `update` sorts a batch and finds its shadows, `merge` merges runs, `query` answers.

mod context;
mod engine;
mod memory;
mod merge;
mod prefetch;
mod query;
mod run;
mod update;
mod workers;

pub(crate) use context::Cpu;
pub(crate) use engine::CpuEngine;
