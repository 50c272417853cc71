//! The entry points of `kernels/`, and the structures and constants shared with them; `abi.rs` checks that
//! both sides define them alike.
//!
//! Device addresses are plain integers here: Rust never dereferences them.

use std::ffi::{CStr, c_char, c_int, c_void};

use cudarc::driver::sys::CUstream;

use crate::aggregate::Operation;
use crate::combine::{self, Combine};
use crate::error::Error;
use crate::key::Encoding;

/// An address in device memory, or 0.
pub(crate) type Address = u64;

/// The maximum number of runs in a view.
pub(crate) const MAX_RUNS: usize = 64;

/// The most parts of a batch; see `kernels/merge/sources.cuh`.
pub(crate) const MAX_PARTS: usize = 3;

/// The maximum number of sources of a merge: runs, and the parts of a batch.
pub(crate) const MAX_SOURCES: usize = MAX_RUNS + MAX_PARTS;

/// Keys per node.
pub(crate) const NODE: u64 = 16;

/// Entries per sector of marks.
pub(crate) const SECTOR: u64 = 96;

/// The flag in the number of an update that deletes; see `kernels/update/numbers.cuh`.
pub(crate) const DELETE_FLAG: u32 = 1 << 31;

/// The most parts of a key that is packed on the GPU.
pub(crate) const MAX_COLUMNS: usize = 4;

/// The encoding of a part that is some bytes; those of numbers are [`Encoding`]'s.
pub(crate) const BYTES: c_int = 3;

/// A run as kernels see it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RunView {
    pub keys: Address,
    pub values: Address,
    pub marks: Address,
    pub inner: Address,
    pub outer: Address,
    pub head: Address,
}

/// All runs, newest first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct View {
    pub runs: [RunView; MAX_RUNS],
    pub count: u64,
    pub combiner: Combiner,
}

impl View {
    pub fn new(runs: impl Iterator<Item = RunView>, combiner: Combiner) -> Self {
        let mut view = View { runs: [RunView::default(); MAX_RUNS], count: 0, combiner };
        for run in runs {
            view.runs[view.count as usize] = run;
            view.count += 1;
        }
        view
    }
}

/// How values combine; see `include/gpulsm/combine.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Combiner {
    pub rule: Combine,
    pub encoding: Encoding,
    pub width: u64,
}

impl Combiner {
    /// Values replace each other.
    pub const NONE: Combiner =
        Combiner { rule: Combine::Replace, encoding: Encoding::Unsigned, width: 4 };
}

impl From<Option<combine::Combiner>> for Combiner {
    fn from(combiner: Option<combine::Combiner>) -> Self {
        combiner.map_or(Combiner::NONE, |combiner| Combiner {
            rule: combiner.rule(),
            encoding: combiner.element().encoding,
            width: combiner.element().width as u64,
        })
    }
}

/// The filters of a view's runs, 0 for runs without one; see `kernels/run/filter.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Filters {
    pub words: [Address; MAX_RUNS],
    pub len: [u32; MAX_RUNS],
    pub joint: Address,
    pub joint_len: u32,
    pub joint_runs: u32,
}

impl Default for Filters {
    fn default() -> Self {
        let (words, len) = ([0; MAX_RUNS], [0; MAX_RUNS]);
        Filters { words, len, joint: 0, joint_len: 0, joint_runs: 0 }
    }
}

/// A run's length and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Head {
    pub len: u64,
    pub sum: i64,
    pub tombstones: u64,
}

/// A head in pinned host memory, written by a kernel.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PinnedHead {
    pub head: Head,
    /// 1 once the head is written.
    pub ready: u64,
}

/// The marks of 96 entries; see `include/gpulsm/marks.cuh`.
#[derive(Clone, Copy, Debug, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(32))]
pub(crate) struct Sector {
    pub sum: i64,
    pub live: [u32; 3],
    pub shadow: [u32; 3],
}

/// The arrays of a run that a kernel writes; see `kernels/run/emit.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RunOutput {
    pub keys: Address,
    pub values: Address,
    pub marks: Address,
    pub inner: Address,
    pub outer: Address,
    pub head: Address,
    pub sectors: u64,
    pub pinned_head: Address,
    pub filter: Address,
    pub filter_len: u32,
}

/// What the entries of a source are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum SourceKind {
    #[default]
    Run,
    Inserts,
    Deletes,
    Mixed,
    /// Inserts that assign their values, in a dictionary that combines others.
    Assigned,
}

/// Who cuts the tiles of a merge; see `kernels/merge/merge.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum CutBy {
    /// A kernel that runs before the merge.
    Kernel,
    /// An earlier call, after which the caller has zeroed the marks.
    Call,
    /// Each tile itself, since the merge is short. The caller has zeroed its chain.
    Tiles,
}

/// Sorted entries to be merged; see `kernels/merge/sources.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Source {
    pub keys: Address,
    pub values: Address,
    pub marks: Address,
    pub shadows: Address,
    pub numbers: Address,
    pub len: Address,
    pub kind: SourceKind,
}

/// Keys to look up in the older runs, to find out which are shadows; see `kernels/update/shadows.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ShadowQueries {
    pub keys: Address,
    pub len: Address,
    pub bound: u64,
    pub shadows: Address,
}

/// All sources of a merge, newest first: the tiles of a batch sorted in tiles, then the others; see
/// `kernels/merge/sources.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Sources {
    pub at: [Source; MAX_SOURCES],
    pub tile: Source,
    pub tiles: c_int,
    pub count: c_int,
}

impl Sources {
    pub fn new() -> Self {
        let none = Source::default();
        Sources { at: [none; MAX_SOURCES], tile: none, tiles: 0, count: 0 }
    }

    /// Adds a source that is older than all others.
    pub fn push(&mut self, source: Source) {
        self.at[(self.count - self.tiles) as usize] = source;
        self.count += 1;
    }

    /// Adds `tiles` tiles, of which `oldest` is the oldest. Must come before any `push`.
    pub fn push_tiles(&mut self, oldest: Source, tiles: u64) {
        assert!(self.count == 0 && tiles <= MAX_SOURCES as u64);
        (self.tile, self.tiles, self.count) = (oldest, tiles as c_int, tiles as c_int);
    }
}

/// The output of range queries; see `kernels/query/range_output.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RangeOutput {
    pub len: u64,
    pub offsets: Address,
    pub windows: Address,
    pub room: u64,
    pub total: u64,
    pub all: u64,
    pub keys: Address,
    pub values: Address,
    pub flags: Address,
    pub for_long: u64,
}

/// The output of queries that find at most one pair each; see `kernels/query/pairs_output.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct PairsOutput {
    pub keys: Address,
    pub values: Address,
    pub found: Address,
}

impl PairsOutput {
    /// Returns the answers to `len` queries as keys whose combined values are looked up.
    pub fn combined(&self, len: u64) -> CombineQueries {
        let &PairsOutput { keys, values, found } = self;
        CombineQueries { keys, len, count: 0, values, found, are_answers: true }
    }
}

/// Keys whose combined values are looked up; see `kernels/query/combine_queries.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CombineQueries {
    pub keys: Address,
    pub len: u64,
    pub count: Address,
    pub values: Address,
    pub found: Address,
    pub are_answers: bool,
}

/// How values are combined; see `kernels/query/fold.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Fold {
    pub operation: Operation,
    pub encoding: Encoding,
    pub width: u64,
}

/// Ranges and the output of aggregates; see `kernels/query/aggregate_output.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AggregateOutput {
    pub len: u64,
    pub windows: Address,
    pub counts: Address,
    pub answers: Address,
    pub fold: Fold,
    pub scratch: Address,
}

/// What an as-of query asks of every question; see `kernels/query/asof_query.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AsOfQuery {
    pub tolerance: u128,
    pub encoding: Encoding,
    pub bits: c_int,
    pub is_forward: bool,
    pub is_strict: bool,
    pub has_tolerance: bool,
}

/// One part of all keys; see `kernels/run/columns.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct KeyColumn {
    pub data: Address,
    pub width: c_int,
    pub encoding: c_int,
    pub below: c_int,
}

/// The columns of keys, and the bits of the parts that are the same in all of them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct KeyColumns {
    pub at: [KeyColumn; MAX_COLUMNS],
    pub low: u64,
    pub high: u64,
    pub count: c_int,
}

unsafe extern "C" {
    pub(crate) fn gpulsm_cuda_version() -> c_int;
    pub(crate) fn gpulsm_probe() -> c_int;
    fn gpulsm_error_name(error: c_int) -> *const c_char;
    fn gpulsm_error_text(error: c_int) -> *const c_char;

    pub(crate) fn gpulsm_sort(
        key_width: c_int,
        value_width: c_int,
        temp: Address,
        temp_bytes: *mut usize,
        keys_in: Address,
        keys_out: Address,
        values_in: Address,
        values_out: Address,
        len: u64,
        begin_bit: c_int,
        end_bit: c_int,
        stream: CUstream,
    ) -> c_int;
    pub(crate) fn gpulsm_differing_bits(
        key_width: c_int,
        keys: Address,
        len: u64,
        bits: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_dedup_scratch(key_width: c_int, value_width: c_int, len: u64) -> u64;
    pub(crate) fn gpulsm_dedup(
        key_width: c_int,
        value_width: c_int,
        keys: Address,
        values: Address,
        len: u64,
        zeros: Address,
        out: *const RunOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_fold_scratch(key_width: c_int, len: u64) -> u64;
    pub(crate) fn gpulsm_fold(
        key_width: c_int,
        value_width: c_int,
        keys: Address,
        values: Address,
        len: u64,
        zeros: Address,
        combiner: *const Combiner,
        out: *const RunOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_splitter_sort_most(key_width: c_int) -> u64;
    pub(crate) fn gpulsm_splitter_sort_scratch(key_width: c_int, len: u64) -> u64;
    pub(crate) fn gpulsm_splitter_sort(
        key_width: c_int,
        value_width: c_int,
        keys: Address,
        values: Address,
        len: u64,
        salt: u32,
        most: u32,
        guide_keys: Address,
        guide_len: Address,
        scratch: Address,
        out: *const RunOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_sorted_tile() -> u64;
    pub(crate) fn gpulsm_sort_tiles(
        key_width: c_int,
        value_width: c_int,
        keys: Address,
        values: Address,
        len: u64,
        combiner: *const Combiner,
        out_keys: Address,
        out_values: Address,
        lens: Address,
        zeros: Address,
        zero_bytes: u64,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_append(
        key_width: c_int,
        value_width: c_int,
        keys: Address,
        values: Address,
        inserts: u64,
        delete_keys: Address,
        deletes: u64,
        to_keys: Address,
        to_values: Address,
        numbers: Address,
        first: u64,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_shadows(
        key_width: c_int,
        keys: Address,
        len: Address,
        bound: u64,
        older: *const View,
        shadows: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_mark_scratch(bound: u64) -> u64;
    pub(crate) fn gpulsm_mark_tile() -> u64;
    pub(crate) fn gpulsm_mark(
        shadows: Address,
        bound: u64,
        first: u64,
        entries: u64,
        zeros: Address,
        out: *const RunOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_merge_scratch(
        key_width: c_int,
        value_width: c_int,
        sources: c_int,
        bound: u64,
    ) -> u64;
    pub(crate) fn gpulsm_merge_chain(
        key_width: c_int,
        value_width: c_int,
        sources: c_int,
        bound: u64,
    ) -> u64;
    pub(crate) fn gpulsm_merge_tiles(
        key_width: c_int,
        value_width: c_int,
        sources: c_int,
        bound: u64,
    ) -> u64;
    pub(crate) fn gpulsm_merge_cut(
        key_width: c_int,
        value_width: c_int,
        sources: *const Sources,
        bound: u64,
        scratch: Address,
        stream: CUstream,
    ) -> c_int;
    pub(crate) fn gpulsm_merge(
        key_width: c_int,
        value_width: c_int,
        sources: *const Sources,
        bound: u64,
        first: u64,
        tiles: u64,
        cut_by: CutBy,
        queries: *const [ShadowQueries; MAX_PARTS],
        older: *const View,
        filters: *const Filters,
        scratch: Address,
        out: *const RunOutput,
        combiner: *const Combiner,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_lookup(
        key_width: c_int,
        value_width: c_int,
        view: *const View,
        filters: *const Filters,
        keys: Address,
        len: u64,
        values: Address,
        found: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_order_by_bucket(
        key_width: c_int,
        run: *const RunView,
        keys: Address,
        len: u64,
        bits: c_int,
        counts: Address,
        ordered: Address,
        places: Address,
        stream: CUstream,
    ) -> c_int;
    pub(crate) fn gpulsm_restore_order(
        value_width: c_int,
        places: Address,
        len: u64,
        ordered_values: Address,
        ordered_found: Address,
        values: Address,
        found: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_count_by_shard(
        key_width: c_int,
        scratch: Address,
        scratch_bytes: *mut u64,
        keys: Address,
        len: u64,
        splitters: *const c_void,
        splitters_there: Address,
        shards: c_int,
        bounds: Address,
        stream: CUstream,
    ) -> c_int;
    pub(crate) fn gpulsm_partition(
        key_width: c_int,
        value_width: c_int,
        scratch: Address,
        keys: Address,
        values: Address,
        len: u64,
        splitters: *const c_void,
        splitters_there: Address,
        shards: c_int,
        outputs: *const c_void,
        outputs_there: Address,
        places: Address,
        stream: CUstream,
    ) -> c_int;
    pub(crate) fn gpulsm_sample(
        key_width: c_int,
        keys: Address,
        step: u64,
        count: u64,
        sample: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_combine(
        key_width: c_int,
        value_width: c_int,
        view: *const View,
        filters: *const Filters,
        queries: *const CombineQueries,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_filter(
        key_width: c_int,
        keys: Address,
        len: Address,
        bound: u64,
        words: Address,
        words_len: u32,
        stream: CUstream,
    ) -> c_int;

    #[cfg(test)]
    pub(crate) fn gpulsm_filter_place(high: u64, low: u64, fraction: *mut u32, bits: *mut u64);

    pub(crate) fn gpulsm_count(
        key_width: c_int,
        view: *const View,
        lo: Address,
        hi: Address,
        len: u64,
        windows: Address,
        counts: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_rank(
        key_width: c_int,
        view: *const View,
        keys: Address,
        len: u64,
        ranks: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_prefix_sum(
        temp: Address,
        temp_bytes: *mut usize,
        counts: Address,
        len: u64,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_range_words(
        key_width: c_int,
        value_width: c_int,
        runs: u64,
        total: u64,
        all: u64,
        room: u64,
        for_long: bool,
        zeros: *mut u64,
    ) -> u64;
    pub(crate) fn gpulsm_range(
        key_width: c_int,
        value_width: c_int,
        view: *const View,
        ranges: *const RangeOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_aggregate_bytes(len: u64, zeros: *mut u64) -> u64;

    pub(crate) fn gpulsm_aggregate(
        key_width: c_int,
        value_width: c_int,
        view: *const View,
        output: *const AggregateOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_select(
        key_width: c_int,
        value_width: c_int,
        view: *const View,
        indices: Address,
        len: u64,
        out: *const PairsOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_nearest(
        key_width: c_int,
        value_width: c_int,
        view: *const View,
        is_successor: bool,
        keys: Address,
        len: u64,
        out: *const PairsOutput,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_encode(
        key_width: c_int,
        encoding: c_int,
        from: Address,
        len: u64,
        to: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_decode(
        key_width: c_int,
        encoding: c_int,
        keys: Address,
        room: u64,
        found: Address,
        written: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_pack(
        key_width: c_int,
        columns: *const KeyColumns,
        len: u64,
        packed: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_unpack(
        key_width: c_int,
        packed: Address,
        len: u64,
        found: Address,
        columns: *const KeyColumns,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_exclude_ends(
        key_width: c_int,
        bits: c_int,
        lo: Address,
        hi: Address,
        len: u64,
        excludes_lo: bool,
        excludes_hi: bool,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_beside(
        key_width: c_int,
        is_forward: bool,
        from: Address,
        len: u64,
        to: Address,
        stream: CUstream,
    ) -> c_int;

    pub(crate) fn gpulsm_choose(
        key_width: c_int,
        value_width: c_int,
        query: *const AsOfQuery,
        questions: Address,
        len: u64,
        pairs: *const PairsOutput,
        others: *const PairsOutput,
        stream: CUstream,
    ) -> c_int;
}

/// Turns the error that a call returned, if it did, into one with CUDA's description.
pub(crate) fn check(call: &'static str, error: c_int) -> Result<(), Error> {
    const OUT_OF_MEMORY: c_int = 2;
    match error {
        0 => Ok(()),
        OUT_OF_MEMORY => Err(Error::OutOfMemory { wanted: 0, free: None, memory: None }),
        _ => Err(Error::Cuda { call, reason: describe(error).into() }),
    }
}

/// Returns CUDA's description of an error.
pub(crate) fn describe(error: c_int) -> String {
    // SAFETY: both return pointers to constant strings, for any number.
    let (name, text) = unsafe {
        (CStr::from_ptr(gpulsm_error_name(error)), CStr::from_ptr(gpulsm_error_text(error)))
    };
    format!("{} ({})", text.to_string_lossy(), name.to_string_lossy())
}

const _: () = assert!(size_of::<*mut c_void>() == size_of::<Address>());
