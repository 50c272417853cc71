//! A GPU of this machine: its primary context, the pool that memory comes from, and the reason if it
//! can't be used.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};

use crate::cuda::abi;
use crate::cuda::driver::error::{check, describe};
use crate::cuda::driver::mapping_policy::MappingPolicy;
use crate::cuda::ffi;
use crate::device::Device;
use crate::error::Error;
use crate::stats::DeviceMemory;

/// When a dictionary is dropped, the pool keeps 1/32 of the GPU's memory for the next one.
const KEPT_PART: usize = 32;

/// A GPU in use. There is one for each index, for as long as the process lives: contexts and pools are
/// expensive to make.
pub(crate) struct Gpu {
    pub index: usize,
    context: sys::CUcontext,
    pool: sys::CUmemoryPool,
    device: sys::CUdevice,
    /// Bytes that the pool keeps.
    kept: usize,
    mapping: MappingPolicy,
    /// Events that are no longer in use, to be recorded again.
    events: Mutex<Vec<RawEvent>>,
    /// The last number that [`numbered`](Self::numbered) gave out.
    last_number: Mutex<u64>,
}

// SAFETY: a context and a pool may be used from any thread; the rest is behind a lock.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// An event of the driver.
#[derive(Clone, Copy)]
pub(crate) struct RawEvent(pub sys::CUevent);

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

impl Gpu {
    /// Returns GPU number `index`, or an error that says why it can't be used.
    pub fn open(index: usize) -> Result<&'static Gpu, Error> {
        static OPEN: Mutex<BTreeMap<usize, &'static Gpu>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.get(&index) {
            return Ok(gpu);
        }
        let gpu: &'static Gpu = Box::leak(Box::new(
            Gpu::new(index)
                .map_err(|reason| Error::NoCudaDevice { index, reason: reason.into() })?,
        ));
        open.insert(index, gpu);
        Ok(gpu)
    }

    fn new(index: usize) -> Result<Self, String> {
        let device = find(index)?;
        // SAFETY: the device is there; its primary context is never released.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(describe)?;
        // SAFETY: the device is there.
        let total = unsafe { result::device::total_mem(device) }.map_err(describe)?;
        let gpu = Gpu {
            index,
            context,
            pool: std::ptr::null_mut(),
            device,
            kept: total / KEPT_PART,
            mapping: MappingPolicy::new(total as u64),
            events: Mutex::default(),
            last_number: Mutex::default(),
        };
        let entered = gpu.enter().map_err(|error| error.to_string())?;
        // SAFETY: no arguments; it only checks that there is code for this device.
        let probed = unsafe { ffi::gpulsm_probe() };
        if probed != 0 {
            return Err(format!(
                "this build has no kernels for it ({}): build with GPULSM_CUDA_ARCH set to its compute capability",
                ffi::describe(probed)
            ));
        }
        abi::check()?;
        let pool = create_pool(device, &entered).map_err(describe)?;
        drop(entered);
        Ok(Gpu { pool, ..gpu })
    }

    /// Makes this GPU's context the calling thread's current one until the guard is dropped.
    pub fn enter(&self) -> Result<Entered, Error> {
        let outer = ENTERED.get();
        let gpu = self.index;
        if outer == Some(gpu) {
            return Ok(Entered { gpu, outer, mode: None, _not_send: PhantomData });
        }
        // SAFETY: the context is never released.
        check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.context) }.result())?;
        // Another thread may be capturing a graph in a mode that forbids all threads the calls that could
        // become part of it by mistake. None of ours do.
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: it exchanges one value of the calling thread's.
        unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result().ok();
        ENTERED.set(Some(gpu));
        Ok(Entered { gpu, outer, mode: Some(mode), _not_send: PhantomData })
    }

    /// Returns the context. It is never released.
    pub fn context(&self) -> sys::CUcontext {
        self.context
    }

    /// Returns the pool that memory comes from. It is never destroyed.
    pub fn pool(&self) -> sys::CUmemoryPool {
        self.pool
    }

    /// Returns idle memory of the pool to the system, all but a small part.
    pub fn trim(&self, entered: &Entered) {
        self.trim_to(self.kept, entered);
    }

    /// Returns idle memory of the pool to the system, all but this many bytes.
    pub fn trim_to(&self, bytes: usize, entered: &Entered) {
        entered.assert_on(self);
        // SAFETY: the pool is never destroyed.
        unsafe { result::mem_pool::trim_to(self.pool, bytes) }.ok();
    }

    /// Returns which runs are mapped.
    pub fn mapping(&self) -> MappingPolicy {
        self.mapping
    }

    /// Returns where this GPU's memory is.
    pub fn location(&self) -> sys::CUmemLocation {
        let type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        sys::CUmemLocation { type_, id: self.device }
    }

    /// Returns how many bytes there are, how many of them are free, and how many are idle in the pool.
    pub fn memory(&self, entered: &Entered) -> Option<DeviceMemory> {
        entered.assert_on(self);
        let (free, total) = result::mem_get_info().ok()?;
        let of_pool = |attribute| {
            let mut bytes = 0u64;
            // SAFETY: the pool is never destroyed, and the attribute is a `u64`.
            let got = unsafe {
                result::mem_pool::get_attribute(
                    self.pool,
                    attribute,
                    (&raw mut bytes).cast::<c_void>(),
                )
            };
            got.ok().map(|_| bytes)
        };
        let reserved = of_pool(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = of_pool(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        let idle = reserved.saturating_sub(used);
        Some(DeviceMemory { total: total as u64, free: free as u64, idle })
    }

    /// Returns an event to record.
    pub fn take_event(&self, entered: &Entered) -> Result<RawEvent, Error> {
        entered.assert_on(self);
        let unused = self.events.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(event) = unused {
            return Ok(event);
        }
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        check("cuEventCreate", event).map(RawEvent)
    }

    /// Takes an event back. Streams that wait for it keep waiting, even if it is recorded again.
    pub fn return_event(&self, event: RawEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Calls `record` and numbers it. Only one thread does so at a time, so that of two points recorded on
    /// one stream the later one has the larger number.
    pub fn numbered<T>(
        &self,
        record: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(u64, T), Error> {
        let mut last = self.last_number.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        record().map(|recorded| (*last, recorded))
    }
}

impl PartialEq for Gpu {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl Device {
    /// Returns the GPU that this is.
    pub(crate) fn gpu(self) -> Result<&'static Gpu, Error> {
        Gpu::open(self.cuda_index().ok_or(Error::NotOnCuda)?)
    }
}

thread_local! {
    /// The GPU that the thread has entered, if it has.
    static ENTERED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Proof that a GPU's context is current on the calling thread: whatever calls the driver or launches a
/// kernel takes one. Dropping it restores the context that was current before.
pub(crate) struct Entered {
    gpu: usize,
    /// The GPU that the thread had entered before.
    outer: Option<usize>,
    /// The thread's capture mode before; `None` if this GPU was entered already.
    mode: Option<CUstreamCaptureMode>,
    /// A context is current on one thread only.
    _not_send: PhantomData<*const ()>,
}

impl Entered {
    /// Checks, in debug builds, that it is this GPU that was entered.
    pub fn assert_on(&self, gpu: &Gpu) {
        debug_assert_eq!(self.gpu, gpu.index, "another GPU's context is current");
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(mode) = &mut self.mode else {
            return;
        };
        ENTERED.set(self.outer);
        // SAFETY: it exchanges one value of the calling thread's.
        unsafe { sys::cuThreadExchangeStreamCaptureMode(mode) }.result().ok();
        let mut popped = std::ptr::null_mut();
        // SAFETY: a context was pushed when this was made, and guards are dropped in reverse order.
        unsafe { sys::cuCtxPopCurrent_v2(&mut popped) }.result().ok();
    }
}

/// Creates a pool of the device's memory that keeps whatever is freed.
fn create_pool(
    device: sys::CUdevice,
    _entered: &Entered,
) -> Result<sys::CUmemoryPool, DriverError> {
    let properties = sys::CUmemPoolProps {
        allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device,
        },
        // SAFETY: zeros are valid for this structure of integers and null pointers.
        ..unsafe { std::mem::zeroed() }
    };
    // SAFETY: the properties are filled in above.
    let pool = unsafe { result::mem_pool::create(&properties) }?;
    let mut keep_all = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool was just made, and the attribute is a `u64`.
    unsafe {
        result::mem_pool::set_attribute(pool, threshold, (&raw mut keep_all).cast::<c_void>())
    }?;
    Ok(pool)
}

/// Returns the device with this index, or why there is none.
fn find(index: usize) -> Result<sys::CUdevice, String> {
    // Looked for once: a search in vain takes a millisecond.
    static HAS_DRIVER: OnceLock<bool> = OnceLock::new();
    // SAFETY: it only tries to open the library.
    if !*HAS_DRIVER.get_or_init(|| unsafe { sys::is_culib_present() }) {
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
    check_driver_version()?;
    let count = result::device::get_count().map_err(describe)?;
    if index >= count as usize {
        let plural = if count == 1 { "" } else { "s" };
        return Err(format!("this machine has {count} GPU{plural}, counted from 0"));
    }
    result::device::get(index as i32).map_err(describe)
}

/// Checks that the driver runs programs built with the CUDA version of this build: a driver runs those of
/// its own major version and of earlier ones.
fn check_driver_version() -> Result<(), String> {
    let mut supported = 0;
    // SAFETY: it writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut supported) }.result().map_err(describe)?;
    // SAFETY: no arguments.
    let needed = unsafe { ffi::gpulsm_cuda_version() };
    if supported / 1000 >= needed / 1000 {
        return Ok(());
    }
    let [supported, needed] =
        [supported, needed].map(|version| format!("{}.{}", version / 1000, version % 1000 / 10));
    Err(format!(
        "the NVIDIA driver is too old: it supports CUDA up to {supported}, this build needs {needed}; \
         install a newer driver, or build with an older CUDA toolkit"
    ))
}
