//! As-of queries: the neighbours of a question, of which the nearest that belongs with it is the answer.

use crate::cpu::context::Cpu;
use crate::cpu::query::bounds::GROUP;
use crate::cpu::query::fingers::Fingers;
use crate::cpu::query::nearest::{JumpCache, predecessor, successor};
use crate::cpu::query::pairs::{Answers, answer_each};
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::{AsOf, PairsOut, Side};
use crate::value::Value;

/// Questions for which fingers are worth their memory.
const MIN_FOR_FINGERS: usize = 1 << 12;

/// Finds the live pair that answers each question of an as-of query.
pub(crate) fn asof<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    asof: &AsOf,
    keys: &[B],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    // Long chunks, so that fingers have time to be useful.
    let chunk = cpu.workers.chunk_len(keys.len()).max(keys.len().div_ceil(cpu.workers.count() * 2));
    let has_fingers = chunk >= MIN_FOR_FINGERS;
    answer_each(cpu, chunk, keys, out, |search: &mut Search<B, V>, keys, answers| {
        if has_fingers && search.fingers.is_none() {
            // Without memory for them, searches start at the top.
            search.fingers = Fingers::new::<B>(cpu, runs.len(), asof.on.bits).ok();
        }
        search.answer(cpu, runs, asof, keys, answers)
    })
}

/// What one thread keeps from one group of questions to the next.
struct Search<B, V> {
    fingers: Option<Fingers>,
    before: JumpCache<B, V>,
    after: JumpCache<B, V>,
}

impl<B, V> Default for Search<B, V> {
    fn default() -> Self {
        Search { fingers: None, before: JumpCache::default(), after: JumpCache::default() }
    }
}

impl<B: OrderedKey, V: Value> Search<B, V> {
    /// Answers the questions of a group.
    fn answer(
        &mut self,
        cpu: &Cpu,
        runs: &[Run<B>],
        asof: &AsOf,
        keys: &[B],
        mut answers: Answers<'_, B, V>,
    ) -> Result<(), Error> {
        // The positions of the first keys ≥ those of the group in every run.
        let mut bounds = cpu.memory.zeroed::<[usize; GROUP]>(runs.len())?;
        for (index, (run, bounds)) in runs.iter().zip(&mut *bounds).enumerate() {
            let bounds = &mut bounds[..keys.len()];
            match &mut self.fingers {
                Some(fingers) => fingers.lower_bounds((index, run), keys, bounds),
                None => run.lower_bounds(keys, bounds),
            }
            let before = usize::from(asof.includes(Side::Predecessor));
            bounds.iter().for_each(|&position| run.prefetch_entry(position.saturating_sub(before)));
        }
        if let ([run], [bounds]) = (runs, &*bounds)
            && run.marks().is_none()
        {
            answer_from_only_run(run, asof, keys, bounds, &mut answers);
            return Ok(());
        }
        let mut positions = vec![0; runs.len()];
        for (query, &key) in keys.iter().enumerate() {
            let mut on = |side| {
                let bounds = bounds.iter().map(|run| run[query]);
                let pair = match asof.includes(side) {
                    true => {
                        self.neighbor(runs, side, (key, asof.is_strict), bounds, &mut positions)
                    }
                    false => None,
                };
                pair.filter(|&(found, _)| asof.accepts(key.widen(), found.widen()))
            };
            let (before, after) = (on(Side::Predecessor), on(Side::Successor));
            let keys_of_both = before.zip(after).map(|((before, _), (after, _))| (before, after));
            let is_after = prefers_after(asof, key, keys_of_both).unwrap_or(before.is_none());
            answers.write(query, if is_after { after } else { before });
        }
        Ok(())
    }

    /// Returns the nearest live pair on one side of a key whose lower bounds in the runs are given; not the key's
    /// own, if `is_strict`.
    fn neighbor(
        &mut self,
        runs: &[Run<B>],
        side: Side,
        (key, is_strict): (B, bool),
        lower_bounds: impl Iterator<Item = usize>,
        positions: &mut [usize],
    ) -> Option<(B, V)> {
        for ((run, lower_bound), position) in runs.iter().zip(lower_bounds).zip(&mut *positions) {
            *position = position_beside(run, side, (key, is_strict), lower_bound);
        }
        match (side, is_strict) {
            (Side::Successor, false) => successor(runs, positions, key, &mut self.after),
            (Side::Successor, true) => successor(runs, positions, key.next()?, &mut self.after),
            (Side::Predecessor, false) => predecessor(runs, positions, key, &mut self.before),
            (Side::Predecessor, true) => {
                predecessor(runs, positions, key.previous()?, &mut self.before)
            }
        }
    }
}

/// Answers questions from the only run, all of whose entries are live.
fn answer_from_only_run<B: OrderedKey, V: Value>(
    run: &Run<B>,
    asof: &AsOf,
    keys: &[B],
    bounds: &[usize; GROUP],
    answers: &mut Answers<'_, B, V>,
) {
    for (query, (&key, &lower_bound)) in keys.iter().zip(bounds).enumerate() {
        let on = |side| {
            if !asof.includes(side) {
                return None;
            }
            let position = position_beside(run, side, (key, asof.is_strict), lower_bound);
            let entry = match side {
                Side::Successor => Some(position).filter(|&at| at < run.len()),
                Side::Predecessor => position.checked_sub(1),
            };
            entry.filter(|&at| asof.accepts(key.widen(), run.keys()[at].widen()))
        };
        let (before, after) = (on(Side::Predecessor), on(Side::Successor));
        let keys_of_both =
            before.zip(after).map(|(before, after)| (run.keys()[before], run.keys()[after]));
        let is_after = prefers_after(asof, key, keys_of_both).unwrap_or(before.is_none());
        answers.copy(query, run, if is_after { after } else { before });
    }
}

/// Returns the position before which the predecessor of a key is, or from which on its successor is, from the
/// key's lower bound; if `is_strict`, that of the next other key.
#[inline]
fn position_beside<B: OrderedKey>(
    run: &Run<B>,
    side: Side,
    (key, is_strict): (B, bool),
    lower_bound: usize,
) -> usize {
    let passes_own = (side == Side::Predecessor) != is_strict;
    lower_bound + usize::from(passes_own && run.has_key_at(lower_bound, key))
}

/// Returns whether the key after a question is the better answer, if there is one on both sides.
#[inline]
fn prefers_after<B: OrderedKey>(asof: &AsOf, key: B, beside: Option<(B, B)>) -> Option<bool> {
    beside.map(|(before, after)| asof.prefers_after(key.widen(), before.widen(), after.widen()))
}
