//! Queries that are answered by at most one pair each.

use crate::cpu::context::Cpu;
use crate::cpu::query::bounds::GROUP;
use crate::cpu::query::lookup::lookup;
use crate::cpu::run::Run;
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;
use crate::query::PairsOut;
use crate::value::{Value, of_bytes_mut};

/// Replaces the values of the pairs that were found, which are those of the newest runs that hold their keys,
/// by the combined values of all runs, if the dictionary combines values.
pub(crate) fn combine_values<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    pairs: PairsOut<'_, B>,
) -> Result<(), Error> {
    let PairsOut { keys, values, found } = pairs;
    let values = of_bytes_mut::<V>(values, keys.len());
    combine_answers(cpu, runs, Answers { keys, values, found })
}

/// Does the same to answers.
pub(super) fn combine_answers<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    answers: Answers<'_, B, V>,
) -> Result<(), Error> {
    if cpu.combiner().is_none() {
        return Ok(());
    }
    let Answers { keys, values, found } = answers;
    let mut is_live = try_zeroed(keys.len())?;
    lookup(cpu, runs, keys, &mut *values, &mut is_live)?;
    let absent = values.iter_mut().zip(found).filter(|(_, found)| !**found);
    absent.for_each(|(value, _)| *value = V::zeroed());
    Ok(())
}

/// Where the answers to some queries go.
pub(crate) struct Answers<'a, B, V> {
    pub keys: &'a mut [B],
    pub values: &'a mut [V],
    pub found: &'a mut [bool],
}

impl<B: OrderedKey, V: Value> Answers<'_, B, V> {
    /// Returns the same places, to be written first by somebody else.
    pub fn reborrow(&mut self) -> Answers<'_, B, V> {
        Answers { keys: self.keys, values: self.values, found: self.found }
    }

    /// Writes the answer to the query of this index.
    #[inline]
    pub fn write(&mut self, index: usize, pair: Option<(B, V)>) {
        self.found[index] = pair.is_some();
        (self.keys[index], self.values[index]) = pair.unwrap_or((B::default(), V::zeroed()));
    }

    /// Writes an entry of a run, or that there is none, as the answer to the query of this index.
    #[inline]
    pub fn copy(&mut self, index: usize, run: &Run<B>, entry: Option<usize>) {
        // The key goes from memory to memory: as part of a pair, a wide one would be put together on the stack.
        self.found[index] = entry.is_some();
        self.keys[index] = entry.map_or(B::default(), |at| run.keys()[at]);
        self.values[index] = entry.map_or(V::zeroed(), |at| run.values()[at]);
    }
}

/// Answers every query with at most one pair, using all threads, each of which takes `chunk` queries at a time.
/// `answer_group` is called with at most [`GROUP`] queries, with where all of their answers go, and with a
/// state that is kept from one group of a chunk to the next.
pub(crate) fn answer_each<S: Default, Q: Send + Sync, B: OrderedKey, V: Value>(
    cpu: &Cpu,
    chunk: usize,
    queries: &[Q],
    out: PairsOut<'_, B>,
    answer_group: impl Fn(&mut S, &[Q], Answers<'_, B, V>) -> Result<(), Error> + Sync + Send,
) -> Result<(), Error> {
    let values = of_bytes_mut(out.values, queries.len());
    let outputs = out.keys.chunks_mut(chunk).zip(values.chunks_mut(chunk));
    let tasks = queries.chunks(chunk).zip(outputs).zip(out.found.chunks_mut(chunk));
    cpu.workers.each(tasks, |((queries, (keys, values)), found)| {
        let mut state = S::default();
        answer_groups(queries, Answers { keys, values, found }, |queries, answers| {
            answer_group(&mut state, queries, answers)
        })
    })
}

/// Calls `answer_group` with at most [`GROUP`] queries at a time, and with where all of their answers go.
pub(super) fn answer_groups<Q, B: OrderedKey, V: Value>(
    queries: &[Q],
    answers: Answers<'_, B, V>,
    mut answer_group: impl FnMut(&[Q], Answers<'_, B, V>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Answers { keys, values, found } = answers;
    let outputs = keys.chunks_mut(GROUP).zip(values.chunks_mut(GROUP));
    for ((queries, (keys, values)), found) in
        queries.chunks(GROUP).zip(outputs).zip(found.chunks_mut(GROUP))
    {
        answer_group(queries, Answers { keys, values, found })?;
    }
    Ok(())
}
