//! The context that every step on the CPU needs.

use std::sync::Arc;

use crate::budget::{Account, Allowance};
use crate::combine::{CombineFn, Combiner};
use crate::cpu::memory::Memory;
use crate::error::Error;
use crate::value::Value;
use crate::workers::Workers;

/// Where buffers are allocated, the threads that share the work, and how values combine.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub(super) memory: Memory,
    pub(super) workers: Workers,
    /// How the values of equal keys combine; `None` if the newer one wins.
    combiner: Option<Combiner>,
}

impl Cpu {
    /// Creates a context with at most `limit` bytes of memory, and with `threads` threads of its
    /// own or the shared ones.
    #[cfg(test)]
    pub fn new(limit: Option<u64>, threads: Option<usize>) -> Result<Self, Error> {
        Self::with_account(Account::new(limit), threads)
    }

    /// Creates a context whose memory is counted in an account, and with `threads` threads of its own or
    /// the shared ones.
    pub fn with_account(account: Account, threads: Option<usize>) -> Result<Self, Error> {
        Ok(Self::on_workers(Workers::new(threads)?, account))
    }

    /// Creates a context with these threads, whose memory is counted in an account.
    pub fn on_workers(workers: Workers, account: Account) -> Self {
        Cpu { memory: Memory::new(account), workers, combiner: None }
    }

    /// Returns the same context, in which values combine, if there is a combiner.
    pub fn combining(self, combiner: Option<Combiner>) -> Self {
        Cpu { combiner, ..self }
    }

    /// Returns the same context, whose allocations use up what was set aside before anything else.
    pub fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        Cpu { memory: self.memory.drawing_on(allowance), ..self.clone() }
    }

    /// Returns the same context, in which the caller's thread does all the work.
    pub fn on_one_thread(&self) -> Self {
        Cpu { workers: Workers::caller_only(), ..self.clone() }
    }

    /// Returns how the values of equal keys combine; `None` if the newer one wins.
    pub fn combiner(&self) -> Option<Combiner> {
        self.combiner
    }

    /// Returns the function that combines the values of equal keys; `None` if the newer one wins.
    pub fn combine_fn<V: Value>(&self) -> Option<CombineFn<V>> {
        // Nothing is compiled for sets, as the condition is constant.
        if const { size_of::<V>() == 0 } { None } else { self.combiner.map(Combiner::function) }
    }
}
