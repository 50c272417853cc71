//! Merging in place: the new run is written, slice by slice, into the blocks that its sources have, as soon as the merge
//! has read them. It takes a few blocks more than they have.
//!
//! A block is mapped at its old and at its new address at the same time, and everything is mapped before the first byte
//! is written: until then the sources are as they were, and from then on nothing can fail. What one kernel writes at
//! one address, the next one sees at the other.

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::mapped::{Mapped, OwnedBlock};
use crate::cuda::driver::memory::{self, Buffer};
use crate::cuda::ffi::{Address, CutBy, MAX_PARTS, RunOutput, ShadowQueries, Sources};
use crate::cuda::merge::plan::{Origin, Slices, SourceBlock};
use crate::cuda::merge::{
    MergeInput, MergeSize, OlderRuns, cut, launch, marks_of_merge, sources_of,
};
use crate::cuda::run::layout::mark_bytes;
use crate::cuda::run::reading::note_reading;
use crate::cuda::run::storage::{SECTIONS, Storage};
use crate::cuda::run::unwritten::{Unwritten, part_bytes};
use crate::cuda::run::{MarkStorage, Run};
use crate::error::Error;

/// The most slices: each needs its part of the memory besides.
const MAX_SLICES: u64 = 128;

/// Returns the most bytes that merging these runs in place takes; `None` if little of them is mapped.
pub(crate) fn max_bytes(cuda: &Cuda, runs: &[Run]) -> Option<u64> {
    let bytes_of = |is_mapped: bool| {
        let runs = runs.iter().filter(|run| run.storage().mapped_parts().is_some() == is_mapped);
        runs.map(|run| run.storage().allocated()).sum::<u64>()
    };
    let (mapped, others) = (bytes_of(true), bytes_of(false));
    let size = MergeSize::of(runs);
    // The blocks that a slice ends in, of all sources but their fences, also of a run that is yet to come, and of the
    // new run.
    let sources = runs.iter().filter(|run| run.storage().mapped_parts().is_some()).count() + 1;
    let partial = (sources * (SECTIONS - 1) + SECTIONS) as u64;
    let blocks = partial * cuda.gpu().mapping().block_bytes;
    let slice = (mapped + others) / MAX_SLICES;
    let outer = part_bytes(cuda, size.bound, MarkStorage::None).outer;
    let new = others + blocks + slice + outer;
    (mapped > others).then(|| new + size.scratch_bytes(cuda))
}

/// Merges runs, which nobody else holds, on top of the older ones, into the memory that they have. After an error they are
/// as they were, unless it is one after which the GPU can't be used.
pub(crate) fn merge(
    cuda: &EnteredCuda<'_>,
    runs: &mut [Run],
    older: &[Run],
) -> Result<Option<Run>, Error> {
    cuda.refuse_capture()?;
    let marks = marks_of_merge(cuda, runs, older)?;
    for run in &*runs {
        run.before_overwriting(&cuda.stream, cuda.entered())?;
    }
    let merge = SlicedMerge::new(cuda, runs)?;
    let blocks: Vec<_> = runs.iter_mut().map(count_blocks).collect();
    let slices = merge.slices(cuda, marks, &blocks);
    let plan = slices.plan();
    let storage = map(cuda, runs, &plan, merge.size.bound, marks)?;
    let mut run = Unwritten::in_storage(cuda, merge.size.bound, marks, storage)?;
    // From here on nothing fails but the GPU.
    take_counts(runs, &plan, &mut run.storage);
    merge.launch(cuda, &slices, &mut run)?;
    note_reading(&cuda.stream, runs)?;
    let least_sum = runs.iter().map(Run::least_sum).sum();
    run.written(cuda, least_sum).map(|run| Some(run.inherit_searches(runs)))
}

/// A merge whose tiles are cut, and merged a slice at a time.
struct SlicedMerge {
    size: MergeSize,
    sources: Box<Sources>,
    scratch: Buffer,
    /// The number of tiles, and of those of a slice.
    tiles: u64,
    slice: u64,
    /// For each slice, and for the end of the last one: where it begins in every source.
    cuts: Vec<Vec<u64>>,
}

impl SlicedMerge {
    /// Cuts the tiles, and waits to know where slices begin.
    fn new(cuda: &EnteredCuda<'_>, runs: &[Run]) -> Result<Self, Error> {
        // Then their lengths are known.
        runs.iter().try_for_each(|run| run.wait_until_written(cuda.entered()))?;
        let (sources, size) = (sources_of(runs), MergeSize::of(runs));
        let scratch = cuda.alloc(size.scratch_bytes(cuda))?;
        cut(cuda, size, &sources, scratch.address())?;
        let tiles = size.tiles(cuda);
        let slice = tiles.div_ceil(MAX_SLICES);
        let count = runs.len() as u64;
        // The cuts are the last part of the scratch, tile after tile.
        let first = scratch.address() + scratch.bytes() - (tiles + 1) * count * 8;
        let mut cuts = Vec::new();
        for number in 0..=tiles.div_ceil(slice) {
            let tile = (number * slice).min(tiles);
            let mut row = vec![0; count as usize];
            // SAFETY: there is a cut for every tile and source; the rows are read after the stream is synchronized.
            unsafe { cuda.download(first + tile * count * 8, &mut row)? };
            cuts.push(row);
        }
        cuda.stream.synchronize()?;
        Ok(SlicedMerge { size, sources, scratch, tiles, slice, cuts })
    }

    fn slices<'a>(
        &'a self,
        cuda: &Cuda,
        marks: MarkStorage,
        blocks: &'a [[usize; SECTIONS]],
    ) -> Slices<'a> {
        Slices {
            block_bytes: cuda.gpu().mapping().block_bytes,
            key_width: cuda.key_width as u64,
            value_width: cuda.value_width as u64,
            has_marks: marks == MarkStorage::Inline,
            cuts: &self.cuts,
            blocks,
        }
    }

    /// Merges all slices, one after the other.
    fn launch(
        &self,
        cuda: &EnteredCuda<'_>,
        slices: &Slices<'_>,
        run: &mut Unwritten,
    ) -> Result<(), Error> {
        let input = MergeInput {
            size: self.size,
            sources: &self.sources,
            shadows: &[ShadowQueries::default(); MAX_PARTS],
            older: &OlderRuns::none(),
            combiner: cuda.raw_combiner(),
            cut_by: CutBy::Call,
        };
        let mut zeroed = 0;
        for number in 0..slices.cuts.len() - 1 {
            let output = run.output();
            if slices.has_marks {
                let end = mark_bytes(slices.entries_before(number + 1));
                zero_marks(cuda, output.marks, zeroed, end)?;
                zeroed = end;
            }
            let first = number as u64 * self.slice;
            let tiles = first..(first + self.slice).min(self.tiles);
            let is_last = tiles.end == self.tiles;
            let write =
                |out: &RunOutput| launch(cuda, &input, tiles.clone(), self.scratch.address(), out);
            match is_last {
                true => run.write(cuda, write)?,
                false => write(&output)?,
            }
        }
        Ok(())
    }
}

/// Zeroes marks from one offset to another: the merge sets them bit by bit. Slices before wrote none of them.
fn zero_marks(cuda: &EnteredCuda<'_>, marks: Address, from: u64, to: u64) -> Result<(), Error> {
    // SAFETY: the new run has room for the marks of all entries, and nothing else uses the blocks under those of the next
    // slice any more.
    unsafe { memory::fill(marks + from, to - from, 0, &cuda.stream, cuda.entered()) }
}

/// Returns how many blocks each part of a run has; none if it is in a buffer.
fn count_blocks(run: &mut Run) -> [usize; SECTIONS] {
    let parts = run.storage_mut().and_then(Storage::mapped_parts_mut);
    parts.map_or([0; SECTIONS], |parts| {
        parts.sections.each_mut().map(|section| section.blocks_mut().len())
    })
}

/// Returns a block of a source.
fn block_of<'a>(runs: &'a mut [Run], block: &SourceBlock) -> &'a mut OwnedBlock {
    let parts = runs[block.source].storage_mut().and_then(Storage::mapped_parts_mut);
    let parts = parts.expect("only blocks of mapped runs that nobody else holds are planned with");
    &mut parts.sections[block.section].blocks_mut()[block.index]
}

/// Maps the blocks of a new run of at most `bound` entries, and allocates those that are new.
fn map(
    cuda: &EnteredCuda<'_>,
    runs: &mut [Run],
    plan: &[Vec<Origin>; SECTIONS],
    bound: u64,
    marks: MarkStorage,
) -> Result<Storage, Error> {
    let mut map_section = |origins: &Vec<Origin>| {
        let take = |origin: &Origin| match origin {
            Origin::New => OwnedBlock::create(&cuda.account, cuda.gpu(), cuda.entered()),
            Origin::Source(block) => Ok(block_of(runs, block).alias()),
        };
        let blocks = origins.iter().map(take).collect::<Result<Vec<_>, _>>()?;
        Mapped::new(blocks, &cuda.account, &cuda.stream)
    };
    let [keys, inner, values, marks_section] = plan.each_ref().map(&mut map_section);
    let sections = [keys?, inner?, values?, marks_section?];
    Storage::mapped(cuda, part_bytes(cuda, bound, marks), sections)
}

/// Lets the new run count the blocks that it takes over.
fn take_counts(runs: &mut [Run], plan: &[Vec<Origin>; SECTIONS], storage: &mut Storage) {
    let parts = storage.mapped_parts_mut().expect("the new run is mapped");
    for (section, origins) in parts.sections.iter_mut().zip(plan) {
        for (block, origin) in section.blocks_mut().iter_mut().zip(origins) {
            if let Origin::Source(source) = origin {
                block.take_count(block_of(runs, source));
            }
        }
    }
}
