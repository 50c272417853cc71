//! The i-th key: one search over all runs at once.

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, PairsOutput, View, check};
use crate::cuda::query::combine::combine_values;
use crate::cuda::query::pairs::PairsBuffers;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::PairsOut;

/// Finds the live pair at each index in key order, on data on the GPU.
pub(crate) fn select(
    cuda: &EnteredCuda<'_>,
    view: &View,
    indices: Address,
    len: u64,
    out: &PairsOutput,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: there are `len` indices, and room for as many pairs; the runs of the view are alive and
    // written before what this stream does now.
    check("selecting", unsafe {
        let (key_width, value_width) = (cuda.key_width, cuda.value_width);
        ffi::gpulsm_select(key_width, value_width, view, indices, len, out, cuda.raw_stream())
    })?;
    combine_values(cuda, view, &out.combined(len))
}

/// Finds the live pair at each of the host's indices in key order.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    indices: &[u64],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let uploaded = cuda.upload(indices)?;
    let pairs = PairsBuffers::new(cuda, indices.len())?;
    select(cuda, view, uploaded.address(), indices.len() as u64, &pairs.addresses())?;
    pairs.download(cuda, out)
}
