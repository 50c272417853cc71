//! Taking in a batch: order & dedupe, shadows, and one merge with the carried runs.

use crate::batch::{Order, Updates};
use crate::cpu::context::Cpu;
use crate::cpu::merge::block::Merger;
use crate::cpu::merge::source::{Source, SourceMarks};
use crate::cpu::merge::{Keep, merge};
use crate::cpu::run::{Run, key_room};
use crate::cpu::update::shadows;
use crate::cpu::update::sort::{self, Tile, sort};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::{Value, of_bytes};

/// Merges the batch and the carried runs into one run on top of the older ones.
pub(crate) fn absorb<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    updates: &Updates<'_, B>,
    carried: &[Run<B, V>],
    older: &[Run<B, V>],
) -> Result<Option<Run<B, V>>, Error> {
    // Shadows are looked for outside the carry only: where a carried run has the key too, the
    // oldest entry's shadow is the merge's, and says the same.
    let values: &[V] = of_bytes(updates.values, updates.keys.len());
    let inserts = order(cpu, &updates.keys, values, updates.order)?;
    let insert_marks = match older {
        [] => None,
        _ => Some(shadows::mark(cpu, inserts.keys(), true, older)?),
    };
    if carried.is_empty() && updates.deletes.is_empty() {
        let Tile { keys, values, len } = inserts;
        return Run::build(cpu, keys, values, insert_marks.as_deref(), len);
    }

    // A delete wins over an insert of the same batch: deletes count as newer.
    let deletes =
        order(cpu, &updates.deletes, of_bytes::<()>(&[], updates.deletes.len()), updates.order)?;
    let delete_marks = shadows::mark(cpu, deletes.keys(), false, older)?;
    let batch = [
        Source { keys: deletes.keys(), values: None, marks: SourceMarks::Bytes(&delete_marks) },
        Source {
            keys: inserts.keys(),
            values: Some(&inserts.values),
            marks: insert_marks.as_deref().map_or(SourceMarks::Inserts, SourceMarks::Bytes),
        },
    ];
    let sources: Vec<Source<'_, B, V>> = batch
        .into_iter()
        .chain(carried.iter().map(Source::from))
        .filter(|source| !source.keys.is_empty())
        .collect();
    let keep = if older.is_empty() { Keep::Live } else { Keep::Marked };
    let merged = merge(cpu, &sources, keep)?;
    Run::build(cpu, merged.keys, merged.values, merged.marks.as_deref(), merged.len)
}

/// The batch as a sorted tile with unique keys.
fn order<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    values: &[V],
    order: Order,
) -> Result<Tile<B, V>, Error> {
    if order == Order::Any {
        return sort(cpu, keys, values);
    }
    let mut tile_keys = cpu.memory.zeroed(key_room(keys.len()))?;
    let mut tile_values = cpu.memory.zeroed(values.len())?;
    tile_keys[..keys.len()].copy_from_slice(keys);
    tile_values.copy_from_slice(values);
    Ok(Tile { keys: tile_keys, values: tile_values, len: keys.len() })
}

/// Returns the most bytes that absorbing `updates` updates may take, whichever of these runs are carried.
pub(crate) fn working_bytes<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    updates: usize,
    runs: &[Run<B, V>],
) -> u64 {
    let entries = updates + runs.iter().map(Run::len).sum::<usize>();
    // The batch, while it is sorted and its shadows are found, and the run that comes of it.
    let sorting = sort::bytes_per_update::<B, V>() + shadows::BYTES_PER_UPDATE;
    let run = size_of::<B>() * 5 / 4 + size_of::<V>() + 2 * size_of::<u8>();
    let merging = cpu.workers.most() * Merger::<B, V>::bytes(runs.len() + 2, entries);
    let fixed = sort::FIXED_BYTES + key_room(1) * size_of::<B>() * 4;
    (updates * sorting + entries * run + merging + fixed) as u64
}
