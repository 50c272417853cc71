//! Dead stretches: ranges of keys none of which is live. They are skipped by rank instead of being
//! read.
//!
//! If neighbouring keys are deleted, the runs hold their entries and tombstones until these are
//! merged. The running sums of the marks tell how many live keys lie between any two positions, so
//! the next live key is found by searching, however many dead keys come before it.

use std::ops::Range;

use crate::cpu::merge::source::Source;
use crate::key::OrderedKey;

/// How far ahead the search for the next live key looks first.
const FIRST_STRIDE: usize = 64;

/// The most dead stretches that are cached.
const CAPACITY: usize = 1 << 12;

/// Dead stretches that were found while a batch of range queries was answered: other queries may cross
/// the same ones.
#[derive(Default)]
pub(crate) struct DeadStretches<B> {
    /// In key order.
    ranges: Vec<DeadRange<B>>,
}

struct DeadRange<B> {
    /// The first key that is known to be in the range.
    first: B,
    /// The live key that ends it…
    end: B,
    /// …and its position in every run.
    positions: Vec<usize>,
}

impl<B: OrderedKey> DeadStretches<B> {
    /// Moves the positions, one in each run, to the next live key. There must be one before the
    /// ends.
    pub fn skip<V>(&mut self, runs: &[Source<'_, B, V>], positions: &mut [usize], ends: &[usize]) {
        let key = next_key(runs, positions, ends);
        let after = self.ranges.partition_point(|range| range.first <= key);
        let before = self.ranges[..after].last();
        if let Some(range) = before.filter(|range| key < range.end) {
            positions.copy_from_slice(&range.positions);
            return;
        }
        let (end, found) = next_live(runs, positions, ends);
        positions.copy_from_slice(&found);
        // The next cached range may be the rest of this one.
        if let Some(range) = self.ranges.get_mut(after).filter(|later| later.end == end) {
            range.first = key;
        } else if self.ranges.len() < CAPACITY {
            self.ranges.insert(after, DeadRange { first: key, end, positions: found });
        }
    }
}

/// Returns how many live keys these parts of the runs hold; the parts must lie between the same two
/// keys.
#[inline]
pub(crate) fn count_live<B, V>(
    runs: &[Source<'_, B, V>],
    parts: impl Iterator<Item = Range<usize>>,
) -> usize {
    runs.iter().zip(parts).map(|(run, part)| run.live_in(part)).sum::<i64>() as usize
}

/// Returns the least key at these positions that are before the ends; there must be one.
#[inline]
fn next_key<B: OrderedKey, V>(runs: &[Source<'_, B, V>], positions: &[usize], ends: &[usize]) -> B {
    let windows = runs.iter().zip(positions.iter().zip(ends));
    let keys = windows
        .filter(|(_, (position, end))| position < end)
        .map(|(run, (&position, _))| run.keys[position]);
    keys.min().expect("some run holds a live key")
}

/// Returns the next live key from these positions on, and its position in every run. There must be
/// one before the ends.
fn next_live<B: OrderedKey, V>(
    runs: &[Source<'_, B, V>],
    positions: &[usize],
    ends: &[usize],
) -> (B, Vec<usize>) {
    let has_live = |starts: &[usize], ends: &[usize]| {
        count_live(runs, starts.iter().zip(ends).map(|(&start, &end)| start..end)) > 0
    };
    let (mut starts, mut ends) = (positions.to_vec(), ends.to_vec());
    // A galloping search: the strides grow until one goes past the live key; from then on the
    // windows are halved.
    let mut stride = FIRST_STRIDE;
    loop {
        let widest = (0..runs.len()).max_by_key(|&run| ends[run] - starts[run]);
        let widest = widest.expect("some run holds a live key");
        let ahead = stride.min((ends[widest] - starts[widest]) / 2);
        let pivot = runs[widest].keys[starts[widest] + ahead];
        let before: Vec<usize> = (0..runs.len())
            .map(|run| starts[run] + lower_bound(&runs[run].keys[starts[run]..ends[run]], pivot))
            .collect();
        if has_live(&starts, &before) {
            (ends, stride) = (before, usize::MAX);
            continue;
        }
        let has_pivot = |run: usize| usize::from(runs[run].keys.get(before[run]) == Some(&pivot));
        let past: Vec<usize> = (0..runs.len()).map(|run| before[run] + has_pivot(run)).collect();
        if has_live(&before, &past) {
            return (pivot, before);
        }
        (starts, stride) = (past, stride.saturating_mul(4));
    }
}

/// Returns how many of the sorted keys are less than `key`; fast if they are few.
#[inline]
fn lower_bound<B: OrderedKey>(keys: &[B], key: B) -> usize {
    let mut end = 1;
    while keys.get(end - 1).is_some_and(|&other| other < key) {
        end *= 2;
    }
    let start = end / 2;
    start + keys[start..keys.len().min(end)].partition_point(|&other| other < key)
}
