//! Which steps a batch goes through, and the memory they need.

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::ffi::{MAX_SOURCES, RunOutput, Source, SourceKind};
use crate::cuda::merge::{Chain, MergeSize};
use crate::cuda::run::unwritten::Unwritten;
use crate::cuda::run::{MarkStorage, Run, resolve};
use crate::cuda::update::batch::{Batch, BatchPart};
use crate::cuda::update::scratch::{Scratch, ScratchLayout, Slot};
use crate::cuda::update::sort::{
    self, Guide, InPlace, MergedTileSort, SplitterSort, TileSort, WholeSort,
};
use crate::cuda::update::splitters;
use crate::error::Error;

/// The most entries that are merged directly with the tiles of a batch: the more tiles there are, the more
/// often every entry is compared.
const MAX_MERGED_WITH_TILES: u64 = 1 << 20;

/// The steps that a batch goes through.
pub(super) struct Plan {
    /// Newest first.
    pub parts: Vec<PartPlan>,
    /// `None` if the batch, which is one part then, becomes the run by itself.
    pub merge: Option<MergePlan>,
}

/// How one part of a batch is sorted.
pub(super) struct PartPlan {
    pub part: BatchPart,
    sort: Sort,
    /// Where a byte for each key says whether it is a shadow, if that is needed…
    shadow_bytes: Option<Slot>,
    /// …and how it is known.
    shadows: Shadows,
}

/// Which keys of a batch are shadows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shadows {
    /// That is not needed.
    Unneeded,
    /// All of them.
    All,
    /// Those that are found in the older runs.
    Searched,
}

/// A merge and its scratch.
pub(super) struct MergePlan {
    pub size: MergeSize,
    pub scratch: Slot,
}

/// A way to sort, and its scratch.
enum Sort {
    Whole(WholeSort),
    /// As a whole, in buckets between splitters.
    Splitters(SplitterSort),
    /// In tiles, which are then merged like runs.
    Tiles(TileSort),
    /// In tiles, which are merged with each other before anything else.
    MergedTiles(MergedTileSort),
    /// Not at all: it came sorted, and is merged from where it is.
    InPlace(InPlace),
}

/// Which of them is used for all parts of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SortMethod {
    Whole,
    Tiles,
    MergedTiles,
    InPlace,
}

impl Plan {
    /// Plans how a batch is applied on top of the older runs and merged with the carried ones, at most `entries` entries in
    /// all, and reserves the scratch for it.
    pub fn new(
        cuda: &Cuda,
        batch: &Batch,
        carried: &[Run],
        older: &[Run],
        entries: u64,
        shadows: Shadows,
        layout: &mut ScratchLayout,
    ) -> Self {
        let parts = BatchPart::of(cuda, batch);
        let guide = Guide::longest(carried.iter().chain(older));
        let carried = carried.len();
        let is_sorted = batch.order.is_sorted();
        let mut method = SortMethod::choose(is_sorted, &parts, carried, entries);
        let is_whole = method == SortMethod::Whole;
        let needs_shadows = shadows != Shadows::Unneeded;
        let is_merged =
            carried > 0 || batch.deletes > 0 || parts.len() > 1 || needs_shadows || !is_whole;
        if is_sorted && is_merged {
            method = SortMethod::InPlace;
        }
        let mut plan_part = |part: BatchPart| {
            let sort = match method {
                SortMethod::Whole if !is_sorted && splitters::are_used_for(&part) => {
                    Sort::Splitters(SplitterSort::plan(&part, guide, is_merged, layout))
                }
                SortMethod::Whole => {
                    Sort::Whole(WholeSort::plan(&part, is_sorted, is_merged, layout))
                }
                SortMethod::Tiles => Sort::Tiles(TileSort::plan(&part, layout)),
                SortMethod::MergedTiles => {
                    Sort::MergedTiles(MergedTileSort::plan(cuda, &part, layout))
                }
                SortMethod::InPlace => Sort::InPlace(InPlace::plan(layout)),
            };
            let shadow_bytes = needs_shadows.then(|| layout.reserve(part.len));
            PartPlan { part, sort, shadow_bytes, shadows }
        };
        let parts: Vec<PartPlan> = parts.into_iter().map(&mut plan_part).collect();
        let sources = carried as u64 + parts.iter().map(PartPlan::sources).sum::<u64>();
        let size = MergeSize { sources: sources as i32, bound: entries };
        let merge = is_merged
            .then(|| MergePlan { size, scratch: layout.reserve(size.scratch_bytes(cuda)) });
        debug_assert!(
            layout.bytes() <= max_scratch_bytes(cuda, batch.len(), entries),
            "a batch needs no more scratch than was set aside for it"
        );
        Plan { parts, merge }
    }
}

impl SortMethod {
    /// Chooses the fastest for these parts, merged with the carried runs into at most `entries` entries.
    fn choose(is_sorted: bool, parts: &[BatchPart], carried: usize, entries: u64) -> Self {
        match parts {
            [part] if !is_sorted && sort::can_be_tiled(part) => {
                let sources = sort::tile_count(part) as usize + carried;
                if entries <= MAX_MERGED_WITH_TILES && sources <= MAX_SOURCES {
                    SortMethod::Tiles
                } else if part.kind == SourceKind::Inserts {
                    SortMethod::MergedTiles
                } else {
                    SortMethod::Whole
                }
            }
            _ => SortMethod::Whole,
        }
    }
}

impl PartPlan {
    /// Returns how many sources of a merge it becomes: more than one if they are tiles.
    pub fn sources(&self) -> u64 {
        if self.is_tiled() { sort::tile_count(&self.part) } else { 1 }
    }

    /// Returns whether it becomes tiles.
    pub fn is_tiled(&self) -> bool {
        matches!(self.sort, Sort::Tiles(_))
    }

    /// Sorts the part if that is a step of its own; `run` is where a batch by itself goes.
    pub fn sort_whole(
        &mut self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        run: &RunOutput,
    ) -> Result<(), Error> {
        match &self.sort {
            Sort::Whole(sort) => sort.sort(cuda, scratch, &mut self.part, run),
            _ => Ok(()), // They sort when they are launched.
        }
    }

    /// Makes the part, which is sorted if that is done as a whole, a source of a merge, or, if it becomes
    /// tiles, the oldest of them: then it zeroes the chain of the merge, too, if there is one.
    pub fn launch(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        chain: Option<Chain>,
    ) -> Result<Source, Error> {
        let source = match &self.sort {
            Sort::Whole(sort) => sort.launch(cuda, scratch, &self.part),
            Sort::Splitters(sort) => sort.launch(cuda, scratch, &self.part),
            Sort::Tiles(sort) => sort.launch(cuda, scratch, &self.part, chain),
            Sort::MergedTiles(sort) => sort.launch(cuda, scratch, &self.part),
            Sort::InPlace(part) => part.launch(cuda, scratch, &self.part),
        }?;
        let Some(slot) = self.shadow_bytes else { return Ok(source) };
        if self.shadows == Shadows::All {
            scratch.fill(cuda, slot, self.part.len, 1)?;
        }
        Ok(Source { shadows: scratch.address(slot), ..source })
    }

    /// Returns whether its shadows are looked for in the older runs.
    pub fn searches_shadows(&self) -> bool {
        self.shadows == Shadows::Searched
    }

    /// Writes the part, which is sorted, as a run.
    pub fn launch_into(
        &self,
        cuda: &EnteredCuda<'_>,
        scratch: &Scratch,
        run: &RunOutput,
    ) -> Result<(), Error> {
        match &self.sort {
            Sort::Whole(sort) => sort.launch_into(cuda, scratch, &self.part, run),
            Sort::Splitters(sort) => sort.launch_into(cuda, scratch, &self.part, run),
            _ => unreachable!("all others are merged"),
        }
    }
}

/// Returns the most bytes that absorbing `updates` updates may take, whichever of these runs are carried:
/// scratch, marks that are still to be computed, and the new run.
pub(crate) fn working_bytes(cuda: &Cuda, updates: u64, runs: &[Run]) -> u64 {
    let entries = updates + runs.iter().map(Run::bound).sum::<u64>();
    let lacking = runs.iter().filter(|run| run.lacks_marks());
    max_scratch_bytes(cuda, updates, entries)
        + lacking.map(|run| resolve::working_bytes(cuda, run)).sum::<u64>()
        + Unwritten::bytes(cuda, entries, MarkStorage::Inline)
}

/// Returns the most bytes of scratch, and of temporary memory of a sort, that applying `updates` updates
/// takes if at most `entries` entries are merged.
fn max_scratch_bytes(cuda: &Cuda, updates: u64, entries: u64) -> u64 {
    /// What any batch takes: temporary memory of the sort, heads, and alignment.
    const FIXED: u64 = 1 << 20;
    // Tiles may be merged with each other first: two merges.
    sort::max_bytes(cuda, updates) + 2 * MergeSize::max_scratch_bytes(cuda, entries) + FIXED
}
