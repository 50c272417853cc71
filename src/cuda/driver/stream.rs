//! Streams: queues of work on a GPU. What is on one stream happens in order; between streams, only
//! events order anything.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUstreamCaptureStatus};

use crate::cuda::driver::gpu::{EventAt, Gpu, check};
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
    /// A new stream on a CUDA device. It does not wait for the default stream, nor that for it.
    pub fn new(device: Device) -> Result<Self, Error> {
        Self::on(device.gpu()?)
    }

    pub(crate) fn on(gpu: &'static Gpu) -> Result<Self, Error> {
        let _entered = gpu.enter()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking);
        Ok(Stream(Arc::new(Parts { gpu, raw: check("cuStreamCreate", raw)?, owned: true })))
    }

    /// The caller's stream; a null pointer is the default stream.
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

    /// The GPU that the stream is on.
    pub fn device(&self) -> Device {
        Device::from_cuda_index(self.0.gpu.index)
    }

    /// The stream as CUDA's functions take it.
    pub fn as_raw(&self) -> *mut c_void {
        self.0.raw.cast()
    }

    /// Waits until everything that is on the stream now is done, and says if any of it failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        let _entered = self.0.gpu.enter()?;
        // SAFETY: the stream is alive.
        check("cuStreamSynchronize", unsafe { result::stream::synchronize(self.0.raw) })
    }

    /// What is put on this stream from now on happens after what is on the other one now.
    pub fn wait_for(&self, other: &Stream) -> Result<(), Error> {
        if self == other {
            return Ok(());
        }
        match (self.is_capturing()?, other.is_capturing()?) {
            // A graph can't wait for what is outside of it: the host does, before the graph is there.
            (true, false) => Event::record(other)?.synchronize(),
            (false, true) => Err(Error::Capturing),
            _ => self.wait(&Event::record(other)?),
        }
    }

    /// An error if calls are recorded into a graph: what can't be part of one is not begun.
    pub(crate) fn refuse_capture(&self) -> Result<(), Error> {
        if self.is_capturing()? { Err(Error::Capturing) } else { Ok(()) }
    }

    pub(crate) fn gpu(&self) -> &'static Gpu {
        self.0.gpu
    }

    pub(crate) fn raw(&self) -> sys::CUstream {
        self.0.raw
    }

    /// What is put on this stream from now on happens after the event.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), Error> {
        let _entered = self.0.gpu.enter()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event are alive.
        check("cuStreamWaitEvent", unsafe {
            result::stream::wait_event(self.0.raw, event.at.0, flags)
        })
    }

    /// Whether calls are recorded into a graph rather than done.
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        let _entered = self.0.gpu.enter()?;
        // SAFETY: the stream is alive.
        let status = unsafe { result::stream::is_capturing(self.0.raw) };
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
            // SAFETY: nobody has the stream any more. What is still on it gets done all the same.
            unsafe { result::stream::destroy(self.raw) }.ok();
        }
    }
}

/// A point on a stream that other streams, and the host, can wait for.
pub(crate) struct Event {
    gpu: &'static Gpu,
    at: EventAt,
}

impl Event {
    /// The end of what is on the stream now.
    pub fn record(stream: &Stream) -> Result<Self, Error> {
        let gpu = stream.0.gpu;
        let _entered = gpu.enter()?;
        let event = Event { gpu, at: gpu.take_event()? };
        // SAFETY: event and stream are alive.
        check("cuEventRecord", unsafe { result::event::record(event.at.0, stream.0.raw) })?;
        Ok(event)
    }

    /// Returns whether everything before this point is done; `false` if that can't be told.
    pub fn is_done(&self) -> bool {
        let Ok(_entered) = self.gpu.enter() else { return false };
        // SAFETY: the event is alive.
        unsafe { sys::cuEventQuery(self.at.0) == sys::CUresult::CUDA_SUCCESS }
    }

    /// Waits until everything before this point is done.
    pub fn synchronize(&self) -> Result<(), Error> {
        let _entered = self.gpu.enter()?;
        // SAFETY: the event is alive.
        check("cuEventSynchronize", unsafe { result::event::synchronize(self.at.0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.gpu.return_event(self.at);
    }
}
