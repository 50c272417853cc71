//! As-of queries: the neighbours of a question, of which the nearest that belongs with it is the answer.

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::query::bounds::GROUP;
use crate::cpu::query::fingers::Fingers;
use crate::cpu::query::nearest::{JumpCache, predecessor, successor};
use crate::cpu::query::pairs::{Answers, answer_each, answer_groups, combine_answers};
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::{AsOf, Direction, KeyColumns, PairsOut, Side};
use crate::value::Value;

/// Questions for which fingers are worth their memory.
const MIN_FOR_FINGERS: usize = 1 << 12;

/// Questions in columns that are packed, answered and unpacked at a time: their keys stay in the nearest caches.
const BLOCK: usize = 8 * GROUP;

/// Finds the live pair that answers each question of an as-of query.
pub(crate) fn asof<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    asof: &AsOf,
    keys: &[B],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let chunk = chunk_len(cpu, keys.len());
    answer_each(cpu, chunk, keys, out, |search: &mut Option<Search<'_, B, V>>, keys, answers| {
        let search = match search {
            Some(search) => search,
            None => search.insert(Search::new(cpu, runs, asof, chunk)?),
        };
        search.answer(keys, answers);
        Ok(())
    })
}

/// Finds the same for questions whose keys are in columns.
pub(crate) fn asof_columns<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    asof: &AsOf,
    columns: &dyn KeyColumns<B>,
    values: &mut [V],
    found: &mut [bool],
) -> Result<(), Error> {
    let chunk = chunk_len(cpu, found.len());
    let tasks = values.chunks_mut(chunk).zip(found.chunks_mut(chunk)).enumerate();
    cpu.workers.each(tasks, |(index, (values, found))| {
        let mut search = Search::new(cpu, runs, asof, chunk)?;
        let block = BLOCK.min(found.len());
        let (mut questions, mut keys) = (cpu.memory.zeroed(block)?, cpu.memory.zeroed(block)?);
        let mut start = index * chunk;
        for (values, found) in values.chunks_mut(BLOCK).zip(found.chunks_mut(BLOCK)) {
            let rows = start..start + found.len();
            let (questions, keys) = (&mut questions[..rows.len()], &mut keys[..rows.len()]);
            columns.pack_questions(&rows, questions);
            let mut answers = Answers { keys, values, found };
            answer_groups(questions, answers.reborrow(), |questions, answers| {
                search.answer(questions, answers);
                Ok(())
            })?;
            combine_answers(cpu, runs, answers.reborrow())?;
            columns.unpack_answers(&rows, answers.keys, answers.found);
            start = rows.end;
        }
        Ok(())
    })
}

/// Returns how many questions each task should have: long tasks, so that fingers have time to be useful.
fn chunk_len(cpu: &Cpu, questions: usize) -> usize {
    cpu.workers.chunk_len(questions).max(questions.div_ceil(cpu.workers.count() * 2))
}

/// What one thread keeps from one group of questions to the next.
struct Search<'a, B, V> {
    runs: &'a [Run<B>],
    asof: &'a AsOf,
    fingers: Option<Fingers>,
    /// The positions of the first keys ≥ those of a group, in every run.
    bounds: Buffer<[usize; GROUP]>,
    before: JumpCache<B, V>,
    after: JumpCache<B, V>,
}

impl<'a, B: OrderedKey, V: Value> Search<'a, B, V> {
    /// Prepares for this many questions.
    fn new(cpu: &Cpu, runs: &'a [Run<B>], asof: &'a AsOf, questions: usize) -> Result<Self, Error> {
        // Without memory for fingers, searches start at the top.
        let fingers = match questions >= MIN_FOR_FINGERS {
            true => Fingers::new::<B>(cpu, runs.len(), asof.on.bits).ok(),
            false => None,
        };
        let bounds = cpu.memory.zeroed(runs.len())?;
        let (before, after) = (JumpCache::default(), JumpCache::default());
        Ok(Search { runs, asof, fingers, bounds, before, after })
    }

    /// Answers the questions of a group.
    fn answer(&mut self, keys: &[B], mut answers: Answers<'_, B, V>) {
        let (runs, asof) = (self.runs, self.asof);
        for (index, (run, bounds)) in runs.iter().zip(&mut *self.bounds).enumerate() {
            let bounds = &mut bounds[..keys.len()];
            match &mut self.fingers {
                Some(fingers) => fingers.lower_bounds((index, run), keys, bounds),
                None => run.lower_bounds(keys, bounds),
            }
            let before = usize::from(asof.includes(Side::Predecessor));
            bounds.iter().for_each(|&position| run.prefetch_entry(position.saturating_sub(before)));
        }
        if let ([run], [bounds]) = (runs, &*self.bounds)
            && run.marks().is_none()
        {
            return answer_from_only_run(run, asof, keys, bounds, &mut answers);
        }
        let mut positions = vec![0; runs.len()];
        for (query, &key) in keys.iter().enumerate() {
            let mut on = |side| match asof.includes(side) {
                true => self
                    .neighbor(side, key, query, &mut positions)
                    .filter(|&(found, _)| asof.accepts(key.widen(), found.widen())),
                false => None,
            };
            let (before, after) = (on(Side::Predecessor), on(Side::Successor));
            let keys_of_both = before.zip(after).map(|((before, _), (after, _))| (before, after));
            let is_after = prefers_after(asof, key, keys_of_both).unwrap_or(before.is_none());
            answers.write(query, if is_after { after } else { before });
        }
    }

    /// Returns the nearest live pair on one side of the key of this query of the group; not the key's own, if the
    /// query is strict.
    fn neighbor(
        &mut self,
        side: Side,
        key: B,
        query: usize,
        positions: &mut [usize],
    ) -> Option<(B, V)> {
        let (runs, is_strict) = (self.runs, self.asof.is_strict);
        for ((run, bounds), position) in runs.iter().zip(&*self.bounds).zip(&mut *positions) {
            *position = position_beside(run, side, (key, is_strict), bounds[query]);
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
    // A loop for each direction, in which the sides are constants.
    let before = |key, bound| entry_beside(run, asof, Side::Predecessor, key, bound);
    let after = |key, bound| entry_beside(run, asof, Side::Successor, key, bound);
    let questions = keys.iter().copied().zip(bounds.iter().copied()).enumerate();
    match asof.direction {
        Direction::Backward => {
            questions.for_each(|(at, (key, bound))| answers.copy(at, run, before(key, bound)));
        }
        Direction::Forward => {
            questions.for_each(|(at, (key, bound))| answers.copy(at, run, after(key, bound)));
        }
        Direction::Nearest => questions.for_each(|(at, (key, bound))| {
            let (before, after) = (before(key, bound), after(key, bound));
            let keys_of_both =
                before.zip(after).map(|(before, after)| (run.keys()[before], run.keys()[after]));
            let is_after = prefers_after(asof, key, keys_of_both).unwrap_or(before.is_none());
            answers.copy(at, run, if is_after { after } else { before });
        }),
    }
}

/// Returns the entry on one side of a key whose lower bound is given, if it answers the question for the key.
// Always, so that the side is a constant in the loops that call it.
#[inline(always)]
fn entry_beside<B: OrderedKey>(
    run: &Run<B>,
    asof: &AsOf,
    side: Side,
    key: B,
    lower_bound: usize,
) -> Option<usize> {
    let position = position_beside(run, side, (key, asof.is_strict), lower_bound);
    let entry = match side {
        Side::Successor => Some(position).filter(|&at| at < run.len()),
        Side::Predecessor => position.checked_sub(1),
    };
    entry.filter(|&at| asof.accepts(key.widen(), run.keys()[at].widen()))
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
