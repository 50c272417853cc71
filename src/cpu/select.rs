//! The i-th key: one search over all runs at once.

use std::ops::Range;

use crate::cpu::Cpu;
use crate::cpu::count::{GROUP, len};
use crate::cpu::run::Run;
use crate::device::PairsOut;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::{Value, of_bytes_mut};

/// The live pair at each place in key order.
pub(crate) fn select<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    indices: &[u64],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let len = len(runs);
    each_pair(cpu, indices, out, |indices, answer| {
        for &index in indices {
            answer((index < len).then(|| select_one(runs, index)));
        }
        Ok(())
    })
}

/// Answers every query with at most one pair. `ask` is given at most [`GROUP`] queries at a time, and
/// somewhere to put their answers, in order.
pub(crate) fn each_pair<Q: Send + Sync, B: OrderedKey, V: Value>(
    cpu: &Cpu,
    queries: &[Q],
    out: PairsOut<'_, B>,
    ask: impl Fn(&[Q], &mut dyn FnMut(Option<(B, V)>)) -> Result<(), Error> + Sync + Send,
) -> Result<(), Error> {
    let piece = cpu.workers.piece(queries.len());
    let values = of_bytes_mut(out.values, queries.len());
    let outputs = out.keys.chunks_mut(piece).zip(values.chunks_mut(piece));
    let tasks = queries.chunks(piece).zip(outputs).zip(out.found.chunks_mut(piece));
    cpu.workers.each(tasks, |((queries, (keys, values)), found)| {
        let mut places = keys.iter_mut().zip(values).zip(found);
        for group in queries.chunks(GROUP) {
            ask(group, &mut |pair| {
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
/// than. The search halves, for all runs together, the window of entries that may be it.
pub(crate) fn select_one<B: OrderedKey, V: Value>(runs: &[Run<B, V>], index: u64) -> (B, V) {
    if let [run] = runs {
        return (run.keys()[index as usize], run.values()[index as usize]);
    }
    let mut windows: Vec<Range<usize>> = runs.iter().map(|run| 0..run.len()).collect();
    let mut places = vec![0; runs.len()];
    loop {
        let widest = (0..runs.len()).max_by_key(|&at| windows[at].len()).expect("there are runs");
        if windows[widest].is_empty() {
            break;
        }
        let middle = windows[widest].start + windows[widest].len() / 2;
        let pivot = runs[widest].keys()[middle];
        let mut rank = 0;
        for ((run, window), place) in runs.iter().zip(&windows).zip(&mut places) {
            let within = &run.keys()[window.clone()];
            *place = window.start + within.partition_point(|&key| key < pivot);
            rank += run.sum_before(*place);
        }
        for ((run, window), &place) in runs.iter().zip(&mut windows).zip(&places) {
            if rank as u64 <= index {
                // Past the pivot in every run, so that it is never looked at again.
                window.start = place + usize::from(run.has_key_at(place, pivot));
            } else {
                window.end = place;
            }
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
