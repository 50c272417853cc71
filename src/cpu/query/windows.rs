//! Where each range of a batch lies in every run, and how many live keys it has.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::query::bounds::GROUP;
use crate::cpu::query::count::count_group;
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;

/// The most queries whose windows are kept in memory at a time.
const MAX_QUERIES: usize = 1 << 14;

/// The windows take at most this fraction (a quarter) of the memory that is available: merging them takes some, too.
const AVAILABLE_DIVISOR: u64 = 4;

/// Where ranges lie in the runs.
pub(crate) struct Windows {
    /// The window of every run for the first query, for the second, and so on.
    bounds: Buffer<[usize; 2]>,
    runs: usize,
}

impl Windows {
    /// Finds the window of every range in every run, and counts the live keys of every range.
    pub fn find<B: OrderedKey>(
        cpu: &Cpu,
        runs: &[Run<B>],
        (lo, hi): (&[B], &[B]),
        counts: &mut [u64],
    ) -> Result<Self, Error> {
        let bounds = cpu.memory.zeroed(lo.len() * runs.len())?;
        let mut windows = Windows { bounds, runs: runs.len() };
        if runs.is_empty() {
            counts.fill(0);
            return Ok(windows);
        }
        let chunk = cpu.workers.chunk_len(lo.len());
        let outputs = windows.bounds.chunks_mut(chunk * runs.len()).zip(counts.chunks_mut(chunk));
        let tasks = lo.chunks(chunk).zip(hi.chunks(chunk)).zip(outputs);
        cpu.workers.each(tasks, |((lo, hi), (bounds, counts))| {
            let outputs = bounds.chunks_mut(GROUP * runs.len()).zip(counts.chunks_mut(GROUP));
            for ((lo, hi), (bounds, counts)) in lo.chunks(GROUP).zip(hi.chunks(GROUP)).zip(outputs)
            {
                count_group(runs, lo, hi, counts, |run, starts, ends| {
                    for (query, (&start, &end)) in starts.iter().zip(ends).enumerate() {
                        bounds[query * runs.len() + run] = [start, end];
                    }
                });
            }
            Ok(())
        })?;
        Ok(windows)
    }

    /// Returns the window of each run for this query.
    #[inline]
    pub fn of(&self, query: usize) -> impl Iterator<Item = Range<usize>> + Clone {
        self.bounds[query * self.runs..][..self.runs].iter().map(|&[start, end]| start..end)
    }

    /// Prefetches the first entries of a range.
    #[inline]
    pub fn prefetch<B: OrderedKey>(&self, runs: &[Run<B>], query: usize) {
        for (run, window) in runs.iter().zip(self.of(query)) {
            run.prefetch_entries(window);
        }
    }
}

/// Divides `len` queries into parts whose windows in this many runs, and counts, are kept in memory
/// at a time.
pub(crate) fn parts_with_windows(
    cpu: &Cpu,
    len: usize,
    runs: usize,
) -> impl Iterator<Item = Range<usize>> {
    let query_bytes = size_of::<[usize; 2]>() * runs + size_of::<u64>();
    parts(len, max_queries(cpu, query_bytes).min(MAX_QUERIES))
}

/// Divides `len` queries into parts whose counts are kept in memory at a time.
pub(crate) fn parts_with_counts(cpu: &Cpu, len: usize) -> impl Iterator<Item = Range<usize>> {
    parts(len, max_queries(cpu, size_of::<u64>()))
}

/// Returns how many queries, of this many bytes each, may be answered at a time.
fn max_queries(cpu: &Cpu, query_bytes: usize) -> usize {
    let bytes = cpu.memory.available().unwrap_or(u64::MAX) / AVAILABLE_DIVISOR;
    usize::try_from(bytes).unwrap_or(usize::MAX) / query_bytes
}

/// Divides `len` queries into parts of at most `max_len`, or of one if that is 0.
fn parts(len: usize, max_len: usize) -> impl Iterator<Item = Range<usize>> {
    let max_len = max_len.max(1);
    (0..len).step_by(max_len).map(move |start| start..len.min(start.saturating_add(max_len)))
}
