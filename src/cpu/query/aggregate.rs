//! Aggregates of ranges: their windows are found and counted as for range queries, and merged block by
//! block; the values of each block are folded and forgotten.

use std::ops::Range;

use crate::aggregate::Fold;
use crate::cpu::context::Cpu;
use crate::cpu::merge::source::Source;
use crate::cpu::query::fold::{Accumulators, Folder};
use crate::cpu::query::range_merge::{RangeMerger, fit_memory};
use crate::cpu::query::range_plan::{Task, plan};
use crate::cpu::query::windows::{Windows, parts_with_windows};
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;
use crate::workers::cut;

/// Counts the live keys of each closed range, and folds their values.
pub(crate) fn aggregate<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    (lo, hi): (&[B], &[B]),
    fold: Fold,
    answers: &mut [u8],
    counts: &mut [u64],
) -> Result<(), Error> {
    // No number is without bytes. So nothing below is compiled for sets, as the condition is constant.
    if const { size_of::<V>() == 0 } {
        return Ok(());
    }
    let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
    let folder = Folder::new(fold, size_of::<V>());
    let width = folder.answer_width();
    for part in parts_with_windows(cpu, lo.len(), runs.len()) {
        let counts = &mut counts[part.clone()];
        let windows = Windows::find(cpu, runs, (&lo[part.clone()], &hi[part.clone()]), counts)?;
        let tasks = plan(cpu, runs, &windows, counts);
        let batch = AggregateBatch { runs, sources: &sources, windows: &windows, counts, folder };
        batch.answer(cpu, &tasks, &mut answers[part.start * width..part.end * width])?;
    }
    Ok(())
}

/// Aggregates that are computed together.
struct AggregateBatch<'a, B, V> {
    runs: &'a [Run<B>],
    /// The same runs, as a merge reads them.
    sources: &'a [Source<'a, B, V>],
    windows: &'a Windows,
    counts: &'a [u64],
    folder: Folder,
}

impl<B: OrderedKey, V: Value> AggregateBatch<'_, B, V> {
    /// Writes the answer to every query.
    fn answer(&self, cpu: &Cpu, tasks: &[Task], answers: &mut [u8]) -> Result<(), Error> {
        let width = self.folder.answer_width();
        // Of the parts of a query, the first gets the place of its answer.
        let lens = tasks.iter().scan(0, |answered, task| {
            let queries = *answered..task.queries.end;
            *answered = queries.end;
            Some(queries.len() * width)
        });
        let places = cut(answers, lens);
        let (cpu, block) = &fit_memory(cpu, self.sources, tasks.len());
        let parts = cpu.workers.map(tasks.iter().zip(places), |(task, answers)| {
            let mut merger = RangeMerger::new(cpu, self.sources, *block)?;
            let Some(windows) = &task.part else {
                return self.answer_each(&mut merger, task.queries.clone(), answers);
            };
            let folded = self.fold(&mut merger, windows.iter().cloned(), task.len)?;
            Ok(Some((task.queries.start, folded)))
        })?;
        let parts: Vec<(usize, Accumulators)> = parts.into_iter().flatten().collect();
        for parts in parts.chunk_by(|(query, _), (next, _)| query == next) {
            let mut whole = self.folder.identity();
            parts.iter().for_each(|(_, part)| self.folder.combine(&mut whole, part));
            self.folder.write(&whole, &mut answers[parts[0].0 * width..][..width]);
        }
        Ok(())
    }

    /// Writes the answers to these queries; there is nothing left to be combined.
    fn answer_each(
        &self,
        merger: &mut RangeMerger<'_, B, V>,
        queries: Range<usize>,
        answers: &mut [u8],
    ) -> Result<Option<(usize, Accumulators)>, Error> {
        let places = answers.chunks_mut(self.folder.answer_width());
        for (query, answer) in queries.clone().zip(places) {
            if query + 1 < queries.end {
                self.windows.prefetch(self.runs, query + 1);
            }
            match self.counts[query] as usize {
                0 => answer.fill(0),
                count => {
                    let folded = self.fold(merger, self.windows.of(query), count)?;
                    self.folder.write(&folded, answer);
                }
            }
        }
        Ok(None)
    }

    /// Folds the values of the live entries of a window of each run, of which there are `pairs`.
    fn fold(
        &self,
        merger: &mut RangeMerger<'_, B, V>,
        windows: impl Iterator<Item = Range<usize>> + Clone,
        pairs: usize,
    ) -> Result<Accumulators, Error> {
        let mut folded = self.folder.identity();
        merger.visit_values(windows, pairs, &mut |values| {
            self.folder.add(&mut folded, bytemuck::cast_slice(values));
        })?;
        Ok(folded)
    }
}
