//! Range queries: the window of each range in every run is found first, and the running sums tell
//! the size of each answer; then the windows of each range are merged into its part of the output.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::source::Source;
use crate::cpu::query::bounds::GROUP;
use crate::cpu::query::count::{count, count_group};
use crate::cpu::query::range_merge::RangeMerger;
use crate::cpu::query::range_plan::{Task, Windows, Work, plan};
use crate::cpu::run::Run;
use crate::cpu::workers::cut;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// The most queries whose windows are kept in memory at a time.
const MAX_QUERIES: usize = 1 << 14;

/// The windows take at most this fraction (one half) of the free memory.
const FREE_MEMORY_DIVISOR: u64 = 2;

/// Finds where each answer begins if all are laid end to end, and where the last one ends.
pub(crate) fn range_offsets<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    lo: &[B],
    hi: &[B],
    offsets: &mut [u64],
) -> Result<(), Error> {
    offsets[0] = 0;
    for part in parts(lo.len(), max_queries(cpu, size_of::<u64>())) {
        let mut counts = cpu.memory.zeroed::<u64>(part.len())?;
        count(cpu, runs, &lo[part.clone()], &hi[part.clone()], &mut counts)?;
        prefix_sum(&counts, &mut offsets[part.start..=part.end]);
    }
    Ok(())
}

/// Finds the offsets of all answers and writes, as long as there is room, the pairs of each at its
/// offset.
pub(crate) fn range<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    (lo, hi): (&[B], &[B]),
    offsets: &mut [u64],
    keys: &mut [B],
    mut values: Option<&mut [V]>,
) -> Result<(), Error> {
    let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
    offsets[0] = 0;
    let query_bytes = size_of::<[usize; 2]>() * runs.len() + size_of::<u64>();
    for part in parts(lo.len(), max_queries(cpu, query_bytes).min(MAX_QUERIES)) {
        let (windows, counts) = find_windows(cpu, runs, &lo[part.clone()], &hi[part.clone()])?;
        let offsets = &mut offsets[part.start..=part.end];
        prefix_sum(&counts, offsets);
        let answers = offsets[0] as usize..offsets[counts.len()] as usize;
        if let Some(keys) = keys.get_mut(answers.clone()) {
            let values = values.as_mut().map(|values| &mut values[answers]);
            let tasks = plan(cpu, runs, &windows, offsets);
            let batch = RangeBatch { runs, sources: &sources, windows: &windows, offsets };
            batch.write(cpu, &tasks, keys, values)?;
        }
    }
    Ok(())
}

/// Returns how many queries, of this many bytes each, may be answered at a time.
fn max_queries(cpu: &Cpu, query_bytes: usize) -> usize {
    let free = cpu.memory.budget().free().unwrap_or(u64::MAX) / FREE_MEMORY_DIVISOR;
    usize::try_from(free).unwrap_or(usize::MAX) / query_bytes
}

/// Divides `len` queries into parts of at most `max_len`, or of one if that is 0.
fn parts(len: usize, max_len: usize) -> impl Iterator<Item = Range<usize>> {
    let max_len = max_len.max(1);
    (0..len).step_by(max_len).map(move |start| start..len.min(start.saturating_add(max_len)))
}

/// Lays answers of these lengths end to end, from the first offset on.
fn prefix_sum(counts: &[u64], offsets: &mut [u64]) {
    let mut end = offsets[0];
    for (offset, &count) in offsets[1..].iter_mut().zip(counts) {
        end += count;
        *offset = end;
    }
}

/// Finds the window of every range in every run, and counts the live keys of every range.
fn find_windows<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    lo: &[B],
    hi: &[B],
) -> Result<(Windows, Buffer<u64>), Error> {
    let bounds = cpu.memory.zeroed(lo.len() * runs.len())?;
    let mut windows = Windows { bounds, runs: runs.len() };
    let mut counts = cpu.memory.zeroed::<u64>(lo.len())?;
    if runs.is_empty() {
        return Ok((windows, counts));
    }
    let chunk = cpu.workers.chunk_len(lo.len());
    let outputs = windows.bounds.chunks_mut(chunk * runs.len()).zip(counts.chunks_mut(chunk));
    let tasks = lo.chunks(chunk).zip(hi.chunks(chunk)).zip(outputs);
    cpu.workers.each(tasks, |((lo, hi), (bounds, counts))| {
        let outputs = bounds.chunks_mut(GROUP * runs.len()).zip(counts.chunks_mut(GROUP));
        for ((lo, hi), (bounds, counts)) in lo.chunks(GROUP).zip(hi.chunks(GROUP)).zip(outputs) {
            count_group(runs, lo, hi, counts, |run, starts, ends| {
                for (query, (&start, &end)) in starts.iter().zip(ends).enumerate() {
                    bounds[query * runs.len() + run] = [start, end];
                }
            });
        }
        Ok(())
    })?;
    Ok((windows, counts))
}

/// Range queries that are answered together.
struct RangeBatch<'a, B, V> {
    runs: &'a [Run<B, V>],
    /// The same runs, as a merge reads them.
    sources: &'a [Source<'a, B, V>],
    windows: &'a Windows,
    offsets: &'a [u64],
}

impl<B: OrderedKey, V: Value> RangeBatch<'_, B, V> {
    /// Writes the pairs of every range. `keys` and `values` begin with the first answer.
    fn write(
        &self,
        cpu: &Cpu,
        tasks: &[Task],
        keys: &mut [B],
        values: Option<&mut [V]>,
    ) -> Result<(), Error> {
        let keys = cut(keys, tasks.iter().map(|task| task.len));
        let values = match values {
            Some(values) => cut(values, tasks.iter().map(|task| task.len)),
            None => tasks.iter().map(|_| &mut [][..]).collect(),
        };
        cpu.workers.each(tasks.iter().zip(keys).zip(values), |((task, keys), values)| {
            let mut merger = RangeMerger::new(cpu, self.sources)?;
            match &task.work {
                Work::Part(windows) => merger.write(windows.iter().cloned(), keys, values),
                Work::Queries(queries) => {
                    self.write_answers(&mut merger, queries.clone(), keys, values)
                }
            }
        })?;
        Ok(())
    }

    /// Writes the answers to these queries end to end.
    fn write_answers(
        &self,
        merger: &mut RangeMerger<'_, B, V>,
        queries: Range<usize>,
        mut keys: &mut [B],
        mut values: &mut [V],
    ) -> Result<(), Error> {
        for query in queries.clone() {
            if query + 1 < queries.end {
                self.prefetch(query + 1);
            }
            let len = (self.offsets[query + 1] - self.offsets[query]) as usize;
            let keys = keys.split_off_mut(..len).expect("room for every answer");
            let values = values.split_off_mut(..len).unwrap_or_default(); // Empty if unwanted.
            merger.write(self.windows.of(query), keys, values)?;
        }
        Ok(())
    }

    /// Prefetches the first entries of a range.
    fn prefetch(&self, query: usize) {
        for (run, window) in self.runs.iter().zip(self.windows.of(query)) {
            run.prefetch_entries(window);
        }
    }
}
