//! Allocation of all buffers of the CPU engine: counted, limited, and fallible.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use bytemuck::Zeroable;

use crate::budget::{Account, Allowance, Budget, Reserved};
use crate::error::{Error, bytes_of, try_zeroed};
#[cfg(target_os = "linux")]
use crate::huge_pages::PAGE;
use crate::value::Value;

/// Whether memory can be returned to the system a page at a time.
pub(crate) const RETURNS_PAGES: bool = cfg!(all(target_os = "linux", not(miri)));

/// Allocates buffers within a budget.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    account: Account,
}

impl Memory {
    pub fn new(account: Account) -> Self {
        Memory { account }
    }

    pub fn budget(&self) -> &Arc<Budget> {
        self.account.budget()
    }

    /// Returns the bytes that can still be allocated; `None` if there is no limit.
    pub fn available(&self) -> Option<u64> {
        self.account.available()
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
            try_zeroed(len).map_err(|_| Error::OutOfMemory { wanted: bytes, free, memory: None })
        })?;
        Ok(Buffer { data, reserved })
    }

    /// Allocates a buffer of `len` zeros that takes addresses and no memory, and of which nothing is counted:
    /// before elements are written, [`Buffer::back`] counts them. Fails where pages cannot be returned.
    pub fn unbacked<T: Zeroable>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let refused = Error::OutOfMemory {
            wanted: bytes_of::<T>(len),
            free: self.budget().free(),
            memory: None,
        };
        let (mut data, reserved) = self
            .account
            .allocate_uncounted(|| try_zeroed::<T>(len).map_err(|_| refused.clone()))?;
        // The allocator may have written zeros to memory that it had.
        let pages = whole_pages(&data, 0..len);
        if !return_pages(&mut data, pages) {
            return Err(refused);
        }
        Ok(Buffer { data, reserved })
    }

    /// Counts `bytes` that are not allocated here: they back what will be.
    pub fn reserve(&self, bytes: u64) -> Result<Reserved, Error> {
        self.account.allocate(bytes, || Ok(())).map(|((), reserved)| reserved)
    }
}

/// Returns the bytes in a page.
#[cfg(target_os = "linux")]
pub(crate) fn page_bytes() -> usize {
    #[allow(unsafe_code)]
    // SAFETY: the call only returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(PAGE)
}

/// Returns the bytes in a page.
#[cfg(not(target_os = "linux"))]
pub(crate) fn page_bytes() -> usize {
    4096
}

/// Returns which bytes of `data` are the pages that end with elements in `range` and hold nothing else than elements
/// up to there.
fn whole_pages<T>(data: &[T], range: Range<usize>) -> Range<usize> {
    let page = page_bytes();
    let base = data.as_ptr() as usize;
    let last_end = |at: usize| (base + at * size_of::<T>()) / page * page;
    let start = last_end(range.start).max(base.next_multiple_of(page)) - base;
    start..(last_end(range.end).saturating_sub(base)).max(start)
}

/// Returns whole pages of memory to the system, which read as zeros from then on; tells whether it did.
fn return_pages<T: Zeroable>(data: &mut [T], bytes: Range<usize>) -> bool {
    if bytes.is_empty() {
        return true;
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    #[allow(unsafe_code)]
    {
        assert!(bytes.end <= size_of_val(data));
        // SAFETY: the bytes are within `data`, which is borrowed mutably, so that nobody reads them at this
        // moment, and zeros are valid elements.
        let outcome = unsafe {
            let start = data.as_mut_ptr().cast::<u8>().add(bytes.start);
            libc::madvise(start.cast(), bytes.len(), libc::MADV_DONTNEED)
        };
        outcome == 0
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _ = data;
        false
    }
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

    /// Counts the first `len` elements, by bytes that were counted elsewhere.
    pub fn back(&mut self, len: usize, from: &mut Reserved) {
        from.give(bytes_of::<T>(len).saturating_sub(self.bytes()), &mut self.reserved);
    }

    /// Frees all elements, whose bytes are counted elsewhere from then on.
    pub fn free(&mut self, to: &mut Reserved) {
        self.data = Vec::new();
        self.reserved.give(u64::MAX, to);
    }
}

impl<T: Zeroable> Buffer<T> {
    /// Returns the memory of elements in `range` to the system, as far as it is whole pages with nothing but elements
    /// up to there. The bytes are counted elsewhere from then on. (The system refuses this for locked memory
    /// only, as it would have refused it for an [`unbacked`](Memory::unbacked) buffer.)
    pub fn release(&mut self, range: Range<usize>, to: &mut Reserved) {
        let pages = whole_pages(&self.data, range);
        let bytes = pages.len() as u64;
        return_pages(&mut self.data, pages);
        self.reserved.give(bytes, to);
    }

    /// Shortens an [`unbacked`](Memory::unbacked) buffer to its first `len` elements. The addresses of the rest
    /// remain, without memory.
    pub fn shorten(&mut self, len: usize) {
        let page = page_bytes();
        let base = self.data.as_ptr() as usize;
        let start = (base + len * size_of::<T>()).next_multiple_of(page) - base;
        let end = whole_pages(&self.data, 0..self.data.len()).end;
        return_pages(&mut self.data, start..end.max(start));
        self.data.truncate(len);
        self.reserved.shrink(bytes_of::<T>(len));
    }
}

impl<V: Value> Buffer<V> {
    /// Returns the same memory as bytes. Values of an engine are arrays of bytes, which are aligned as bytes are.
    pub fn into_bytes(self) -> Buffer<u8> {
        let data = match size_of::<V>() {
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
        let memory = Memory::new(Account::new(Some(1000)));
        let mut first = memory.zeroed::<u32>(200).unwrap();
        assert_eq!(memory.budget().used(), 800);
        let refused = memory.zeroed::<u8>(201).unwrap_err();
        assert_eq!(refused, Error::OutOfMemory { wanted: 201, free: Some(200), memory: None });
        first.truncate(50);
        assert_eq!((first.len(), memory.budget().used()), (50, 200));
        drop(first);
        assert_eq!(memory.budget().used(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_buffer_grows_by_the_pages_that_another_releases() {
        let memory = Memory::new(Account::new(Some(5 << 20)));
        let mut from = memory.zeroed::<u64>(1 << 19).unwrap();
        let step = 1000;
        let mut purse = memory.reserve((8 * step + 2 * page_bytes()) as u64).unwrap();
        let mut to = memory.unbacked::<u64>(1 << 19).unwrap();
        let used = memory.budget().used();
        from.fill(7);
        for start in (0..1 << 19).step_by(step) {
            let range = start..(start + step).min(1 << 19);
            let purse_had = purse.bytes();
            to.back(range.end, &mut purse);
            assert_eq!(to.bytes(), range.end as u64 * 8, "of {purse_had} bytes");
            to[range.clone()].copy_from_slice(&from[range.clone()]);
            from.release(range, &mut purse);
            assert_eq!(memory.budget().used(), used);
        }
        assert!(to.iter().all(|&element| element == 7));
        assert!(from.bytes() < 2 * page_bytes() as u64, "{} bytes left", from.bytes());
        drop(from);
        to.shorten(1000);
        assert_eq!((to.len(), to.bytes()), (1000, 8000));
        assert_eq!(memory.budget().used(), 8000 + purse.bytes());
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let memory = Memory::new(Account::new(None));
        assert!(memory.zeroed::<u64>(usize::MAX / 8).is_err());
        assert!(memory.zeroed::<u64>(usize::MAX).is_err());
        assert_eq!(memory.budget().used(), 0);
    }
}
