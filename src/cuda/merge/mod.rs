//! Merging sorted sources into a run: what a merge reads, the scratch it needs, and its launch.

pub(super) mod in_place;
pub(super) mod incremental;
mod plan;

use std::ops::Range;

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::ffi::{
    self, Address, Combiner, CutBy, Filters, MAX_PARTS, MAX_SOURCES, RunOutput, ShadowQueries,
    Sources, View, check,
};
use crate::cuda::run::resolve::compute_missing;
use crate::cuda::run::{MarkStorage, Run};
use crate::error::Error;

/// Returns how the marks are stored of the run that these carried runs, and a batch, are merged into.
///
/// As long as inserts meet only inserts, it is left open which of them are shadows. If the batch `needs_marks`,
/// because it deletes or assigns, shadows are found by the merge; and also if marks are `wanted` now: by a
/// caller who queries after every batch, if the batch is so short that two more kernels would matter.
pub(super) fn output_marks(
    needs_marks: bool,
    wanted: bool,
    carried: &[Run],
    older: &[Run],
) -> MarkStorage {
    if older.is_empty() {
        MarkStorage::None
    } else if !needs_marks && !wanted && carried.iter().all(Run::lacks_marks) {
        MarkStorage::Lazy
    } else {
        MarkStorage::Inline
    }
}

/// Returns how the marks are stored of the run that these runs are merged into, on top of the older ones, after
/// computing what is needed for it.
fn marks_of_merge(
    cuda: &EnteredCuda<'_>,
    runs: &[Run],
    older: &[Run],
) -> Result<MarkStorage, Error> {
    let marks = output_marks(false, false, runs, older);
    if marks == MarkStorage::Inline {
        let all: Vec<Run> = runs.iter().chain(older).cloned().collect();
        compute_missing(cuda, &all)?;
    }
    Ok(marks)
}

/// Returns runs as the sources of a merge.
fn sources_of(runs: &[Run]) -> Box<Sources> {
    let mut sources = Box::new(Sources::new());
    runs.iter().for_each(|run| sources.push(run.source()));
    sources
}

/// The older runs that shadows are looked for in, with their filters.
pub(super) struct OlderRuns {
    pub view: View,
    pub filters: Filters,
}

impl OlderRuns {
    /// Returns no runs: for merges that look for no shadows.
    pub fn none() -> Self {
        let view = View::new([].into_iter(), Combiner::NONE);
        OlderRuns { view, filters: Filters::default() }
    }
}

/// How large a merge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MergeSize {
    /// The number of sources.
    pub sources: i32,
    /// An upper bound of the number of entries of all sources.
    pub bound: u64,
}

impl MergeSize {
    /// Returns the size of a merge of these runs.
    pub fn of(runs: &[Run]) -> Self {
        let bound = runs.iter().map(Run::bound).sum::<u64>().max(1);
        MergeSize { sources: runs.len() as i32, bound }
    }

    /// Returns the bytes of scratch that the merge needs.
    pub fn scratch_bytes(self, cuda: &Cuda) -> u64 {
        let MergeSize { sources, bound } = self;
        // SAFETY: no pointers.
        unsafe { ffi::gpulsm_merge_scratch(cuda.key_width, cuda.value_width, sources, bound) }
    }

    /// Returns the most bytes of scratch that a merge of at most `bound` entries needs.
    pub fn max_scratch_bytes(cuda: &Cuda, bound: u64) -> u64 {
        MergeSize { sources: MAX_SOURCES as i32, bound }.scratch_bytes(cuda)
    }

    /// Returns the chain of the merge, at the beginning of its scratch, if its tiles may cut themselves once that is
    /// zeroed: the merge is short, and computes neither marks nor values.
    pub fn chain_to_zero(self, cuda: &Cuda, scratch: Address, has_marks: bool) -> Option<Chain> {
        if has_marks || cuda.combiner.is_some() {
            return None;
        }
        let MergeSize { sources, bound } = self;
        // SAFETY: no pointers.
        let bytes =
            unsafe { ffi::gpulsm_merge_chain(cuda.key_width, cuda.value_width, sources, bound) };
        (bytes > 0).then_some(Chain { address: scratch, bytes })
    }

    /// Returns the number of tiles of the merge.
    pub fn tiles(self, cuda: &Cuda) -> u64 {
        let MergeSize { sources, bound } = self;
        // SAFETY: no pointers.
        unsafe { ffi::gpulsm_merge_tiles(cuda.key_width, cuda.value_width, sources, bound) }
    }
}

/// Where the tiles of a merge publish how many entries they keep: zeros, before the first one is merged.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    pub address: Address,
    pub bytes: u64,
}

/// What a merge reads.
pub(super) struct MergeInput<'a> {
    pub size: MergeSize,
    pub sources: &'a Sources,
    /// Keys among the sources whose shadows are looked for…
    pub shadows: &'a [ShadowQueries; MAX_PARTS],
    /// …in these runs.
    pub older: &'a OlderRuns,
    /// How the values of equal keys combine.
    pub combiner: Combiner,
    /// Who cuts its tiles.
    pub cut_by: CutBy,
}

/// Cuts all tiles of a merge and prepares its scratch, so that its tiles need not be cut when they are merged. The stream
/// has waited for the sources; `scratch` has [`MergeSize::scratch_bytes`] bytes.
fn cut(
    cuda: &EnteredCuda<'_>,
    size: MergeSize,
    sources: &Sources,
    scratch: Address,
) -> Result<(), Error> {
    // SAFETY: the sources have at most `bound` entries, and are alive and written before what this stream does now;
    // the scratch is of the size that the kernels need.
    check("cutting the tiles of a merge", unsafe {
        let (key_width, value_width, stream) =
            (cuda.key_width, cuda.value_width, cuda.raw_stream());
        ffi::gpulsm_merge_cut(key_width, value_width, sources, size.bound, scratch, stream)
    })
}

/// Every tile of a merge.
pub(super) const ALL_TILES: Range<u64> = 0..u64::MAX;

/// Merges these tiles of the input into the output. The stream has waited for the sources and the older
/// runs; `scratch` has [`MergeSize::scratch_bytes`] bytes, which no other merge uses until all tiles are
/// merged.
pub(super) fn launch(
    cuda: &EnteredCuda<'_>,
    input: &MergeInput<'_>,
    tiles: Range<u64>,
    scratch: Address,
    out: &RunOutput,
) -> Result<(), Error> {
    let MergeInput { size, sources, shadows, older, combiner, cut_by } = input;
    debug_assert_eq!(size.sources, sources.count, "scratch is sized for the sources");
    // SAFETY: the sources have at most `bound` entries, and the keys whose shadows are looked for are among
    // them; they and the older runs are alive, and written before what this stream does now; the output has
    // room for `bound` entries or for all that are left of them; the scratch is of the size that the kernels
    // need, and this stream has merged the tiles before these with it.
    check("merging runs", unsafe {
        ffi::gpulsm_merge(
            cuda.key_width,
            cuda.value_width,
            *sources,
            size.bound,
            tiles.start,
            tiles.end - tiles.start,
            *cut_by,
            *shadows,
            &older.view,
            &older.filters,
            scratch,
            out,
            combiner,
            cuda.raw_stream(),
        )
    })
}
