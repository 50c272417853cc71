//! The pairs of ranges: counted, laid end to end, and written straight to their places.

use super::count::count;
use super::engine::Cuda;
use super::ffi::{self, Address, Ranges, View, check};
use super::memory::{Buffer, download};
use crate::error::Error;
use crate::key::OrderedKey;

/// Where each answer begins when all are laid end to end, and where the last ends: `len` + 1
/// offsets, on the GPU's own data.
pub(crate) fn offsets(
    cuda: &Cuda,
    view: &View,
    ends: (Address, Address),
    len: u64,
    offsets: Address,
) -> Result<(), Error> {
    let counts = offsets + size_of::<u64>() as u64;
    {
        let _entered = cuda.gpu().enter()?;
        let stream = cuda.stream.raw();
        // SAFETY: there is room for at least one offset.
        let zeroed = unsafe {
            cudarc::driver::result::memset_d8_async(offsets, 0, size_of::<u64>(), stream)
        };
        super::gpu::check("cuMemsetD8Async", zeroed)?;
    }
    if len == 0 {
        return Ok(());
    }
    count(cuda, view, ends, len, counts)?;
    let add_up = |temp: Address, temp_bytes: &mut usize| {
        let _entered = cuda.gpu().enter()?;
        // SAFETY: `len` counts are there, and `temp` is null or of the size that this asked for.
        check("adding up counts", unsafe {
            ffi::gpulsm_add_up(temp, temp_bytes, counts, len, cuda.stream.raw())
        })
    };
    let mut temp_bytes = 0;
    add_up(0, &mut temp_bytes)?;
    let temp = Buffer::counted(temp_bytes as u64, &cuda.family.budget, &cuda.stream)?;
    add_up(temp.address(), &mut temp_bytes)
}

/// Writes every pair to its place, if there is room for all, on the GPU's own data.
pub(crate) fn fill(cuda: &Cuda, view: &View, ranges: &Ranges) -> Result<(), Error> {
    if ranges.len == 0 || ranges.room == 0 {
        return Ok(());
    }
    let _entered = cuda.gpu().enter()?;
    // SAFETY: there are `len` ranges, one offset more, and room for `room` pairs, which the kernel
    // keeps to; the runs of the view are alive and written before what this stream does now.
    check("listing ranges", unsafe {
        ffi::gpulsm_range(cuda.key_width, cuda.value_width, view, ranges, cuda.stream.raw())
    })
}

/// Ranges on the GPU whose offsets are known.
pub(crate) struct Counted {
    lo: Buffer,
    offsets: Buffer,
    len: u64,
}

/// Offsets of the host's ranges.
pub(crate) fn answer_offsets<B: OrderedKey>(
    cuda: &Cuda,
    view: &View,
    lo: &[B],
    hi: &[B],
    to: &mut [usize],
) -> Result<Counted, Error> {
    let len = lo.len() as u64;
    let (lo, hi) = (Buffer::upload(lo, &cuda.stream)?, Buffer::upload(hi, &cuda.stream)?);
    let counted = Counted { lo, offsets: Buffer::uncounted((len + 1) * 8, &cuda.stream)?, len };
    let ends = (counted.lo.address(), hi.address());
    offsets(cuda, view, ends, len, counted.offsets.address())?;
    // SAFETY: there is one offset more than there are ranges on both sides, a `usize` is 64 bits wide
    // here, and the stream is synchronized before they are read.
    unsafe { download(counted.offsets.address(), to, &cuda.stream)? };
    cuda.stream.synchronize()?;
    Ok(counted)
}

/// Offsets and, if there is room for all, pairs of the host's ranges.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &Cuda,
    view: &View,
    (lo, hi): (&[B], &[B]),
    offsets: &mut [usize],
    keys: &mut [B],
    values: Option<&mut [u8]>,
) -> Result<(), Error> {
    let counted = answer_offsets(cuda, view, lo, hi, offsets)?;
    let total = offsets[lo.len()];
    if total > keys.len() {
        return Ok(());
    }
    let out_keys = Buffer::uncounted(size_of_val(&keys[..total]) as u64, &cuda.stream)?;
    let wanted = if values.is_some() { cuda.value_bytes(total) } else { 0 };
    let out_values = Buffer::uncounted(wanted, &cuda.stream)?;
    let ranges = Ranges {
        lo: counted.lo.address(),
        len: counted.len,
        offsets: counted.offsets.address(),
        room: total as u64,
        keys: out_keys.address(),
        values: out_values.address(),
    };
    fill(cuda, view, &ranges)?;
    // SAFETY: the buffers are as long as what goes into them, and the stream is synchronized before
    // anything is read.
    let begun = unsafe {
        let values = values.unwrap_or_default();
        let values = &mut values[..wanted as usize];
        download(out_keys.address(), &mut keys[..total], &cuda.stream)
            .and_then(|()| download(out_values.address(), values, &cuda.stream))
    };
    // Whatever was begun must be done before the caller has its memory back.
    cuda.stream.synchronize().and(begun)
}

const _: () = assert!(size_of::<usize>() == size_of::<u64>());
