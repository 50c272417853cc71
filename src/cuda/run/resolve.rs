//! Finding out the marks of runs that lack them: which of their keys are live in older runs too?
//!
//! Inserts are merged without that being known. Lookups don't need it; whatever counts does.

use std::sync::atomic::Ordering;

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::ffi::{self, RunOutput, View, check};
use crate::cuda::run::{Found, Run, sectors_for};
use crate::error::Error;

/// Finds out the marks that a query needs; runs come newest first, and are all there are.
pub(crate) fn resolve(cuda: &Cuda, runs: &[Run]) -> Result<(), Error> {
    // Who wants to know after one batch will after the next.
    cuda.shared.wants_marks.store(true, Ordering::Relaxed);
    find_all(cuda, runs)
}

/// Finds out the marks of every run that lacks them.
pub(crate) fn find_all(cuda: &Cuda, runs: &[Run]) -> Result<(), Error> {
    // Older ones first: theirs say what is live for the newer.
    for (at, run) in runs.iter().enumerate().rev().filter(|(_, run)| run.lacks_marks()) {
        let older = &runs[at + 1..];
        if !cuda.stream.is_capturing()? {
            run.set_marks(find(cuda, run, older)?);
            continue;
        }
        // Not a part of the graph that is recorded: elsewhere, and at once.
        let elsewhere = Cuda { stream: Stream::on(cuda.gpu())?, ..cuda.clone() };
        runs[at..].iter().try_for_each(Run::wait_until_written)?;
        let found = find(&elsewhere, run, older)?;
        elsewhere.stream.synchronize()?;
        run.set_marks(found);
    }
    Ok(())
}

/// How many bytes finding out the marks of a run takes, those that stay included.
pub(crate) fn find_bytes(run: &Run) -> u64 {
    let bound = run.bound();
    // SAFETY: no pointers.
    let zeros = unsafe { ffi::gpulsm_mark_scratch(bound) };
    sectors_for(bound) * size_of::<ffi::Sector>() as u64 + zeros + bound
}

/// Marks a run whose entries are all live.
fn find(cuda: &Cuda, run: &Run, older: &[Run]) -> Result<Found, Error> {
    let _entered = cuda.gpu().enter()?;
    let reading = cuda.read(std::iter::once(run).chain(older))?;
    let (bound, view) = (run.bound(), run.view());
    let sectors = sectors_for(bound);
    let marks_bytes = sectors * size_of::<ffi::Sector>() as u64;
    let marks = Buffer::counted(marks_bytes, cuda)?;
    // SAFETY: no pointers.
    let zeros = unsafe { ffi::gpulsm_mark_scratch(bound) };
    let work = Buffer::counted(zeros + bound, cuda)?;
    work.zero(0, zeros)?;
    let mut figures = cuda.gpu().take_figures()?;
    let bytes = work.address() + zeros;
    let older = View::new(older.iter().map(Run::view));
    // SAFETY: the run has at most `bound` keys, and there is a byte for each; the older runs are alive,
    // lack no marks, and are written before what this stream does now.
    check("finding shadows", unsafe {
        let (keys, len) = (view.keys, view.head);
        let stream = cuda.stream.raw();
        ffi::gpulsm_shadows(cuda.key_width, keys, len, bound, &older, bytes, stream)
    })?;
    let out = RunOutput {
        head: view.head,
        marks: marks.address(),
        sectors,
        figures: figures.address(),
        ..RunOutput::default()
    };
    figures.written_by(&cuda.stream, || {
        // SAFETY: as above, and there is room for marks; there are as many zeros as are asked for.
        check("marking a run", unsafe {
            ffi::gpulsm_mark(bytes, bound, work.address(), &out, cuda.stream.raw())
        })
    })?;
    reading.end()?;
    Ok(Found { marks, figures, written: Event::record(&cuda.stream)? })
}
