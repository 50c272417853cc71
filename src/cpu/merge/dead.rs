//! Stretches of keys of which none is live: skipped by rank rather than read.
//!
//! Where neighbours were deleted, runs hold their entries and their tombstones until they are merged. The
//! running sums of the marks tell how many live keys lie between any two places, so that the next live key
//! is found by searching, however many dead ones lie before it.

use std::ops::Range;

use crate::cpu::merge::source::Source;
use crate::key::OrderedKey;

/// How far ahead the search for the next live key looks first.
const STRIDE: usize = 64;

/// How many stretches are remembered.
const REMEMBERED: usize = 1 << 12;

/// Stretches without a live key that were found while a batch of ranges was answered: others of them may
/// cross the same ones.
#[derive(Default)]
pub(crate) struct DeadStretches<B> {
    /// In key order.
    stretches: Vec<Stretch<B>>,
    /// Room for the walk through a range, reused from one to the next.
    pub walk: Walk,
}

/// How far an answer has come in every run, where its windows end, and the block that comes next.
#[derive(Default)]
pub(crate) struct Walk {
    pub at: Vec<usize>,
    pub ends: Vec<usize>,
    pub block: Vec<Range<usize>>,
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
    pub fn skip<V>(&mut self, runs: &[Source<'_, B, V>], at: &mut [usize], ends: &[usize]) {
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

/// How many keys are live in these parts of the runs, which have the same keys.
pub(crate) fn live_in<B, V>(runs: &[Source<'_, B, V>], parts: &[Range<usize>]) -> usize {
    runs.iter().zip(parts).map(|(run, part)| run.live_in(part.clone())).sum::<i64>() as usize
}

/// The least key at these places, of runs that have one before the end; there is one.
fn next_key<B: OrderedKey, V>(runs: &[Source<'_, B, V>], at: &[usize], ends: &[usize]) -> B {
    let places = runs.iter().zip(at.iter().zip(ends));
    let keys = places.filter(|(_, (at, end))| at < end).map(|(run, (&at, _))| run.keys[at]);
    keys.min().expect("a live key is in some run")
}

/// The first live key from these places on, and where it is in every run. There must be one before the ends.
fn next_live<B: OrderedKey, V>(
    runs: &[Source<'_, B, V>],
    at: &[usize],
    ends: &[usize],
) -> (B, Vec<usize>) {
    let has_live = |starts: &[usize], ends: &[usize]| {
        let parts = starts.iter().zip(ends).map(|(&start, &end)| start..end);
        runs.iter().zip(parts).map(|(run, part)| run.live_in(part)).sum::<i64>() > 0
    };
    let (mut starts, mut ends) = (at.to_vec(), ends.to_vec());
    // Strides that grow until they go past it; then what is left is halved.
    let mut stride = STRIDE;
    loop {
        let widest = (0..runs.len()).max_by_key(|&run| ends[run] - starts[run]);
        let widest = widest.expect("a live key is in some run");
        let ahead = stride.min((ends[widest] - starts[widest]) / 2);
        let pivot = runs[widest].keys[starts[widest] + ahead];
        let places: Vec<usize> = (0..runs.len())
            .map(|run| starts[run] + lower_bound(&runs[run].keys[starts[run]..ends[run]], pivot))
            .collect();
        if has_live(&starts, &places) {
            (ends, stride) = (places, usize::MAX);
            continue;
        }
        let has_pivot = |run: usize| usize::from(runs[run].keys.get(places[run]) == Some(&pivot));
        let past: Vec<usize> = (0..runs.len()).map(|run| places[run] + has_pivot(run)).collect();
        if has_live(&places, &past) {
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
