//! Looking keys up: newest run first, until one has the key.

use crate::cpu::context::Cpu;
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Queries that go through the runs together.
const GROUP: usize = 128;

/// Whether each key is live and, where `values` are wanted, its value; 0 where it is not.
pub(crate) fn lookup<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    keys: &[B],
    values: Option<&mut [V]>,
    found: &mut [bool],
) -> Result<(), Error> {
    runs.iter().for_each(|run| run.filter_if_worth_it(cpu));
    let piece = cpu.workers.piece(keys.len());
    let mut values = values.map(|values| values.chunks_mut(piece));
    let tasks = keys.chunks(piece).zip(found.chunks_mut(piece)).map(|(keys, found)| {
        let values = values.as_mut().map(|pieces| pieces.next().expect("as long as keys"));
        (keys, values, found)
    });
    cpu.workers.each(tasks, |(keys, values, found)| {
        found.fill(false);
        match values {
            Some(values) => {
                values.fill(V::zeroed());
                find(runs, keys, |index, run, position| {
                    found[index] = run.mark(position).is_live();
                    if found[index] {
                        values[index] = run.values()[position];
                    }
                });
            }
            None => find(runs, keys, |index, run, position| {
                found[index] = run.mark(position).is_live();
            }),
        }
        Ok(())
    })?;
    Ok(())
}

/// Says, for every key that any run has, which run decides and where in it the entry is.
fn find<'r, B: OrderedKey, V: Value>(
    runs: &'r [Run<B, V>],
    keys: &[B],
    mut decided: impl FnMut(usize, &'r Run<B, V>, usize),
) {
    let mut wanted = [B::default(); GROUP];
    let mut indices = [0; GROUP];
    let mut positions = [0; GROUP];
    let mut hits = [(0, 0); GROUP];
    for (group, keys) in keys.chunks(GROUP).enumerate() {
        wanted[..keys.len()].copy_from_slice(keys);
        indices.iter_mut().enumerate().for_each(|(at, index)| *index = group * GROUP + at);
        let mut left = keys.len();
        for run in runs {
            let asked = match run.filter() {
                Some(filter) => filter.sift(&mut wanted[..left], &mut indices[..left]),
                None => left,
            };
            run.lower_bounds(&wanted[..asked], &mut positions[..asked]);
            // Hits to one list, what is left to look for stays in the other.
            let (mut kept, mut hit) = (0, 0);
            for at in 0..asked {
                let (key, index, position) = (wanted[at], indices[at], positions[at]);
                let is_hit = run.has_key_at(position, key);
                if is_hit {
                    run.prefetch_entry(position);
                }
                hits[hit] = (index, position);
                hit += usize::from(is_hit);
                (wanted[kept], indices[kept]) = (key, index);
                kept += usize::from(!is_hit);
            }
            for &(index, position) in &hits[..hit] {
                decided(index, run, position);
            }
            if run.filter().is_none() {
                run.add_misses(kept);
            }
            wanted.copy_within(asked..left, kept);
            indices.copy_within(asked..left, kept);
            left -= hit;
        }
    }
}
