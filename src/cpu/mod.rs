//! The CPU engine: one verb a file, all cores in each.

mod absorb;
mod block;
mod co_scan;
mod count;
mod entries;
mod fences;
mod lookup;
mod marks;
mod memory;
mod merge;
mod nearest;
mod prefetch;
mod range;
mod run;
mod select;
mod shadows;
mod sort;
mod source;
mod workers;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::batch::Updates;
use crate::device::{Engine, Mark, PairsOut, RunStats, Side};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;
use memory::Memory;
use run::Run;
use workers::Workers;

/// What every step needs: where buffers come from, and the threads that share the work.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    memory: Arc<Memory>,
    workers: Workers,
}

impl Cpu {
    /// With at most `limit` bytes, and `threads` worker threads of its own.
    pub fn new(limit: Option<u64>, threads: Option<usize>) -> Result<Self, Error> {
        Ok(Cpu { memory: Memory::new(limit), workers: Workers::new(threads)? })
    }

    /// Tests only: makes the buffer after the next `n` fail, once.
    pub fn fail_after(&self, n: u64) {
        self.memory.fail_after(n);
    }

    /// Bytes in use now by everything that shares this CPU's memory.
    pub fn used(&self) -> u64 {
        self.memory.used()
    }
}

/// The CPU as a device for keys `B` and values `V`.
pub(crate) struct CpuEngine<B, V> {
    pub cpu: Cpu,
    types: PhantomData<fn() -> (B, V)>,
}

impl<B, V> CpuEngine<B, V> {
    pub fn new(cpu: Cpu) -> Self {
        CpuEngine { cpu, types: PhantomData }
    }
}

impl<B, V> Clone for CpuEngine<B, V> {
    fn clone(&self) -> Self {
        CpuEngine::new(self.cpu.clone())
    }
}

impl<B: OrderedKey, V: Value> Engine for CpuEngine<B, V> {
    type Key = B;
    type Value = V;
    type Run = Run<B, V>;

    fn bound(&self, run: &Self::Run) -> usize {
        run.len()
    }

    fn absorb(
        &self,
        updates: &Updates<'_, B, V>,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error> {
        absorb::absorb(&self.cpu, updates, carried, older)
    }

    fn len(&self, runs: &[Self::Run]) -> Result<u64, Error> {
        Ok(count::len(runs))
    }

    fn lookup(
        &self,
        runs: &[Self::Run],
        keys: &[B],
        values: Option<&mut [V]>,
        found: &mut [bool],
    ) -> Result<(), Error> {
        lookup::lookup(&self.cpu, runs, keys, values, found)
    }

    fn count(&self, runs: &[Self::Run], lo: &[B], hi: &[B], out: &mut [u64]) -> Result<(), Error> {
        count::count(&self.cpu, runs, lo, hi, out)
    }

    fn rank(&self, runs: &[Self::Run], keys: &[B], out: &mut [u64]) -> Result<(), Error> {
        count::rank(&self.cpu, runs, keys, out)
    }

    fn range_offsets(
        &self,
        runs: &[Self::Run],
        lo: &[B],
        hi: &[B],
        offsets: &mut [usize],
    ) -> Result<(), Error> {
        range::range_offsets(&self.cpu, runs, lo, hi, offsets)
    }

    fn range_fill(
        &self,
        runs: &[Self::Run],
        ranges: (&[B], &[B]),
        offsets: &[usize],
        keys: &mut [B],
        values: Option<&mut [V]>,
    ) -> Result<(), Error> {
        range::range_fill(&self.cpu, runs, ranges, offsets, keys, values)
    }

    fn select(
        &self,
        runs: &[Self::Run],
        indices: &[u64],
        out: PairsOut<'_, B, V>,
    ) -> Result<(), Error> {
        select::select(&self.cpu, runs, indices, out)
    }

    fn nearest(
        &self,
        runs: &[Self::Run],
        side: Side,
        keys: &[B],
        out: PairsOut<'_, B, V>,
    ) -> Result<(), Error> {
        nearest::nearest(&self.cpu, runs, side, keys, out)
    }

    fn run_stats(&self, run: &Self::Run) -> Result<RunStats, Error> {
        Ok(run.stats())
    }

    fn bytes_shared(&self) -> u64 {
        self.cpu.used()
    }

    fn entries(&self, run: &Self::Run) -> Result<Vec<(B, Mark)>, Error> {
        Ok(run.keys().iter().enumerate().map(|(at, &key)| (key, run.mark(at))).collect())
    }

    fn validate_run(&self, run: &Self::Run) -> Result<(), String> {
        run.validate()
    }
}
