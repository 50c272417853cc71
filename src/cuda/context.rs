//! What every step on a GPU needs.

use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use bytemuck::Pod;
use cudarc::driver::sys::CUstream;

use crate::budget::{Account, Budget};
use crate::combine::Combiner;
use crate::cuda::driver::gpu::{Entered, Gpu};
use crate::cuda::driver::memory::{self, Buffer};
use crate::cuda::driver::staging::Staging;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::{self, Address};
use crate::error::Error;

/// The stream that every step runs on, the account that its memory is counted in, widths in bytes, and how values
/// combine.
#[derive(Clone)]
pub(crate) struct Cuda {
    pub(super) stream: Stream,
    pub(super) shared: Arc<Shared>,
    pub(super) account: Account,
    pub(super) key_width: i32,
    pub(super) value_width: i32,
    /// How the values of equal keys combine; `None` if the newer one wins.
    pub(super) combiner: Option<Combiner>,
}

/// What a dictionary, its clones and its snapshots have in common.
pub(super) struct Shared {
    /// The temporary bytes that the last radix sort needed, and for which width of values and length:
    /// successive batches are often alike.
    pub sort_temp_bytes: Mutex<Option<((i32, u64), usize)>>,
    /// Whether a query needed marks since the last batch.
    pub wants_marks: AtomicBool,
    /// Memory that batches go through on their way from the GPU to a log.
    pub staging: Mutex<Option<Staging>>,
    stream: Stream,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Ok(entered) = self.stream.enter() else { return };
        // Memory is freed in the order of the stream: once all work is done, it can leave the pool.
        let is_capturing = self.stream.is_capturing(&entered) != Ok(false);
        if !is_capturing && self.stream.synchronize().is_ok() {
            self.stream.gpu().trim(&entered);
        }
    }
}

impl Cuda {
    pub fn new(stream: Stream, account: Account, key_width: usize, value_width: usize) -> Self {
        let shared = Arc::new(Shared {
            sort_temp_bytes: Mutex::default(),
            wants_marks: AtomicBool::new(false),
            staging: Mutex::default(),
            stream: stream.clone(),
        });
        let (key_width, value_width) = (key_width as i32, value_width as i32);
        Cuda { stream, shared, account, key_width, value_width, combiner: None }
    }

    /// Returns the same context, in which values combine, if there is a combiner.
    pub fn combining(self, combiner: Option<Combiner>) -> Self {
        Cuda { combiner, ..self }
    }

    /// Returns how the values of equal keys combine, as kernels take it.
    pub fn raw_combiner(&self) -> ffi::Combiner {
        self.combiner.into()
    }

    /// Makes the GPU's context current on the calling thread until the guard is dropped.
    pub fn enter(&self) -> Result<EnteredCuda<'_>, Error> {
        Ok(EnteredCuda { cuda: self, entered: self.stream.enter()? })
    }

    pub fn budget(&self) -> &Arc<Budget> {
        self.account.budget()
    }

    pub fn gpu(&self) -> &'static Gpu {
        self.stream.gpu()
    }

    /// Returns the bytes of `len` pairs.
    pub fn pair_bytes(&self, len: usize) -> u64 {
        len as u64 * (self.key_width + self.value_width) as u64
    }

    /// Returns the bytes of `len` values.
    pub fn value_bytes(&self, len: usize) -> u64 {
        len as u64 * self.value_width as u64
    }
}

/// A [`Cuda`] whose GPU's context is current on the calling thread. Functions that launch kernels or call
/// the driver take this; the methods of the engine, and of the public types, make it.
pub(crate) struct EnteredCuda<'a> {
    cuda: &'a Cuda,
    entered: Entered,
}

impl Deref for EnteredCuda<'_> {
    type Target = Cuda;

    fn deref(&self) -> &Cuda {
        self.cuda
    }
}

impl<'a> EnteredCuda<'a> {
    /// Returns the guard, for calls of the driver.
    pub fn entered(&self) -> &Entered {
        &self.entered
    }

    /// Returns the stream, for as long as the `Cuda` lives.
    pub fn stream(&self) -> &'a Stream {
        &self.cuda.stream
    }

    /// Returns what the dictionary, its clones and its snapshots have in common, for as long as the `Cuda` lives.
    pub(super) fn shared(&self) -> &'a Shared {
        &self.cuda.shared
    }

    /// Returns the stream as kernels take it.
    pub fn raw_stream(&self) -> CUstream {
        self.stream.raw(&self.entered)
    }

    /// Returns whether calls are captured into a graph rather than executed.
    pub fn is_capturing(&self) -> Result<bool, Error> {
        self.stream.is_capturing(&self.entered)
    }

    /// Returns an error if calls are captured into a graph.
    pub fn refuse_capture(&self) -> Result<(), Error> {
        self.stream.refuse_capture(&self.entered)
    }

    /// Allocates memory of the dictionary: counted, and limited.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, Error> {
        Buffer::counted(bytes, &self.account, &self.stream, &self.entered)
    }

    /// Allocates memory that belongs to the caller: results, and keys on their way in.
    pub fn alloc_uncounted(&self, bytes: u64) -> Result<Buffer, Error> {
        Buffer::uncounted(bytes, &self.stream, &self.entered)
    }

    /// Copies the host's data into a new uncounted buffer. The data may change as soon as this returns.
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer, Error> {
        Buffer::upload(data, &self.stream, &self.entered)
    }

    /// Copies from the GPU into the host's memory, which is filled once the stream is synchronized.
    ///
    /// # Safety
    ///
    /// That of [`memory::download`].
    pub unsafe fn download<T>(&self, address: Address, data: &mut [T]) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { memory::download(address, data, &self.stream, &self.entered) }
    }
}
