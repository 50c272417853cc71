//! Shadows: which keys of a batch are live in the older runs.

use std::cell::Cell;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::run::Run;
use crate::cpu::update::co_scan::co_scan;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::Mark;

/// The bytes that finding the shadow of one update takes: its mark, and its index in a list.
pub(crate) const BYTES_PER_UPDATE: usize = size_of::<Mark>() + size_of::<usize>();

/// Replaces the index of a key in the list of undecided keys once a run holds the key.
const DECIDED: usize = usize::MAX;

/// Returns the marks of sorted updates of one kind on top of the `older` runs: `mark` tells the mark of one
/// whose key is live there, or is not.
pub(crate) fn mark<B: OrderedKey>(
    cpu: &Cpu,
    keys: &[B],
    mark: fn(bool) -> Mark,
    older: &[Run<B>],
) -> Result<Buffer<Mark>, Error> {
    let mut marks = cpu.memory.zeroed(keys.len())?;
    marks.fill(mark(false));
    let part = keys.len().div_ceil(cpu.workers.parts(keys.len())).max(1);
    let parts = keys.chunks(part).zip(marks.chunks_mut(part));
    cpu.workers.each(parts, |(keys, marks)| mark_part(cpu, keys, mark, marks, older))?;
    Ok(marks)
}

/// Scans each older run, newest first, together with the keys that no newer run holds: for each
/// key, the newest run that holds it decides whether it is live.
fn mark_part<B: OrderedKey>(
    cpu: &Cpu,
    keys: &[B],
    mark: fn(bool) -> Mark,
    marks: &mut [Mark],
    older: &[Run<B>],
) -> Result<(), Error> {
    let mut undecided = cpu.memory.zeroed::<usize>(keys.len())?;
    undecided.iter_mut().enumerate().for_each(|(index, slot)| *slot = index);
    let mut left = keys.len();
    for run in older.iter().filter(|run| run.meets(keys)) {
        let indices = Cell::from_mut(&mut undecided[..left]).as_slice_of_cells();
        let queries = indices.iter().map(|index| keys[index.get()]);
        co_scan(run, queries, |at, position| {
            let index = indices[at].replace(DECIDED);
            marks[index] = mark(run.mark(position).is_live());
        });
        left = remove_decided(&mut undecided[..left]);
    }
    Ok(())
}

/// Moves the indices of undecided keys to the front, in order, and returns how many there are.
fn remove_decided(indices: &mut [usize]) -> usize {
    let mut left = 0;
    for at in 0..indices.len() {
        indices[left] = indices[at];
        left += usize::from(indices[at] != DECIDED);
    }
    left
}
