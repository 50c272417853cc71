//! Data on its way between the GPU that it was given on and a shard.

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::gpu::Gpu;
use crate::cuda::driver::memory::{Buffer, copy_between};
use crate::cuda::ffi::Address;
use crate::error::{Error, try_zeroed};

/// Returns whether a shard on this GPU can use the data of that one where it is.
pub(super) fn is_beside(shard: &Gpu, data: &Gpu) -> bool {
    #[cfg(feature = "testing")]
    if copies_for_tests() {
        return false;
    }
    shard == data
}

/// Returns whether shards copy the data of their own GPU as well.
#[cfg(feature = "testing")]
fn copies_for_tests() -> bool {
    static COPIES: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *COPIES.get_or_init(|| std::env::var("GPULSM_PEER_COPIES").is_ok_and(|value| value == "1"))
}

/// Copies `bytes` bytes from another GPU, where they are written, to a new buffer on this context's stream.
pub(super) fn bring(
    cuda: &EnteredCuda<'_>,
    data: &Gpu,
    from: Address,
    bytes: u64,
) -> Result<Buffer, Error> {
    let buffer = cuda.alloc_uncounted(bytes)?;
    let to = (cuda.gpu(), buffer.address());
    // SAFETY: there are `bytes` bytes on both sides.
    unsafe { copy_between(to, (data, from), bytes, &cuda.stream, cuda.entered())? };
    Ok(buffer)
}

/// Copies what a buffer on this context's stream holds to another GPU, if it is wanted there: if that is not null.
pub(super) fn take_back(
    cuda: &EnteredCuda<'_>,
    buffer: &Buffer,
    data: &Gpu,
    to: Address,
) -> Result<(), Error> {
    if to == 0 {
        return Ok(());
    }
    let from = (cuda.gpu(), buffer.address());
    // SAFETY: the caller has room for as many bytes there.
    unsafe { copy_between((data, to), from, buffer.bytes(), &cuda.stream, cuda.entered()) }
}

/// Copies `len` items to the host, and waits for that.
pub(super) fn fetch<T: bytemuck::Pod>(
    cuda: &EnteredCuda<'_>,
    from: Address,
    len: u64,
) -> Result<Vec<T>, Error> {
    let mut items = try_zeroed(len as usize)?;
    fetch_into(cuda, from, &mut items)?;
    Ok(items)
}

/// Copies as many items to the host, and waits for that.
pub(super) fn fetch_into<T: bytemuck::Pod>(
    cuda: &EnteredCuda<'_>,
    from: Address,
    items: &mut [T],
) -> Result<(), Error> {
    // SAFETY: the caller has as many items there, which may have any bits, and the stream is synchronized before they
    // are read or freed.
    let started = unsafe { cuda.download(from, items) };
    cuda.stream.synchronize().and(started)
}
