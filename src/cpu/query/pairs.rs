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
    if cpu.combiner().is_none() {
        return Ok(());
    }
    let PairsOut { keys, values, found } = pairs;
    let values: &mut [V] = of_bytes_mut(values, keys.len());
    let mut is_live = try_zeroed(keys.len())?;
    lookup(cpu, runs, keys, &mut *values, &mut is_live)?;
    let absent = values.iter_mut().zip(found).filter(|(_, found)| !**found);
    absent.for_each(|(value, _)| *value = V::zeroed());
    Ok(())
}

/// Answers every query with at most one pair, using all threads. `answer_group` is called with at
/// most [`GROUP`] queries at a time, a state that is kept from one call to the next on the same
/// thread, and a function that it must call with the answer to each query, in order.
pub(crate) fn answer_each<S: Default, Q: Send + Sync, B: OrderedKey, V: Value>(
    cpu: &Cpu,
    queries: &[Q],
    out: PairsOut<'_, B>,
    answer_group: impl Fn(&mut S, &[Q], &mut dyn FnMut(Option<(B, V)>)) -> Result<(), Error>
    + Sync
    + Send,
) -> Result<(), Error> {
    let chunk = cpu.workers.chunk_len(queries.len());
    let values = of_bytes_mut(out.values, queries.len());
    let outputs = out.keys.chunks_mut(chunk).zip(values.chunks_mut(chunk));
    let tasks = queries.chunks(chunk).zip(outputs).zip(out.found.chunks_mut(chunk));
    cpu.workers.each(tasks, |((queries, (keys, values)), found)| {
        let mut outputs = keys.iter_mut().zip(values).zip(found);
        let mut state = S::default();
        for group in queries.chunks(GROUP) {
            answer_group(&mut state, group, &mut |pair| {
                let ((key, value), found) = outputs.next().expect("one answer for each query");
                *found = pair.is_some();
                (*key, *value) = pair.unwrap_or((B::default(), V::zeroed()));
            })?;
        }
        Ok(())
    })
}
