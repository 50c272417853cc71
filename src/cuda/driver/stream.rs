//! Streams: queues of work on a GPU. Work on one stream happens in order; between streams, only events
//! order anything.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUstreamCaptureStatus};

use crate::cuda::driver::error::check;
use crate::cuda::driver::gpu::{Entered, Gpu, RawEvent};
use crate::device::Device;
use crate::error::Error;

/// A CUDA stream: one of its own, or one that the caller has. Clones are the same stream.
///
/// A dictionary's calls run on its stream; see
/// [`Builder::stream`](crate::Builder::stream) and [`Snapshot::on_stream`](crate::Snapshot::on_stream).
#[derive(Clone)]
pub struct Stream(Arc<Parts>);

struct Parts {
    gpu: &'static Gpu,
    raw: sys::CUstream,
    owned: bool,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for Parts {}
// SAFETY: as above.
unsafe impl Sync for Parts {}

impl Stream {
    /// Creates a stream on a CUDA device. It does not wait for the default stream, nor that for it.
    pub fn new(device: Device) -> Result<Self, Error> {
        let gpu = device.gpu()?;
        Self::on(gpu, &gpu.enter()?)
    }

    /// Creates a stream on this GPU.
    pub(crate) fn on(gpu: &'static Gpu, entered: &Entered) -> Result<Self, Error> {
        entered.assert_on(gpu);
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking);
        Ok(Stream(Arc::new(Parts { gpu, raw: check("cuStreamCreate", raw)?, owned: true })))
    }

    /// Wraps a stream of the caller's; a null pointer is the default stream.
    ///
    /// # Safety
    ///
    /// `raw` is a `cudaStream_t` or `CUstream` of the device's primary context, other than
    /// `cudaStreamPerThread`, which is not one stream but many. It is not destroyed while a clone of
    /// this is alive, or a dictionary, snapshot or vector that was given one, or anything made from
    /// those, on whatever stream.
    pub unsafe fn from_raw(device: Device, raw: *mut c_void) -> Result<Self, Error> {
        Ok(Stream(Arc::new(Parts { gpu: device.gpu()?, raw: raw.cast(), owned: false })))
    }

    /// Returns the GPU that the stream is on.
    pub fn device(&self) -> Device {
        Device::from_cuda_index(self.0.gpu.index)
    }

    /// Returns the stream as CUDA's functions take it.
    pub fn as_raw(&self) -> *mut c_void {
        self.0.raw.cast()
    }

    /// Waits until everything that is on the stream now is done, and reports whether any of it failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        let entered = self.enter()?;
        // SAFETY: the stream is alive.
        check("cuStreamSynchronize", unsafe { result::stream::synchronize(self.raw(&entered)) })
    }

    /// Makes what is put on this stream from now on happen after what is on the other one now.
    pub fn wait_for(&self, other: &Stream) -> Result<(), Error> {
        if self == other {
            return Ok(());
        }
        // The streams may be on two GPUs: each call has a guard of its own.
        let is_capturing = self.is_capturing(&self.enter()?)?;
        let is_other_capturing = other.is_capturing(&other.enter()?)?;
        if is_other_capturing && !is_capturing {
            return Err(Error::Capturing);
        }
        let event = Event::record(other, &other.enter()?)?;
        if is_capturing && !is_other_capturing {
            // A graph can't wait for work outside of it: the host does, before the graph is launched.
            event.synchronize(&other.enter()?)
        } else {
            self.wait(&event, &self.enter()?)
        }
    }

    /// Makes the context of the stream's GPU current on the calling thread.
    pub(crate) fn enter(&self) -> Result<Entered, Error> {
        self.0.gpu.enter()
    }

    /// Returns an error if the stream is being captured into a graph, before starting what can't be part
    /// of one.
    pub(crate) fn refuse_capture(&self, entered: &Entered) -> Result<(), Error> {
        if self.is_capturing(entered)? { Err(Error::Capturing) } else { Ok(()) }
    }

    pub(crate) fn gpu(&self) -> &'static Gpu {
        self.0.gpu
    }

    /// Returns the stream for a call of the driver or of a kernel, both of which need its GPU's context.
    pub(crate) fn raw(&self, entered: &Entered) -> sys::CUstream {
        entered.assert_on(self.0.gpu);
        self.0.raw
    }

    /// Makes what is put on this stream from now on happen after the event.
    pub(crate) fn wait(&self, event: &Event, entered: &Entered) -> Result<(), Error> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event are alive.
        check("cuStreamWaitEvent", unsafe {
            result::stream::wait_event(self.raw(entered), event.raw.0, flags)
        })
    }

    /// Returns whether calls are captured into a graph rather than executed.
    pub(crate) fn is_capturing(&self, entered: &Entered) -> Result<bool, Error> {
        // SAFETY: the stream is alive.
        let status = unsafe { result::stream::is_capturing(self.raw(entered)) };
        let status = check("cuStreamIsCapturing", status)?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.0.raw == other.0.raw && self.0.gpu == other.0.gpu
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:p} on cuda:{})", self.0.raw, self.0.gpu.index)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let (true, Ok(_entered)) = (self.owned, self.gpu.enter()) {
            // SAFETY: nobody has the stream any more. Work that is still on it is done all the same.
            unsafe { result::stream::destroy(self.raw) }.ok();
        }
    }
}

/// A point on a stream that other streams, and the host, can wait for.
pub(crate) struct Event {
    gpu: &'static Gpu,
    raw: RawEvent,
}

impl Event {
    /// Records the end of what is on the stream now.
    pub fn record(stream: &Stream, entered: &Entered) -> Result<Self, Error> {
        let gpu = stream.gpu();
        let event = Event { gpu, raw: gpu.take_event(entered)? };
        // SAFETY: event and stream are alive.
        check("cuEventRecord", unsafe { result::event::record(event.raw.0, stream.raw(entered)) })?;
        Ok(event)
    }

    /// Returns whether everything before this point is done; `false` if that can't be told.
    pub fn is_done(&self, entered: &Entered) -> bool {
        entered.assert_on(self.gpu);
        // SAFETY: the event is alive.
        unsafe { sys::cuEventQuery(self.raw.0) == sys::CUresult::CUDA_SUCCESS }
    }

    /// Waits until everything before this point is done.
    pub fn synchronize(&self, entered: &Entered) -> Result<(), Error> {
        entered.assert_on(self.gpu);
        // SAFETY: the event is alive.
        check("cuEventSynchronize", unsafe { result::event::synchronize(self.raw.0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.gpu.return_event(self.raw);
    }
}
