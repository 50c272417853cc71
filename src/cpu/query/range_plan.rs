//! Which thread writes which part of the answers to a batch of range queries.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::query::select::select_one;
use crate::cpu::run::Run;
use crate::key::OrderedKey;
use crate::value::Value;

/// An answer with more pairs than this is written by several threads.
const MAX_PAIRS_PER_TASK: usize = 1 << 16;

/// The cost of a query in addition to its pairs, as a number of pairs.
const QUERY_COST: usize = 32;

/// Where ranges lie in the runs.
pub(crate) struct Windows {
    /// The window of every run for the first query, for the second, and so on.
    pub bounds: Buffer<[usize; 2]>,
    pub runs: usize,
}

impl Windows {
    /// Returns the window of each run for this query.
    pub fn of(&self, query: usize) -> impl Iterator<Item = Range<usize>> + Clone {
        self.bounds[query * self.runs..][..self.runs].iter().map(|&[start, end]| start..end)
    }
}

/// What one thread writes.
pub(crate) struct Task {
    /// The number of pairs.
    pub len: usize,
    pub work: Work,
}

pub(crate) enum Work {
    /// The whole answers to these queries.
    Queries(Range<usize>),
    /// A part of one long answer: the live entries of a window of each run.
    Part(Vec<Range<usize>>),
}

/// Divides the answers, which begin at these offsets, into tasks: many short answers in one, or one
/// long answer in several.
pub(crate) fn plan<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    windows: &Windows,
    offsets: &[u64],
) -> Vec<Task> {
    let queries = offsets.len() - 1;
    let len_of = |queries: &Range<usize>| (offsets[queries.end] - offsets[queries.start]) as usize;
    let cost_of = |queries: &Range<usize>| queries.len() * QUERY_COST + len_of(queries);
    let max_cost = cpu.workers.chunk_len(cost_of(&(0..queries)));
    let mut tasks = Vec::new();
    let mut query = 0;
    while query < queries {
        let mut group = query..query + 1;
        let len = len_of(&group);
        if len > MAX_PAIRS_PER_TASK {
            tasks.extend(split(runs, windows.of(query).collect(), len, cpu.workers.parts(len)));
        } else {
            while group.end < queries
                && cost_of(&group) < max_cost
                && len_of(&(group.end..group.end + 1)) <= MAX_PAIRS_PER_TASK
            {
                group.end += 1;
            }
            tasks.push(Task { len: len_of(&group), work: Work::Queries(group.clone()) });
        }
        query = group.end;
    }
    tasks
}

/// Splits an answer of `len` pairs into parts of equally many pairs, however unevenly stale entries
/// are distributed.
fn split<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    windows: Vec<Range<usize>>,
    len: usize,
    parts: usize,
) -> impl Iterator<Item = Task> {
    let below: i64 =
        runs.iter().zip(&windows).map(|(run, window)| run.sum_before(window.start)).sum();
    let mut starts: Vec<usize> = windows.iter().map(|window| window.start).collect();
    (1..=parts).map(move |part| {
        let ends: Vec<usize> = if part == parts {
            windows.iter().map(|window| window.end).collect()
        } else {
            let index = below as u64 + (len / parts * part) as u64;
            let (key, _) = select_one(runs, index);
            runs.iter().map(|run| run.lower_bound(key)).collect()
        };
        let starts = std::mem::replace(&mut starts, ends.clone());
        let len = if part == parts { len - len / parts * (parts - 1) } else { len / parts };
        Task { len, work: Work::Part(starts.into_iter().zip(ends).map(|(s, e)| s..e).collect()) }
    })
}
