//! Pinned memory of the host that kernels read and write, and that is never freed: heads of runs, which a kernel writes
//! when it completes a run, and the host reads without waiting for the GPU; and keys of short calls with their answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Allocates pinned heads, and returns the first of them. With the first ones, memory for short calls is allocated:
/// allocating it later could invalidate a graph that another thread is capturing.
fn allocate(entered: &Entered) -> Result<*mut ffi::PinnedHead, Error> {
    let first = allocate_bytes(ALLOCATED_AT_A_TIME * size_of::<ffi::PinnedHead>(), entered)?;
    if ALLOCATED.fetch_add(ALLOCATED_AT_A_TIME, Ordering::Relaxed) == 0
        && let Ok(memory) = allocate_bytes(SHORT_CALLS * SHORT_CALL_BYTES, entered)
    {
        // SAFETY: as many bytes were allocated.
        let parts =
            (0..SHORT_CALLS).map(|at| ShortCall(unsafe { memory.add(at * SHORT_CALL_BYTES) }));
        short_calls().extend(parts);
    }
    Ok(first.cast())
}

fn allocate_bytes(bytes: usize, _entered: &Entered) -> Result<*mut u8, Error> {
    const PORTABLE_AND_MAPPED: u32 = 1 | 2;
    // SAFETY: a context is current.
    let first =
        check("cuMemHostAlloc", unsafe { result::malloc_host(bytes, PORTABLE_AND_MAPPED) })?;
    Ok(first.cast())
}

/// How many short calls can be made at the same time, each with this many bytes.
const SHORT_CALLS: usize = 32;
pub(crate) const SHORT_CALL_BYTES: usize = 9 << 10;

/// Memory that no short call uses.
static UNUSED_SHORT_CALLS: Mutex<Vec<ShortCall>> = Mutex::new(Vec::new());

fn short_calls() -> MutexGuard<'static, Vec<ShortCall>> {
    UNUSED_SHORT_CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory for the keys of a short call and its answers, which kernels read and write: `SHORT_CALL_BYTES` bytes.
pub(crate) struct ShortCall(*mut u8);

// SAFETY: it owns the memory, which any thread may use.
unsafe impl Send for ShortCall {}

impl ShortCall {
    /// Takes memory that no other call uses, if there is some.
    pub fn take() -> Option<Self> {
        short_calls().pop()
    }

    /// Gives the memory back, which no kernel may use any more.
    pub fn give_back(self) {
        short_calls().push(self);
    }

    /// Returns where kernels find it: with unified addresses, at the host's pointer.
    pub fn address(&self) -> Address {
        self.0 as Address
    }

    /// Writes the first bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= SHORT_CALL_BYTES, "room for the bytes");
        // SAFETY: there is as much room, and no kernel uses the memory before it is launched.
        unsafe { self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Reads bytes from this offset on, which were written; the kernels that wrote some are done.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= SHORT_CALL_BYTES, "as many bytes");
        // SAFETY: there are as many bytes, and no kernel writes them.
        unsafe { self.0.add(offset).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }
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
