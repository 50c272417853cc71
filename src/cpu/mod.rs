//! The CPU engine: one verb a file, all cores in each.

mod absorb;
mod block;
mod co_scan;
mod count;
mod dead;
mod entries;
mod fences;
mod filter;
mod log;
mod long_merge;
mod lookup;
mod marks;
mod memory;
mod merge;
mod merge_two;
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
use crate::budget::{Allowance, Budget};
use crate::device::{Engine, Mark, Merged, Query, RunStats};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::{Value, of_bytes_mut};
use log::Log;
use long_merge::Merge;
use memory::Memory;
use run::Run;
use workers::Workers;

/// What every step needs: where buffers come from, and the threads that share the work.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    memory: Memory,
    workers: Workers,
}

impl Cpu {
    /// With at most `limit` bytes, and `threads` worker threads of its own.
    pub fn new(limit: Option<u64>, threads: Option<usize>) -> Result<Self, Error> {
        Ok(Cpu { memory: Memory::new(limit), workers: Workers::new(threads)? })
    }
}

/// Merging so many entries takes a few times as long as the rest of a batch of 2^16 updates.
const MERGED_AT_ONCE: usize = 1 << 20;

/// The CPU as a device for keys `B` and values `V`.
pub(crate) struct CpuEngine<B, V> {
    cpu: Cpu,
    types: PhantomData<fn() -> (B, V)>,
}

impl<B, V> CpuEngine<B, V> {
    pub fn new(cpu: Cpu) -> Self {
        CpuEngine { cpu, types: PhantomData }
    }

    /// The bytes of so many pairs.
    fn pair_bytes(len: usize) -> u64 {
        (len * (size_of::<B>() + size_of::<V>())) as u64
    }
}

impl<B, V> Clone for CpuEngine<B, V> {
    fn clone(&self) -> Self {
        CpuEngine::new(self.cpu.clone())
    }
}

impl<B: OrderedKey, V: Value> Engine for CpuEngine<B, V> {
    type Key = B;
    type Run = Run<B, V>;
    type Log = Log<B>;
    type Merge = Merge<B, V>;

    const MOST_WAITING: usize = 1 << 22;

    fn bound(&self, run: &Self::Run) -> usize {
        run.len()
    }

    fn absorb(
        &self,
        updates: &Updates<'_, B>,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error> {
        absorb::absorb(&self.cpu, updates, carried, older)
    }

    fn append(&self, log: &mut Log<B>, updates: &Updates<'_, B>) -> Result<(), Error> {
        log.append(&self.cpu, updates)
    }

    fn absorb_log(
        &self,
        log: &Log<B>,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error> {
        absorb::absorb(&self.cpu, &log.updates(), carried, older)
    }

    fn merged_at_once(&self) -> usize {
        MERGED_AT_ONCE
    }

    fn is_roomy_for_merge(&self, entries: usize) -> bool {
        self.cpu.memory.budget().is_spare(Self::pair_bytes(entries))
    }

    fn begin_merge(&self, runs: &[Self::Run], older: &[Self::Run]) -> Result<Self::Merge, Error> {
        Merge::new(&self.cpu, runs, older)
    }

    fn go_on(
        &self,
        merge: Self::Merge,
        entries: usize,
    ) -> Result<Merged<Self::Merge, Self::Run>, Error> {
        merge.go_on(&self.cpu, entries)
    }

    fn bytes_to_apply(&self, updates: usize, runs: &[Self::Run]) -> u64 {
        absorb::working_bytes(&self.cpu, updates, runs)
    }

    fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        let memory = self.cpu.memory.drawing_on(allowance);
        CpuEngine::new(Cpu { memory, workers: self.cpu.workers.clone() })
    }

    fn budget(&self) -> &Arc<Budget> {
        self.cpu.memory.budget()
    }

    fn len(&self, runs: &[Self::Run]) -> Result<u64, Error> {
        Ok(count::len(runs))
    }

    fn len_at_least(&self, runs: &[Self::Run]) -> u64 {
        count::len(runs)
    }

    fn len_if_known(&self, runs: &[Self::Run]) -> Option<u64> {
        Some(count::len(runs))
    }

    fn answer(&self, runs: &[Self::Run], query: Query<'_, B>) -> Result<(), Error> {
        let cpu = &self.cpu;
        match query {
            Query::Lookup { keys, values, found } => {
                let values = values.map(|bytes| of_bytes_mut(bytes, keys.len()));
                lookup::lookup(cpu, runs, keys, values, found)
            }
            Query::Count { lo, hi, counts } => count::count(cpu, runs, lo, hi, counts),
            Query::Rank { keys, ranks } => count::rank(cpu, runs, keys, ranks),
            Query::RangeOffsets { lo, hi, offsets } => {
                range::range_offsets(cpu, runs, lo, hi, offsets)
            }
            Query::Range { lo, hi, offsets, keys, values } => {
                let values = values.map(|bytes| of_bytes_mut(bytes, keys.len()));
                range::range(cpu, runs, (lo, hi), offsets, keys, values)
            }
            Query::Select { indices, pairs } => select::select(cpu, runs, indices, pairs),
            Query::Nearest { side, keys, pairs } => nearest::nearest(cpu, runs, side, keys, pairs),
        }
    }

    fn run_stats(&self, run: &Self::Run) -> Result<RunStats, Error> {
        Ok(run.stats())
    }

    fn entries(&self, run: &Self::Run) -> Result<Vec<(B, Mark)>, Error> {
        Ok(run.keys().iter().enumerate().map(|(at, &key)| (key, run.mark(at))).collect())
    }

    fn validate_run(&self, run: &Self::Run) -> Result<(), String> {
        run.validate()
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}
