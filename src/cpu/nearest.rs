//! Successor and predecessor: a short walk from where the key would be, or, past many tombstones, a
//! jump by rank.

use crate::cpu::Cpu;
use crate::cpu::count::len;
use crate::cpu::run::Run;
use crate::cpu::select::{each_pair, select_one};
use crate::device::{PairsOut, Side};
use crate::error::Error;
use crate::key::OrderedKey;
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
    each_pair(cpu, keys, out, |key| match side {
        Side::Successor => successor(runs, key),
        Side::Predecessor => predecessor(runs, key),
    })
}

fn successor<B: OrderedKey, V: Value>(runs: &[Run<B, V>], key: B) -> Option<(B, V)> {
    let mut places: Vec<usize> = runs.iter().map(|run| run.lower_bound(key)).collect();
    let rank = sum_before(runs, &places);
    for _ in 0..PATIENCE {
        let next = |at: usize| runs[at].keys().get(places[at]).map(|&key| (key, at));
        // Of equal keys the newest run's entry comes first.
        let (key, at) = (0..runs.len()).filter_map(next).min()?;
        if runs[at].mark(places[at]).live {
            return Some((key, runs[at].values()[places[at]]));
        }
        for (run, place) in runs.iter().zip(&mut places) {
            *place += usize::from(run.has_key_at(*place, key));
        }
    }
    (rank < len(runs)).then(|| select_one(runs, rank))
}

fn predecessor<B: OrderedKey, V: Value>(runs: &[Run<B, V>], key: B) -> Option<(B, V)> {
    // Each place is just past the entry that is next on the way down.
    let mut places: Vec<usize> = runs.iter().map(|run| run.upper_bound(key)).collect();
    let rank = sum_before(runs, &places);
    for _ in 0..PATIENCE {
        let next = |at: usize| Some((runs[at].keys()[places[at].checked_sub(1)?], at));
        let largest = (0..runs.len()).filter_map(next);
        let (key, at) =
            largest.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        if runs[at].mark(places[at] - 1).live {
            return Some((key, runs[at].values()[places[at] - 1]));
        }
        for (run, place) in runs.iter().zip(&mut places) {
            let below = place.checked_sub(1).filter(|&below| run.has_key_at(below, key));
            *place = below.unwrap_or(*place);
        }
    }
    rank.checked_sub(1).map(|index| select_one(runs, index))
}

/// How many live keys are before these places of all runs.
fn sum_before<B: OrderedKey, V: Value>(runs: &[Run<B, V>], places: &[usize]) -> u64 {
    runs.iter().zip(places).map(|(run, &place)| run.sum_before(place)).sum::<i64>() as u64
}
