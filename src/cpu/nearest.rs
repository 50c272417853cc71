//! Successor and predecessor: a short walk from where the key would be, or, past many tombstones, a
//! jump by rank.

use crate::cpu::Cpu;
use crate::cpu::count::{Bound, GROUP, find_places, len};
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
    let bound = match side {
        Side::Successor => Bound::Below,
        Side::Predecessor => Bound::UpTo,
    };
    each_pair(cpu, keys, out, |keys, answer| {
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
        for query in 0..keys.len() {
            here.iter_mut().zip(&*places).for_each(|(here, places)| *here = places[query]);
            answer(match side {
                Side::Successor => successor(runs, &mut here),
                Side::Predecessor => predecessor(runs, &mut here),
            });
        }
        Ok(())
    })
}

/// The first live pair at these places or after them.
fn successor<B: OrderedKey, V: Value>(runs: &[Run<B, V>], places: &mut [usize]) -> Option<(B, V)> {
    for _ in 0..PATIENCE {
        let next = |at: usize| runs[at].keys().get(places[at]).map(|&key| (key, at));
        // Of equal keys the newest run's entry comes first.
        let (key, at) = (0..runs.len()).filter_map(next).min()?;
        if runs[at].mark(places[at]).live {
            return Some((key, runs[at].values()[places[at]]));
        }
        for (run, place) in runs.iter().zip(&mut *places) {
            *place += usize::from(run.has_key_at(*place, key));
        }
    }
    // The entries of dead keys add up to nothing: the rank here is the rank at the start.
    let rank = sum_before(runs, places);
    (rank < len(runs)).then(|| select_one(runs, rank))
}

/// The last live pair before these places.
fn predecessor<B: OrderedKey, V: Value>(
    runs: &[Run<B, V>],
    places: &mut [usize],
) -> Option<(B, V)> {
    for _ in 0..PATIENCE {
        let next = |at: usize| Some((runs[at].keys()[places[at].checked_sub(1)?], at));
        let largest = (0..runs.len()).filter_map(next);
        let (key, at) =
            largest.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        if runs[at].mark(places[at] - 1).live {
            return Some((key, runs[at].values()[places[at] - 1]));
        }
        for (run, place) in runs.iter().zip(&mut *places) {
            let below = place.checked_sub(1).filter(|&below| run.has_key_at(below, key));
            *place = below.unwrap_or(*place);
        }
    }
    sum_before(runs, places).checked_sub(1).map(|index| select_one(runs, index))
}

/// How many live keys are before these places of all runs.
fn sum_before<B: OrderedKey, V: Value>(runs: &[Run<B, V>], places: &[usize]) -> u64 {
    runs.iter().zip(places).map(|(run, &place)| run.sum_before(place)).sum::<i64>() as u64
}
