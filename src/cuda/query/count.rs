//! Counting: sums of marks between two searches per run.

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::{Buffer, download};
use crate::cuda::ffi::{self, Address, View, check};
use crate::cuda::run::Run;
use crate::cuda::run::resolve::resolve;
use crate::error::Error;
use crate::key::OrderedKey;

/// How many keys are live in all, once every run is written: this waits for that.
pub(crate) fn len(cuda: &Cuda, runs: &[Run]) -> Result<u64, Error> {
    resolve(cuda, runs)?;
    sum(runs)
}

/// The same where no run lacks its marks.
pub(crate) fn sum(runs: &[Run]) -> Result<u64, Error> {
    let sums = runs.iter().map(|run| run.head().map(|head| head.sum));
    Ok(sums.sum::<Result<i64, Error>>()?.cast_unsigned())
}

/// How many live keys each closed range has, on the GPU's own data.
pub(crate) fn count(
    cuda: &Cuda,
    view: &View,
    (lo, hi): (Address, Address),
    len: u64,
    counts: Address,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    let _entered = cuda.gpu().enter()?;
    // SAFETY: there are `len` ranges, and room for as many counts; the runs of the view are alive and
    // written before what this stream does now.
    check("counting", unsafe {
        ffi::gpulsm_count(cuda.key_width, view, lo, hi, len, 0, counts, cuda.stream.raw())
    })
}

/// How many live keys are less than each key, on the GPU's own data.
pub(crate) fn rank(
    cuda: &Cuda,
    view: &View,
    keys: Address,
    len: u64,
    ranks: Address,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    let _entered = cuda.gpu().enter()?;
    // SAFETY: as above.
    check("ranking", unsafe {
        ffi::gpulsm_rank(cuda.key_width, view, keys, len, ranks, cuda.stream.raw())
    })
}

/// Counts of the host's ranges.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &Cuda,
    view: &View,
    lo: &[B],
    hi: &[B],
    counts: &mut [u64],
) -> Result<(), Error> {
    let ends = (&Buffer::upload(lo, &cuda.stream)?, &Buffer::upload(hi, &cuda.stream)?);
    numbers(cuda, counts, |counts| {
        count(cuda, view, (ends.0.address(), ends.1.address()), lo.len() as u64, counts)
    })
}

/// Ranks of the host's keys.
pub(crate) fn answer_rank<B: OrderedKey>(
    cuda: &Cuda,
    view: &View,
    keys: &[B],
    ranks: &mut [u64],
) -> Result<(), Error> {
    let uploaded = Buffer::upload(keys, &cuda.stream)?;
    numbers(cuda, ranks, |ranks| rank(cuda, view, uploaded.address(), keys.len() as u64, ranks))
}

/// Has numbers written on the GPU, and fetches them.
fn numbers(
    cuda: &Cuda,
    numbers: &mut [u64],
    write: impl FnOnce(Address) -> Result<(), Error>,
) -> Result<(), Error> {
    let buffer = Buffer::uncounted(size_of_val(numbers) as u64, &cuda.stream)?;
    write(buffer.address())?;
    // SAFETY: the buffer is as long as the numbers, and the stream is synchronized before they are
    // read.
    unsafe { download(buffer.address(), numbers, &cuda.stream)? };
    cuda.stream.synchronize()
}
