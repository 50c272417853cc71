//! Views: dictionaries for users' own kernels.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::cuda::ffi;
use crate::cuda::resident::store::CudaStore;
use crate::cuda::run::Run;
use crate::cuda::run::reading::Reading;
use crate::cuda::run::resolve::resolve;
use crate::error::Error;
use crate::holders::{Hold, HolderKind};
use crate::key::ScalarKey;
use crate::store::Levels;
use crate::value::Value;

/// A dictionary as a user's own kernel sees it: a `gpulsm::View` of `include/gpulsm/view.cuh`, to
/// be passed by value to kernels on the snapshot's stream, put there before this is dropped.
///
/// Its key type is `uint32_t` or `uint64_t`; `include/gpulsm/keys.cuh` maps other keys to those. Its
/// value type is any of the same size and alignment: `gpulsm::Nothing`, `uint32_t`, `uint64_t`,
/// `ulonglong2`, or a structure.
///
/// Kernels are launched on the GPU of the stream: where that is not GPU 0, call `cudaSetDevice` first.
/// A crate that depends on this one finds the headers in `DEP_GPULSM_KERNELS_INCLUDE` and nvcc in
/// `DEP_GPULSM_KERNELS_NVCC` when its build script runs; `examples/own-kernel` shows all of it.
pub struct View<'a, K, V> {
    raw: Box<ffi::View>,
    _reading: Reading<'a>,
    _levels: Arc<Levels<Run>>,
    _hold: Hold,
    types: PhantomData<(K, V)>,
}

impl<'a, K: ScalarKey, V: Value> View<'a, K, V> {
    /// Makes a view of the runs that the store has now.
    pub(super) fn new(store: &'a dyn CudaStore) -> Result<Self, Error> {
        let cuda = store.cuda().enter()?;
        let levels = store.flushed()?;
        resolve(&cuda, levels.runs())?;
        let reading = Reading::begin(&cuda, levels.runs().iter())?;
        let runs = levels.runs().iter().map(Run::view);
        let raw = Box::new(ffi::View::new(runs, cuda.raw_combiner()));
        let hold = store.hold(HolderKind::View);
        Ok(View { raw, _reading: reading, _levels: levels, _hold: hold, types: PhantomData })
    }

    /// Returns where the structure is, in the host's memory.
    pub fn as_ptr(&self) -> *const c_void {
        (&raw const *self.raw).cast()
    }
}
