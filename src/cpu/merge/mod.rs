//! Merging runs, and the sorted batch on top of them, into one run.
//!
//! An entry that ends neither live nor shadowing hides nothing and is dropped: a tombstone goes
//! together with its victim. Into the oldest run only live entries go.

pub(super) mod block;
pub(super) mod dead;
pub(super) mod entries;
pub(super) mod incremental;
pub(super) mod source;
pub(super) mod two;

use std::ops::Range;

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::merge::block::Merger;
use crate::cpu::merge::entries::Entries;
use crate::cpu::merge::source::Source;
use crate::cpu::run::key_room;
use crate::cpu::run::marks::byte;
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
    let mut merged = Merged::with_room_for(cpu, sources, keep)?;
    merged.append(cpu, sources, keep)?;
    Ok(merged)
}

impl<B: OrderedKey, V: Value> Merged<B, V> {
    /// Nothing yet, with room for what may come of the sources.
    pub fn with_room_for(
        cpu: &Cpu,
        sources: &[Source<'_, B, V>],
        keep: Keep,
    ) -> Result<Self, Error> {
        let room = room_for(sources, keep);
        Ok(Merged {
            keys: cpu.memory.zeroed(key_room(room))?,
            values: cpu.memory.zeroed(room)?,
            marks: match keep {
                Keep::Live => None,
                Keep::Marked => Some(cpu.memory.zeroed(room)?),
            },
            len: 0,
        })
    }

    /// Merges sources, newest first, behind what is there, with all threads. After an error as much is
    /// there as before.
    pub fn append(
        &mut self,
        cpu: &Cpu,
        sources: &[Source<'_, B, V>],
        keep: Keep,
    ) -> Result<(), Error> {
        // Each thread merges the sources' entries between two keys.
        let entries = sources.iter().map(|source| source.keys.len()).sum();
        let parts: Vec<Vec<Source<'_, B, V>>> = split(sources, cpu.workers.parts(entries))
            .iter()
            .map(|ranges| slices(sources, ranges))
            .collect();
        let sizes: Vec<usize> = parts.iter().map(|part| room_for(part, keep)).collect();
        let marks = self.marks.as_deref_mut().unwrap_or_default();
        let mut all = Entries { keys: &mut *self.keys, values: &mut *self.values, marks };
        let out = all.between(self.len, self.len + sizes.iter().sum::<usize>());
        let mark_sizes = sizes.iter().map(|&size| if keep == Keep::Marked { size } else { 0 });
        let outputs = cut(&mut *out.keys, sizes.iter().copied())
            .into_iter()
            .zip(cut(&mut *out.values, sizes.iter().copied()))
            .zip(cut(&mut *out.marks, mark_sizes))
            .map(|((keys, values), marks)| Entries { keys, values, marks });
        let written = cpu.workers.each(parts.iter().zip(outputs), |(part, out)| {
            Merger::new(cpu, part, keep)?.merge(part, out)
        })?;

        // What was dropped left gaps between the parts.
        let gaps = || sizes.iter().copied().zip(written.iter().copied());
        self.len += close_gaps(out.keys, gaps());
        close_gaps(out.values, gaps());
        close_gaps(out.marks, gaps().filter(|_| keep == Keep::Marked));
        Ok(())
    }
}

/// These entries of every source.
pub(crate) fn slices<'a, B, V>(
    sources: &[Source<'a, B, V>],
    ranges: &[Range<usize>],
) -> Vec<Source<'a, B, V>> {
    sources.iter().zip(ranges).map(|(source, range)| source.slice(range.clone())).collect()
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

/// The first entries of all sources, cut at one key: at least `goal` of them, and few more, or all there
/// are. (Few are as many as have the same key, and an eighth of the goal.)
pub(crate) fn cut_off<B: OrderedKey, V>(
    sources: &[Source<'_, B, V>],
    goal: usize,
) -> Vec<Range<usize>> {
    let below = |key: B| sources.iter().map(move |s| s.keys.partition_point(|&other| other < key));
    // Before this key are at least `goal` entries, and no more than that of any one source.
    let first = sources.iter().filter_map(|source| source.keys.get(goal)).min();
    let mut ends: Vec<usize> = match first {
        Some(&key) => below(key).collect(),
        None => sources.iter().map(|source| source.keys.len()).collect(),
    };
    // Fewer than `goal` entries are before the starts.
    let mut starts = vec![0; sources.len()];
    while ends.iter().sum::<usize>() > goal.saturating_add(goal / 8) {
        let widest = (0..sources.len()).max_by_key(|&at| ends[at] - starts[at]);
        let widest = widest.expect("there are entries");
        let Some(&pivot) = sources[widest].keys[starts[widest]..ends[widest]]
            .get((ends[widest] - starts[widest]) / 2)
        else {
            break; // All that is left to choose from has one key.
        };
        let places: Vec<usize> = (0..sources.len())
            .map(|at| {
                let window = &sources[at].keys[starts[at]..ends[at]];
                starts[at] + window.partition_point(|&key| key < pivot)
            })
            .collect();
        if places.iter().sum::<usize>() >= goal {
            ends = places;
            continue;
        }
        // Past the pivot in every source, so that it is never looked at again.
        let has_pivot = |at: usize| usize::from(sources[at].keys.get(places[at]) == Some(&pivot));
        starts = (0..sources.len()).map(|at| places[at] + has_pivot(at)).collect();
        if starts.iter().sum::<usize>() >= goal {
            ends = starts;
            break;
        }
    }
    ends.into_iter().map(|end| 0..end).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::merge::source::SourceMarks;

    fn source(keys: &[u32]) -> Source<'_, u32, ()> {
        Source { keys, values: None, marks: SourceMarks::New }
    }

    #[test]
    fn as_much_is_cut_off_as_was_asked_for_and_hardly_more() {
        let long: Vec<u32> = (0..100_000).map(|i| i * 3).collect();
        let late: Vec<u32> = (0..5000).map(|i| 200_000 + i).collect();
        let same: Vec<u32> = (0..100).collect();
        let lists: [&[&[u32]]; 5] = [
            &[&long],
            &[&long, &late],
            &[&same, &same, &same],
            &[&late, &[], &same, &long],
            &[&[7]],
        ];
        for list in lists {
            let sources: Vec<_> = list.iter().map(|keys| source(keys)).collect();
            let total: usize = list.iter().map(|keys| keys.len()).sum();
            for goal in [1, 2, 10, 99, 1000, 30_000, 105_000, usize::MAX / 2] {
                let cut = cut_off(&sources, goal);
                let entries: usize = cut.iter().map(|range| range.end).sum();
                assert!(entries >= goal.min(total), "{entries} of {total} for {goal}");
                assert!(entries <= goal + goal / 8 + list.len(), "{entries} for {goal}");
                let last = cut.iter().zip(list).filter_map(|(cut, keys)| keys[..cut.end].last());
                let next = cut.iter().zip(list).filter_map(|(cut, keys)| keys.get(cut.end));
                assert!(last.max() < next.min() || entries == total, "cut at one key");
            }
        }
    }
}
