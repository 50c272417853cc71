//! The i-th live key: one search over all runs at once.

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::query::count::{len, rank_at};
use crate::cpu::query::pairs::answer_each;
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::PairsOut;
use crate::value::Value;

/// An entry of one of the runs.
pub(crate) struct Entry<'a, B> {
    pub key: B,
    pub run: &'a Run<B>,
    pub position: usize,
}

impl<B: OrderedKey> Entry<'_, B> {
    #[inline]
    pub fn is_live(&self) -> bool {
        self.run.mark(self.position).is_live()
    }

    /// Returns the key and its value.
    #[inline]
    pub fn pair<V: Value>(&self) -> (B, V) {
        (self.key, self.run.values()[self.position])
    }
}

/// Finds the live pair at each index in key order.
pub(crate) fn select<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    indices: &[u64],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let len = len(runs);
    let chunk = cpu.workers.chunk_len(indices.len());
    answer_each(cpu, chunk, indices, out, |(): &mut (), indices, mut answers| {
        for (query, &index) in indices.iter().enumerate() {
            answers.write(query, (index < len).then(|| select_one(runs, index).pair::<V>()));
        }
        Ok(())
    })
}

/// Returns the live entry whose rank is `index`, which must be less than the number of live keys.
///
/// Its key is the largest of all entries, live or not, with a rank of at most `index`. The search
/// narrows the windows of entries, one in each run, that may have this key.
pub(crate) fn select_one<B: OrderedKey>(runs: &[Run<B>], index: u64) -> Entry<'_, B> {
    if let [run] = runs {
        return Entry { key: run.keys()[index as usize], run, position: index as usize };
    }
    let mut windows: Vec<Range<usize>> = runs.iter().map(|run| 0..run.len()).collect();
    let mut positions = vec![0; runs.len()];
    // The ranks of the starts and of the ends of the windows.
    let (mut below, mut above) = (0, len(runs));
    for round in 0u32.. {
        let widest = (0..runs.len()).max_by_key(|&at| windows[at].len()).expect("there are runs");
        if windows[widest].is_empty() {
            break;
        }
        // Interpolates, as if the live keys were spread evenly. After four rounds, every other
        // round takes the middle instead, so that unevenly spread keys take at most twice as many
        // rounds as a binary search.
        let interpolated = ((index - below) as f64 + 0.5) / (above - below) as f64;
        let share = if round > 3 && round % 2 == 1 { 0.5 } else { interpolated };
        let guess = |window: &Range<usize>| {
            ((window.len() as f64 * share) as usize).min(window.len().saturating_sub(1))
        };
        let pivot = runs[widest].keys()[windows[widest].start + guess(&windows[widest])];
        for ((run, window), position) in runs.iter().zip(&windows).zip(&mut positions) {
            let keys = &run.keys()[window.clone()];
            let spread = (window.len() as f64 * share * (1.0 - share)).sqrt() * 4.0 + 8.0;
            *position =
                window.start + lower_bound_near(keys, guess(window), spread as usize, pivot);
        }
        let rank = rank_at(runs, positions.iter().copied());
        if rank > index {
            windows
                .iter_mut()
                .zip(&positions)
                .for_each(|(window, &position)| window.end = position);
            above = rank;
            continue;
        }
        // The next windows begin after the pivot.
        for ((run, window), &position) in runs.iter().zip(&mut windows).zip(&positions) {
            window.start = position + usize::from(run.has_key_at(position, pivot));
        }
        below = rank_at(runs, windows.iter().map(|window| window.start));
        if below > index {
            break; // The pivot itself is the key.
        }
    }
    let starts = windows.iter().map(|window| window.start);
    last_entry_before(runs, starts).expect("a live key has an entry")
}

/// Returns the last entry, in key order, before these positions, one in each run. If several runs hold
/// its key, the newest decides.
#[inline]
pub(crate) fn last_entry_before<B: OrderedKey>(
    runs: &[Run<B>],
    positions: impl Iterator<Item = usize>,
) -> Option<Entry<'_, B>> {
    let entries = runs.iter().zip(positions).filter_map(|(run, position)| {
        let last = position.checked_sub(1)?;
        Some(Entry { key: run.keys()[last], run, position: last })
    });
    entries.reduce(|best, other| if other.key > best.key { other } else { best })
}

/// Returns how many of the sorted keys are less than `key`; fast if that is within `spread` of
/// `guess`.
#[inline]
fn lower_bound_near<B: OrderedKey>(keys: &[B], guess: usize, spread: usize, key: B) -> usize {
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
