//! Allocation of all buffers of the CPU engine: counted, limited, and fallible.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytemuck::Zeroable;

use crate::budget::{Account, Allowance, Budget, Reserved};
use crate::error::{Error, bytes_of, try_zeroed};
use crate::value::Value;

/// The least bytes of a buffer for which huge pages are worthwhile: it contains at least one whole
/// huge page.
#[cfg(target_os = "linux")]
const MIN_HUGE_BYTES: usize = 4 << 20;

/// Bytes in the smallest page.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// Allocates buffers within a budget.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    account: Account,
}

impl Memory {
    pub fn new(limit: Option<u64>) -> Self {
        Memory { account: Account::new(limit) }
    }

    pub fn budget(&self) -> &Arc<Budget> {
        self.account.budget()
    }

    /// Returns the same, but allocations draw on the allowance first.
    pub fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        Memory { account: self.account.drawing_on(allowance) }
    }

    /// Allocates a buffer of `len` zeros.
    pub fn zeroed<T: Zeroable>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let bytes = bytes_of::<T>(len);
        let free = self.budget().free();
        let (data, reserved) = self.account.allocate(bytes, || {
            try_zeroed(len).map_err(|_| Error::OutOfMemory { wanted: bytes, free })
        })?;
        advise_huge_pages(&data);
        Ok(Buffer { data, reserved })
    }
}

/// Advises the system to back a large buffer, not touched yet, by huge pages: one page fault for
/// every 2 MiB instead of every 4 KiB made a bulk build 1.3 times as fast (`docs/benchmarks.md`).
fn advise_huge_pages<T>(data: &[T]) {
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    if size_of_val(data) >= MIN_HUGE_BYTES {
        // The address must be aligned to a page.
        let start = (data.as_ptr() as usize).next_multiple_of(PAGE);
        let end = data.as_ptr() as usize + size_of_val(data);
        // SAFETY: `start` and `end` are within `data`, which is at least `MIN_HUGE_BYTES` long,
        // borrowed and so mapped. The advice changes how the system backs the pages, not their
        // contents. A failure is harmless.
        unsafe { libc::madvise(start as *mut _, end - start, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data;
}

/// A vector that never grows, and whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    data: Vec<T>,
    reserved: Reserved,
}

impl<T> Buffer<T> {
    /// Shortens the buffer to its first `len` elements and returns the rest of its memory, unless
    /// that is too little to matter.
    pub fn truncate(&mut self, len: usize) {
        self.data.truncate(len);
        if self.data.capacity() - len > len / 64 {
            self.data.shrink_to_fit();
        }
        self.reserved.shrink(bytes_of::<T>(self.data.capacity()));
    }

    /// Returns the bytes allocated.
    pub fn bytes(&self) -> u64 {
        self.reserved.bytes()
    }
}

impl<V: Value> Buffer<V> {
    /// Returns the same memory as bytes. Values of an engine are arrays of bytes, which are aligned as bytes are.
    pub fn into_bytes(self) -> Buffer<u8> {
        let data = match V::WIDTH {
            0 => Vec::new(),
            _ => bytemuck::cast_vec(self.data),
        };
        Buffer { data, reserved: self.reserved }
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.data
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_counted_until_they_are_dropped() {
        let memory = Memory::new(Some(1000));
        let mut first = memory.zeroed::<u32>(200).unwrap();
        assert_eq!(memory.budget().used(), 800);
        let refused = memory.zeroed::<u8>(201).unwrap_err();
        assert_eq!(refused, Error::OutOfMemory { wanted: 201, free: Some(200) });
        first.truncate(50);
        assert_eq!((first.len(), memory.budget().used()), (50, 200));
        drop(first);
        assert_eq!(memory.budget().used(), 0);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let memory = Memory::new(None);
        assert!(memory.zeroed::<u64>(usize::MAX / 8).is_err());
        assert!(memory.zeroed::<u64>(usize::MAX).is_err());
        assert_eq!(memory.budget().used(), 0);
    }
}
