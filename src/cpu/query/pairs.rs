//! Queries that are answered by at most one pair each.

use crate::cpu::context::Cpu;
use crate::cpu::query::bounds::GROUP;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::PairsOut;
use crate::value::{Value, of_bytes_mut};

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
