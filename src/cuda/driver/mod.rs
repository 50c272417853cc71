//! The CUDA driver: GPUs, streams and memory. The bottom layer, which knows nothing of dictionaries.
//!
//! Everything that calls the driver or launches a kernel takes an [`Entered`](gpu::Entered) guard, which
//! only [`Gpu::enter`](gpu::Gpu::enter) makes.

pub(crate) mod error;
pub(crate) mod gpu;
pub(crate) mod mapped;
pub(crate) mod mapping_policy;
pub(crate) mod memory;
pub(crate) mod pinned;
pub(crate) mod staging;
pub(crate) mod stream;
