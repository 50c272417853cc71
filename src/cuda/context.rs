//! What every step on a GPU needs.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::budget::{Account, Budget};
use crate::cuda::driver::gpu::Gpu;
use crate::cuda::driver::stream::Stream;
use crate::cuda::run::Run;
use crate::error::Error;

/// What every step needs: the stream that it runs on, where memory is counted, and widths in bytes.
#[derive(Clone)]
pub struct Cuda {
    pub(super) stream: Stream,
    pub(super) shared: Arc<Shared>,
    pub(super) account: Account,
    pub(super) key_width: i32,
    pub(super) value_width: i32,
}

/// What a dictionary, its clones and its snapshots have in common.
pub(super) struct Shared {
    /// How much room the last sort wanted, and for which width of values and length: batches are often alike.
    pub sort_room: Mutex<Option<((i32, u64), usize)>>,
    /// Whether anybody needed marks since the last batch.
    pub wants_marks: AtomicBool,
    stream: Stream,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Memory is given back in the order of the stream: once all is done, it can leave the pool.
        let is_captured = self.stream.is_capturing() != Ok(false);
        if !is_captured && self.stream.synchronize().is_ok() {
            self.stream.gpu().give_back();
        }
    }
}

impl Cuda {
    pub fn new(stream: Stream, limit: Option<u64>, key_width: usize, value_width: usize) -> Self {
        let shared = Arc::new(Shared {
            sort_room: Mutex::default(),
            wants_marks: AtomicBool::new(false),
            stream: stream.clone(),
        });
        let account = Account::new(limit);
        let (key_width, value_width) = (key_width as i32, value_width as i32);
        Cuda { stream, shared, account, key_width, value_width }
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        self.account.budget()
    }

    pub(super) fn gpu(&self) -> &'static Gpu {
        self.stream.gpu()
    }

    /// Lets the stream read these runs, until the answer is dropped or ended.
    pub(super) fn read<'a>(
        &self,
        runs: impl Iterator<Item = &'a Run>,
    ) -> Result<Reading<'_>, Error> {
        let is_captured = self.stream.is_capturing()?;
        let mut foreign = Vec::new();
        for run in runs {
            if is_captured {
                // The graph may be launched anywhere, and waits for nothing: the run must be there.
                run.wait_until_written()?;
            } else if run.is_foreign_to(&self.stream) {
                run.before_reading(&self.stream)?;
                foreign.push(run.clone());
            }
        }
        Ok(Reading { stream: &self.stream, foreign })
    }

    /// The bytes of so many pairs.
    pub(super) fn pair_bytes(&self, len: usize) -> u64 {
        len as u64 * (self.key_width + self.value_width) as u64
    }

    /// The bytes of so many values.
    pub(super) fn value_bytes(&self, len: usize) -> u64 {
        len as u64 * self.value_width as u64
    }
}

/// Runs of other streams that this stream reads.
#[must_use]
pub(super) struct Reading<'a> {
    stream: &'a Stream,
    foreign: Vec<Run>,
}

impl Reading<'_> {
    /// Keeps the runs' memory until what is on the stream now is done.
    pub fn end(mut self) -> Result<(), Error> {
        self.keep()
    }

    fn keep(&mut self) -> Result<(), Error> {
        if self.foreign.is_empty() {
            return Ok(());
        }
        let foreign = std::mem::take(&mut self.foreign);
        match self.stream.gpu().note_read(self.stream) {
            Ok((number, done)) => {
                let done = Arc::new(done);
                foreign.iter().for_each(|run| run.after_reading(self.stream, number, &done));
                Ok(())
            }
            Err(_) => self.stream.synchronize(),
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.keep().ok(); // After an error: what was begun may still be reading.
    }
}
