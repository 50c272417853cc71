//! Successor and predecessor.

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{self, Address, PairsOutput, View, check};
use crate::cuda::query::pairs::PairsBuffers;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::{PairsOut, Side};

/// The live pair nearest to each key, itself included, on the GPU's own data.
pub(crate) fn nearest(
    cuda: &Cuda,
    view: &View,
    side: Side,
    keys: Address,
    len: u64,
    out: &PairsOutput,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    let _entered = cuda.gpu().enter()?;
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
            cuda.stream.raw(),
        )
    })
}

/// On the host's data.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &Cuda,
    view: &View,
    side: Side,
    keys: &[B],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let uploaded = Buffer::upload(keys, &cuda.stream)?;
    let pairs = PairsBuffers::new::<B>(cuda, keys.len())?;
    nearest(cuda, view, side, uploaded.address(), keys.len() as u64, &pairs.addresses())?;
    pairs.download(cuda, out)
}
