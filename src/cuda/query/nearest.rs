//! Successor and predecessor.

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, PairsOutput, View, check};
use crate::cuda::query::combine::combine_values;
use crate::cuda::query::pairs::PairsBuffers;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::{PairsOut, Side};

/// Finds the live pair nearest to each key, the key's own included, on data on the GPU.
pub(crate) fn nearest(
    cuda: &EnteredCuda<'_>,
    view: &View,
    side: Side,
    keys: Address,
    len: u64,
    out: &PairsOutput,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: there are `len` keys, and room for as many pairs; the runs of the view are alive and
    // written before what this stream does now.
    check("finding neighbours", unsafe {
        ffi::gpulsm_nearest(
            cuda.key_width,
            cuda.value_width,
            view,
            side == Side::Successor,
            keys,
            len,
            out,
            cuda.raw_stream(),
        )
    })?;
    combine_values(cuda, view, &out.combined(len))
}

/// Finds the live pair nearest to each of the host's keys.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    side: Side,
    keys: &[B],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let uploaded = cuda.upload(keys)?;
    let pairs = PairsBuffers::new(cuda, keys.len())?;
    nearest(cuda, view, side, uploaded.address(), keys.len() as u64, &pairs.addresses())?;
    pairs.download(cuda, out)
}
