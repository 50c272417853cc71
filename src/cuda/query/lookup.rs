//! Looking keys up.

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::{Buffer, download};
use crate::cuda::ffi::{self, Address, View, check};
use crate::cuda::run::Run;
use crate::cuda::run::filter::filters;
use crate::error::Error;
use crate::key::OrderedKey;

/// On the GPU's own data; `values` is 0 where they are not wanted.
pub(crate) fn lookup(
    cuda: &Cuda,
    runs: &[Run],
    keys: Address,
    len: u64,
    values: Address,
    found: Address,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    let _entered = cuda.gpu().enter()?;
    let filters = filters(cuda, runs, len)?;
    let view = View::new(runs.iter().map(Run::view));
    // SAFETY: there are `len` keys, and room for as many answers; the runs and their filters are alive and
    // written before what this stream does now.
    check("looking keys up", unsafe {
        ffi::gpulsm_lookup(
            cuda.key_width,
            cuda.value_width,
            &view,
            &filters,
            keys,
            len,
            values,
            found,
            cuda.stream.raw(),
        )
    })
}

/// On the host's data.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &Cuda,
    runs: &[Run],
    keys: &[B],
    values: Option<&mut [u8]>,
    found: &mut [bool],
) -> Result<(), Error> {
    let len = keys.len();
    let keys = Buffer::upload(keys, &cuda.stream)?;
    let wanted = if values.is_some() { cuda.value_bytes(len) } else { 0 };
    let out_values = Buffer::uncounted(wanted, &cuda.stream)?;
    let out_found = Buffer::uncounted(len as u64, &cuda.stream)?;
    let (to_values, to_found) = (out_values.address(), out_found.address());
    lookup(cuda, runs, keys.address(), len as u64, to_values, to_found)?;
    // SAFETY: the buffers are as long as what goes into them, `found` is 0 or 1, and the stream is
    // synchronized before anything is read.
    let begun = unsafe {
        download(to_values, values.unwrap_or_default(), &cuda.stream)
            .and_then(|()| download(to_found, found, &cuda.stream))
    };
    // Whatever was begun must be done before the caller has its memory back.
    cuda.stream.synchronize().and(begun)
}
