//! Reading runs on a stream, which may be another than the one that wrote them.

use std::sync::Arc;

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::run::Run;
use crate::error::Error;

/// Runs of other streams that this stream reads. Their memory is kept until the work that is on the stream
/// when this ends, or is dropped, is done.
#[must_use]
pub(crate) struct Reading<'a> {
    stream: &'a Stream,
    foreign: Vec<Run>,
}

impl<'a> Reading<'a> {
    /// Makes the stream wait until these runs are written.
    pub fn begin<'r>(
        cuda: &EnteredCuda<'a>,
        runs: impl Iterator<Item = &'r Run>,
    ) -> Result<Self, Error> {
        let is_capturing = cuda.is_capturing()?;
        let mut foreign = Vec::new();
        for run in runs {
            if is_capturing {
                // The graph may be launched on any stream, and waits for nothing: the run must be there.
                run.wait_until_written(cuda.entered())?;
            } else if run.is_foreign_to(&cuda.stream) {
                run.before_reading(&cuda.stream, cuda.entered())?;
                foreign.push(run.clone());
            }
        }
        Ok(Reading { stream: cuda.stream(), foreign })
    }

    /// Ends reading with the work that is on the stream now.
    pub fn end(mut self) -> Result<(), Error> {
        self.note_end()
    }

    fn note_end(&mut self) -> Result<(), Error> {
        if self.foreign.is_empty() {
            return Ok(());
        }
        note_reading(self.stream, &std::mem::take(&mut self.foreign))
    }
}

/// Keeps the memory of these runs, if other streams wrote them, until the work that is on the stream now is done.
pub(crate) fn note_reading(stream: &Stream, runs: &[Run]) -> Result<(), Error> {
    let entered = stream.enter()?;
    let noted = stream.gpu().numbered(|| Event::record(stream, &entered));
    let Ok((number, done)) = noted else { return stream.synchronize() };
    let done = Arc::new(done);
    for run in runs {
        run.after_reading(stream, number, &done, &entered);
    }
    Ok(())
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.note_end().ok(); // After an error: work that was started may still be reading.
    }
}
