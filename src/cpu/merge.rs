//! Merging runs, and the sorted batch on top of them, into one run.
//!
//! An entry that ends neither live nor shadowing hides nothing and is dropped: a tombstone goes
//! together with its victim. Into the oldest run only live entries go.

use std::ops::Range;

use crate::cpu::Cpu;
use crate::cpu::block::Merger;
use crate::cpu::entries::Entries;
use crate::cpu::marks::byte;
use crate::cpu::memory::Buffer;
use crate::cpu::run::key_room;
use crate::cpu::source::Source;
use crate::cpu::workers::cut;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Which merged entries are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Those that are live: into the oldest run, or as an answer. Their marks are not wanted.
    Live,
    /// Those that are live or shadow something older, with their marks.
    Marked,
}

impl Keep {
    /// The bits of a mark of which a kept entry has one.
    pub fn mask(self) -> u8 {
        match self {
            Keep::Live => byte::LIVE,
            Keep::Marked => byte::LIVE | byte::SHADOW,
        }
    }
}

/// What a merge wrote.
pub(crate) struct Merged<B, V> {
    /// With room to become the keys of a run.
    pub keys: Buffer<B>,
    pub values: Buffer<V>,
    /// Where they were wanted.
    pub marks: Option<Buffer<u8>>,
    pub len: usize,
}

/// Merges all sources, newest first, with all threads.
pub(crate) fn merge<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    sources: &[Source<'_, B, V>],
    keep: Keep,
) -> Result<Merged<B, V>, Error> {
    // Each thread merges the sources' entries between two keys.
    let entries = sources.iter().map(|source| source.keys.len()).sum();
    let parts: Vec<Vec<Source<'_, B, V>>> = split(sources, cpu.workers.parts(entries))
        .into_iter()
        .map(|ranges| {
            sources.iter().zip(ranges).map(|(source, range)| source.slice(range)).collect()
        })
        .collect();
    let sizes: Vec<usize> = parts.iter().map(|part| room_for(part, keep)).collect();
    let room = sizes.iter().sum();
    let mut keys = cpu.memory.zeroed(key_room(room))?;
    let mut values = cpu.memory.zeroed(room)?;
    let mut marks = cpu.memory.zeroed(if keep == Keep::Marked { room } else { 0 })?;
    let mark_sizes = sizes.iter().map(|&size| if keep == Keep::Marked { size } else { 0 });
    let outputs = cut(&mut keys, sizes.iter().copied())
        .into_iter()
        .zip(cut(&mut values, sizes.iter().copied()))
        .zip(cut(&mut marks, mark_sizes))
        .map(|((keys, values), marks)| Entries { keys, values, marks });
    let written = cpu.workers.each(parts.iter().zip(outputs), |(part, out)| {
        Merger::new(cpu, part, keep)?.merge(part, out)
    })?;

    // What was dropped left gaps between the parts.
    let gaps = || sizes.iter().copied().zip(written.iter().copied());
    let len = close_gaps(&mut keys, gaps());
    close_gaps(&mut values, gaps());
    close_gaps(&mut marks, gaps().filter(|_| keep == Keep::Marked));
    Ok(Merged { keys, values, marks: (keep == Keep::Marked).then_some(marks), len })
}

/// How many entries a merge may write: exactly as many, where only live ones are kept and the marks
/// of all sources tell how many that are; else as if none was dropped.
fn room_for<B, V>(sources: &[Source<'_, B, V>], keep: Keep) -> usize {
    let live: Option<i64> = match keep {
        Keep::Live => sources.iter().map(Source::sum).sum(),
        Keep::Marked => None,
    };
    live.map_or_else(|| sources.iter().map(|source| source.keys.len()).sum(), |live| live as usize)
}

/// Cuts all sources at the same keys into about equal parts: the entries of each in every part.
pub(crate) fn split<B: OrderedKey, V>(
    sources: &[Source<'_, B, V>],
    parts: usize,
) -> Vec<Vec<Range<usize>>> {
    let total: usize = sources.iter().map(|source| source.keys.len()).sum();
    let mut samples: Vec<B> = sources
        .iter()
        .filter(|_| parts > 1)
        .flat_map(|source| source.keys.iter().step_by(source.keys.len() / (parts * 64) + 1))
        .copied()
        .collect();
    samples.sort_unstable();
    let below = |key: B| sources.iter().map(move |s| s.keys.partition_point(|&k| k < key));
    let mut starts = vec![0; sources.len()];
    (1..=parts)
        .map(|part| {
            let goal = total / parts * part;
            let at = samples.partition_point(|&sample| below(sample).sum::<usize>() < goal);
            let ends: Vec<usize> = match samples.get(at) {
                Some(&key) if part < parts => below(key).collect(),
                _ => sources.iter().map(|source| source.keys.len()).collect(),
            };
            std::mem::replace(&mut starts, ends.clone())
                .into_iter()
                .zip(ends)
                .map(|(s, e)| s..e)
                .collect()
        })
        .collect()
}

/// Moves the written beginning of every stretch to the left, and returns how much there is in all.
fn close_gaps<T: Copy>(data: &mut [T], stretches: impl Iterator<Item = (usize, usize)>) -> usize {
    let (mut from, mut to) = (0, 0);
    for (size, written) in stretches {
        if from != to {
            data.copy_within(from..from + written, to);
        }
        from += size;
        to += written;
    }
    to
}
