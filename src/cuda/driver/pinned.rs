//! Heads of runs in pinned memory of the host: a kernel writes one there when it completes a run, and the
//! host reads it without waiting for the GPU.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result;

use crate::cuda::driver::error::check;
use crate::cuda::driver::gpu::Entered;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::{self, Address, Head};
use crate::error::Error;

/// Pinned heads that are allocated at a time.
const ALLOCATED_AT_A_TIME: usize = 4096;

/// Unused pinned heads that are tried before more are allocated.
const MAX_TRIES: usize = 8;

/// Pinned heads that no run uses any more, though a kernel may still be about to write them. The memory is
/// portable: all GPUs share it.
static UNUSED: Mutex<VecDeque<RawHead>> = Mutex::new(VecDeque::new());

/// How many pinned heads were ever allocated.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// Returns how many pinned heads were ever allocated, and how many are allocated at a time.
#[cfg(feature = "testing")]
pub fn allocated_pinned_heads() -> (usize, usize) {
    (ALLOCATED.load(Ordering::Relaxed), ALLOCATED_AT_A_TIME)
}

/// Where a pinned head is: in pinned memory of the host, never freed.
#[derive(Clone, Copy)]
struct RawHead(*mut ffi::PinnedHead);

// SAFETY: the memory is never freed, and is read and written atomically or before it is shared.
unsafe impl Send for RawHead {}
// SAFETY: as above.
unsafe impl Sync for RawHead {}

impl RawHead {
    /// Returns the head, if it has been written.
    fn get(self) -> Option<Head> {
        // SAFETY: the memory is never freed, and `ready` is aligned; a kernel writes it after the head.
        let ready = unsafe { AtomicU64::from_ptr(&raw mut (*self.0).ready) };
        if ready.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: as above; nobody writes the head once it is ready.
        Some(unsafe { (&raw const (*self.0).head).read_volatile() })
    }

    /// Writes the head where no kernel will.
    fn set(self, head: Head) {
        // SAFETY: the memory is never freed, and no kernel writes this head.
        unsafe { (&raw mut (*self.0).head).write_volatile(head) };
        fence(Ordering::Release);
        self.set_ready(1);
    }

    fn set_ready(self, ready: u64) {
        // SAFETY: the memory is never freed, and no kernel that writes it is under way.
        unsafe { (&raw mut (*self.0).ready).write_volatile(ready) };
    }
}

/// The pinned head of one run.
pub(crate) struct PinnedHead {
    raw: RawHead,
    /// Whether a kernel that writes the head is, or may be, on a stream.
    is_awaited: bool,
}

/// Takes a pinned head for a new run.
pub(crate) fn take_pinned_head(entered: &Entered) -> Result<PinnedHead, Error> {
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    // Those at the front have been unused longest. One that a kernel has yet to write can't be used.
    for _ in 0..unused.len().min(MAX_TRIES) {
        let raw = unused.pop_front().expect("no more are popped than there are");
        if raw.get().is_some() {
            return Ok(PinnedHead::new(raw));
        }
        unused.push_back(raw);
    }
    let first = allocate(entered)?;
    for i in 1..ALLOCATED_AT_A_TIME {
        // SAFETY: `ALLOCATED_AT_A_TIME` of them were allocated.
        let raw = RawHead(unsafe { first.add(i) });
        raw.set_ready(1);
        unused.push_front(raw);
    }
    Ok(PinnedHead::new(RawHead(first)))
}

/// Allocates pinned heads, and returns the first of them.
fn allocate(_entered: &Entered) -> Result<*mut ffi::PinnedHead, Error> {
    const PORTABLE_AND_MAPPED: u32 = 1 | 2;
    let bytes = ALLOCATED_AT_A_TIME * size_of::<ffi::PinnedHead>();
    // SAFETY: a context is current.
    let first =
        check("cuMemHostAlloc", unsafe { result::malloc_host(bytes, PORTABLE_AND_MAPPED) })?;
    ALLOCATED.fetch_add(ALLOCATED_AT_A_TIME, Ordering::Relaxed);
    Ok(first.cast())
}

impl PinnedHead {
    fn new(raw: RawHead) -> Self {
        raw.set_ready(0);
        PinnedHead { raw, is_awaited: false }
    }

    /// Returns where a kernel writes the head: with unified addresses, at the host's pointer.
    pub fn address(&self) -> Address {
        self.raw.0 as Address
    }

    /// Returns the head, if it has been written.
    pub fn get(&self) -> Option<Head> {
        self.raw.get()
    }

    /// Writes the head of a run that no kernel writes.
    pub fn set(&self, head: Head) {
        self.raw.set(head);
    }

    /// Calls `launch`, which launches the kernel that writes the head as the last thing it does, or fails.
    pub fn written_by(
        &mut self,
        stream: &Stream,
        launch: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.is_awaited = true;
        launch().inspect_err(|_| {
            // The error may be of earlier work, and the kernel under way all the same. Once the stream is
            // synchronized, none is.
            self.is_awaited = stream.synchronize().is_err();
        })
    }
}

impl Drop for PinnedHead {
    fn drop(&mut self) {
        // A kernel that is still about to write the head makes it ready for its next use. Where there is
        // none, nobody else would.
        if !self.is_awaited {
            self.raw.set_ready(1);
        }
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.raw);
    }
}
