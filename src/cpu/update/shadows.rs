//! Shadows: which keys of a batch are live in the older runs.

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::run::Run;
use crate::cpu::run::marks::byte;
use crate::cpu::update::co_scan::co_scan;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Bytes that finding the shadow of one update takes: its mark, and its place in a list.
pub(crate) const BYTES_PER_UPDATE: usize = size_of::<u8>() + size_of::<usize>();

/// Set while marks are found: a run has the key, so older runs have no say.
const DECIDED: u8 = 128;

/// The marks of a sorted batch that arrives on top of `older`, all live or all tombstones.
pub(crate) fn mark<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    live: bool,
    older: &[Run<B, V>],
) -> Result<Buffer<u8>, Error> {
    let mut marks = cpu.memory.zeroed(keys.len())?;
    marks.fill(if live { byte::NEW } else { byte::PRESENT });
    let part = keys.len().div_ceil(cpu.workers.parts(keys.len())).max(1);
    let pieces = keys.chunks(part).zip(marks.chunks_mut(part));
    cpu.workers.each(pieces, |(keys, marks)| mark_piece(cpu, keys, marks, older))?;
    Ok(marks)
}

/// Scans each older run, newest first, in step with the keys that no newer one has decided.
fn mark_piece<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    keys: &[B],
    marks: &mut [u8],
    older: &[Run<B, V>],
) -> Result<(), Error> {
    let mut undecided = cpu.memory.zeroed::<usize>(keys.len())?;
    undecided.iter_mut().enumerate().for_each(|(index, slot)| *slot = index);
    let mut left = keys.len();
    for run in older {
        let queries = undecided[..left].iter().map(|&index| keys[index]);
        co_scan(run, queries, |at, position| {
            let shadow = if run.mark(position).is_live() { byte::SHADOW } else { 0 };
            marks[undecided[at]] |= DECIDED | shadow;
        });
        left = retain(&mut undecided[..left], |index| marks[index] & DECIDED == 0);
    }
    marks.iter_mut().for_each(|mark| *mark &= !DECIDED);
    Ok(())
}

/// Moves what is wanted to the front, in order, and returns how much that is.
fn retain(items: &mut [usize], wanted: impl Fn(usize) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..items.len() {
        items[kept] = items[at];
        kept += usize::from(wanted(items[at]));
    }
    kept
}
