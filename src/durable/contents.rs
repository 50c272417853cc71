//! What a store contains, written to files and read from them.

use crate::batch::{Order, Updates};
use crate::change::Change;
use crate::engine::PAIRS_PER_PART;
use crate::error::{Error, try_with_capacity, try_zeroed};
use crate::files::{RunReader, RunShape, RunWriter, Section, Update, Widths};
use crate::key::OrderedKey;
use crate::mark::Mark;
use crate::query::Query;
use crate::ranges::RangeEnds;
use crate::store::{AnyStore, select_two};
use crate::value::ValueBuffer;

/// Returns the shape of one run of all pairs.
pub(super) fn shape<B: OrderedKey>(store: &dyn AnyStore<B>) -> Result<RunShape, Error> {
    let widths = Widths { key: size_of::<B>(), value: store.value_width() };
    Ok(RunShape { widths, entries: store.len()?, has_marks: false })
}

/// Reads something of a store.
pub(super) type Read<'a, B> = dyn FnMut(&dyn AnyStore<B>) -> Result<(), Error> + 'a;

/// What pairs are written of: a store that nobody changes meanwhile.
pub(super) trait PairSource<B: OrderedKey> {
    /// Calls `read` with the store; returns `false` if that was taken away.
    fn read(&self, read: &mut Read<'_, B>) -> Result<bool, Error>;

    /// Is called when all pairs were read.
    fn all_is_read(&self) {}
}

impl<B: OrderedKey> PairSource<B> for &dyn AnyStore<B> {
    fn read(&self, read: &mut Read<'_, B>) -> Result<bool, Error> {
        read(*self).map(|()| true)
    }
}

/// Writes all pairs as one run of this shape; returns `false` if their store was taken away before. Calls `written`
/// with the bytes of each piece.
pub(super) fn write_pairs<B: OrderedKey>(
    source: &dyn PairSource<B>,
    RunShape { widths, entries, .. }: RunShape,
    run: &mut RunWriter,
    written: &mut dyn FnMut(u64),
) -> Result<bool, Error> {
    let most = entries.min(PAIRS_PER_PART as u64) as usize;
    let (mut keys, mut values) = (try_zeroed::<B>(most)?, ValueBuffer::new(most, widths.value)?);
    for start in (0..entries).step_by(PAIRS_PER_PART) {
        let len = (entries - start).min(PAIRS_PER_PART as u64) as usize;
        let keys = &mut keys[..len];
        let values = &mut values.bytes_mut()[..len * widths.value];
        if !source.read(&mut |store| read_part(store, start, keys, values))? {
            return Ok(false);
        }
        if start + len as u64 == entries {
            source.all_is_read();
        }
        run.write(Section::Keys, bytemuck::cast_slice(keys))?;
        run.write(Section::Values, values)?;
        written((size_of_val(keys) + values.len()) as u64);
    }
    Ok(true)
}

/// Reads as many pairs as there are keys, from a place in key order on.
fn read_part<B: OrderedKey>(
    store: &dyn AnyStore<B>,
    start: u64,
    keys: &mut [B],
    values: &mut [u8],
) -> Result<(), Error> {
    let len = keys.len() as u64;
    let ([lo, hi], _) = select_two(store, [start, start + len - 1])?;
    let mut offsets = [0; 2];
    store.answer(Query::Range {
        lo: &[lo],
        hi: &[hi],
        offsets: &mut offsets,
        keys,
        values: Some(values),
    })?;
    assert_eq!(offsets[1], len, "a snapshot changed");
    Ok(())
}

/// Adds the entries of a run to a store that holds those of all older ones. Calls `read` with the bytes that were
/// read, now and then.
pub(super) fn load_run<B: OrderedKey>(
    run: &RunReader,
    store: &mut dyn AnyStore<B>,
    read: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let (entries, width) = (run.shape().entries as usize, store.value_width());
    let mut last = None;
    let mut read_pairs = |start: usize, keys: &mut [B], values: &mut [u8]| {
        let offset = (start * size_of::<B>()) as u64;
        run.read_part(Section::Keys, offset, bytemuck::cast_slice_mut(keys), read)?;
        run.read_part(Section::Values, (start * width) as u64, values, read)?;
        check_order(run, start, last, keys)?;
        last = keys.last().copied();
        Ok(())
    };
    if !run.shape().has_marks && store.len()? == 0 {
        return store.fill(entries, &mut read_pairs);
    }
    let mut keys = try_zeroed::<B>(entries)?;
    let mut values = ValueBuffer::new(entries, width)?;
    read_pairs(0, &mut keys, values.bytes_mut())?;
    if run.shape().has_marks {
        let mut marks = try_zeroed(run.section_len(Section::Marks) as usize)?;
        run.read_part(Section::Marks, 0, &mut marks, read)?;
        return load_marked(&keys, values.bytes(), &marks, store);
    }
    store.apply(&Updates::sorted(keys.into(), values.bytes()))
}

/// Returns an error unless the keys of a run ascend, from the one before them on. The first has this index.
fn check_order<B: OrderedKey>(
    run: &RunReader,
    start: usize,
    before: Option<B>,
    keys: &[B],
) -> Result<(), Error> {
    let wrong = match (before, keys.first()) {
        (Some(before), Some(&first)) if before >= first => Some(0),
        _ => keys.windows(2).position(|pair| pair[0] >= pair[1]).map(|index| index + 1),
    };
    match wrong {
        Some(index) => {
            Err(run.corrupt_entry((start + index) as u64, "the keys of a run do not ascend"))
        }
        None => Ok(()),
    }
}

/// Adds entries with marks: those that combine with older ones, then those that were set, and tombstones.
fn load_marked<B: OrderedKey>(
    keys: &[B],
    values: &[u8],
    marks: &[u8],
    store: &mut dyn AnyStore<B>,
) -> Result<(), Error> {
    let width = store.value_width();
    let (mut inserts, mut deletes) = (try_with_capacity(keys.len())?, Vec::new());
    let mut ordered = ValueBuffer::new(keys.len(), width)?;
    let mut assigned = 0;
    let mut add = |index: usize, inserts: &mut Vec<B>| {
        let to = inserts.len() * width;
        ordered.bytes_mut()[to..to + width]
            .copy_from_slice(&values[index * width..(index + 1) * width]);
        inserts.push(keys[index]);
    };
    for (index, &key) in keys.iter().enumerate() {
        match mark(marks, index) {
            Mark::TOMBSTONE => deletes.push(key),
            Mark::RESTART => assigned += 1,
            _ => add(index, &mut inserts),
        }
    }
    let restarts = (0..keys.len()).filter(|&index| mark(marks, index) == Mark::RESTART);
    restarts.for_each(|index| add(index, &mut inserts));
    let assigned = if store.combiner().is_some() { assigned } else { 0 };
    let values = &ordered.bytes()[..inserts.len() * width];
    let (keys, deletes) = (inserts.into(), deletes.into());
    store.apply(&Updates { keys, values, assigned, deletes, order: Order::Any })
}

/// Returns the mark of an entry: for every 32 entries there are a word of *live* bits and one of *shadow* bits.
fn mark(marks: &[u8], index: usize) -> Mark {
    let bit = |plane: usize| {
        let byte = marks[index / 32 * 8 + plane * 4 + index % 32 / 8];
        (byte >> (index % 8)) & 1 == 1
    };
    Mark::from_planes(bit(0), bit(1))
}

/// Applies an update of a log. Its arrays are aligned to 16 bytes.
pub(super) fn replay<B: OrderedKey>(
    update: Update<'_>,
    store: &mut dyn AnyStore<B>,
) -> Result<(), Error> {
    match update {
        Update::Batch { keys, values, assigned, deletes } => {
            let (keys, deletes) = (bytemuck::cast_slice(keys), bytemuck::cast_slice(deletes));
            apply_in_parts(store, (keys, values), assigned as usize, deletes)
        }
        Update::RangeDelete { lows, highs } => Change::DeleteRanges(&RangeEnds {
            lo: bytemuck::cast_slice(lows).into(),
            hi: bytemuck::cast_slice(highs).into(),
        })
        .apply(store),
        Update::Clear => Change::Clear.apply(store),
    }
}

/// Applies a batch that had room once. If it has none now, for the runs were others then, everything is cleaned up, and
/// the batch is applied without room for another cleanup, or in parts: nobody sees a dictionary that is being opened.
fn apply_in_parts<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    (keys, values): (&[B], &[u8]),
    assigned: usize,
    deletes: &[B],
) -> Result<(), Error> {
    let updates =
        Updates { keys: keys.into(), values, assigned, deletes: deletes.into(), order: Order::Any };
    let mut applied = Change::Batch(&updates).apply(store);
    if let Err(Error::OutOfMemory { .. }) = applied {
        store.cleanup().ok();
        store.keep_room(false);
        applied = Change::Batch(&updates).apply(store);
        store.keep_room(true);
    }
    let Err(Error::OutOfMemory { .. }) = applied else { return applied };
    let none = (&[][..], &[][..]);
    if !keys.is_empty() && !deletes.is_empty() {
        // A delete wins over every insert of the batch.
        apply_in_parts(store, (keys, values), assigned, &[])?;
        return apply_in_parts(store, none, 0, deletes);
    }
    if updates.len() < 2 {
        return applied;
    }
    let (first, second) = keys.split_at(keys.len() / 2);
    let (first_values, second_values) = values.split_at(first.len() * store.value_width());
    let (first_deletes, second_deletes) = deletes.split_at(deletes.len() / 2);
    // Those that assign are the last.
    let assigned_second = assigned.min(second.len());
    let assigned_first = assigned - assigned_second;
    apply_in_parts(store, (first, first_values), assigned_first, first_deletes)?;
    apply_in_parts(store, (second, second_values), assigned_second, second_deletes)
}

/// Returns a change as a log records it.
pub(super) fn record<'a, B: OrderedKey>(change: &'a Change<'_, B>) -> Update<'a> {
    match change {
        Change::Batch(updates) => Update::Batch {
            keys: bytemuck::cast_slice(&updates.keys),
            values: updates.values,
            assigned: updates.assigned as u64,
            deletes: bytemuck::cast_slice(&updates.deletes),
        },
        Change::DeleteRanges(ranges) => Update::RangeDelete {
            lows: bytemuck::cast_slice(&ranges.lo),
            highs: bytemuck::cast_slice(&ranges.hi),
        },
        Change::Clear => Update::Clear,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::aggregate::Number;
    use crate::combine::{Combine, Combiner};
    use crate::cpu::{Cpu, CpuEngine};
    use crate::device::{Device, Devices};
    use crate::files::Storage;
    use crate::files::simulated::Simulated;
    use crate::store::{Settings, Store};
    use crate::typed::TypedStore;

    /// An empty store on the CPU. (A dictionary would have this crate's tests compile every store.)
    fn store(rule: Combine) -> TypedStore<u32, u32> {
        let combiner = Combiner::new(rule, u32::ELEMENT, 4).unwrap();
        let settings = Settings { batch_size: 16, combiner, ..Settings::default() };
        let cpu = Cpu::new(None, Some(1)).unwrap().combining(combiner);
        let store = Store::new(CpuEngine::<u32>::new(cpu, 4), &settings);
        TypedStore::new(Devices::from(Device::cpu()), Box::new(store))
    }

    fn lookup(store: &TypedStore<u32, u32>, keys: &[u32]) -> Vec<Option<u32>> {
        let (mut values, mut found) = (vec![0; keys.len()], vec![false; keys.len()]);
        store.lookup_into(keys, &mut values, &mut found).unwrap();
        found.iter().zip(values).map(|(&found, value)| found.then_some(value)).collect()
    }

    /// Writes entries and their stored bits, *live* and *shadow*, as a run, and opens it.
    fn run(entries: &[(u32, u32, (bool, bool))]) -> RunReader {
        let widths = Widths { key: 4, value: 4 };
        let shape = RunShape { widths, entries: entries.len() as u64, has_marks: true };
        let storage = Storage::new(Simulated::new());
        storage.ensure_directory(Path::new("/runs")).unwrap();
        let runs = storage.open_directory(Path::new("/runs")).unwrap();
        let file = runs.create("run").unwrap();
        let mut run = RunWriter::new(file.clone(), 0, 1, shape).unwrap();
        for &(key, value, _) in entries {
            run.write(Section::Keys, &key.to_le_bytes()).unwrap();
            run.write(Section::Values, &value.to_le_bytes()).unwrap();
        }
        for group in entries.chunks(32) {
            let word = |bit: fn(&(bool, bool)) -> bool| {
                let bits =
                    group.iter().enumerate().map(|(at, entry)| u32::from(bit(&entry.2)) << at);
                bits.sum::<u32>()
            };
            run.write(Section::Marks, &word(|mark| mark.0).to_le_bytes()).unwrap();
            run.write(Section::Marks, &word(|mark| mark.1).to_le_bytes()).unwrap();
        }
        let info = run.finish(0).unwrap();
        RunReader::open(file, 0, &info).unwrap()
    }

    #[test]
    fn runs_with_marks_are_applied_oldest_first() {
        let oldest: Vec<_> = (0..40).map(|key| (key, 1, (true, false))).collect();
        let (replacement, tombstone, restart) = ((true, true), (false, true), (false, false));
        let newest = [
            (1, 10, replacement),
            (2, 0, tombstone),
            (3, 7, restart),
            (33, 20, replacement),
            (50, 5, (true, false)),
        ];
        for (rule, replaced) in [(Combine::Add, [11, 7, 21]), (Combine::Replace, [10, 7, 20])] {
            let mut store = store(rule);
            let mut bytes = 0;
            for entries in [&oldest[..], &newest] {
                load_run(&run(entries), store.any_mut(), &mut |read| bytes += read).unwrap();
            }
            assert_eq!(store.any().len(), Ok(40));
            let [one, three, far] = replaced;
            let expected = [Some(one), None, Some(three), Some(1), Some(far), Some(5)];
            assert_eq!(lookup(&store, &[1, 2, 3, 4, 33, 50]), expected, "{rule}");
            assert_eq!(bytes, 8 * 45 + 16 + 8);
        }
    }

    #[test]
    fn keys_that_do_not_ascend_are_damage() {
        let entries = [5, 6, 6, 7].map(|key| (key, 0, (true, false)));
        let mut store = store(Combine::Replace);
        let error = load_run(&run(&entries), store.any_mut(), &mut |_| ()).unwrap_err();
        assert!(matches!(error, Error::CorruptFile { offset: 4104, .. }), "{error:?}");
        assert_eq!(store.any().len(), Ok(0));
    }
}
