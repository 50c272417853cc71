//! Which thread answers which part of a batch of queries that read the pairs of ranges.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::query::select::select_one;
use crate::cpu::query::windows::Windows;
use crate::cpu::run::Run;
use crate::key::OrderedKey;

/// A range with more pairs than this is read by several threads.
const MAX_PAIRS_PER_TASK: usize = 1 << 16;

/// The cost of a query in addition to its pairs, as a number of pairs.
const QUERY_COST: usize = 32;

/// What one thread answers.
pub(crate) struct Task {
    /// The number of pairs.
    pub len: usize,
    /// The queries that it answers, or the one of which it answers a part.
    pub queries: Range<usize>,
    /// That part: the live entries of a window of each run.
    pub part: Option<Vec<Range<usize>>>,
}

/// Divides queries, each of which reads so many pairs, into tasks: many short ones in one task, or a
/// long one in several.
pub(crate) fn plan<B: OrderedKey>(
    cpu: &Cpu,
    runs: &[Run<B>],
    windows: &Windows,
    counts: &[u64],
) -> Vec<Task> {
    let total: u64 = counts.iter().sum();
    let max_cost = cpu.workers.chunk_len(counts.len() * QUERY_COST + total as usize);
    let is_long = |query: usize| counts[query] > MAX_PAIRS_PER_TASK as u64;
    let mut tasks = Vec::new();
    let mut query = 0;
    while query < counts.len() {
        if is_long(query) {
            let len = counts[query] as usize;
            tasks.extend(split(runs, windows, query, len, cpu.workers.parts(len)));
            query += 1;
            continue;
        }
        let (start, mut len, mut cost) = (query, 0, 0);
        while query < counts.len() && !is_long(query) && cost < max_cost {
            len += counts[query] as usize;
            query += 1;
            cost = (query - start) * QUERY_COST + len;
        }
        tasks.push(Task { len, queries: start..query, part: None });
    }
    tasks
}

/// Splits a query that reads `len` pairs into parts of equally many pairs, however unevenly stale
/// entries are distributed.
fn split<B: OrderedKey>(
    runs: &[Run<B>],
    windows: &Windows,
    query: usize,
    len: usize,
    parts: usize,
) -> impl Iterator<Item = Task> {
    let windows: Vec<Range<usize>> = windows.of(query).collect();
    let below: i64 =
        runs.iter().zip(&windows).map(|(run, window)| run.sum_before(window.start)).sum();
    let mut starts: Vec<usize> = windows.iter().map(|window| window.start).collect();
    (1..=parts).map(move |part| {
        let ends: Vec<usize> = if part == parts {
            windows.iter().map(|window| window.end).collect()
        } else {
            let index = below as u64 + (len / parts * part) as u64;
            let key = select_one(runs, index).key;
            runs.iter().map(|run| run.lower_bound(key)).collect()
        };
        let starts = std::mem::replace(&mut starts, ends.clone());
        let len = if part == parts { len - len / parts * (parts - 1) } else { len / parts };
        let part = starts.into_iter().zip(ends).map(|(start, end)| start..end).collect();
        Task { len, queries: query..query + 1, part: Some(part) }
    })
}
