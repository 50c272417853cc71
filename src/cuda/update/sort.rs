//! Sorting a part of a batch, and removing all but the last of equal keys; or combining their values.
//!
//! Each way to sort is a step: `plan` reserves its scratch, and `launch` uses it.

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::ffi::{
    self, Address, CutBy, Head, MAX_PARTS, MAX_SOURCES, RunOutput, ShadowQueries, Source, Sources,
    check,
};
use crate::cuda::merge::{self, ALL_TILES, Chain, MergeInput, MergeSize, OlderRuns};
use crate::cuda::run::Run;
use crate::cuda::update::batch::BatchPart;
use crate::cuda::update::radix_sort::radix_sort;
use crate::cuda::update::scratch::{Scratch, ScratchLayout, Slot};
use crate::cuda::update::splitters;
use crate::error::Error;

/// Batches up to this length are sorted in tiles: a radix sort of all of it would take longer than sorting
/// tiles and merging them with what is carried.
pub(crate) const MAX_TILED: u64 = splitters::MIN_LEN - 1;

/// Returns whether the part may be sorted in tiles.
pub(super) fn can_be_tiled(part: &BatchPart) -> bool {
    (2..=MAX_TILED).contains(&part.len)
        && tile_count(part) <= MAX_SOURCES as u64
        && !splitters::are_used_for(part)
}

/// Returns how many tiles the part is sorted in, if it is.
pub(super) fn tile_count(part: &BatchPart) -> u64 {
    // SAFETY: no pointers.
    part.len.div_ceil(unsafe { ffi::gpulsm_sorted_tile() })
}

/// Returns the most bytes that sorting `updates` updates, and noting their shadows, takes.
pub(super) fn max_bytes(cuda: &Cuda, updates: u64) -> u64 {
    // Numbered updates are sorted with numbers in the place of values.
    let pair = (cuda.key_width + cuda.value_width.max(size_of::<u32>() as i32)) as u64;
    // Two copies of all pairs, and what a radix sort needs besides.
    updates * (pair * 9 / 4 + size_of::<u8>() as u64)
}

/// Where a sorted part is.
#[derive(Clone, Copy)]
struct PairSlots {
    keys: Slot,
    values: Slot,
}

impl PairSlots {
    fn plan(part: &BatchPart, layout: &mut ScratchLayout) -> Self {
        let (keys, values) = (part.key_bytes(), part.value_bytes());
        PairSlots { keys: layout.reserve(keys), values: layout.reserve(values) }
    }

    fn addresses(self, scratch: &Scratch) -> (Address, Address) {
        (scratch.address(self.keys), scratch.address(self.values))
    }
}

/// Where a sorted part without duplicates is, and its head: a source of a merge.
#[derive(Clone, Copy)]
struct SourceSlots {
    pairs: PairSlots,
    head: Slot,
}

impl SourceSlots {
    fn plan(part: &BatchPart, layout: &mut ScratchLayout) -> Self {
        let pairs = PairSlots::plan(part, layout);
        SourceSlots { pairs, head: layout.reserve(size_of::<Head>() as u64) }
    }

    /// Calls `launch` with what a kernel is to write, and returns that as a source of a merge.
    fn write(
        self,
        scratch: &Scratch,
        part: &BatchPart,
        launch: impl FnOnce(&RunOutput) -> Result<(), Error>,
    ) -> Result<Source, Error> {
        let (keys, values) = self.pairs.addresses(scratch);
        let head = scratch.address(self.head);
        launch(&RunOutput { head, keys, values, ..RunOutput::default() })?;
        Ok(part.source(keys, values, head))
    }
}

/// Sorts a part in tiles, each without duplicates.
pub(super) struct TileSort {
    pairs: PairSlots,
    lens: Slot,
}

impl TileSort {
    pub fn plan(part: &BatchPart, layout: &mut ScratchLayout) -> Self {
        let lens = layout.reserve(tile_count(part) * size_of::<u64>() as u64);
        TileSort { pairs: PairSlots::plan(part, layout), lens }
    }

    /// Returns the oldest tile as a source; the others follow it in memory. Zeroes the chain of their merge, too, if
    /// there is one.
    pub fn launch(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &BatchPart,
        chain: Option<Chain>,
    ) -> Result<Source, Error> {
        let (keys, values) = self.pairs.addresses(scratch);
        let lens = scratch.address(self.lens);
        let (zeros, zero_bytes) = chain.map_or((0, 0), |chain| (chain.address, chain.bytes));
        // SAFETY: inputs and outputs have `len` elements of the widths given, and there is a length for
        // each tile; the chain is in the scratch of a merge; all are used in the order of this stream.
        check("sorting a short batch", unsafe {
            ffi::gpulsm_sort_tiles(
                part.key_width,
                part.value_width,
                part.keys,
                part.values,
                part.len,
                &part.combiner,
                keys,
                values,
                lens,
                zeros,
                zero_bytes,
                cuda.raw_stream(),
            )
        })?;
        Ok(part.source(keys, values, lens))
    }
}

/// Sorts inserts in tiles, and merges these with each other: faster than a radix sort of all.
pub(super) struct MergedTileSort {
    tiles: TileSort,
    output: SourceSlots,
    size: MergeSize,
    merge: Slot,
}

impl MergedTileSort {
    pub fn plan(cuda: &Cuda, part: &BatchPart, layout: &mut ScratchLayout) -> Self {
        let size = MergeSize { sources: tile_count(part) as i32, bound: part.len };
        MergedTileSort {
            tiles: TileSort::plan(part, layout),
            output: SourceSlots::plan(part, layout),
            size,
            merge: layout.reserve(size.scratch_bytes(cuda)),
        }
    }

    pub fn launch(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &BatchPart,
    ) -> Result<Source, Error> {
        let merge = scratch.address(self.merge);
        let chain = self.size.chain_to_zero(cuda, merge, false);
        let mut sources = Sources::new();
        sources.push_tiles(self.tiles.launch(cuda, scratch, part, chain)?, tile_count(part));
        let input = MergeInput {
            size: self.size,
            sources: &sources,
            shadows: &[ShadowQueries::default(); MAX_PARTS],
            older: &OlderRuns::none(),
            combiner: part.combiner,
            cut_by: if chain.is_some() { CutBy::Tiles } else { CutBy::Kernel },
        };
        self.output.write(scratch, part, |out| merge::launch(cuda, &input, ALL_TILES, merge, out))
    }
}

/// The keys of a run that are likely spread as those of a batch, and where the run's length is; nothing if there is no run.
#[derive(Clone, Copy, Default)]
pub(super) struct Guide {
    keys: Address,
    len: Address,
}

impl Guide {
    /// Returns the longest of these runs.
    pub fn longest<'a>(runs: impl Iterator<Item = &'a Run>) -> Self {
        let longest = runs.max_by_key(|run| run.bound()).map(Run::view);
        longest.map_or_else(Guide::default, |run| Guide { keys: run.keys, len: run.head })
    }
}

/// Cuts a part of medium length at splitters, and sorts the buckets: faster than a radix sort, which takes a dozen
/// kernels.
pub(super) struct SplitterSort {
    cut: Slot,
    guide: Guide,
    /// Where the sorted part is; `None` if it goes straight into the run.
    output: Option<SourceSlots>,
}

impl SplitterSort {
    /// Plans a sort to a source of a merge if it `is_merged`, and straight into the run if not.
    pub fn plan(
        part: &BatchPart,
        guide: Guide,
        is_merged: bool,
        layout: &mut ScratchLayout,
    ) -> Self {
        // SAFETY: no pointers.
        let bytes = unsafe { ffi::gpulsm_splitter_sort_scratch(part.key_width, part.len) };
        let output = is_merged.then(|| SourceSlots::plan(part, layout));
        SplitterSort { cut: layout.reserve(bytes), guide, output }
    }

    /// Sorts the part, without duplicates, to a source of a merge.
    pub fn launch(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &BatchPart,
    ) -> Result<Source, Error> {
        let output = self.output.expect("it was planned as a source");
        output.write(scratch, part, |out| self.launch_into(cuda, scratch, part, out))
    }

    /// Sorts the part, without duplicates, to this output.
    pub fn launch_into(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &BatchPart,
        out: &RunOutput,
    ) -> Result<(), Error> {
        // SAFETY: keys and values have `len` elements of their widths, not too many, the guide is a run that this stream
        // has waited for, the output has room for as many, there is as much scratch as the kernels need, and all are used on this stream.
        check("sorting a batch by splitters", unsafe {
            ffi::gpulsm_splitter_sort(
                part.key_width,
                part.value_width,
                part.keys,
                part.values,
                part.len,
                splitters::salt(),
                splitters::policy().max_window,
                self.guide.keys,
                self.guide.len,
                scratch.address(self.cut),
                out,
                cuda.raw_stream(),
            )
        })
    }
}

/// Takes a part that came sorted and without duplicates as it is.
pub(super) struct InPlace {
    len: Slot,
}

impl InPlace {
    pub fn plan(layout: &mut ScratchLayout) -> Self {
        InPlace { len: layout.reserve(size_of::<u64>() as u64) }
    }

    pub fn launch(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &BatchPart,
    ) -> Result<Source, Error> {
        scratch.write(cuda, self.len, part.len)?;
        Ok(part.source(part.keys, part.values, scratch.address(self.len)))
    }
}

/// Sorts a part as a whole, unless it came sorted, and removes duplicates.
pub(super) struct WholeSort {
    is_sorted: bool,
    /// Scratch of the kernel that removes duplicates.
    zeros: Slot,
    /// Where the sorted part and its length are; `None` if it goes straight into the run.
    output: Option<SourceSlots>,
}

impl WholeSort {
    /// Plans a sort to a source of a merge if it `is_merged`, and straight into the run if not.
    pub fn plan(
        part: &BatchPart,
        is_sorted: bool,
        is_merged: bool,
        layout: &mut ScratchLayout,
    ) -> Self {
        // SAFETY: no pointers.
        let zeros = unsafe {
            match part.combines() {
                true => ffi::gpulsm_fold_scratch(part.key_width, part.len),
                false => ffi::gpulsm_dedup_scratch(part.key_width, part.value_width, part.len),
            }
        };
        let output = is_merged.then(|| SourceSlots::plan(part, layout));
        WholeSort { is_sorted, zeros: layout.reserve_zeroed(zeros), output }
    }

    /// Sorts the part to where duplicates are then removed in place. (Where it goes straight into the run,
    /// nothing but duplicates will be dropped.)
    pub fn sort(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &mut BatchPart,
        run: &RunOutput,
    ) -> Result<(), Error> {
        if self.is_sorted || part.len < 2 {
            return Ok(());
        }
        let to = match self.output {
            Some(output) => output.pairs.addresses(scratch),
            None => (run.keys, run.values),
        };
        radix_sort(cuda, part, to)?;
        (part.keys, part.values) = to;
        Ok(())
    }

    /// Removes duplicates on the way to a source of a merge.
    pub fn launch(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &BatchPart,
    ) -> Result<Source, Error> {
        let output = self.output.expect("it was planned as a source");
        output.write(scratch, part, |out| self.launch_into(cuda, scratch, part, out))
    }

    /// Removes duplicates on the way to this output.
    pub fn launch_into(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        part: &BatchPart,
        out: &RunOutput,
    ) -> Result<(), Error> {
        let BatchPart { key_width, value_width, keys, values, len, combiner, .. } = part;
        let (zeros, stream) = (scratch.address(self.zeros), cuda.raw_stream());
        // SAFETY: keys and values have `len` elements of their widths and are sorted, the output has room
        // for as many, there are as many zeros as the kernel needs, and all are used on this stream.
        let launched = unsafe {
            match part.combines() {
                true => ffi::gpulsm_fold(
                    *key_width,
                    *value_width,
                    *keys,
                    *values,
                    *len,
                    zeros,
                    combiner,
                    out,
                    stream,
                ),
                false => ffi::gpulsm_dedup(
                    *key_width,
                    *value_width,
                    *keys,
                    *values,
                    *len,
                    zeros,
                    out,
                    stream,
                ),
            }
        };
        check("removing duplicates from a batch", launched)
    }
}
