//! An incremental merge: each step merges the entries of all runs between two keys.

use crate::cpu::context::Cpu;
use crate::cpu::merge::keep::Keep;
use crate::cpu::merge::parallel::MergeOutput;
use crate::cpu::merge::source::{Source, key_lists, slices, total_len};
use crate::cpu::merge::split::first_entries;
use crate::cpu::run::Run;
use crate::engine::MergeProgress;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// How far a merge has come, whatever the width of values.
pub(crate) type AnyMergeProgress<B> = MergeProgress<Box<dyn AnyIncrementalMerge<B>>, Run<B>>;

/// A merge of runs that is done a part at a time, whatever the width of their values.
pub(crate) trait AnyIncrementalMerge<B>: Send + Sync {
    /// Merges about this many more entries.
    fn advance(self: Box<Self>, cpu: &Cpu, entries: usize) -> Result<AnyMergeProgress<B>, Error>;

    /// Returns whether these are the runs that are merged.
    fn merges(&self, runs: &[Run<B>]) -> bool;
}

/// A merge of runs that is done a part at a time.
pub(crate) struct IncrementalMerge<B, V> {
    runs: Vec<Run<B>>,
    /// The entries of each run before these positions are merged.
    positions: Vec<usize>,
    output: MergeOutput<B, V>,
}

impl<B: OrderedKey, V: Value> IncrementalMerge<B, V> {
    /// Allocates the output, and merges nothing yet.
    pub fn new(cpu: &Cpu, runs: &[Run<B>], older: &[Run<B>]) -> Result<Self, Error> {
        let keep = Keep::of_merge(runs, older);
        let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
        let output = MergeOutput::with_capacity_for(cpu, &sources, keep)?;
        Ok(IncrementalMerge { runs: runs.to_vec(), positions: vec![0; runs.len()], output })
    }
}

impl<B: OrderedKey, V: Value> AnyIncrementalMerge<B> for IncrementalMerge<B, V> {
    fn advance(
        mut self: Box<Self>,
        cpu: &Cpu,
        entries: usize,
    ) -> Result<AnyMergeProgress<B>, Error> {
        let left: Vec<Source<'_, B, V>> = self
            .runs
            .iter()
            .zip(&self.positions)
            .map(|(run, &position)| Source::from(run).slice(position..run.len()))
            .collect();
        // All remaining steps merge equally many entries.
        let total = total_len(&left);
        let steps = total.div_ceil(entries).max(1);
        let step = first_entries(&key_lists(&left), total.div_ceil(steps));
        self.output.append(cpu, &slices(&left, &step))?;
        self.positions.iter_mut().zip(&step).for_each(|(position, range)| *position += range.end);
        if self.positions.iter().zip(&self.runs).any(|(&position, run)| position < run.len()) {
            return Ok(MergeProgress::Partial(self));
        }
        self.output.into_run(cpu).map(MergeProgress::Done)
    }

    fn merges(&self, runs: &[Run<B>]) -> bool {
        self.runs.len() == runs.len()
            && self.runs.iter().zip(runs).all(|(own, run)| own.ptr_eq(run))
    }
}
