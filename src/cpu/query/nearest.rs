//! Successor and predecessor: a short walk from where the key would be, or, past many tombstones, a
//! jump by rank, which neighbours share.

use crate::cpu::context::Cpu;
use crate::cpu::query::count::{Bound, GROUP, find_places, len};
use crate::cpu::query::select::{each_pair, select_one};
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::{PairsOut, Side};
use crate::value::Value;

/// Dead keys to walk over before jumping by rank is cheaper.
const PATIENCE: usize = 8;

/// The live pair nearest to each key, itself included, on one side of it.
pub(crate) fn nearest<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    side: Side,
    keys: &[B],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let bound = match side {
        Side::Successor => Bound::Below,
        Side::Predecessor => Bound::UpTo,
    };
    each_pair(cpu, keys, out, |jumps: &mut Jumps<B, V>, keys, answer| {
        // Where each key is in every run, found for the whole group at once.
        let mut places = cpu.memory.zeroed::<[usize; GROUP]>(runs.len())?;
        for (run, places) in runs.iter().zip(&mut *places) {
            find_places(run, keys, bound, places);
            for &place in &places[..keys.len()] {
                run.prefetch_entry(match side {
                    Side::Successor => place,
                    Side::Predecessor => place.saturating_sub(1),
                });
            }
        }
        let mut here = vec![0; runs.len()];
        for (query, &key) in keys.iter().enumerate() {
            here.iter_mut().zip(&*places).for_each(|(here, places)| *here = places[query]);
            answer(match side {
                Side::Successor => successor(runs, &mut here, key, jumps),
                Side::Predecessor => predecessor(runs, &mut here, key, jumps),
            });
        }
        Ok(())
    })
}

/// The first live pair at these places, which are those of a key, or after them.
fn successor<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    places: &mut [usize],
    from: B,
    jumps: &mut Jumps<B, V>,
) -> Option<(B, V)> {
    for step in 0..PATIENCE {
        let next = |at: usize| runs[at].keys().get(places[at]).map(|&key| (key, at));
        // Of equal keys the newest run's entry comes first.
        let (key, at) = (0..runs.len()).filter_map(next).min()?;
        if runs[at].mark(places[at]).is_live() {
            return Some((key, runs[at].values()[places[at]]));
        }
        if let (0, Some(pair)) = (step, jumps.get(from)) {
            return pair;
        }
        for (run, place) in runs.iter().zip(&mut *places) {
            *place += usize::from(run.has_key_at(*place, key));
        }
    }
    // The entries of dead keys add up to nothing: the rank here is the rank at the start.
    let rank = sum_before(runs, places);
    let pair = (rank < len(runs)).then(|| select_one(runs, rank));
    jumps.add(from, pair.map_or(B::HIGHEST, |(key, _)| key), pair);
    pair
}

/// The last live pair before these places, which are those of a key.
fn predecessor<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    places: &mut [usize],
    from: B,
    jumps: &mut Jumps<B, V>,
) -> Option<(B, V)> {
    for step in 0..PATIENCE {
        let next = |at: usize| Some((runs[at].keys()[places[at].checked_sub(1)?], at));
        let largest = (0..runs.len()).filter_map(next);
        let (key, at) =
            largest.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        if runs[at].mark(places[at] - 1).is_live() {
            return Some((key, runs[at].values()[places[at] - 1]));
        }
        if let (0, Some(pair)) = (step, jumps.get(from)) {
            return pair;
        }
        for (run, place) in runs.iter().zip(&mut *places) {
            let below = place.checked_sub(1).filter(|&below| run.has_key_at(below, key));
            *place = below.unwrap_or(*place);
        }
    }
    let pair = sum_before(runs, places).checked_sub(1).map(|index| select_one(runs, index));
    jumps.add(pair.map_or(B::LOWEST, |(key, _)| key), from, pair);
    pair
}

/// Answers that took a jump, with the keys that each is the answer to: neighbours in the same dead stretch
/// need no jump of their own.
struct Jumps<B, V>(Vec<Jump<B, V>>);

struct Jump<B, V> {
    first: B,
    last: B,
    pair: Option<(B, V)>,
}

impl<B, V> Default for Jumps<B, V> {
    fn default() -> Self {
        Jumps(Vec::new())
    }
}

impl<B: OrderedKey, V: Value> Jumps<B, V> {
    /// So many are remembered.
    const MOST: usize = 1 << 12;

    fn get(&self, key: B) -> Option<Option<(B, V)>> {
        let after = self.0.partition_point(|jump| jump.first <= key);
        let jump = self.0[..after].last().filter(|jump| key <= jump.last)?;
        Some(jump.pair)
    }

    /// Notes that this is the answer to all keys from `first` to `last`.
    fn add(&mut self, first: B, last: B, pair: Option<(B, V)>) {
        let after = self.0.partition_point(|jump| jump.first <= first);
        // Of one stretch, what is known grows: downwards for successors, upwards for predecessors.
        if let Some(jump) = self.0.get_mut(after).filter(|jump| jump.last == last) {
            jump.first = first;
        } else if let Some(jump) = self.0[..after].last_mut().filter(|jump| jump.first == first) {
            jump.last = last;
        } else if self.0.len() < Self::MOST {
            self.0.insert(after, Jump { first, last, pair });
        }
    }
}

/// How many live keys are before these places of all runs.
fn sum_before<B: OrderedKey, V: Value>(runs: &[Run<B, V>], places: &[usize]) -> u64 {
    runs.iter().zip(places).map(|(run, &place)| run.sum_before(place)).sum::<i64>() as u64
}
