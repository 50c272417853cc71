//! An incremental merge: what lies between two keys at a time.

use crate::cpu::context::Cpu;
use crate::cpu::merge::source::Source;
use crate::cpu::merge::{Keep, Merged, cut_off, slices};
use crate::cpu::run::Run;
use crate::engine::MergeProgress;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// A merge of runs that is under way.
pub(crate) struct Merge<B, V> {
    runs: Vec<Run<B, V>>,
    /// How many entries of each are merged.
    at: Vec<usize>,
    keep: Keep,
    merged: Merged<B, V>,
}

impl<B: OrderedKey, V: Value> Merge<B, V> {
    /// Starts one, with nothing merged yet.
    pub fn new(cpu: &Cpu, runs: &[Run<B, V>], older: &[Run<B, V>]) -> Result<Self, Error> {
        // Where no run has marks, all entries are new, and stay so.
        let is_new = runs.iter().all(|run| run.marks().is_none());
        let keep = if older.is_empty() || is_new { Keep::Live } else { Keep::Marked };
        let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
        let merged = Merged::with_room_for(cpu, &sources, keep)?;
        Ok(Merge { runs: runs.to_vec(), at: vec![0; runs.len()], keep, merged })
    }

    /// Merges about this many entries more.
    pub fn advance(
        mut self,
        cpu: &Cpu,
        entries: usize,
    ) -> Result<MergeProgress<Self, Run<B, V>>, Error> {
        let left: Vec<Source<'_, B, V>> = self
            .runs
            .iter()
            .zip(&self.at)
            .map(|(run, &at)| Source::from(run).slice(at..run.len()))
            .collect();
        // This slice and those that come after it are equally long.
        let total: usize = left.iter().map(|source| source.keys.len()).sum();
        let slice = cut_off(&left, total.div_ceil(total.div_ceil(entries).max(1)));
        self.merged.append(cpu, &slices(&left, &slice), self.keep)?;
        self.at.iter_mut().zip(&slice).for_each(|(at, range)| *at += range.end);
        if self.at.iter().zip(&self.runs).any(|(&at, run)| at < run.len()) {
            return Ok(MergeProgress::Partial(self));
        }
        let Merged { keys, values, marks, len } = self.merged;
        Run::build(cpu, keys, values, marks.as_deref(), len).map(MergeProgress::Done)
    }

    /// Returns whether these are the runs that it merges.
    pub fn merges(&self, runs: &[Run<B, V>]) -> bool {
        self.runs.len() == runs.len() && self.runs.iter().zip(runs).all(|(own, run)| own.is(run))
    }
}
