//! Merging with all threads: each merges the entries of all sources between two keys.

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::block::block_capacity;
use crate::cpu::merge::entries::{Entries, EntriesMut};
use crate::cpu::merge::keep::Keep;
use crate::cpu::merge::merger::Merger;
use crate::cpu::merge::source::{Source, key_lists, slices, total_len};
use crate::cpu::merge::split::split;
use crate::cpu::run::{Run, key_capacity};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::Mark;
use crate::value::Value;
use crate::workers::cut;

/// Entries in a block where memory is short: each takes a little longer to find.
pub(crate) const SMALL_BLOCK: usize = 1 << 7;

/// Entries in a block where hardly any memory is left.
const SMALLEST_BLOCK: usize = 1 << 4;

/// Merges all sources, newest first, into one run. Returns `None` if nothing is kept.
pub(crate) fn merge<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    sources: &[Source<'_, B, V>],
    keep: Keep,
) -> Result<Option<Run<B>>, Error> {
    let mut output = MergeOutput::with_capacity_for(cpu, sources, keep)?;
    output.append(cpu, sources)?;
    output.into_run(cpu)
}

/// The entries that a merge has written so far.
pub(crate) struct MergeOutput<B, V> {
    keep: Keep,
    /// Long enough to become the keys of a run.
    keys: Buffer<B>,
    values: Buffer<V>,
    /// `None` if the marks are not wanted.
    marks: Option<Buffer<Mark>>,
    len: usize,
}

impl<B: OrderedKey, V: Value> MergeOutput<B, V> {
    /// Allocates an empty output with room for all entries that these sources may leave.
    pub fn with_capacity_for(
        cpu: &Cpu,
        sources: &[Source<'_, B, V>],
        keep: Keep,
    ) -> Result<Self, Error> {
        let capacity = max_output(sources, keep);
        Ok(MergeOutput {
            keep,
            keys: cpu.memory.zeroed(key_capacity(capacity))?,
            values: cpu.memory.zeroed(capacity)?,
            marks: match keep {
                Keep::Live => None,
                Keep::Stored => Some(cpu.memory.zeroed(capacity)?),
            },
            len: 0,
        })
    }

    /// Merges the sources, newest first, and appends what is kept. An error leaves the output as it
    /// was.
    pub fn append(&mut self, cpu: &Cpu, sources: &[Source<'_, B, V>]) -> Result<(), Error> {
        let keep = self.keep;
        let marks = self.marks.as_deref_mut().unwrap_or_default();
        let mut all = Entries { keys: &mut *self.keys, values: &mut *self.values, marks };
        let threads = cpu.workers.count();
        self.len +=
            merge_into(cpu, sources, keep, threads, all.after(self.len), |part, mut out| {
                let mut merge_in_blocks =
                    |block| Merger::with_block(cpu, part, keep, block)?.merge(part, out.after(0));
                let mut merged = merge_in_blocks(block_capacity(part.len()));
                for block in [SMALL_BLOCK, SMALLEST_BLOCK] {
                    if matches!(merged, Err(Error::OutOfMemory { .. })) {
                        merged = merge_in_blocks(block);
                    }
                }
                merged
            })?;
        Ok(())
    }

    /// Builds a run of the output, or `None` if it is empty.
    pub fn into_run(self, cpu: &Cpu) -> Result<Option<Run<B>>, Error> {
        Run::build(cpu, self.keys, self.values, self.marks.as_deref(), self.len)
    }
}

/// Merges the sources, newest first, and writes what is kept to the start of `out`; returns how many. `merge` does that
/// with a part of the sources; at most this many threads call it, for different parts.
pub(crate) fn merge_into<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    sources: &[Source<'_, B, V>],
    keep: Keep,
    threads: usize,
    mut out: EntriesMut<'_, B, V>,
    merge: impl Fn(&[Source<'_, B, V>], EntriesMut<'_, B, V>) -> Result<usize, Error> + Sync,
) -> Result<usize, Error> {
    let parts: Vec<Vec<Source<'_, B, V>>> =
        split(&key_lists(sources), cpu.workers.parts(total_len(sources)).min(threads))
            .iter()
            .map(|ranges| slices(sources, ranges))
            .collect();
    let sizes: Vec<usize> = parts.iter().map(|part| max_output(part, keep)).collect();
    let out = out.between(0, sizes.iter().sum());
    let mark_sizes = sizes.iter().map(|&size| if keep == Keep::Stored { size } else { 0 });
    let outputs = cut(&mut *out.keys, sizes.iter().copied())
        .into_iter()
        .zip(cut(&mut *out.values, sizes.iter().copied()))
        .zip(cut(&mut *out.marks, mark_sizes))
        .map(|((keys, values), marks)| Entries { keys, values, marks });
    let written = cpu.workers.map(parts.iter().zip(outputs), |(part, out)| merge(part, out))?;

    // Dropped entries left gaps between the outputs of the threads.
    let gaps = || sizes.iter().copied().zip(written.iter().copied());
    close_gaps(out.values, gaps());
    close_gaps(out.marks, gaps().filter(|_| keep == Keep::Stored));
    Ok(close_gaps(out.keys, gaps()))
}

/// Returns how many entries a merge may write. If only live entries are kept and all sources are
/// runs, their running sums tell the exact number; otherwise it is the number of all entries.
pub(crate) fn max_output<B, V>(sources: &[Source<'_, B, V>], keep: Keep) -> usize {
    let live: Option<i64> = match keep {
        Keep::Live => sources.iter().map(Source::sum).sum(),
        Keep::Stored => None,
    };
    live.map_or_else(|| total_len(sources), |live| live as usize)
}

/// Moves the written elements together; each part of the data, given as (size, written), begins
/// with those. Returns how many there are in all.
fn close_gaps<T: Copy>(data: &mut [T], parts: impl Iterator<Item = (usize, usize)>) -> usize {
    let (mut from, mut to) = (0, 0);
    for (size, written) in parts {
        if from != to {
            data.copy_within(from..from + written, to);
        }
        from += size;
        to += written;
    }
    to
}
