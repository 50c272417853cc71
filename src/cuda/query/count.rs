//! Counting: sums of marks between two searches per run.

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, View, check};
use crate::cuda::run::resolve::resolve;
use crate::cuda::run::{Run, live_keys};
use crate::error::Error;
use crate::key::OrderedKey;

/// Returns the number of live keys, once every run is written: this waits for that.
pub(crate) fn len(cuda: &EnteredCuda<'_>, runs: &[Run]) -> Result<u64, Error> {
    resolve(cuda, runs)?;
    live_keys(runs, cuda.entered())
}

/// Counts the live keys of each closed range, on data on the GPU.
pub(crate) fn count(
    cuda: &EnteredCuda<'_>,
    view: &View,
    (lo, hi): (Address, Address),
    len: u64,
    counts: Address,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: there are `len` ranges, and room for as many counts; the runs of the view are alive and
    // written before what this stream does now.
    check("counting", unsafe {
        ffi::gpulsm_count(cuda.key_width, view, lo, hi, len, 0, counts, cuda.raw_stream())
    })
}

/// Counts the live keys less than each key, on data on the GPU.
pub(crate) fn rank(
    cuda: &EnteredCuda<'_>,
    view: &View,
    keys: Address,
    len: u64,
    ranks: Address,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: there are `len` keys, and room for as many ranks; the runs of the view are alive and written
    // before what this stream does now.
    check("ranking", unsafe {
        ffi::gpulsm_rank(cuda.key_width, view, keys, len, ranks, cuda.raw_stream())
    })
}

/// Counts the live keys of each of the host's closed ranges.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    lo: &[B],
    hi: &[B],
    counts: &mut [u64],
) -> Result<(), Error> {
    let ends = (&cuda.upload(lo)?, &cuda.upload(hi)?);
    download_numbers(cuda, counts, |counts| {
        count(cuda, view, (ends.0.address(), ends.1.address()), lo.len() as u64, counts)
    })
}

/// Counts the live keys less than each of the host's keys.
pub(crate) fn answer_rank<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    keys: &[B],
    ranks: &mut [u64],
) -> Result<(), Error> {
    let uploaded = cuda.upload(keys)?;
    download_numbers(cuda, ranks, |ranks| {
        rank(cuda, view, uploaded.address(), keys.len() as u64, ranks)
    })
}

/// Downloads the numbers that `write` writes on the GPU.
fn download_numbers(
    cuda: &EnteredCuda<'_>,
    numbers: &mut [u64],
    write: impl FnOnce(Address) -> Result<(), Error>,
) -> Result<(), Error> {
    let buffer = cuda.alloc_uncounted(size_of_val(numbers) as u64)?;
    write(buffer.address())?;
    // SAFETY: the buffer is as long as the numbers, and the stream is synchronized before they are
    // read.
    unsafe { cuda.download(buffer.address(), numbers)? };
    cuda.stream.synchronize()
}
