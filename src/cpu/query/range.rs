//! Ranges: where each lies in every run is found first, which gives the size of every answer; then
//! each is merged into its place.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::Keep;
use crate::cpu::merge::block::Merger;
use crate::cpu::merge::dead::DeadStretches;
use crate::cpu::merge::source::Source;
use crate::cpu::query::count::{GROUP, count, find_windows};
use crate::cpu::query::select::select_one;
use crate::cpu::run::Run;
use crate::cpu::workers::cut;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Queries that are answered together: for so many, where they lie in every run is kept…
const TOGETHER: usize = 1 << 14;

/// …or for fewer, so that it takes no more than this part of what memory is free.
const WINDOW_PART: u64 = 2;

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
    offsets[0] = 0;
    for part in parts(lo.len(), at_a_time(cpu, size_of::<u64>())) {
        let mut counts = cpu.memory.zeroed::<u64>(part.len())?;
        count(cpu, runs, &lo[part.clone()], &hi[part.clone()], &mut counts)?;
        add_up(&counts, &mut offsets[part.start..=part.end]);
    }
    Ok(())
}

/// The offsets of all answers and, as long as there is room, the pairs of each at its offset.
pub(crate) fn range<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    (lo, hi): (&[B], &[B]),
    offsets: &mut [usize],
    keys: &mut [B],
    mut values: Option<&mut [V]>,
) -> Result<(), Error> {
    let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
    offsets[0] = 0;
    let query = size_of::<[usize; 2]>() * runs.len() + size_of::<u64>();
    for part in parts(lo.len(), at_a_time(cpu, query).min(TOGETHER)) {
        let (windows, counts) = find(cpu, runs, &lo[part.clone()], &hi[part.clone()])?;
        let offsets = &mut offsets[part.start..=part.end];
        add_up(&counts, offsets);
        let place = offsets[0]..offsets[counts.len()];
        if let Some(keys) = keys.get_mut(place.clone()) {
            let values = values.as_mut().map(|values| &mut values[place]);
            fill(cpu, runs, &sources, &windows, offsets, keys, values)?;
        }
    }
    Ok(())
}

/// How many queries, of so many bytes each, may be under way at a time.
fn at_a_time(cpu: &Cpu, query: usize) -> usize {
    let free = cpu.memory.budget().free().unwrap_or(u64::MAX) / WINDOW_PART;
    usize::try_from(free).unwrap_or(usize::MAX) / query
}

/// So many queries, `some` at a time, or one if there is not room even for that.
fn parts(len: usize, some: usize) -> impl Iterator<Item = Range<usize>> {
    let some = some.max(1);
    (0..len).step_by(some).map(move |start| start..len.min(start.saturating_add(some)))
}

/// Lays answers of these lengths end to end, from the first offset on.
fn add_up(counts: &[u64], offsets: &mut [usize]) {
    let mut end = offsets[0];
    for (offset, &count) in offsets[1..].iter_mut().zip(counts) {
        end += count as usize;
        *offset = end;
    }
}

/// Where ranges lie in runs: query by query the window of every run.
struct Windows {
    places: Buffer<[usize; 2]>,
    runs: usize,
}

impl Windows {
    /// Where in each run the range of this query lies.
    fn of(&self, query: usize) -> impl Iterator<Item = Range<usize>> + Clone {
        self.places[query * self.runs..][..self.runs].iter().map(|&[start, end]| start..end)
    }
}

/// Where every range lies in every run, and how many live keys it has.
fn find<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    lo: &[B],
    hi: &[B],
) -> Result<(Windows, Buffer<u64>), Error> {
    let mut windows =
        Windows { places: cpu.memory.zeroed(lo.len() * runs.len())?, runs: runs.len() };
    let mut counts = cpu.memory.zeroed::<u64>(lo.len())?;
    if runs.is_empty() {
        return Ok((windows, counts));
    }
    let piece = cpu.workers.piece(lo.len());
    let outputs = windows.places.chunks_mut(piece * runs.len()).zip(counts.chunks_mut(piece));
    let tasks = lo.chunks(piece).zip(hi.chunks(piece)).zip(outputs);
    cpu.workers.each(tasks, |((lo, hi), (windows, counts))| {
        let outputs = windows.chunks_mut(GROUP * runs.len()).zip(counts.chunks_mut(GROUP));
        for ((lo, hi), (windows, counts)) in lo.chunks(GROUP).zip(hi.chunks(GROUP)).zip(outputs) {
            let (mut starts, mut ends) = ([0; GROUP], [0; GROUP]);
            let (mut below, mut up_to) = ([0; GROUP], [0; GROUP]);
            for (index, run) in runs.iter().enumerate() {
                find_windows(run, lo, hi, &mut starts, &mut ends);
                for query in 0..counts.len() {
                    windows[query * runs.len() + index] = [starts[query], ends[query]];
                }
                run.add_sums(&starts[..counts.len()], &mut below);
                run.add_sums(&ends[..counts.len()], &mut up_to);
            }
            for (count, (below, up_to)) in counts.iter_mut().zip(below.iter().zip(&up_to)) {
                *count = (up_to - below) as u64;
            }
        }
        Ok(())
    })?;
    Ok((windows, counts))
}

/// The pairs of every range. `keys` and `values` begin with the first answer.
fn fill<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    sources: &[Source<'_, B, V>],
    windows: &Windows,
    offsets: &[usize],
    keys: &mut [B],
    values: Option<&mut [V]>,
) -> Result<(), Error> {
    let tasks = plan(cpu, runs, windows, offsets);
    let keys = cut(keys, tasks.iter().map(|task| task.len));
    let values = match values {
        Some(values) => cut(values, tasks.iter().map(|task| task.len)),
        None => tasks.iter().map(|_| &mut [][..]).collect(),
    };
    cpu.workers.each(tasks.iter().zip(keys).zip(values), |((task, keys), values)| {
        let mut merger = Merger::new(cpu, sources, Keep::Live)?;
        let mut dead = DeadStretches::default();
        match &task.work {
            Work::Part(windows) => {
                let windows = windows.iter().cloned();
                merger.answer(sources, windows, keys, values, &mut dead)
            }
            Work::Queries(queries) => {
                let mut answers = Answers { keys, values };
                for query in queries.clone() {
                    if query + 1 < queries.end {
                        ask_for(runs, windows.of(query + 1));
                    }
                    let (keys, values) = answers.next(offsets[query + 1] - offsets[query]);
                    let windows = windows.of(query);
                    merger.answer(sources, windows, keys, values, &mut dead)?;
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
    windows: &Windows,
    offsets: &[usize],
) -> Vec<Task> {
    let queries = offsets.len() - 1;
    let len_of = |queries: &Range<usize>| offsets[queries.end] - offsets[queries.start];
    // A query costs about as much as a few dozen pairs, even if it finds none.
    let piece = cpu.workers.piece(queries * 32 + len_of(&(0..queries)));
    let mut tasks = Vec::new();
    let mut query = 0;
    while query < queries {
        let mut together = query..query + 1;
        if len_of(&together) > LONG {
            let len = len_of(&together);
            tasks.extend(share_out(runs, windows.of(query).collect(), len, cpu.workers.parts(len)));
        } else {
            let cost = |together: &Range<usize>| together.len() * 32 + len_of(together);
            while together.end < queries
                && cost(&together) < piece
                && len_of(&(together.end..together.end + 1)) <= LONG
            {
                together.end += 1;
            }
            tasks.push(Task { len: len_of(&together), work: Work::Queries(together.clone()) });
        }
        query = together.end;
    }
    tasks
}

/// Cuts an answer of `len` pairs into parts of about as many pairs each, however unevenly stale entries lie
/// among them.
fn share_out<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    whole: Vec<Range<usize>>,
    len: usize,
    parts: usize,
) -> impl Iterator<Item = Task> {
    let below: i64 = runs.iter().zip(&whole).map(|(run, range)| run.sum_before(range.start)).sum();
    let mut starts: Vec<usize> = whole.iter().map(|range| range.start).collect();
    (1..=parts).map(move |part| {
        let ends: Vec<usize> = if part == parts {
            whole.iter().map(|range| range.end).collect()
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

/// Brings the first entries of a range near.
fn ask_for<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    window: impl Iterator<Item = Range<usize>>,
) {
    for (run, range) in runs.iter().zip(window) {
        run.prefetch_entries(range);
    }
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
