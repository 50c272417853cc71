//! Successor and predecessor: a short walk over dead keys, or, if there are many, a jump by rank.

use crate::cpu::context::Cpu;
use crate::cpu::query::bounds::{Bound, GROUP, find_bounds};
use crate::cpu::query::count::{len, rank_at};
use crate::cpu::query::pairs::answer_each;
use crate::cpu::query::select::{last_entry_before, select_one};
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::{PairsOut, Side};
use crate::value::Value;

/// Dead keys to walk over before a jump by rank is cheaper.
const MAX_WALK: usize = 8;

/// Finds the live pair nearest to each key on one side, the key itself included.
pub(crate) fn nearest<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    side: Side,
    keys: &[B],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let bound = match side {
        Side::Successor => Bound::Below,
        Side::Predecessor => Bound::UpTo,
    };
    let chunk = cpu.workers.chunk_len(keys.len());
    answer_each(cpu, chunk, keys, out, |jumps: &mut JumpCache<B, V>, keys, mut answers| {
        // The positions of all keys of the group in every run.
        let mut bounds = cpu.memory.zeroed::<[usize; GROUP]>(runs.len())?;
        for (run, bounds) in runs.iter().zip(&mut *bounds) {
            find_bounds(run, keys, bound, bounds);
            for &position in &bounds[..keys.len()] {
                run.prefetch_entry(match side {
                    Side::Successor => position,
                    Side::Predecessor => position.saturating_sub(1),
                });
            }
        }
        let mut positions = vec![0; runs.len()];
        for (query, &key) in keys.iter().enumerate() {
            if let [run] = runs
                && let Some(pair) = live_neighbor(run, side, bounds[0][query])
            {
                answers.write(query, pair);
                continue;
            }
            positions.iter_mut().zip(&*bounds).for_each(|(position, run)| *position = run[query]);
            let pair = match side {
                Side::Successor => successor(runs, &mut positions, key, jumps),
                Side::Predecessor => predecessor(runs, &mut positions, key, jumps),
            };
            answers.write(query, pair);
        }
        Ok(())
    })
}

/// Returns the pair beside a position of the only run, without a walk; `None` if a dead entry is there.
#[inline]
fn live_neighbor<B: OrderedKey, V: Value>(
    run: &Run<B>,
    side: Side,
    position: usize,
) -> Option<Option<(B, V)>> {
    let entry = match side {
        Side::Successor => Some(position).filter(|&at| at < run.len()),
        Side::Predecessor => position.checked_sub(1),
    };
    let Some(at) = entry else { return Some(None) };
    run.mark(at).is_live().then(|| Some((run.keys()[at], run.values()[at])))
}

/// Returns the first live pair at or after the positions of `key`, one in each run.
pub(super) fn successor<B: OrderedKey, V: Value>(
    runs: &[Run<B>],
    positions: &mut [usize],
    key: B,
    jumps: &mut JumpCache<B, V>,
) -> Option<(B, V)> {
    for step in 0..MAX_WALK {
        let entry = |at: usize| runs[at].keys().get(positions[at]).map(|&key| (key, at));
        // Of equal keys, the entry of the newest run is the minimum.
        let (next, at) = (0..runs.len()).filter_map(entry).min()?;
        if runs[at].mark(positions[at]).is_live() {
            return Some((next, runs[at].values()[positions[at]]));
        }
        if let (0, Some(pair)) = (step, jumps.get(key)) {
            return pair;
        }
        for (run, position) in runs.iter().zip(&mut *positions) {
            *position += usize::from(run.has_key_at(*position, next));
        }
    }
    // Dead keys do not change the rank: it is the same here as at the first position.
    let rank = rank_at(runs, positions.iter().copied());
    let pair = (rank < len(runs)).then(|| select_one(runs, rank).pair());
    jumps.insert(key, pair.map_or(B::HIGHEST, |(key, _)| key), pair);
    pair
}

/// Returns the last live pair before the positions of `key`, one in each run.
pub(super) fn predecessor<B: OrderedKey, V: Value>(
    runs: &[Run<B>],
    positions: &mut [usize],
    key: B,
    jumps: &mut JumpCache<B, V>,
) -> Option<(B, V)> {
    for step in 0..MAX_WALK {
        let last = last_entry_before(runs, positions.iter().copied())?;
        if last.is_live() {
            return Some(last.pair());
        }
        if let (0, Some(pair)) = (step, jumps.get(key)) {
            return pair;
        }
        for (run, position) in runs.iter().zip(&mut *positions) {
            let before = position.checked_sub(1).filter(|&at| run.has_key_at(at, last.key));
            *position = before.unwrap_or(*position);
        }
    }
    let rank = rank_at(runs, positions.iter().copied());
    let pair = rank.checked_sub(1).map(|index| select_one(runs, index).pair());
    jumps.insert(pair.map_or(B::LOWEST, |(key, _)| key), key, pair);
    pair
}

/// Answers that took a jump, each with the range of keys that it is the answer to: other queries in
/// the same dead stretch need no jump of their own.
pub(super) struct JumpCache<B, V> {
    /// In key order.
    jumps: Vec<Jump<B, V>>,
}

struct Jump<B, V> {
    first: B,
    last: B,
    pair: Option<(B, V)>,
}

impl<B, V> Default for JumpCache<B, V> {
    fn default() -> Self {
        JumpCache { jumps: Vec::new() }
    }
}

impl<B: OrderedKey, V: Value> JumpCache<B, V> {
    /// The most jumps that are cached.
    const CAPACITY: usize = 1 << 12;

    /// Returns the answer to this key, if it is cached.
    fn get(&self, key: B) -> Option<Option<(B, V)>> {
        let after = self.jumps.partition_point(|jump| jump.first <= key);
        let jump = self.jumps[..after].last().filter(|jump| key <= jump.last)?;
        Some(jump.pair)
    }

    /// Stores the answer to all keys from `first` to `last`.
    fn insert(&mut self, first: B, last: B, pair: Option<(B, V)>) {
        let after = self.jumps.partition_point(|jump| jump.first <= first);
        // The known part of a dead stretch grows downwards for successors, upwards for predecessors.
        if let Some(jump) = self.jumps.get_mut(after).filter(|jump| jump.last == last) {
            jump.first = first;
        } else if let Some(jump) = self.jumps[..after].last_mut().filter(|jump| jump.first == first)
        {
            jump.last = last;
        } else if self.jumps.len() < Self::CAPACITY {
            self.jumps.insert(after, Jump { first, last, pair });
        }
    }
}
