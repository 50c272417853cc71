//! Stretches of keys of which none is live: skipped by rank rather than read.
//!
//! Where neighbours were deleted, runs hold their entries and their tombstones until they are merged. The
//! running sums of the marks tell how many live keys lie between any two places, so that the next live key
//! is found by searching, however many dead ones lie before it.

use std::ops::Range;

use crate::cpu::run::Run;
use crate::key::OrderedKey;
use crate::value::Value;

/// How far ahead the search for the next live key looks first.
const STRIDE: usize = 64;

/// So many stretches are remembered.
const REMEMBERED: usize = 1 << 10;

/// Stretches without a live key that were found while a batch of ranges was answered: others of them may
/// cross the same ones.
#[derive(Default)]
pub(crate) struct DeadStretches<B> {
    /// In key order.
    stretches: Vec<Stretch<B>>,
}

struct Stretch<B> {
    first: B,
    /// The live key that ends it…
    end: B,
    /// …and where that is in every run.
    places: Vec<usize>,
}

impl<B: OrderedKey> DeadStretches<B> {
    /// Moves these places to the first live key from there on. There must be one before the ends.
    pub fn skip<V: Value>(&mut self, runs: &[Run<B, V>], at: &mut [usize], ends: &[usize]) {
        let key = next_key(runs, at, ends);
        let after = self.stretches.partition_point(|stretch| stretch.first <= key);
        let before = self.stretches[..after].last();
        if let Some(stretch) = before.filter(|stretch| key < stretch.end) {
            at.copy_from_slice(&stretch.places);
            return;
        }
        let (end, places) = next_live(runs, at, ends);
        at.copy_from_slice(&places);
        // One that begins later in the same stretch is part of this one.
        if let Some(stretch) = self.stretches.get_mut(after).filter(|later| later.end == end) {
            stretch.first = key;
        } else if self.stretches.len() < REMEMBERED {
            self.stretches.insert(after, Stretch { first: key, end, places });
        }
    }
}

/// How many keys are live in these parts of the runs, which end before the same key.
pub(crate) fn live_in<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    ranges: &[Range<usize>],
) -> usize {
    let sum = |(run, range): (&Run<B, V>, &Range<usize>)| {
        run.sum_before(range.end) - run.sum_before(range.start)
    };
    runs.iter().zip(ranges).map(sum).sum::<i64>() as usize
}

/// The least key at these places, of runs that have one before the end; there is one.
fn next_key<B: OrderedKey, V: Value>(runs: &[Run<B, V>], at: &[usize], ends: &[usize]) -> B {
    let places = runs.iter().zip(at.iter().zip(ends));
    let keys = places.filter(|(_, (at, end))| at < end).map(|(run, (&at, _))| run.keys()[at]);
    keys.min().expect("a live key is in some run")
}

/// The first live key from these places on, and where it is in every run. There must be one before the ends.
fn next_live<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    at: &[usize],
    ends: &[usize],
) -> (B, Vec<usize>) {
    let rank = |places: &[usize]| -> i64 {
        runs.iter().zip(places).map(|(run, &place)| run.sum_before(place)).sum()
    };
    let here = rank(at);
    let (mut starts, mut ends) = (at.to_vec(), ends.to_vec());
    // Strides that grow until they go past it; then what is left is halved.
    let mut stride = STRIDE;
    loop {
        let widest = (0..runs.len()).max_by_key(|&run| ends[run] - starts[run]);
        let widest = widest.expect("a live key is in some run");
        let ahead = stride.min((ends[widest] - starts[widest]) / 2);
        let pivot = runs[widest].keys()[starts[widest] + ahead];
        let places: Vec<usize> = (0..runs.len())
            .map(|run| starts[run] + lower_bound(&runs[run].keys()[starts[run]..ends[run]], pivot))
            .collect();
        if rank(&places) > here {
            (ends, stride) = (places, usize::MAX);
            continue;
        }
        let past: Vec<usize> = runs
            .iter()
            .zip(&places)
            .map(|(run, &place)| place + usize::from(run.has_key_at(place, pivot)))
            .collect();
        if rank(&past) > here {
            return (pivot, places);
        }
        (starts, stride) = (past, stride.saturating_mul(4));
    }
}

/// How many of the sorted keys are less: soon found, if they are few.
fn lower_bound<B: OrderedKey>(keys: &[B], key: B) -> usize {
    let mut end = 1;
    while keys.get(end - 1).is_some_and(|&other| other < key) {
        end *= 2;
    }
    let start = end / 2;
    start + keys[start..keys.len().min(end)].partition_point(|&other| other < key)
}
