//! The context that every step on the CPU needs.

use crate::cpu::memory::Memory;
use crate::cpu::workers::Workers;
use crate::error::Error;

/// Where buffers are allocated, and the threads that share the work.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub(super) memory: Memory,
    pub(super) workers: Workers,
}

impl Cpu {
    /// Creates a context with at most `limit` bytes of memory, and with `threads` threads of its
    /// own or the shared ones.
    pub fn new(limit: Option<u64>, threads: Option<usize>) -> Result<Self, Error> {
        Ok(Cpu { memory: Memory::new(limit), workers: Workers::new(threads)? })
    }
}
