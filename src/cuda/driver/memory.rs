//! Where every buffer on the GPU comes from: the GPU's pool, counted and limited.

use bytemuck::Pod;
use cudarc::driver::{result, sys};

use crate::budget::Reserved;
use crate::cuda::context::Cuda;
use crate::cuda::driver::gpu::check;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::Address;
use crate::error::Error;

/// Memory on the GPU. It is given back in the order of its stream: once it is dropped, what was put
/// on that stream before still may use it.
pub(crate) struct Buffer {
    address: Address,
    stream: Stream,
    _reserved: Option<Reserved>,
    bytes: u64,
    /// Whether it is a graph's, which gives it back itself.
    captured: bool,
}

impl Buffer {
    /// Memory for what is put on the stream from now on, counted.
    pub fn counted(bytes: u64, cuda: &Cuda) -> Result<Self, Error> {
        let (mut buffer, reserved) =
            cuda.account.allocate(bytes, || Self::uncounted(bytes, &cuda.stream))?;
        buffer._reserved = Some(reserved);
        Ok(buffer)
    }

    /// The same for what is the caller's: answers, and keys on their way in.
    pub fn uncounted(bytes: u64, stream: &Stream) -> Result<Self, Error> {
        let address = if bytes == 0 { 0 } else { stream.gpu().alloc(bytes, stream)? };
        let captured = stream.is_capturing()?;
        Ok(Buffer { captured, address, stream: stream.clone(), _reserved: None, bytes })
    }

    /// A copy of the host's data. The data may change as soon as this returns.
    pub fn upload<T: Pod>(data: &[T], stream: &Stream) -> Result<Self, Error> {
        let buffer = Self::uncounted(size_of_val(data) as u64, stream)?;
        buffer.write(0, data)?;
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

    /// Copies the host's data to this place of the buffer. The data may change as soon as this returns.
    pub fn write<T: Pod>(&self, offset: u64, data: &[T]) -> Result<(), Error> {
        assert!(offset + size_of_val(data) as u64 <= self.bytes, "room for the data");
        if size_of_val(data) == 0 {
            return Ok(());
        }
        let _entered = self.stream.gpu().enter()?;
        // SAFETY: the buffer is as long as the data, and the copy is on the buffer's own stream. Of
        // pageable memory the driver keeps a copy of its own when it returns; other memory is waited
        // for below.
        check("cuMemcpyHtoDAsync", unsafe {
            result::memcpy_htod_async(self.address + offset, data, self.stream.raw())
        })?;
        if is_pinned(data) { self.stream.synchronize() } else { Ok(()) }
    }

    /// Copies so many bytes of the GPU's, which lie there for what is on the buffer's stream, to this
    /// place of the buffer.
    pub fn copy(&self, offset: u64, from: Address, bytes: u64) -> Result<(), Error> {
        assert!(offset + bytes <= self.bytes, "room for the data");
        if bytes == 0 {
            return Ok(());
        }
        let _entered = self.stream.gpu().enter()?;
        let (to, bytes) = (self.address + offset, bytes as usize);
        // SAFETY: there is room for so many bytes here, and the caller has as many there.
        check("cuMemcpyDtoDAsync", unsafe {
            result::memcpy_dtod_async(to, from, bytes, self.stream.raw())
        })
    }

    /// Sets a stretch of the buffer to zeros.
    pub fn zero(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        assert!(offset + bytes <= self.bytes, "the stretch is within the buffer");
        if bytes == 0 {
            return Ok(());
        }
        let _entered = self.stream.gpu().enter()?;
        // SAFETY: the stretch is within the buffer, and this is on the buffer's own stream.
        check("cuMemsetD8Async", unsafe {
            result::memset_d8_async(self.address + offset, 0, bytes as usize, self.stream.raw())
        })
    }

    /// Gives the memory back only after what is on another stream now, too.
    pub fn outlive(&mut self, stream: &Stream) {
        self.stream = stream.clone();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.address != 0 {
            self.stream.gpu().free(self.address, &self.stream, self.captured);
        }
    }
}

/// Whether the driver knows this memory of the host's, and so reads it when it likes.
fn is_pinned<T>(data: &[T]) -> bool {
    let mut kind = 0u32;
    let mut attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let mut to = (&raw mut kind).cast();
    // SAFETY: one attribute, a 32-bit number, which stays 0 for what the driver does not know; the
    // pointer is only looked up, whatever it is.
    let found = unsafe {
        let pointer = data.as_ptr() as Address;
        sys::cuPointerGetAttributes(1, &mut attribute, &mut to, pointer)
    };
    found != sys::CUresult::CUDA_SUCCESS || kind != 0
}

/// Copies from the GPU into the host's memory, which is filled once the stream is synchronized.
///
/// # Safety
///
/// The stretch of `data`'s size at `address` is readable on this stream's GPU, and what is there is
/// valid as `T`. `data` is neither read nor given back before the stream is synchronized.
pub(crate) unsafe fn download<T>(
    address: Address,
    data: &mut [T],
    stream: &Stream,
) -> Result<(), Error> {
    if size_of_val(data) == 0 {
        return Ok(());
    }
    let _entered = stream.gpu().enter()?;
    // SAFETY: the caller's promise.
    check("cuMemcpyDtoHAsync", unsafe { result::memcpy_dtoh_async(data, address, stream.raw()) })
}
