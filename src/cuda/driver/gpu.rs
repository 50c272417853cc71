//! A GPU of this machine: its primary context, the pool that memory comes from, and why it can't
//! be used if it can't.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};

use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::ffi::{self, PinnedHead};
use crate::device::Device;
use crate::error::Error;

/// When a dictionary is dropped, the pool keeps this part of the GPU's memory for the next one.
const KEPT_PART: usize = 32;

/// PinnedHead that are made at a time.
const FIGURES_AT_A_TIME: usize = 4096;

/// Unused figures that are looked at before more are made.
const PATIENCE: usize = 8;

/// A GPU in use. There is one for each number, for as long as the process lives: contexts and pools
/// are dear to make.
pub(crate) struct Gpu {
    pub index: usize,
    context: sys::CUcontext,
    pool: sys::CUmemoryPool,
    /// Bytes that the pool keeps.
    kept: usize,
    /// Memory to give back when its stream is no longer being captured.
    later: Mutex<Vec<(ffi::Address, Stream)>>,
    /// Events that nobody waits for any more.
    events: Mutex<Vec<EventAt>>,
    /// PinnedHead that no run uses any more, though a kernel may still be about to write them…
    figures: Mutex<VecDeque<FiguresAt>>,
    /// …and how many were ever made.
    figures_made: AtomicUsize,
    /// How many times streams have noted that they read runs of others. Locked while one does, so that of
    /// two notes of one stream the one with the larger number is also the later on the stream.
    reads: Mutex<u64>,
}

// SAFETY: a context and a pool may be used from any thread; the rest is behind a lock.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// An event of the driver's.
#[derive(Clone, Copy)]
pub(crate) struct EventAt(pub sys::CUevent);

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for EventAt {}
// SAFETY: as above.
unsafe impl Sync for EventAt {}

/// Where figures are: in pinned memory of the host, never freed.
#[derive(Clone, Copy)]
pub(crate) struct FiguresAt(*mut PinnedHead);

// SAFETY: the memory is never freed, and is read and written atomically or before it is shared.
unsafe impl Send for FiguresAt {}
// SAFETY: as above.
unsafe impl Sync for FiguresAt {}

impl FiguresAt {
    /// Where a kernel writes them: with unified addresses the host's pointer serves.
    pub fn address(self) -> ffi::Address {
        self.0 as ffi::Address
    }

    /// What was written, if it was by now.
    pub fn get(self) -> Option<ffi::Head> {
        // SAFETY: the memory is never freed, and `ready` is aligned; a kernel writes it after the head.
        let ready = unsafe { std::sync::atomic::AtomicU64::from_ptr(&raw mut (*self.0).ready) };
        if ready.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: as above; nobody writes the head once it is ready.
        Some(unsafe { (&raw const (*self.0).head).read_volatile() })
    }

    /// Writes them where no kernel will.
    pub fn set(self, head: ffi::Head) {
        // SAFETY: the memory is never freed, and no kernel writes these figures.
        unsafe { (&raw mut (*self.0).head).write_volatile(head) };
        std::sync::atomic::fence(Ordering::Release);
        self.set_ready(1);
    }

    fn set_ready(self, ready: u64) {
        // SAFETY: the memory is never freed, and no kernel that writes it is under way.
        unsafe { (&raw mut (*self.0).ready).write_volatile(ready) };
    }
}

impl Gpu {
    /// GPU number `index`, or an error that says why it can't be used.
    pub fn open(index: usize) -> Result<&'static Gpu, Error> {
        static OPEN: Mutex<BTreeMap<usize, &'static Gpu>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.get(&index) {
            return Ok(gpu);
        }
        let gpu: &'static Gpu = Box::leak(Box::new(
            Gpu::new(index).map_err(|reason| Error::NoCudaDevice { index, reason })?,
        ));
        open.insert(index, gpu);
        Ok(gpu)
    }

    fn new(index: usize) -> Result<Self, String> {
        let device = find(index)?;
        let say = |error: DriverError| describe(error);
        // SAFETY: the device is there; its primary context is never released.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(say)?;
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            // SAFETY: zeros are valid for this structure of integers and null pointers.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: the device is there.
        let kept = unsafe { result::device::total_mem(device) }.map_err(say)? / KEPT_PART;
        let pool = std::ptr::null_mut();
        let (later, events, figures) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (figures_made, reads) = (AtomicUsize::new(0), Mutex::default());
        let gpu = Gpu { index, context, pool, kept, later, events, figures, figures_made, reads };
        let entered = gpu.enter().map_err(|error| error.to_string())?;
        // SAFETY: no arguments; it only asks whether there is code for this device.
        let probed = unsafe { ffi::gpulsm_probe() };
        if probed != 0 {
            return Err(format!(
                "this build has no kernels for it ({}): build with GPULSM_CUDA_ARCH set to its compute capability",
                ffi::describe(probed)
            ));
        }
        // SAFETY: the properties are filled in above.
        let pool = unsafe { result::mem_pool::create(&properties) }.map_err(say)?;
        let mut keep_all = u64::MAX;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the pool was just made, and the attribute is a `u64`.
        unsafe {
            result::mem_pool::set_attribute(pool, threshold, (&raw mut keep_all).cast::<c_void>())
        }
        .map_err(say)?;
        drop(entered);
        Ok(Gpu { pool, ..gpu })
    }

    /// Makes this GPU's context the calling thread's until the guard is dropped.
    pub fn enter(&self) -> Result<Entered, Error> {
        let outside = INSIDE.get();
        if outside == Some(self.index) {
            return Ok(Entered { outside, mode: None });
        }
        // SAFETY: the context is never released.
        check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.context) }.result())?;
        // Somebody may be capturing a graph, and forbid all threads what might become part of it by
        // mistake. Nothing of ours does.
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: it exchanges one value of the calling thread's.
        unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result().ok();
        INSIDE.set(Some(self.index));
        Ok(Entered { outside, mode: Some(mode) })
    }

    /// Memory that may be used by what is put on the stream from now on.
    pub fn alloc(&self, bytes: u64, stream: &Stream) -> Result<ffi::Address, Error> {
        let _entered = self.enter()?;
        self.free_later();
        // SAFETY: pool and stream are this GPU's and alive.
        let alloc =
            || unsafe { result::mem_pool::alloc_async(self.pool, bytes as usize, stream.raw()) };
        match alloc() {
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {}
            other => return check("cuMemAllocFromPoolAsync", other),
        }
        // There is also what was freed on this stream but not yet given back, or is held in pieces too
        // small. (Waiting for all streams would spoil a graph that somebody is capturing.)
        if !stream.is_capturing()? {
            stream.synchronize()?;
            self.trim(0);
        }
        alloc().map_err(|error| match error {
            DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                let free = result::mem_get_info().ok().map(|(free, _)| free as u64);
                Error::OutOfMemory { wanted: bytes, free }
            }
            other => failed("cuMemAllocFromPoolAsync", other),
        })
    }

    /// Gives memory back once what is on the stream now is done. While the stream is being captured
    /// into a graph, that can be done with the graph's own memory only: other memory waits.
    pub fn free(&self, address: ffi::Address, stream: &Stream, captured: bool) {
        if !captured && stream.is_capturing() != Ok(false) {
            self.later().push((address, stream.clone()));
        } else if let Ok(_entered) = self.enter() {
            // SAFETY: the address came from `alloc` and is given back once; an error here means that
            // the context is lost, which every later call reports.
            unsafe { result::free_async(address, stream.raw()) }.ok();
        }
    }

    /// Gives back what had to wait for the end of a capture.
    fn free_later(&self) {
        let waited = std::mem::take(&mut *self.later());
        waited.into_iter().for_each(|(address, stream)| self.free(address, &stream, false));
    }

    fn later(&self) -> MutexGuard<'_, Vec<(ffi::Address, Stream)>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives memory that lies idle back to the system, all but a little.
    pub fn give_back(&self) {
        self.trim(self.kept);
    }

    fn trim(&self, keep: usize) {
        if let Ok(_entered) = self.enter() {
            // SAFETY: the pool is never destroyed.
            unsafe { result::mem_pool::trim_to(self.pool, keep) }.ok();
        }
    }

    /// An event to record.
    pub fn take_event(&self) -> Result<EventAt, Error> {
        let unused = self.events.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(event) = unused {
            return Ok(event);
        }
        let _entered = self.enter()?;
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        check("cuEventCreate", event).map(EventAt)
    }

    /// The end of what is on the stream now, and its number among all such notes.
    pub fn note_read(&self, stream: &Stream) -> Result<(u64, Event), Error> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        *reads += 1;
        Event::record(stream).map(|event| (*reads, event))
    }

    /// Takes an event back. Streams that wait for it go on doing so, even if it is recorded again.
    pub fn return_event(&self, event: EventAt) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// PinnedHead for a new run.
    pub fn take_figures(&'static self) -> Result<Slot, Error> {
        let mut unused = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        // Those at the front have been unused longest. One that a kernel has yet to write must wait.
        for _ in 0..unused.len().min(PATIENCE) {
            let figures = unused.pop_front().expect("it has so many");
            if figures.get().is_some() {
                return Ok(Slot::new(figures, self));
            }
            unused.push_back(figures);
        }
        let _entered = self.enter()?;
        const PORTABLE_AND_MAPPED: u32 = 1 | 2;
        let bytes = FIGURES_AT_A_TIME * size_of::<PinnedHead>();
        // SAFETY: the context is current.
        let first = unsafe { result::malloc_host(bytes, PORTABLE_AND_MAPPED) };
        let first = check("cuMemHostAlloc", first)?.cast::<PinnedHead>();
        self.figures_made.fetch_add(FIGURES_AT_A_TIME, Ordering::Relaxed);
        for i in 1..FIGURES_AT_A_TIME {
            // SAFETY: there is room for so many.
            let figures = FiguresAt(unsafe { first.add(i) });
            figures.set_ready(1);
            unused.push_front(figures);
        }
        Ok(Slot::new(FiguresAt(first), self))
    }
}

/// PinnedHead in use by one run.
pub(crate) struct Slot {
    figures: FiguresAt,
    gpu: &'static Gpu,
    /// Whether a kernel that writes them is, or may be, on a stream.
    is_awaited: bool,
}

impl Slot {
    fn new(figures: FiguresAt, gpu: &'static Gpu) -> Self {
        figures.set_ready(0);
        Slot { figures, gpu, is_awaited: false }
    }

    /// Calls `launch`, which puts the kernel that writes the figures on the stream as the last thing it
    /// does, or fails.
    pub fn written_by(
        &mut self,
        stream: &Stream,
        launch: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.is_awaited = true;
        launch().inspect_err(|_| {
            // The error may be another's, and the kernel under way all the same: once the stream is
            // done, it is certain that none is.
            self.is_awaited = stream.synchronize().is_err();
        })
    }
}

impl std::ops::Deref for Slot {
    type Target = FiguresAt;

    fn deref(&self) -> &FiguresAt {
        &self.figures
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A kernel may still be about to write them: they are taken again only when one has. Where there
        // is none, nobody else would ever say that they can be.
        if !self.is_awaited {
            self.figures.set_ready(1);
        }
        self.gpu.figures.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.figures);
    }
}

impl Device {
    /// The GPU that this is.
    pub(crate) fn gpu(self) -> Result<&'static Gpu, Error> {
        Gpu::open(self.cuda_index().ok_or(Error::NotOnCuda)?)
    }
}

impl PartialEq for Gpu {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

thread_local! {
    /// The GPU that the thread has entered, if it has.
    static INSIDE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The calling thread's context, until this is dropped; then what it was before.
pub(crate) struct Entered {
    outside: Option<usize>,
    /// What capturing forbade the thread before; `None` if it was inside already.
    mode: Option<CUstreamCaptureMode>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(mode) = &mut self.mode else {
            return;
        };
        INSIDE.set(self.outside);
        // SAFETY: it exchanges one value of the calling thread's.
        unsafe { sys::cuThreadExchangeStreamCaptureMode(mode) }.result().ok();
        let mut popped = std::ptr::null_mut();
        // SAFETY: a context was pushed when this was made, and guards are dropped in turn.
        unsafe { sys::cuCtxPopCurrent_v2(&mut popped) }.result().ok();
    }
}

/// The device of that number, or why there is none.
fn find(index: usize) -> Result<sys::CUdevice, String> {
    // SAFETY: it only tries to open the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "no NVIDIA driver was found on this machine (there is no libcuda.so): install one, \
                    or use the device `cpu` or `best`"
                .into(),
        );
    }
    result::init().map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            "the NVIDIA driver is there but sees no GPU: use the device `cpu` or `best`".into()
        }
        _ => format!("the NVIDIA driver does not start: {}", describe(error)),
    })?;
    let mut speaks = 0;
    // SAFETY: it writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut speaks) }.result().map_err(describe)?;
    // SAFETY: no arguments.
    let needs = unsafe { ffi::gpulsm_cuda_version() };
    // Drivers serve every program that was built with their own major version.
    if speaks / 1000 < needs / 1000 {
        let [speaks, needs] =
            [speaks, needs].map(|version| format!("{}.{}", version / 1000, version % 1000 / 10));
        return Err(format!(
            "the NVIDIA driver is too old: it serves CUDA up to {speaks}, this build wants {needs}; \
             install a newer driver, or build with an older CUDA toolkit"
        ));
    }
    let count = result::device::get_count().map_err(describe)?;
    if index >= count as usize {
        let plural = if count == 1 { "" } else { "s" };
        return Err(format!("this machine has {count} GPU{plural}, counted from 0"));
    }
    result::device::get(index as i32).map_err(describe)
}

/// An error of the driver in its own words.
fn describe(error: DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(|_| "unknown".into(), |text| text.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(error.error_string()), text(error.error_name()))
}

fn failed(call: &'static str, error: DriverError) -> Error {
    Error::Cuda { call, reason: describe(error) }
}

/// An error that says what the driver says.
pub(crate) fn check<T>(call: &'static str, outcome: Result<T, DriverError>) -> Result<T, Error> {
    outcome.map_err(|error| failed(call, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Dictionary};

    /// PinnedHead that were taken before something failed stayed unusable: each attempt to insert without
    /// memory took others, and pinned memory grew without end.
    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn figures_of_what_failed_are_used_again() {
        let gpu = Gpu::open(0).unwrap();
        let keys: Vec<u32> = (0..3000).collect();
        let builder = Dictionary::<u32, u32>::builder()
            .device(Device::from_cuda_index(gpu.index))
            .batch_size(256);
        let mut d = builder.merged_at_once(1000).bulk_build(&keys, &keys).unwrap();
        let made = || gpu.figures_made.load(Ordering::Relaxed);
        let before = made();
        let mut failures = 0;
        for attempt in 0..5 * FIGURES_AT_A_TIME {
            d.fail_allocation_after(attempt as u64 % 5);
            failures += usize::from(d.insert(&keys[..500], &keys[..500]).is_err());
            failures += usize::from(d.count(&[0], &[100]).is_err());
            d.fail_allocation_after(u64::MAX);
            if attempt % 64 == 0 {
                d.cleanup().unwrap();
            }
        }
        assert!(failures > FIGURES_AT_A_TIME, "only {failures} calls failed");
        // Kernels that are still under way may need a few more than there were.
        assert!(made() <= before + FIGURES_AT_A_TIME, "{} for {before}", made());
        d.validate().unwrap();
    }
}
