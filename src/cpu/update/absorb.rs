//! Applying a batch: sort it, find its shadows, and merge it with the carried runs.

use crate::batch::{Order, Updates};
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::keep::Keep;
use crate::cpu::merge::merger::Merger;
use crate::cpu::merge::parallel::{SMALL_BLOCK, merge};
use crate::cpu::merge::source::{Source, SourceMarks};
use crate::cpu::run::fences::fence_count;
use crate::cpu::run::marks::packed_bytes;
use crate::cpu::run::{Run, key_capacity};
use crate::cpu::update::shadows;
use crate::cpu::update::sort::{self, SortedBatch, sort};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::Mark;
use crate::value::{Value, of_bytes};

/// Merges the batch and the carried runs into one run on top of the older ones. Returns `None` if
/// nothing is left.
pub(crate) fn absorb<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    updates: &Updates<'_, B>,
    carried: &[Run<B>],
    older: &[Run<B>],
) -> Result<Option<Run<B>>, Error> {
    if updates.order == Order::LiveDeletes && carried.is_empty() {
        return Run::of_tombstones::<V>(cpu, &updates.deletes);
    }
    let values: &[V] = of_bytes(updates.values, updates.keys.len());
    let (combined, assigned) = updates.keys.split_at(updates.keys.len() - updates.assigned);
    let (combined_values, assigned_values) = values.split_at(combined.len());
    let inserts = sort(cpu, combined, combined_values, updates.order, cpu.combine_fn())?;
    // Shadows are searched for outside the carry only. If a carried run holds the key too, merging
    // takes the shadow of its oldest entry, which refers to the same older runs.
    let insert_marks = match older {
        [] => None,
        _ => Some(shadows::mark(cpu, inserts.keys(), |shadow| Mark::new(true, shadow), older)?),
    };
    if carried.is_empty() && updates.deletes.is_empty() && assigned.is_empty() {
        let SortedBatch { keys, values, len } = inserts;
        return Run::build(cpu, keys, values, insert_marks.as_deref(), len);
    }

    // A delete wins over an insert of the same batch, so deletes are the newest source.
    // `()` is the value type of sets (`open.rs`), so this needs no further instance of the sort.
    let no_values = of_bytes::<()>(&[], updates.deletes.len());
    let deletes = sort(cpu, &updates.deletes, no_values, updates.order, None)?;
    let delete_marks = mark_deletes(cpu, deletes.keys(), updates.order, carried, older)?;
    let assigned = sort(cpu, assigned, assigned_values, updates.order, None)?;
    let assigned_marks = shadows::mark(cpu, assigned.keys(), Mark::assigned, older)?;
    let batch = [
        Source { keys: deletes.keys(), values: None, marks: SourceMarks::Unpacked(&delete_marks) },
        Source {
            keys: assigned.keys(),
            values: Some(assigned.values()),
            marks: SourceMarks::Unpacked(&assigned_marks),
        },
        Source {
            keys: inserts.keys(),
            values: Some(inserts.values()),
            marks: insert_marks.as_deref().map_or(SourceMarks::Inserts, SourceMarks::Unpacked),
        },
    ];
    let sources: Vec<Source<'_, B, V>> = batch
        .into_iter()
        .chain(carried.iter().map(Source::from))
        .filter(|source| !source.keys.is_empty())
        .collect();
    let keep = if older.is_empty() { Keep::Live } else { Keep::Stored };
    merge(cpu, &sources, keep)
}

/// Returns the marks of sorted deletes on top of the `older` runs. Live keys that no carried run holds are live
/// there.
fn mark_deletes<B: OrderedKey>(
    cpu: &Cpu,
    keys: &[B],
    order: Order,
    carried: &[Run<B>],
    older: &[Run<B>],
) -> Result<Buffer<Mark>, Error> {
    let mark = |shadow| Mark::new(false, shadow);
    if order == Order::LiveDeletes && !carried.iter().any(|run| run.meets(keys)) {
        let mut marks = cpu.memory.zeroed(keys.len())?;
        marks.fill(mark(true));
        return Ok(marks);
    }
    shadows::mark(cpu, keys, mark, older)
}

/// Returns the most bytes that absorbing this many updates may take, whichever of these runs are
/// carried.
pub(crate) fn working_bytes<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    updates: usize,
    runs: &[Run<B>],
) -> u64 {
    let entries = updates + runs.iter().map(Run::len).sum::<usize>();
    let sorting = sort::bytes_per_update::<B, V>() + shadows::BYTES_PER_UPDATE;
    // The new run: keys with their fences, values, and marks, unpacked and packed.
    let run = size_of::<B>() * 5 / 4 + size_of::<V>() + 2 * size_of::<Mark>();
    let merging = cpu.workers.count() * Merger::<B, V>::working_bytes(runs.len() + 3, entries);
    let fixed = sort::FIXED_BYTES + key_capacity(1) * size_of::<B>() * 4;
    (updates * sorting + entries * run + merging + fixed) as u64
}

/// Returns the most bytes that merging these runs takes, in small blocks if need be, the new run included.
pub(crate) fn merge_bytes<B: OrderedKey, V: Value>(cpu: &Cpu, runs: &[Run<B>]) -> u64 {
    let entries = runs.iter().map(Run::len).sum();
    let keys = key_capacity(entries) + fence_count(key_capacity(entries));
    let marks = match runs.iter().any(|run| run.marks().is_some()) {
        true => entries * size_of::<Mark>() + packed_bytes(entries),
        false => 0,
    };
    let block = SMALL_BLOCK.max(runs.len());
    let merging =
        cpu.workers.parts(entries) * Merger::<B, V>::working_bytes_of_blocks(runs.len(), block);
    (keys * size_of::<B>() + entries * size_of::<V>() + marks + merging) as u64
}
