//! Where every buffer on the GPU comes from: the GPU's pool, counted and limited.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult};

use crate::budget::{Account, Reserved};
use crate::cuda::driver::error::{check, out_of_memory};
use crate::cuda::driver::gpu::{Entered, Gpu};
use crate::cuda::driver::mapped::reclaim;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::Address;
use crate::error::Error;

/// Memory on the GPU, freed in the order of its stream: work that was put on that stream before the buffer
/// is dropped may still use it.
pub(crate) struct Buffer {
    address: Address,
    stream: Stream,
    _reserved: Option<Reserved>,
    bytes: u64,
    /// Whether it was allocated by a graph that is being captured, and so is the graph's to free.
    is_captured: bool,
}

impl Buffer {
    /// Allocates memory for work that is put on the stream from now on, counted in the account.
    pub fn counted(
        bytes: u64,
        account: &Account,
        stream: &Stream,
        entered: &Entered,
    ) -> Result<Self, Error> {
        let (mut buffer, reserved) =
            account.allocate(bytes, || Self::uncounted(bytes, stream, entered))?;
        buffer._reserved = Some(reserved);
        Ok(buffer)
    }

    /// Allocates memory that belongs to the caller: results, and keys on their way in.
    pub fn uncounted(bytes: u64, stream: &Stream, entered: &Entered) -> Result<Self, Error> {
        let is_captured = stream.is_capturing(entered)?;
        let address = if bytes == 0 { 0 } else { allocate(bytes, stream, entered)? };
        Ok(Buffer { address, stream: stream.clone(), _reserved: None, bytes, is_captured })
    }

    /// Copies the host's data into a new uncounted buffer. The data may change as soon as this returns.
    pub fn upload<T: Pod>(data: &[T], stream: &Stream, entered: &Entered) -> Result<Self, Error> {
        let buffer = Self::uncounted(size_of_val(data) as u64, stream, entered)?;
        buffer.write(0, data, entered)?;
        Ok(buffer)
    }

    pub fn address(&self) -> Address {
        self.address
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Copies the host's data to this offset. The data may change as soon as this returns.
    pub fn write<T: Pod>(&self, offset: u64, data: &[T], entered: &Entered) -> Result<(), Error> {
        assert!(offset + size_of_val(data) as u64 <= self.bytes, "room for the data");
        // SAFETY: the buffer has room for the data, and the copy is on the buffer's own stream.
        unsafe { write(self.address + offset, data, &self.stream, entered) }
    }

    /// Copies `bytes` bytes of the GPU's memory, which are there for work on the buffer's stream, to this
    /// offset.
    pub fn copy(
        &self,
        offset: u64,
        from: Address,
        bytes: u64,
        entered: &Entered,
    ) -> Result<(), Error> {
        assert!(offset + bytes <= self.bytes, "room for the data");
        // SAFETY: there are `bytes` bytes here, and the caller has as many there; the copy is on the
        // buffer's own stream.
        unsafe { copy(self.address + offset, from, bytes, &self.stream, entered) }
    }

    /// Sets `bytes` bytes from this offset on to zero.
    pub fn zero(&self, offset: u64, bytes: u64, entered: &Entered) -> Result<(), Error> {
        self.fill(offset, bytes, 0, entered)
    }

    /// Sets `bytes` bytes from this offset on.
    pub fn fill(&self, offset: u64, bytes: u64, value: u8, entered: &Entered) -> Result<(), Error> {
        assert!(offset + bytes <= self.bytes, "the bytes are within the buffer");
        // SAFETY: the bytes are within the buffer, and this is on the buffer's own stream.
        unsafe { fill(self.address + offset, bytes, value, &self.stream, entered) }
    }

    /// Moves the buffer to another stream, which has waited for its own: it is freed in the order of that
    /// one.
    pub fn outlive(&mut self, stream: &Stream) {
        self.stream = stream.clone();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.address != 0 {
            free(self.address, &self.stream, self.is_captured);
        }
    }
}

/// Copies the host's data to the GPU's memory. The data may change as soon as this returns.
///
/// # Safety
///
/// As many bytes are writable at `address` for work on this stream.
pub(crate) unsafe fn write<T: Pod>(
    address: Address,
    data: &[T],
    stream: &Stream,
    entered: &Entered,
) -> Result<(), Error> {
    if size_of_val(data) == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise. The driver has copied pageable memory when it returns; other memory is waited for
    // below.
    check("cuMemcpyHtoDAsync", unsafe {
        result::memcpy_htod_async(address, data, stream.raw(entered))
    })?;
    if is_pinned(data, entered) { stream.synchronize() } else { Ok(()) }
}

/// Copies `bytes` bytes of the GPU's memory, which do not overlap.
///
/// # Safety
///
/// As many bytes are readable there and writable here for work on this stream.
pub(crate) unsafe fn copy(
    to: Address,
    from: Address,
    bytes: u64,
    stream: &Stream,
    entered: &Entered,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    check("cuMemcpyDtoDAsync", unsafe {
        result::memcpy_dtod_async(to, from, bytes as usize, stream.raw(entered))
    })
}

/// Copies `count` elements of `width` bytes each, which are a stride apart there, to where they follow each other.
///
/// # Safety
///
/// The elements are readable there, and as many are writable here, for work on this stream.
pub(crate) unsafe fn copy_strided(
    to: Address,
    (from, stride): (Address, u64),
    width: u64,
    count: u64,
    stream: &Stream,
    entered: &Entered,
) -> Result<(), Error> {
    /// Rows of a copy: more than a driver may take at a time are never copied.
    const ROWS: u64 = 1 << 16;
    for first in (0..count).step_by(ROWS as usize) {
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: from + first * stride,
            srcArray: std::ptr::null_mut(),
            srcPitch: stride as usize,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: to + first * width,
            dstArray: std::ptr::null_mut(),
            dstPitch: width as usize,
            WidthInBytes: width as usize,
            Height: (count - first).min(ROWS) as usize,
        };
        // SAFETY: the caller's promise; the structure is read before the call returns.
        check("cuMemcpy2DAsync", unsafe {
            sys::cuMemcpy2DAsync_v2(&copy, stream.raw(entered)).result()
        })?;
    }
    Ok(())
}

/// Copies `bytes` bytes from one GPU's memory to another's, directly where the hardware can, and otherwise through the
/// host's memory, which the driver decides.
///
/// # Safety
///
/// As many bytes are readable there and writable here for work on this stream.
pub(crate) unsafe fn copy_between(
    (to_gpu, to): (&Gpu, Address),
    (from_gpu, from): (&Gpu, Address),
    bytes: u64,
    stream: &Stream,
    entered: &Entered,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let (to_context, from_context) = (to_gpu.context(), from_gpu.context());
    let stream = stream.raw(entered);
    // SAFETY: the caller's promise; contexts are never released.
    check("cuMemcpyPeerAsync", unsafe {
        result::memcpy_peer_async(to_context, to, from_context, from, bytes as usize, stream)
    })
}

/// Sets `bytes` bytes of the GPU's memory.
///
/// # Safety
///
/// As many bytes are writable at `address` for work on this stream.
pub(crate) unsafe fn fill(
    address: Address,
    bytes: u64,
    value: u8,
    stream: &Stream,
    entered: &Entered,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    check("cuMemsetD8Async", unsafe {
        result::memset_d8_async(address, value, bytes as usize, stream.raw(entered))
    })
}

/// Memory to free when its stream is no longer being captured.
static DEFERRED_FREES: Mutex<Vec<(Address, Stream)>> = Mutex::new(Vec::new());

/// Allocates memory that may be used by work that is put on the stream from now on.
fn allocate(bytes: u64, stream: &Stream, entered: &Entered) -> Result<Address, Error> {
    const CALL: &str = "cuMemAllocFromPoolAsync";
    let gpu = stream.gpu();
    free_deferred(gpu);
    let (len, raw) = (bytes as usize, stream.raw(entered));
    // SAFETY: pool and stream are this GPU's and alive.
    let attempt = || unsafe { result::mem_pool::alloc_async(gpu.pool(), len, raw) };
    match attempt() {
        Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {}
        other => return check(CALL, other),
    }
    // Some memory may be freed on this stream but not yet back in the pool, or held in pieces that are too
    // small. (Synchronizing all streams would invalidate a graph that another thread is capturing.)
    if !stream.is_capturing(entered)? {
        stream.synchronize()?;
        reclaim(gpu, entered);
    }
    match attempt() {
        Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(out_of_memory(bytes)),
        other => check(CALL, other),
    }
}

/// Frees memory once the work that is on the stream now is done. While the stream is being captured into a
/// graph, only the graph's own memory can be freed: other memory is freed later.
fn free(address: Address, stream: &Stream, is_captured: bool) {
    match stream.enter() {
        Ok(entered) if is_captured || stream.is_capturing(&entered) == Ok(false) => {
            // SAFETY: the address came from `allocate` and is freed once; an error here means that the
            // context is lost, which every later call reports.
            unsafe { result::free_async(address, stream.raw(&entered)) }.ok();
        }
        _ if is_captured => {}
        _ => deferred_frees().push((address, stream.clone())),
    }
}

/// Frees memory of this GPU that could not be freed during a capture.
fn free_deferred(gpu: &Gpu) {
    let frees: Vec<(Address, Stream)> =
        deferred_frees().extract_if(.., |(_, stream)| stream.gpu() == gpu).collect();
    frees.into_iter().for_each(|(address, stream)| free(address, &stream, false));
}

fn deferred_frees() -> MutexGuard<'static, Vec<(Address, Stream)>> {
    DEFERRED_FREES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the driver knows this memory of the host's, and so may read it after a copy returns.
fn is_pinned<T>(data: &[T], _entered: &Entered) -> bool {
    let mut kind = 0u32;
    let mut attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let mut to = (&raw mut kind).cast();
    // SAFETY: one attribute, a 32-bit number, which stays 0 for memory that the driver does not know; the
    // pointer is only looked up, whatever it is.
    let found = unsafe {
        let pointer = data.as_ptr() as Address;
        sys::cuPointerGetAttributes(1, &mut attribute, &mut to, pointer)
    };
    found != CUresult::CUDA_SUCCESS || kind != 0
}

/// Copies from the GPU into the host's memory, which is filled once the stream is synchronized.
///
/// # Safety
///
/// As many bytes as `data` has are readable at `address` on this stream's GPU, and valid as `T`s. `data` is
/// neither read nor freed before the stream is synchronized.
pub(crate) unsafe fn download<T>(
    address: Address,
    data: &mut [T],
    stream: &Stream,
    entered: &Entered,
) -> Result<(), Error> {
    if size_of_val(data) == 0 {
        return Ok(());
    }
    let stream = stream.raw(entered);
    // SAFETY: the caller's promise.
    check("cuMemcpyDtoHAsync", unsafe { result::memcpy_dtoh_async(data, address, stream) })
}
