//! Ranges: the size of every answer is known before it is written, so each is merged into its place.

use std::ops::Range;

use crate::cpu::Cpu;
use crate::cpu::block::Merger;
use crate::cpu::count::count;
use crate::cpu::merge::split;
use crate::cpu::run::Run;
use crate::cpu::source::Source;
use crate::cpu::workers::cut;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// An answer longer than this is written by several threads.
const LONG: usize = 1 << 16;

/// Where each answer begins when all are laid end to end, and where the last one ends.
pub(crate) fn range_offsets<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    lo: &[B],
    hi: &[B],
    offsets: &mut [usize],
) -> Result<(), Error> {
    let mut counts = cpu.memory.zeroed::<u64>(lo.len())?;
    count(cpu, runs, lo, hi, &mut counts)?;
    let mut end = 0;
    offsets[0] = 0;
    for (offset, &count) in offsets[1..].iter_mut().zip(counts.iter()) {
        end += count as usize;
        *offset = end;
    }
    Ok(())
}

/// The pairs of every range, each answer at its offset.
pub(crate) fn range_fill<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    (lo, hi): (&[B], &[B]),
    offsets: &[usize],
    keys: &mut [B],
    values: Option<&mut [V]>,
) -> Result<(), Error> {
    let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
    let tasks = plan(cpu, runs, &sources, (lo, hi), offsets);
    let keys = cut(keys, tasks.iter().map(|task| task.len));
    let values = match values {
        Some(values) => cut(values, tasks.iter().map(|task| task.len)),
        None => tasks.iter().map(|_| &mut [][..]).collect(),
    };
    cpu.workers.each(tasks.iter().zip(keys).zip(values), |((task, keys), values)| {
        let mut merger = Merger::new(cpu, &sources)?;
        match &task.work {
            Work::Part(ranges) => merger.answer(&slices(&sources, ranges), keys, values),
            Work::Queries(queries) => {
                let mut answers = Answers { keys, values };
                for query in queries.clone() {
                    let window = window(runs, lo[query], hi[query]);
                    let (keys, values) = answers.next(offsets[query + 1] - offsets[query]);
                    merger.answer(&slices(&sources, &window), keys, values)?;
                }
                Ok(())
            }
        }
    })?;
    Ok(())
}

/// The part of an answer, or the answers, that one thread writes: `len` pairs.
struct Task {
    len: usize,
    work: Work,
}

enum Work {
    /// Whole answers.
    Queries(Range<usize>),
    /// A part of one long answer: these entries of each run.
    Part(Vec<Range<usize>>),
}

/// Shares the answers out: short ones by the dozen, long ones in parts.
fn plan<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    sources: &[Source<'_, B, V>],
    (lo, hi): (&[B], &[B]),
    offsets: &[usize],
) -> Vec<Task> {
    let piece = cpu.workers.piece(lo.len());
    let len_of = |queries: &Range<usize>| offsets[queries.end] - offsets[queries.start];
    let mut tasks = Vec::new();
    let mut query = 0;
    while query < lo.len() {
        let mut queries = query..query + 1;
        if len_of(&queries) > LONG {
            let window = window(runs, lo[query], hi[query]);
            for part in split(&slices(sources, &window), cpu.workers.parts(len_of(&queries))) {
                let place = |(part, run): (Range<usize>, &Range<usize>)| {
                    run.start + part.start..run.start + part.end
                };
                let part: Vec<Range<usize>> = part.into_iter().zip(&window).map(place).collect();
                tasks.push(Task { len: live_in(runs, &part), work: Work::Part(part) });
            }
        } else {
            let fits = |queries: &Range<usize>| {
                queries.end < lo.len() && queries.len() < piece && len_of(queries) < LONG / 4
            };
            while fits(&queries) && len_of(&(queries.end..queries.end + 1)) <= LONG {
                queries.end += 1;
            }
            tasks.push(Task { len: len_of(&queries), work: Work::Queries(queries.clone()) });
        }
        query = queries.end;
    }
    tasks
}

/// The entries of each run whose keys are in the closed range.
fn window<B: OrderedKey, V: Value>(runs: &[Run<B, V>], lo: B, hi: B) -> Vec<Range<usize>> {
    let bounds = |run: &Run<B, V>| {
        let start = run.lower_bound(lo);
        start..run.upper_bound(hi).max(start)
    };
    runs.iter().map(bounds).collect()
}

fn slices<'a, B, V>(
    sources: &[Source<'a, B, V>],
    ranges: &[Range<usize>],
) -> Vec<Source<'a, B, V>> {
    sources.iter().zip(ranges).map(|(source, range)| source.slice(range.clone())).collect()
}

/// How many keys are live in a window.
fn live_in<B: OrderedKey, V: Value>(runs: &[Run<B, V>], window: &[Range<usize>]) -> usize {
    let sum = |(run, range): (&Run<B, V>, &Range<usize>)| {
        run.sum_before(range.end) - run.sum_before(range.start)
    };
    runs.iter().zip(window).map(sum).sum::<i64>() as usize
}

/// Buffers that answers are laid into end to end.
struct Answers<'a, B, V> {
    keys: &'a mut [B],
    /// Empty where they are not wanted.
    values: &'a mut [V],
}

impl<'a, B, V> Answers<'a, B, V> {
    fn next(&mut self, len: usize) -> (&'a mut [B], &'a mut [V]) {
        let keys = self.keys.split_off_mut(..len).expect("room for every answer");
        (keys, self.values.split_off_mut(..len).unwrap_or_default())
    }
}
