//! Locks that end with their holder, and no sooner.
//!
//! `flock` belongs to one opening of a file: it excludes a second one in the same process, and is not released when
//! other handles of the file are closed, as record locks (`fcntl`) are. But a forked child inherits it, and would
//! keep it after its parent ended. So children close their copies as soon as they are forked.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The files that this process has locked.
static LOCKED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

thread_local! {
    /// The list, while this thread forks: the child must find it complete and unlocked.
    static FORKING: RefCell<Option<MutexGuard<'static, Vec<OwnedFd>>>> = const { RefCell::new(None) };
}

/// A lock, until it is dropped or the process ends.
pub(super) struct Lock {
    file: RawFd,
    process: u32,
}

impl Lock {
    /// Locks the file that `open` opens. If it is locked already, the error is of the kind `WouldBlock`.
    pub fn acquire(open: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<Self> {
        static REGISTERED: Once = Once::new();
        // SAFETY: the three functions live as long as the process; they call nothing that must not be called
        // around a fork: the child only closes files and writes to memory.
        REGISTERED.call_once(|| unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child));
        });
        // No fork comes between opening the file and remembering it.
        let mut locked = locked();
        let file = open()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
        let lock = Lock { file: file.as_raw_fd(), process: process::id() };
        locked.push(file);
        Ok(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A forked child has no locks.
        if self.process != process::id() {
            return;
        }
        let mut locked = locked();
        if let Some(index) = locked.iter().position(|file| file.as_raw_fd() == self.file) {
            let file = locked.swap_remove(index);
            // Not only closed: a program that is just being started may have a copy.
            flock(&file, FlockOperation::Unlock).ok();
        }
    }
}

fn locked() -> MutexGuard<'static, Vec<OwnedFd>> {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_fork() {
    FORKING.try_with(|forking| *forking.borrow_mut() = Some(locked())).ok();
}

extern "C" fn after_fork() {
    FORKING.try_with(|forking| forking.borrow_mut().take()).ok();
}

extern "C" fn after_fork_in_child() {
    FORKING
        .try_with(|forking| {
            if let Some(mut locked) = forking.borrow_mut().take() {
                locked.clear();
            }
        })
        .ok();
}
