//! Where every buffer of the CPU engine comes from: counted, limited, and never fatal.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Zeroable;

use crate::error::{Error, bytes_of, try_zeroed};

/// Buffers from this size on are worth huge pages: they have some whole ones.
#[cfg(target_os = "linux")]
const HUGE: usize = 4 << 20;

/// The smallest page there is.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// Counts the bytes of a dictionary, its clones and its snapshots, and keeps them under a limit.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: Option<u64>,
    used: AtomicU64,
    /// Tests only: the allocation counted down to 0 fails. `u64::MAX` stands for never.
    fail_in: AtomicU64,
}

impl Memory {
    pub fn new(limit: Option<u64>) -> Arc<Self> {
        Arc::new(Memory { limit, used: AtomicU64::new(0), fail_in: AtomicU64::new(u64::MAX) })
    }

    /// Makes the allocation after the next `n` fail, once.
    pub fn fail_after(&self, n: u64) {
        self.fail_in.store(n, Ordering::Relaxed);
    }

    /// Bytes in use now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether so much is free that some may go to what only makes things faster.
    pub fn is_roomy(&self) -> bool {
        self.limit.is_none_or(|limit| self.used() <= limit / 2)
    }

    /// A buffer of `len` zeros, or an error that says how much was wanted and how much is free.
    pub fn zeroed<T: Zeroable>(self: &Arc<Self>, len: usize) -> Result<Buffer<T>, Error> {
        let bytes = bytes_of::<T>(len);
        let free =
            self.reserve(bytes).map_err(|free| Error::OutOfMemory { wanted: bytes, free })?;
        let reserved = Reserved { memory: self.clone(), bytes };
        let data = try_zeroed(len).map_err(|_| Error::OutOfMemory { wanted: bytes, free })?;
        advise_huge_pages(&data);
        Ok(Buffer { data, reserved })
    }

    /// Counts `bytes` as used and returns what was free before; the same as an error if too little.
    fn reserve(&self, bytes: u64) -> Result<Option<u64>, Option<u64>> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let free = self.limit.map(|limit| limit.saturating_sub(before));
        if bytes > 0 && (self.fails_now() || free.is_some_and(|free| free < bytes)) {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(free);
        }
        Ok(free)
    }

    fn fails_now(&self) -> bool {
        let count_down = |n: u64| if n == u64::MAX { None } else { Some(n.wrapping_sub(1)) };
        self.fail_in.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down) == Ok(0)
    }
}

/// Asks for huge pages under a large buffer that nobody has touched yet: a page fault for every 2 MiB
/// instead of every 4 KiB, which made a bulk build 1.3 times as fast (`docs/benchmarks.md`).
fn advise_huge_pages<T>(data: &[T]) {
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    if size_of_val(data) >= HUGE {
        // The advice is for whole pages within the buffer; the system wants their address aligned.
        let start = (data.as_ptr() as usize).next_multiple_of(PAGE);
        let end = data.as_ptr() as usize + size_of_val(data);
        // SAFETY: the pages lie within `data`, which is borrowed here and so is mapped; the advice
        // changes how the system backs them, not what they contain. Its failure is harmless.
        unsafe { libc::madvise(start as *mut _, end - start, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data;
}

/// Bytes that are counted as used until this is dropped.
#[derive(Debug)]
struct Reserved {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A counted vector that never grows.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    data: Vec<T>,
    reserved: Reserved,
}

impl<T> Buffer<T> {
    /// Cuts the buffer to its first `len` elements and gives the rest of its memory back, unless
    /// that is too little to matter.
    pub fn truncate(&mut self, len: usize) {
        self.data.truncate(len);
        if self.data.capacity() - len > len / 64 {
            self.data.shrink_to_fit();
        }
        let bytes = bytes_of::<T>(self.data.capacity()).min(self.reserved.bytes);
        let given_back = self.reserved.bytes - bytes;
        self.reserved.memory.used.fetch_sub(given_back, Ordering::Relaxed);
        self.reserved.bytes = bytes;
    }

    /// Bytes taken.
    pub fn bytes(&self) -> u64 {
        self.reserved.bytes
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
        assert_eq!(memory.used(), 800);
        let refused = memory.zeroed::<u8>(201).unwrap_err();
        assert_eq!(refused, Error::OutOfMemory { wanted: 201, free: Some(200) });
        first.truncate(50);
        assert_eq!((first.len(), memory.used()), (50, 200));
        drop(first);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let memory = Memory::new(None);
        assert!(memory.zeroed::<u64>(usize::MAX / 8).is_err());
        assert!(memory.zeroed::<u64>(usize::MAX).is_err());
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn the_chosen_allocation_fails_once() {
        let memory = Memory::new(None);
        memory.fail_after(1);
        let outcomes = [(); 3].map(|()| memory.zeroed::<u8>(1).is_ok());
        assert_eq!(outcomes, [true, false, true]);
    }
}
