//! Range queries: the window of each range in every run is found first, and the running sums tell
//! the size of each answer; then the windows of each range are merged into its part of the output.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::merge::source::Source;
use crate::cpu::query::count::count;
use crate::cpu::query::range_merge::{RangeMerger, fit_memory};
use crate::cpu::query::range_plan::{Task, plan};
use crate::cpu::query::windows::{Windows, parts_with_counts, parts_with_windows};
use crate::cpu::run::Run;
use crate::error::{Error, append_zeros};
use crate::key::OrderedKey;
use crate::value::Value;
use crate::workers::cut;

/// Finds where each answer begins if all are laid end to end, and where the last one ends.
pub(crate) fn range_offsets<B: OrderedKey>(
    cpu: &Cpu,
    runs: &[Run<B>],
    lo: &[B],
    hi: &[B],
    offsets: &mut [u64],
) -> Result<(), Error> {
    offsets[0] = 0;
    for part in parts_with_counts(cpu, lo.len()) {
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
    runs: &[Run<B>],
    (lo, hi): (&[B], &[B]),
    offsets: &mut [u64],
    keys: &mut [B],
    mut values: Option<&mut [V]>,
) -> Result<(), Error> {
    let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
    offsets[0] = 0;
    for part in parts_with_windows(cpu, lo.len(), runs.len()) {
        let mut counts = cpu.memory.zeroed::<u64>(part.len())?;
        let ends = (&lo[part.clone()], &hi[part.clone()]);
        let windows = Windows::find(cpu, runs, ends, &mut counts)?;
        let offsets = &mut offsets[part.start..=part.end];
        prefix_sum(&counts, offsets);
        let answers = offsets[0] as usize..offsets[counts.len()] as usize;
        if let Some(keys) = keys.get_mut(answers.clone()) {
            let values = values.as_mut().map(|values| &mut values[answers]);
            let tasks = plan(cpu, runs, &windows, &counts);
            let batch = RangeBatch { runs, sources: &sources, windows: &windows, counts: &counts };
            batch.write(cpu, &tasks, keys, values)?;
        }
    }
    Ok(())
}

/// Returns the live keys of ranges, end to end; `None` if there are as many as `all`.
pub(crate) fn live_keys<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    (lo, hi): (&[B], &[B]),
    all: u64,
) -> Result<Option<Vec<B>>, Error> {
    let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
    let mut keys = Vec::new();
    for part in parts_with_windows(cpu, lo.len(), runs.len()) {
        let mut counts = cpu.memory.zeroed::<u64>(part.len())?;
        let windows = Windows::find(cpu, runs, (&lo[part.clone()], &hi[part]), &mut counts)?;
        let (first, found) = (keys.len(), counts.iter().sum::<u64>());
        if first as u64 + found == all {
            return Ok(None);
        }
        append_zeros(&mut keys, found as usize)?;
        let tasks = plan(cpu, runs, &windows, &counts);
        let batch = RangeBatch { runs, sources: &sources, windows: &windows, counts: &counts };
        batch.write(cpu, &tasks, &mut keys[first..], None)?;
    }
    Ok(Some(keys))
}

/// Lays answers of these lengths end to end, from the first offset on.
fn prefix_sum(counts: &[u64], offsets: &mut [u64]) {
    let mut end = offsets[0];
    for (offset, &count) in offsets[1..].iter_mut().zip(counts) {
        end += count;
        *offset = end;
    }
}

/// Range queries that are answered together.
struct RangeBatch<'a, B, V> {
    runs: &'a [Run<B>],
    /// The same runs, as a merge reads them.
    sources: &'a [Source<'a, B, V>],
    windows: &'a Windows,
    counts: &'a [u64],
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
        let (cpu, block) = &fit_memory(cpu, self.sources, tasks.len());
        cpu.workers.each(tasks.iter().zip(keys).zip(values), |((task, keys), values)| {
            let mut merger = RangeMerger::new(cpu, self.sources, *block)?;
            match &task.part {
                Some(windows) => merger.write(windows.iter().cloned(), keys, values),
                None => self.write_answers(&mut merger, task.queries.clone(), keys, values),
            }
        })
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
                self.windows.prefetch(self.runs, query + 1);
            }
            let len = self.counts[query] as usize;
            let keys = keys.split_off_mut(..len).expect("room for every answer");
            let values = values.split_off_mut(..len).unwrap_or_default(); // Empty if unwanted.
            merger.write(self.windows.of(query), keys, values)?;
        }
        Ok(())
    }
}
