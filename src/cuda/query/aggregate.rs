//! Aggregates: the values of each range are combined where they are, without listing the pairs.

use crate::aggregate::Fold;
use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, AggregateOutput, View, check};
use crate::cuda::query::range::{RangeQueries, find_windows, max_ranges};
use crate::error::Error;
use crate::key::OrderedKey;

/// Writes how many live keys each range has and what their values are combined to, on data on the GPU.
pub(crate) fn aggregate(
    cuda: &EnteredCuda<'_>,
    view: &View,
    queries: &RangeQueries,
    fold: Fold,
    answers: Address,
    counts: Address,
) -> Result<(), Error> {
    let answer_bytes = fold.answer_width(cuda.value_width as usize) as u64;
    // The windows of very many ranges are found some at a time.
    let max = max_ranges(cuda, view, scratch_bytes(1).0 - scratch_bytes(0).0);
    for first in (0..queries.len).step_by(max as usize) {
        let skipped = first * cuda.key_width as u64;
        let len = max.min(queries.len - first);
        let part = RangeQueries { lo: queries.lo + skipped, hi: queries.hi + skipped, len };
        let counts = counts + first * size_of::<u64>() as u64;
        aggregate_part(cuda, view, &part, fold, answers + first * answer_bytes, counts)?;
    }
    Ok(())
}

fn aggregate_part(
    cuda: &EnteredCuda<'_>,
    view: &View,
    queries: &RangeQueries,
    fold: Fold,
    answers: Address,
    counts: Address,
) -> Result<(), Error> {
    let windows = find_windows(cuda, view, queries, counts)?;
    let (bytes, zeros) = scratch_bytes(queries.len);
    let scratch = cuda.alloc(bytes)?;
    scratch.zero(0, zeros, cuda.entered())?;
    let output = AggregateOutput {
        len: queries.len,
        windows: windows.address(),
        counts,
        answers,
        fold: ffi::Fold {
            operation: fold.operation,
            encoding: fold.element.encoding,
            width: fold.element.width as u64,
        },
        scratch: scratch.address(),
    };
    // SAFETY: there are `len` windows for every run, as many counts, and room for as many answers; the
    // scratch is of the size that the kernels need; the runs of the view are alive and written before what
    // this stream does now.
    check("aggregating ranges", unsafe {
        let (key_width, value_width) = (cuda.key_width, cuda.value_width);
        ffi::gpulsm_aggregate(key_width, value_width, view, &output, cuda.raw_stream())
    })
}

/// Returns how many bytes of scratch this many ranges take, and how many of them must be zero.
fn scratch_bytes(len: u64) -> (u64, u64) {
    let mut zeros = 0;
    // SAFETY: one number to write.
    let bytes = unsafe { ffi::gpulsm_aggregate_bytes(len, &mut zeros) };
    (bytes, zeros)
}

/// Writes the aggregates of the host's ranges.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    (lo, hi): (&[B], &[B]),
    fold: Fold,
    answers: &mut [u8],
    counts: &mut [u64],
) -> Result<(), Error> {
    let (lo, hi) = (cuda.upload(lo)?, cuda.upload(hi)?);
    let queries = RangeQueries { lo: lo.address(), hi: hi.address(), len: counts.len() as u64 };
    let out_answers = cuda.alloc_uncounted(answers.len() as u64)?;
    let out_counts = cuda.alloc_uncounted(size_of_val(counts) as u64)?;
    aggregate(cuda, view, &queries, fold, out_answers.address(), out_counts.address())?;
    // SAFETY: the buffers are as long as what is copied from them, and the stream is synchronized before
    // anything is read.
    let started = unsafe {
        cuda.download(out_answers.address(), answers)
            .and_then(|()| cuda.download(out_counts.address(), counts))
    };
    // Copies that were started must be done before the caller has its memory back.
    cuda.stream.synchronize().and(started)
}
