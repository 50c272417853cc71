//! Pinned memory of the host, to which the GPU copies at the full speed of the bus.

use std::ptr;
use std::slice;

use cudarc::driver::result;

use crate::cuda::driver::error::check;
use crate::cuda::driver::gpu::{Entered, Gpu};
use crate::error::Error;

/// Bytes in pinned memory of the host.
pub(crate) struct Staging {
    first: *mut u8,
    len: usize,
    gpu: &'static Gpu,
}

// SAFETY: it owns the memory, which any thread may use and free.
unsafe impl Send for Staging {}

impl Staging {
    /// Allocates `len` zeros; there is at least one.
    pub fn zeroed(len: usize, gpu: &'static Gpu, entered: &Entered) -> Result<Self, Error> {
        entered.assert_on(gpu);
        const PORTABLE: u32 = 1;
        // SAFETY: a context is current.
        let first = check("cuMemHostAlloc", unsafe { result::malloc_host(len, PORTABLE) })?;
        let first: *mut u8 = first.cast();
        // SAFETY: there are `len` bytes, which nobody else knows of.
        unsafe { ptr::write_bytes(first, 0, len) };
        Ok(Staging { first, len, gpu })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: there are `len` bytes, which were written when they were allocated and live as long as this.
        unsafe { slice::from_raw_parts(self.first, self.len) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: it was allocated by `malloc_host` and is freed once. An error here means that the context is
            // lost, which every later call reports.
            unsafe { result::free_host(self.first.cast()) }.ok();
        }
    }
}
