//! Dictionaries on NVIDIA GPUs: streams, and data that stays in a GPU's memory.
//!
//! With the feature `cuda`. Every call of a [`Dictionary`](crate::Dictionary) works on a GPU as it does
//! on the CPU, with the host's data. A caller whose data is on the GPU already pays for no copy:
//! [`Dictionary::resident_mut`](crate::Dictionary::resident_mut) takes updates from there, and
//! [`Snapshot::resident`](crate::Snapshot::resident) answers there. Your own kernels can query a
//! [`View`].
//!
//! Applying a batch puts work on a [`Stream`] and does not wait for it. An error that only shows
//! later is reported by the next call that can, or by
//! [`synchronize`](crate::Snapshot::synchronize). A thread's current device is never changed.
//!
//! CUDA loads a kernel when it is first called, and may wait for all work on the GPU to do so. A program that
//! captures graphs, or blocks a stream until its own code releases it, while other threads call
//! kernels for the first time, should set the environment variable `CUDA_MODULE_LOADING` to `EAGER`
//! before it starts.

// Every call of a kernel is unsafe; each says which lengths and which stream make it sound.
#![allow(unsafe_code)]

// The folders are those of the CPU engine and of the kernels: `run` is what a run is made of, `update` sorts a
// batch, `merge` merges runs, `query` answers. `driver` is CUDA itself, and `resident` is for callers whose data
// is on the GPU.

mod abi;
mod context;
mod driver;
mod engine;
mod ffi;
mod merge;
mod query;
mod resident;
mod run;
mod update;

pub(crate) use context::Cuda;
pub(crate) use driver::gpu::Gpu;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use driver::pinned::allocated_pinned_heads;
pub use driver::stream::Stream;
pub(crate) use engine::CudaEngine;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use query::bucket_policy::{Bucketing, choose_bucketing};
#[doc(hidden)]
pub use resident::columns;
pub use resident::query::Resident;
pub use resident::slice::{DeviceSlice, DeviceSliceMut, DeviceVec};
pub(crate) use resident::store::{insert_all, move_to_new_stream, move_to_stream};
pub use resident::update::ResidentMut;
pub use resident::view::View;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use update::splitters::sort_by_splitters;
