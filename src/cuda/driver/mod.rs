//! The CUDA driver: GPUs, streams, memory.

pub(crate) mod gpu;
pub(crate) mod memory;
pub(crate) mod stream;
