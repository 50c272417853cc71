//! The i-th key: one search over all runs at once.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::query::count::{GROUP, len};
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::PairsOut;
use crate::value::{Value, of_bytes_mut};

/// The live pair at each place in key order.
pub(crate) fn select<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    indices: &[u64],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let len = len(runs);
    each_pair(cpu, indices, out, |(): &mut (), indices, answer| {
        for &index in indices {
            answer((index < len).then(|| select_one(runs, index)));
        }
        Ok(())
    })
}

/// Answers every query with at most one pair. `ask` is given at most [`GROUP`] queries at a time, what it
/// remembers of those before in the same thread, and somewhere to put their answers, in order.
pub(crate) fn each_pair<S: Default, Q: Send + Sync, B: OrderedKey, V: Value>(
    cpu: &Cpu,
    queries: &[Q],
    out: PairsOut<'_, B>,
    ask: impl Fn(&mut S, &[Q], &mut dyn FnMut(Option<(B, V)>)) -> Result<(), Error> + Sync + Send,
) -> Result<(), Error> {
    let piece = cpu.workers.piece(queries.len());
    let values = of_bytes_mut(out.values, queries.len());
    let outputs = out.keys.chunks_mut(piece).zip(values.chunks_mut(piece));
    let tasks = queries.chunks(piece).zip(outputs).zip(out.found.chunks_mut(piece));
    cpu.workers.each(tasks, |((queries, (keys, values)), found)| {
        let mut places = keys.iter_mut().zip(values).zip(found);
        let mut known = S::default();
        for group in queries.chunks(GROUP) {
            ask(&mut known, group, &mut |pair| {
                let ((key, value), found) = places.next().expect("a place for every answer");
                *found = pair.is_some();
                (*key, *value) = pair.unwrap_or((B::default(), V::zeroed()));
            })?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The live pair that exactly `index` live keys are less than; there must be one.
///
/// Its key is the largest of all entries, live or not, that at most `index` live keys are less
/// than. The search narrows, for all runs together, the window of entries that may be it.
pub(crate) fn select_one<B: OrderedKey, V: Value>(runs: &[Run<B, V>], index: u64) -> (B, V) {
    if let [run] = runs {
        return (run.keys()[index as usize], run.values()[index as usize]);
    }
    let mut windows: Vec<Range<usize>> = runs.iter().map(|run| 0..run.len()).collect();
    let mut places = vec![0; runs.len()];
    // Live keys less than the starts and the ends of the windows.
    let (mut below, mut above) = (0, len(runs));
    for round in 0u32.. {
        let widest = (0..runs.len()).max_by_key(|&at| windows[at].len()).expect("there are runs");
        if windows[widest].is_empty() {
            break;
        }
        // Where the key would be if all were spread evenly; after a while every other time the middle, so
        // that uneven ones cost no more than twice the halving.
        let even = ((index - below) as f64 + 0.5) / (above - below) as f64;
        let share = if round > 3 && round % 2 == 1 { 0.5 } else { even };
        let guess = |window: &Range<usize>| {
            ((window.len() as f64 * share) as usize).min(window.len().saturating_sub(1))
        };
        let pivot = runs[widest].keys()[windows[widest].start + guess(&windows[widest])];
        for ((run, window), place) in runs.iter().zip(&windows).zip(&mut places) {
            let within = &run.keys()[window.clone()];
            let spread = (window.len() as f64 * share * (1.0 - share)).sqrt() * 4.0 + 8.0;
            *place = window.start + partition_near(within, guess(window), spread as usize, pivot);
        }
        let rank = rank_of(runs, places.iter().copied());
        if rank > index {
            windows.iter_mut().zip(&places).for_each(|(window, &place)| window.end = place);
            above = rank;
            continue;
        }
        // Past the pivot in every run, so that it is never looked at again.
        for ((run, window), &place) in runs.iter().zip(&mut windows).zip(&places) {
            window.start = place + usize::from(run.has_key_at(place, pivot));
        }
        below = rank_of(runs, windows.iter().map(|window| window.start));
        if below > index {
            break; // The pivot itself is the key.
        }
    }
    // The newest run decides, as ever: the first of those that have the largest key.
    let entry =
        |at: usize| windows[at].start.checked_sub(1).map(|last| (runs[at].keys()[last], last));
    let newest_of_largest = (0..runs.len())
        .filter_map(|at| entry(at).map(|(key, last)| (key, at, last)))
        .reduce(|best, other| if other.0 > best.0 { other } else { best });
    let (key, at, last) = newest_of_largest.expect("a live key has an entry");
    (key, runs[at].values()[last])
}

/// How many live keys come before these places of all runs, which are places of one key.
fn rank_of<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    places: impl Iterator<Item = usize>,
) -> u64 {
    let sums = runs.iter().zip(places).map(|(run, place)| run.sum_before(place));
    sums.sum::<i64>().cast_unsigned()
}

/// How many of the sorted keys are less than `key`: likely within `spread` of `guess`.
fn partition_near<B: OrderedKey>(keys: &[B], guess: usize, spread: usize, key: B) -> usize {
    let (start, end) = (guess.saturating_sub(spread), (guess + spread).min(keys.len()));
    let less =
        |range: Range<usize>| range.start + keys[range].partition_point(|&other| other < key);
    if start > 0 && keys[start - 1] >= key {
        less(0..start - 1)
    } else if end < keys.len() && keys[end] < key {
        less(end + 1..keys.len())
    } else {
        less(start..end)
    }
}
