//! Computing the marks of runs that lack them: which of their keys are live in older runs too?
//!
//! Inserts are merged without that being known. Lookups don't need it; counts do.

use std::sync::atomic::Ordering;

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::pinned::take_pinned_head;
use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::ffi::{self, Combiner, RunOutput, View, check};
use crate::cuda::run::layout::{mark_bytes, sectors_for};
use crate::cuda::run::reading::Reading;
use crate::cuda::run::{LazyMarks, Run};
use crate::error::Error;

/// The marks of more entries than this are computed in parts, each of about as many: what it takes besides the marks
/// must not grow with the run.
const MAX_ENTRIES_AT_ONCE: u64 = 1 << 28;

/// Under a memory limit a part takes at most this share of it, but is no shorter than is worth a kernel.
const LIMIT_SHARE: u64 = 64;
const MIN_ENTRIES_AT_ONCE: u64 = 1 << 20;

/// Computes the marks that a query needs and the runs lack. Runs are newest first, and all there are.
pub(crate) fn resolve(cuda: &EnteredCuda<'_>, runs: &[Run]) -> Result<(), Error> {
    // A caller who needs marks after one batch will need them after the next.
    cuda.shared.wants_marks.store(true, Ordering::Relaxed);
    compute_missing(cuda, runs)
}

/// Computes the marks of every run that lacks them. Runs are newest first, and all there are.
pub(crate) fn compute_missing(cuda: &EnteredCuda<'_>, runs: &[Run]) -> Result<(), Error> {
    // Older runs first: their marks say what is live for newer ones.
    for (at, run) in runs.iter().enumerate().rev().filter(|(_, run)| run.lacks_marks()) {
        let older = &runs[at + 1..];
        if !cuda.is_capturing()? {
            run.set_marks(compute(cuda, run, older)?);
            continue;
        }
        // Not as a part of the graph that is being captured: on another stream, and at once.
        let stream = Stream::on(cuda.gpu(), cuda.entered())?;
        let elsewhere = Cuda { stream, ..Cuda::clone(cuda) };
        runs[at..].iter().try_for_each(|run| run.wait_until_written(cuda.entered()))?;
        let marks = compute(&elsewhere.enter()?, run, older)?;
        elsewhere.stream.synchronize()?;
        run.set_marks(marks);
    }
    Ok(())
}

/// Returns how many bytes computing the marks of a run takes, those of the marks included.
pub(crate) fn working_bytes(cuda: &Cuda, run: &Run) -> u64 {
    let Sizes { marks, zeros, part } = Sizes::new(cuda, run.bound());
    marks + zeros + part
}

/// Returns how many bytes computing the marks of all runs that lack them takes, one after the other, and of `more`
/// entries.
pub(crate) fn bytes_for_all(cuda: &Cuda, runs: &[Run], more: u64) -> u64 {
    let lacking = runs.iter().filter(|run| run.lacks_marks()).map(Run::bound);
    let sizes = lacking.chain([more]).map(|bound| Sizes::new(cuda, bound));
    let (marks, scratch) = sizes.fold((0, 0), |(marks, scratch): (u64, u64), sizes| {
        (marks + sizes.marks, scratch.max(sizes.zeros + sizes.part))
    });
    marks + scratch
}

/// The bytes that computing marks takes.
struct Sizes {
    marks: u64,
    /// Scratch that must be zero.
    zeros: u64,
    /// Scratch with a byte for each entry of a part, which says whether it is a shadow.
    part: u64,
}

impl Sizes {
    fn new(cuda: &Cuda, bound: u64) -> Self {
        // SAFETY: no pointers.
        let (zeros, tile) = unsafe { (ffi::gpulsm_mark_scratch(bound), ffi::gpulsm_mark_tile()) };
        let at_once = cuda.budget().limit().map_or(MAX_ENTRIES_AT_ONCE, |limit| {
            (limit / LIMIT_SHARE).clamp(MIN_ENTRIES_AT_ONCE, MAX_ENTRIES_AT_ONCE)
        });
        let part = if bound <= at_once { bound } else { at_once / tile * tile };
        Sizes { marks: mark_bytes(bound), zeros, part }
    }
}

/// Computes the marks of a run whose entries are all live.
fn compute(cuda: &EnteredCuda<'_>, run: &Run, older: &[Run]) -> Result<LazyMarks, Error> {
    let reading = Reading::begin(cuda, std::iter::once(run).chain(older))?;
    if Sizes::new(cuda, run.bound()).part < run.bound() {
        run.wait_until_written(cuda.entered())?; // Then the bound is the number of entries.
    }
    let (bound, view) = (run.bound(), run.view());
    let Sizes { marks, zeros, part } = Sizes::new(cuda, bound);
    let marks = cuda.alloc(marks)?;
    let scratch = cuda.alloc(zeros + part)?;
    scratch.zero(0, zeros, cuda.entered())?;
    let mut head = take_pinned_head(cuda.entered())?;
    let (zeros, shadows) = (scratch.address(), scratch.address() + zeros);
    let older = View::new(older.iter().map(Run::view), Combiner::NONE);
    let out = RunOutput {
        head: view.head,
        marks: marks.address(),
        sectors: sectors_for(bound),
        pinned_head: head.address(),
        ..RunOutput::default()
    };
    let mark = |first: u64| {
        let entries = part.min(bound - first);
        let keys = view.keys + first * cuda.key_width as u64;
        let len = if part == bound { view.head } else { 0 };
        let stream = cuda.raw_stream();
        // SAFETY: the run has at most `bound` keys, exactly as many if there are several parts, and there is a byte for
        // each of a part; the older runs are alive, lack no marks, and are written before what this stream does now.
        check("finding shadows", unsafe {
            ffi::gpulsm_shadows(cuda.key_width, keys, len, entries, &older, shadows, stream)
        })?;
        // SAFETY: as above; there is room for the marks of `bound` entries, and as many zeros as the kernel
        // needs for them; all are used on this stream, which has marked the parts before.
        check("marking a run", unsafe {
            ffi::gpulsm_mark(shadows, bound, first, entries, zeros, &out, stream)
        })
    };
    let last = (bound.max(1) - 1) / part.max(1) * part;
    (0..last).step_by(part.max(1) as usize).try_for_each(mark)?;
    head.written_by(&cuda.stream, || mark(last))?;
    reading.end()?;
    Ok(LazyMarks { marks, head, written: Event::record(&cuda.stream, cuda.entered())? })
}
