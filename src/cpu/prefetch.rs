//! Prefetching memory.
//!
//! Searches that descend the fences together spend most of their time in cache misses. Prefetching
//! the next node of each while the others are searched made whole lookups in 2^24 keys 1.9 times as
//! fast (`docs/benchmarks.md`).

/// Bytes in a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// Prefetches the cache line of `slice[index]`; harmless if there is no such element.
#[inline]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it has no visible effect and never faults, whatever the
        // address. The address is computed by wrapping arithmetic and never dereferenced.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(index).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
