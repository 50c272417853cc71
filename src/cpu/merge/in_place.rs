//! Merging runs into the memory that they have: a slice after another, upwards by key, each by all threads.
//!
//! The output has addresses for all entries from the start, and memory only as it is written. What a slice has read of
//! the runs is returned to the system. All memory that a slice takes before it returns as much is in a *purse*,
//! which is filled before the first entry is given up; so from then on nothing can fail.

use std::sync::{Mutex, PoisonError};

use crate::budget::Reserved;
use crate::cpu::context::Cpu;
use crate::cpu::memory::{Buffer, RETURNS_PAGES, page_bytes};
use crate::cpu::merge::block::BLOCK;
use crate::cpu::merge::entries::Entries;
use crate::cpu::merge::keep::Keep;
use crate::cpu::merge::merger::Merger;
use crate::cpu::merge::parallel::{SMALL_BLOCK, max_output, merge_into};
use crate::cpu::merge::source::{Source, key_lists, slices, total_len};
use crate::cpu::merge::split::first_entries;
use crate::cpu::run::fences::{Fences, fence_count};
use crate::cpu::run::marks::{MarkPacker, packed_bytes};
use crate::cpu::run::{Run, key_capacity};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// What merges of all runs at once may take more when there are more of them, mostly of deletes: six pages each.
const SPARE: u64 = 32 * (24 << 10);

/// Memory for a merge of all runs at once is kept free only if it is at most this part of the memory limit; otherwise
/// for merges of two at a time.
const AT_ONCE_PART: u64 = 32;

/// The threads' working space is at most this part of all entries, if that is enough for small blocks on one thread.
const WORKING_PART: usize = 64;

/// What a merge in place may take besides what its plan counts: padding.
const PADDING: u64 = 1 << 10;

/// How large the steps of a merge in place are.
#[derive(Clone, Copy)]
struct Steps {
    /// A slice is this part of all entries…
    slices: usize,
    /// …but at least this many.
    min_slice: usize,
    /// The most entries in a block.
    max_block: usize,
}

/// Steps that hardly cost any time…
const LARGE: Steps = Steps {
    slices: 128,
    min_slice: if cfg!(feature = "testing") { 1 << 8 } else { 1 << 12 },
    max_block: BLOCK,
};

/// …and others that take less memory…
const MEDIUM: Steps = Steps { max_block: SMALL_BLOCK, ..LARGE };

/// …and still less.
const SMALL: Steps = Steps { slices: 512, min_slice: 1 << 8, max_block: SMALL_BLOCK };

/// Merges runs, which no clone shares, into one on top of the older ones, in the memory that they have and at most
/// [`in_place_bytes`] more. Returns `None` if nothing is left. After an error the runs are as they were; otherwise they
/// are only good to be dropped.
pub(crate) fn merge_in_place<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &mut [Run<B>],
    older: &[Run<B>],
) -> Result<Option<Run<B>>, Error> {
    assert!(runs.iter_mut().all(Run::is_unshared), "nobody else holds the runs");
    let keep = Keep::of_merge(runs, older);
    let shapes = shapes(runs);
    let mut plan = Plan::new::<B, V>(cpu, &shapes, keep, LARGE);
    let mut output = Output::<B, V>::new(cpu, runs, keep, &plan);
    for steps in [MEDIUM, SMALL] {
        if output.is_err() {
            plan = Plan::new::<B, V>(cpu, &shapes, keep, steps);
            output = Output::new(cpu, runs, keep, &plan);
        }
    }
    let mut output = output?;
    runs.iter_mut().for_each(|run| run.free_index(&mut output.purse));
    let mut positions = vec![0; runs.len()];
    loop {
        let left: Vec<Source<'_, B, V>> = runs
            .iter()
            .zip(&positions)
            .map(|(run, &position)| Source::from(run).slice(position..run.len()))
            .collect();
        let slice = first_entries(&key_lists(&left), plan.slice);
        output.append(&slices(&left, &slice)).expect("everything is allocated");
        for ((run, position), range) in runs.iter_mut().zip(&mut positions).zip(&slice) {
            let end = *position + range.end;
            run.release_entries(*position..end, &mut output.purse);
            *position = end;
        }
        if positions.iter().zip(runs.iter()).all(|(&position, run)| position == run.len()) {
            runs.iter_mut().for_each(|run| run.free_entries(&mut output.purse));
            return Ok(output.into_run().expect("everything is allocated"));
        }
    }
}

/// Returns the most bytes that merging these runs in place takes, with a newer one of this many entries that is yet to
/// come, all at once or, if that is much of the memory limit, the
/// newest two at a time; `None` if a merge beside them takes no more, or the system cannot do it.
///
/// At once that is at most 5 % of what the runs take, the marks of entries that had none (a third of a byte each), and
/// 24 KiB (six pages) for each run, and for 32 more, and 200 KiB for each thread. Two at a time, it is 2 % of what the
/// runs take, the same marks, and six pages for each of the two.
pub(crate) fn in_place_bytes<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    to_come: usize,
) -> Option<u64> {
    if !RETURNS_PAGES {
        return None;
    }
    let mut shapes = shapes(runs);
    if to_come > 0 {
        shapes.insert(0, Shape { entries: to_come, has_marks: true, fence_bytes: 0 });
    }
    let at_once = Plan::new::<B, V>(cpu, &shapes, Shape::keep(&shapes), LARGE).bytes() + SPARE;
    let bytes = match cpu.memory.budget().limit() {
        Some(limit) if at_once > limit / AT_ONCE_PART => {
            at_once.min(pairwise_bytes::<B, V>(cpu, &shapes))
        }
        _ => at_once,
    };
    let entries: usize = shapes.iter().map(|run| run.entries).sum();
    let pairs = entries * (size_of::<B>() + size_of::<V>());
    (bytes <= pairs as u64 || prefers_in_place()).then_some(bytes)
}

/// Returns whether tests want even the shortest runs to be merged in place.
fn prefers_in_place() -> bool {
    #[cfg(feature = "testing")]
    return crate::store::prefers_in_place();
    #[cfg(not(feature = "testing"))]
    false
}

/// Returns the most bytes that merging the newest two runs, and the result with the next one, and so on, takes.
fn pairwise_bytes<B: OrderedKey, V: Value>(cpu: &Cpu, runs: &[Shape]) -> u64 {
    let [newest, older @ ..] = runs else { return 0 };
    let (mut merged, mut new_marks, mut bytes) = (*newest, 0, 0);
    for run in older {
        let two = [merged, *run];
        let plan = Plan::new::<B, V>(cpu, &two, Shape::keep(&two), SMALL);
        bytes = bytes.max(plan.bytes() + new_marks);
        new_marks += plan.new_marks;
        merged = Shape {
            entries: merged.entries + run.entries,
            has_marks: merged.has_marks || run.has_marks,
            fence_bytes: 0,
        };
    }
    bytes
}

/// What the memory that a merge takes depends on, of a run.
#[derive(Clone, Copy)]
struct Shape {
    entries: usize,
    has_marks: bool,
    fence_bytes: u64,
}

impl Shape {
    /// Returns what a merge of such runs may have to keep.
    fn keep(runs: &[Shape]) -> Keep {
        if runs.iter().any(|run| run.has_marks) { Keep::Stored } else { Keep::Live }
    }
}

fn shapes<B: OrderedKey>(runs: &[Run<B>]) -> Vec<Shape> {
    let shape = |run: &Run<B>| Shape {
        entries: run.len(),
        has_marks: run.marks().is_some(),
        fence_bytes: run.fence_bytes(),
    };
    runs.iter().map(shape).collect()
}

/// How a merge in place proceeds, and the memory that it takes.
struct Plan {
    /// About how many entries are merged at a time…
    slice: usize,
    /// …at most…
    max_slice: usize,
    /// …by how many threads at most…
    threads: usize,
    /// …in blocks of how many.
    block: usize,
    /// The bytes that a slice takes before it returns as many, and what the new run takes more than the runs.
    purse: u64,
    /// The bytes of marks of entries that had none.
    new_marks: u64,
    /// The threads' working space, and unpacked marks.
    scratch: u64,
}

impl Plan {
    fn new<B: OrderedKey, V: Value>(cpu: &Cpu, runs: &[Shape], keep: Keep, steps: Steps) -> Self {
        let entries: usize = runs.iter().map(|run| run.entries).sum();
        let entry = size_of::<B>() + size_of::<V>();
        let slice = (entries / steps.slices).max(steps.min_slice);
        let max_slice = (slice + slice / 8 + runs.len()).min(entries);
        let working = |block| Merger::<B, V>::working_bytes_of_blocks(runs.len(), block);
        let max_working = entries * entry / WORKING_PART;
        let threads = cpu.workers.parts(max_slice);
        let mut block = steps.max_block;
        while block > SMALL_BLOCK && threads * working(block) > max_working {
            block /= 2;
        }
        let block = block.max(runs.len());
        let threads = (max_working / working(block)).clamp(1, threads);

        let mut of_slice = max_slice * entry + unreturned_bytes::<B, V>(runs);
        let (mut new_marks, mut unpacked_marks) = (0, 0);
        if keep == Keep::Stored {
            let unmarked = runs.iter().filter(|run| !run.has_marks).map(|run| run.entries);
            new_marks = unmarked.map(packed_bytes).sum::<usize>() + packed_bytes(0);
            of_slice += packed_bytes(max_slice);
            unpacked_marks = MarkPacker::scratch_bytes(max_slice);
        }
        // The bytes of fences are given up first, and needed last, when nothing is left of the runs.
        let fences: u64 = runs.iter().map(|run| run.fence_bytes).sum();
        let needed_fences = (fence_count(key_capacity(entries)) * size_of::<B>()) as u64;
        let more_fences = needed_fences.saturating_sub(fences);
        Plan {
            slice,
            max_slice,
            threads,
            block,
            purse: (of_slice as u64).saturating_sub(fences)
                + new_marks as u64
                + more_fences
                + PADDING,
            new_marks: new_marks as u64,
            scratch: (threads * working(block) + unpacked_marks) as u64,
        }
    }

    /// Returns the most bytes that the merge takes.
    fn bytes(&self) -> u64 {
        self.purse + self.scratch
    }
}

/// Returns the most bytes of runs whose entries were merged that are still taken: of keys, values and marks of each run,
/// parts of two pages can be neither used nor returned.
fn unreturned_bytes<B, V>(runs: &[Shape]) -> usize {
    let max = 2 * page_bytes();
    let part = |run: &Shape, width: usize| (run.entries * width).min(max);
    let marks = |run: &Shape| if run.has_marks { packed_bytes(run.entries).min(max) } else { 0 };
    let of_run = |run| part(run, size_of::<B>()) + part(run, size_of::<V>()) + marks(run);
    runs.iter().map(of_run).sum()
}

/// The run that comes of a merge in place.
struct Output<'c, B, V> {
    cpu: &'c Cpu,
    keep: Keep,
    threads: usize,
    /// One for each thread.
    mergers: Mutex<Vec<Merger<'c, B, V>>>,
    /// The bytes that the runs have returned and the output has not taken.
    purse: Reserved,
    keys: Buffer<B>,
    values: Buffer<V>,
    fences: Buffer<B>,
    /// `None` if the marks are not wanted.
    marks: Option<MarkPacker>,
    len: usize,
}

impl<'c, B: OrderedKey, V: Value> Output<'c, B, V> {
    /// Allocates everything that the merge needs.
    fn new(cpu: &'c Cpu, runs: &[Run<B>], keep: Keep, plan: &Plan) -> Result<Self, Error> {
        let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
        let capacity = max_output(&sources, keep);
        debug_assert!(capacity <= total_len(&sources));
        let merger = || Merger::with_block(cpu, &sources, keep, plan.block)?.prepared();
        Ok(Output {
            cpu,
            keep,
            threads: plan.threads,
            mergers: Mutex::new((0..plan.threads).map(|_| merger()).collect::<Result<_, _>>()?),
            purse: cpu.memory.reserve(plan.purse)?,
            keys: cpu.memory.unbacked(key_capacity(capacity))?,
            values: cpu.memory.unbacked(capacity)?,
            fences: cpu.memory.unbacked(fence_count(key_capacity(capacity)))?,
            marks: match keep {
                Keep::Live => None,
                Keep::Stored => Some(MarkPacker::new(cpu, capacity, plan.max_slice)?),
            },
            len: 0,
        })
    }

    /// Merges the next slice and appends what is kept.
    fn append(&mut self, sources: &[Source<'_, B, V>]) -> Result<(), Error> {
        let end = self.len + max_output(sources, self.keep);
        self.keys.back(end, &mut self.purse);
        self.values.back(end, &mut self.purse);
        let out = Entries {
            keys: &mut self.keys[self.len..end],
            values: &mut self.values[self.len..end],
            marks: self.marks.as_mut().map_or(&mut [][..], MarkPacker::room),
        };
        let mergers = || self.mergers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = merge_into(self.cpu, sources, self.keep, self.threads, out, |part, out| {
            let mut merger = mergers().pop().expect("each thread has a merger");
            let merged = merger.merge(part, out);
            mergers().push(merger);
            merged
        })?;
        if let Some(marks) = &mut self.marks {
            marks.append(self.cpu, kept, &mut self.purse)?;
        }
        self.len += kept;
        Ok(())
    }

    /// Makes a run of the output, or `None` if it is empty.
    fn into_run(self) -> Result<Option<Run<B>>, Error> {
        let Output { cpu, mut purse, mut keys, mut values, mut fences, marks, len, .. } = self;
        if len == 0 {
            return Ok(None);
        }
        keys.back(key_capacity(len), &mut purse);
        keys.shorten(key_capacity(len));
        keys[len..].fill(B::HIGHEST);
        values.shorten(len);
        fences.back(fence_count(keys.len()), &mut purse);
        fences.shorten(fence_count(keys.len()));
        let fences = Fences::build_in(cpu, &keys, fences)?;
        let marks = marks.map(|marks| marks.finish(cpu, &mut purse)).transpose()?.flatten();
        Ok(Some(Run::of_parts(keys, values, len, fences, marks)))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::aggregate::Number;
    use crate::batch::{Order, Updates};
    use crate::combine::{Combine, Combiner};
    use crate::cpu::merge::parallel::merge;
    use crate::cpu::update::absorb::absorb;
    use crate::mark::Mark;

    /// Runs of which each has twice as many entries as the next newer one, newest first. Every fourth update of a run
    /// is a delete, if there are any.
    fn runs<B: OrderedKey, V: Value>(
        cpu: &Cpu,
        lengths: &[usize],
        key: impl Fn(usize) -> B,
        with_deletes: bool,
    ) -> Vec<Run<B>> {
        let mut runs = Vec::new();
        for (age, &len) in lengths.iter().enumerate().rev() {
            let mut keys: Vec<B> = (0..len).map(|at| key(at * 31 + age * 7)).collect();
            keys.sort_unstable();
            keys.dedup();
            let (deletes, keys): (Vec<(usize, B)>, _) =
                keys.into_iter().enumerate().partition(|(at, _)| with_deletes && at % 4 == 1);
            let keys: Vec<B> = keys.into_iter().map(|(_, key)| key).collect();
            let values: Vec<u8> =
                (0..keys.len() * size_of::<V>()).map(|at| (at / 3 + age) as u8).collect();
            let updates = Updates {
                values: &values,
                assigned: if with_deletes && cpu.combiner().is_some() { keys.len() / 8 } else { 0 },
                keys: Cow::Owned(keys),
                deletes: Cow::Owned(deletes.into_iter().map(|(_, key)| key).collect()),
                order: if cpu.combiner().is_some() { Order::Any } else { Order::Sorted },
            };
            runs.splice(..0, absorb::<B, V>(cpu, &updates, &[], &runs).unwrap());
        }
        runs
    }

    type Contents<B, V> = (Vec<B>, Vec<V>, Vec<Mark>);

    fn contents<B: OrderedKey, V: Value>(run: &Run<B>) -> Contents<B, V> {
        run.validate().unwrap();
        let marks = (0..run.len()).map(|at| run.mark(at)).collect();
        (run.keys().to_vec(), run.values().to_vec(), marks)
    }

    /// Merges runs beside themselves and in place, on top of the last `older` of them.
    fn check<B: OrderedKey, V: Value + PartialEq + std::fmt::Debug>(
        cpu: &Cpu,
        mut runs: Vec<Run<B>>,
        older: usize,
    ) {
        let older = runs.split_off(runs.len() - older);
        let sources: Vec<Source<'_, B, V>> = runs.iter().map(Source::from).collect();
        let beside = merge(cpu, &sources, Keep::of_merge(&runs, &older)).unwrap();
        let expected = beside.as_ref().map(contents::<B, V>);
        drop((sources, beside));
        let bytes = in_place_bytes::<B, V>(cpu, &runs, 0);
        let merged = merge_in_place::<B, V>(cpu, &mut runs, &older).unwrap();
        drop(runs);
        assert!(merged.as_ref().map(contents::<B, V>) == expected, "{bytes:?} bytes");
        let held: u64 = merged.iter().chain(&older).map(|run| run.stats().bytes.total()).sum();
        assert_eq!(cpu.memory.budget().used(), held, "nothing but the runs is held");
    }

    fn check_type<B: OrderedKey, V: Value + PartialEq + std::fmt::Debug>(
        combiner: Option<Combiner>,
        key: impl Fn(usize) -> B + Copy,
    ) {
        for threads in [1, 3] {
            let cpu = || Cpu::new(None, Some(threads)).unwrap().combining(combiner);
            for lengths in [&[100, 5000, 20_000, 60_000][..], &[3, 3, 3], &[40_000, 10, 30_000]] {
                for (with_deletes, older) in [(false, 0), (true, 0), (true, 1), (false, 1)] {
                    let cpu = cpu();
                    let runs = runs::<B, V>(&cpu, lengths, key, with_deletes);
                    check::<B, V>(&cpu, runs, older);
                }
            }
        }
    }

    /// Numbers below 2^18, so that many keys are in several runs.
    fn spread(at: usize) -> usize {
        at.wrapping_mul(0x9e37_79b9) >> 3 & 0x3_ffff
    }

    #[test]
    fn merges_in_place_write_what_others_do_for_every_width() {
        check_type::<u32, ()>(None, |at| spread(at) as u32);
        check_type::<u32, [u8; 16]>(None, |at| spread(at) as u32);
        check_type::<u64, [u8; 8]>(None, |at| (spread(at) as u64) << 40);
        check_type::<u64, [u8; 8]>(None, |at| at as u64); // Disjoint, or nearly.
        check_type::<u128, [u8; 4]>(None, |at| (spread(at) as u128) << 70);
    }

    #[test]
    fn merges_in_place_combine_values() {
        let combiner = Combiner::new(Combine::Add, u64::ELEMENT, 8).unwrap();
        check_type::<u64, [u8; 8]>(combiner, |at| spread(at) as u64);
    }

    #[test]
    fn runs_that_delete_each_other_leave_nothing() {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        let mut merged = runs::<u64, ()>(&cpu, &[50_000], |at| at as u64, false);
        let keys: Vec<u64> = merged[0].keys().to_vec();
        let deletes = Updates { deletes: Cow::Owned(keys), ..Updates::none() };
        merged.splice(..0, absorb::<u64, ()>(&cpu, &deletes, &[], &merged).unwrap());
        check::<u64, ()>(&cpu, merged, 0);
        assert_eq!(cpu.memory.budget().used(), 0);
    }

    #[test]
    fn a_merge_in_place_takes_little_more_than_its_runs() {
        let lengths: Vec<usize> = (12..21).map(|log| 1 << log).collect();
        for (with_deletes, threads, older) in
            [(false, 1, 0), (false, 2, 0), (true, 2, 0), (true, 2, 1)]
        {
            let limit = 1 << 27;
            let cpu = Cpu::new(Some(limit), Some(threads)).unwrap();
            let mut runs = runs::<u64, [u8; 8]>(&cpu, &lengths, |at| at as u64, with_deletes);
            let older = runs.split_off(runs.len() - older);
            let held = |runs: &[Run<u64>]| runs.iter().map(|run| run.stats().bytes.total()).sum();
            let (merged, kept): (u64, u64) = (held(&runs), held(&older));
            let budget = cpu.memory.budget();
            let bound = in_place_bytes::<u64, [u8; 8]>(&cpu, &runs, 0).unwrap();
            let constant = (lengths.len() * (24 << 10) + threads * (200 << 10)) as u64 + SPARE;
            assert!(bound <= merged / 20 + constant, "{bound} bytes more than {merged}");
            // No more than that is free.
            let ballast = cpu.memory.reserve(limit - budget.used() - bound).unwrap();
            let output = merge_in_place::<u64, [u8; 8]>(&cpu, &mut runs, &older).unwrap().unwrap();
            assert!(budget.peak() <= merged + kept + bound + ballast.bytes());
            drop((runs, ballast));
            assert_eq!(budget.used(), output.stats().bytes.total() + kept);
        }
    }

    #[test]
    fn every_allocation_may_fail_and_the_runs_are_as_they_were() {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        let mut merged =
            runs::<u32, [u8; 4]>(&cpu, &[1000, 9000, 30_000, 500], |at| spread(at) as u32, true);
        let older = merged.split_off(3);
        let before: Vec<_> = merged.iter().map(contents::<u32, [u8; 4]>).collect();
        let budget = cpu.memory.budget();
        let used = budget.used();
        // It is tried again with small blocks: two allocations must fail, and then nothing has changed.
        for n in 0..3 {
            let tight = Cpu::new(Some(n * 5000), Some(2)).unwrap();
            let outcome = merge_in_place::<u32, [u8; 4]>(&tight, &mut merged, &older);
            assert!(matches!(outcome, Err(Error::OutOfMemory { .. })));
            assert_eq!((budget.used(), tight.memory.budget().used()), (used, 0));
            assert!(merged.iter().map(contents::<u32, [u8; 4]>).eq(before.iter().cloned()));
        }
        drop((merged, older));
        for n in 0..20 {
            let runs =
                || runs::<u32, [u8; 4]>(&cpu, &[1000, 9000, 30_000], |at| spread(at) as u32, true);
            let (mut beside, mut in_place) = (runs(), runs());
            let expected = merge_in_place::<u32, [u8; 4]>(&cpu, &mut beside, &[]).unwrap();
            budget.fail_after(n);
            let merged = merge_in_place::<u32, [u8; 4]>(&cpu, &mut in_place, &[]).unwrap();
            budget.fail_after(u64::MAX);
            let contents = |run: &Option<Run<u32>>| run.as_ref().map(contents::<u32, [u8; 4]>);
            assert_eq!(contents(&merged), contents(&expected));
        }
    }

    #[test]
    fn few_entries_are_not_merged_in_place() {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        let runs = runs::<u64, ()>(&cpu, &[10, 20, 40], |at| at as u64, false);
        assert_eq!(in_place_bytes::<u64, ()>(&cpu, &runs, 0), None);
    }
}
