//! The pairs of ranges: counted, laid end to end, and written straight to their places.

use cudarc::driver::result;

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{self, Address, CombineQueries, RangeOutput, View, check};
use crate::cuda::query::combine::combine_values;
use crate::cuda::query::count::count;
use crate::error::Error;
use crate::key::OrderedKey;

/// Windows take at most this many bytes at a time, and this part of what is free.
const MAX_WINDOW_BYTES: u64 = 1 << 31;
const WINDOW_PART: u64 = 2;

/// The bytes of a window: where one range begins and ends in one run.
const WINDOW: u64 = 2 * size_of::<u64>() as u64;

/// The bytes of an offset.
const OFFSET: u64 = size_of::<u64>() as u64;

/// Closed ranges on the GPU: the addresses of their ends, and their number.
#[derive(Clone, Copy)]
pub(crate) struct RangeQueries {
    pub lo: Address,
    pub hi: Address,
    pub len: u64,
}

/// Where pairs are written, and how many there is room for; `values` is 0 where they are not wanted.
#[derive(Clone, Copy)]
pub(crate) struct PairsRoom {
    pub keys: Address,
    pub values: Address,
    pub len: u64,
}

/// Writes where the pairs of each range begin when all are laid end to end, and where the last end: one
/// offset more than there are ranges, on data on the GPU.
pub(crate) fn offsets(
    cuda: &EnteredCuda<'_>,
    view: &View,
    queries: &RangeQueries,
    offsets: Address,
) -> Result<(), Error> {
    write_first_offset(cuda, offsets)?;
    if queries.len == 0 {
        return Ok(());
    }
    count(cuda, view, (queries.lo, queries.hi), queries.len, counts_at(offsets))?;
    prefix_sum(cuda, offsets, queries.len)
}

/// Writes the same offsets and, if there is room for all, every pair at its place.
pub(crate) fn range(
    cuda: &EnteredCuda<'_>,
    view: &View,
    queries: &RangeQueries,
    offsets: Address,
    room: &PairsRoom,
) -> Result<(), Error> {
    // Windows are found with the sizes of ranges; if there are very many, again later, some at a time.
    if room.len == 0 || queries.len == 0 || queries.len > max_windows(cuda, view) {
        self::offsets(cuda, view, queries, offsets)?;
        return fill(cuda, view, queries, offsets, room);
    }
    write_first_offset(cuda, offsets)?;
    let windows = find_windows(cuda, view, queries, counts_at(offsets))?;
    prefix_sum(cuda, offsets, queries.len)?;
    let all = Chunk { len: queries.len, offsets, rest: queries.len, all: queries.len };
    write_pairs(cuda, view, &all, &windows, room)?;
    combine_values(cuda, view, &combined(queries, offsets, room))
}

/// Writes every pair at its place, if there is room for all; the offsets are known.
pub(crate) fn fill(
    cuda: &EnteredCuda<'_>,
    view: &View,
    queries: &RangeQueries,
    offsets: Address,
    room: &PairsRoom,
) -> Result<(), Error> {
    if room.len == 0 {
        return Ok(());
    }
    let max = max_windows(cuda, view);
    for first in (0..queries.len).step_by(max as usize) {
        let skipped = first * cuda.key_width as u64;
        let len = max.min(queries.len - first);
        let part = RangeQueries { lo: queries.lo + skipped, hi: queries.hi + skipped, len };
        let windows = find_windows(cuda, view, &part, 0)?;
        let offsets = offsets + first * OFFSET;
        let chunk = Chunk { len, offsets, rest: queries.len - first, all: queries.len };
        write_pairs(cuda, view, &chunk, &windows, room)?;
    }
    combine_values(cuda, view, &combined(queries, offsets, room))
}

/// Returns the pairs that were written, as keys whose combined values are looked up.
fn combined(queries: &RangeQueries, offsets: Address, room: &PairsRoom) -> CombineQueries {
    let &PairsRoom { keys, values, len } = room;
    let count = offsets + queries.len * OFFSET;
    CombineQueries { keys, len, count, values, found: 0, are_answers: false }
}

/// Returns the number of ranges whose windows are kept at a time.
fn max_windows(cuda: &Cuda, view: &View) -> u64 {
    max_ranges(cuda, view, 0)
}

/// Returns the number of ranges whose windows, and this many bytes beside, are kept at a time.
pub(super) fn max_ranges(cuda: &Cuda, view: &View, beside: u64) -> u64 {
    let free = cuda.budget().free().map_or(u64::MAX, |free| free / WINDOW_PART);
    (MAX_WINDOW_BYTES.min(free) / (WINDOW * view.count.max(1) + beside)).max(1)
}

/// Returns where counts are written that are then added up to offsets.
fn counts_at(offsets: Address) -> Address {
    offsets + OFFSET
}

fn write_first_offset(cuda: &EnteredCuda<'_>, offsets: Address) -> Result<(), Error> {
    // SAFETY: there is room for at least one offset, which is used in the order of this stream.
    let zeroed = unsafe { result::memset_d8_async(offsets, 0, OFFSET as usize, cuda.raw_stream()) };
    driver::error::check("cuMemsetD8Async", zeroed)
}

/// Turns counts into offsets.
fn prefix_sum(cuda: &EnteredCuda<'_>, offsets: Address, len: u64) -> Result<(), Error> {
    if len == 1 {
        return Ok(()); // The only count is where the only range ends.
    }
    let launch = |temp: Address, temp_bytes: &mut usize| {
        // SAFETY: there are `len` counts, `temp` is null or of the size that this function returned, and
        // both are used in the order of this stream.
        check("summing counts", unsafe {
            ffi::gpulsm_prefix_sum(temp, temp_bytes, counts_at(offsets), len, cuda.raw_stream())
        })
    };
    let mut temp_bytes = 0;
    launch(0, &mut temp_bytes)?;
    let temp = cuda.alloc(temp_bytes as u64)?;
    launch(temp.address(), &mut temp_bytes)
}

/// Finds where each range begins and ends in every run; and counts its keys, unless `counts` is 0.
pub(super) fn find_windows(
    cuda: &EnteredCuda<'_>,
    view: &View,
    queries: &RangeQueries,
    counts: Address,
) -> Result<Buffer, Error> {
    let &RangeQueries { lo, hi, len } = queries;
    let windows = cuda.alloc(len * view.count * WINDOW)?;
    // SAFETY: there are `len` ranges, room for a window of each in every run, and for as many counts; the
    // runs of the view are alive and written before what this stream does now.
    check("finding ranges", unsafe {
        let (at, stream) = (windows.address(), cuda.raw_stream());
        ffi::gpulsm_count(cuda.key_width, view, lo, hi, len, at, counts, stream)
    })?;
    Ok(windows)
}

/// Adjacent ranges of a call.
struct Chunk {
    len: u64,
    /// The offsets of the first of them, and of all that follow.
    offsets: Address,
    /// How many ranges there are from the first of them to the call's last.
    rest: u64,
    /// How many the call has.
    all: u64,
}

/// Scratch of the kernels that write pairs.
struct RangeScratch {
    words: u64,
    /// How many bytes of it must be zero.
    zeros: u64,
    /// Whether long ranges are divided among blocks.
    divides_long: bool,
}

impl RangeScratch {
    fn new(cuda: &Cuda, view: &View, chunk: &Chunk, room: u64, divides_long: bool) -> Self {
        let mut zeros = 0;
        // SAFETY: one number to write.
        let words = unsafe {
            ffi::gpulsm_range_words(
                cuda.key_width,
                cuda.value_width,
                view.count,
                chunk.rest,
                chunk.all,
                room,
                divides_long,
                &mut zeros,
            )
        };
        RangeScratch { words, zeros, divides_long }
    }

    fn bytes(&self) -> u64 {
        self.words * 8
    }
}

/// Writes the pairs of adjacent ranges.
fn write_pairs(
    cuda: &EnteredCuda<'_>,
    view: &View,
    chunk: &Chunk,
    windows: &Buffer,
    room: &PairsRoom,
) -> Result<(), Error> {
    // Long ranges are divided among blocks, if there is memory for it.
    let mut scratch = RangeScratch::new(cuda, view, chunk, room.len, true);
    if cuda.budget().free().is_some_and(|free| scratch.bytes() > free) {
        scratch = RangeScratch::new(cuda, view, chunk, room.len, false);
    }
    let buffer = cuda.alloc(scratch.bytes())?;
    buffer.zero(0, scratch.zeros, cuda.entered())?;
    let ranges = RangeOutput {
        len: chunk.len,
        offsets: chunk.offsets,
        windows: windows.address(),
        room: room.len,
        total: chunk.rest,
        all: chunk.all,
        keys: room.keys,
        values: room.values,
        flags: buffer.address(),
        for_long: u64::from(scratch.divides_long),
    };
    // SAFETY: there are `len` windows for every run, `total` offsets and one more, and room for `room` pairs,
    // which the kernel keeps to; the scratch is of the size that it needs; the runs of the view are alive
    // and written before what this stream does now.
    check("listing ranges", unsafe {
        let (key_width, value_width) = (cuda.key_width, cuda.value_width);
        ffi::gpulsm_range(key_width, value_width, view, &ranges, cuda.raw_stream())
    })
}

/// The host's ranges on the GPU, with their offsets.
pub(crate) struct UploadedRanges {
    lo: Buffer,
    hi: Buffer,
    offsets: Buffer,
    len: u64,
}

impl UploadedRanges {
    /// Copies ranges to the GPU, where their offsets are found.
    fn new<B: OrderedKey>(
        cuda: &EnteredCuda<'_>,
        view: &View,
        lo: &[B],
        hi: &[B],
    ) -> Result<Self, Error> {
        let len = lo.len() as u64;
        let (lo, hi) = (cuda.upload(lo)?, cuda.upload(hi)?);
        let offsets = cuda.alloc_uncounted((len + 1) * OFFSET)?;
        let ranges = UploadedRanges { lo, hi, offsets, len };
        self::offsets(cuda, view, &ranges.queries(), ranges.offsets.address())?;
        Ok(ranges)
    }

    fn queries(&self) -> RangeQueries {
        RangeQueries { lo: self.lo.address(), hi: self.hi.address(), len: self.len }
    }

    /// Lists their pairs, of which there are `len`, in buffers on the GPU: the keys, and the values if these are
    /// wanted.
    fn list(
        &self,
        cuda: &EnteredCuda<'_>,
        view: &View,
        len: u64,
        wants_values: bool,
    ) -> Result<[Buffer; 2], Error> {
        let value_bytes = if wants_values { cuda.value_bytes(len as usize) } else { 0 };
        let keys = cuda.alloc_uncounted(len * cuda.key_width as u64)?;
        let values = cuda.alloc_uncounted(value_bytes)?;
        let room = PairsRoom { keys: keys.address(), values: values.address(), len };
        fill(cuda, view, &self.queries(), self.offsets.address(), &room)?;
        Ok([keys, values])
    }

    /// Copies the last offsets to the host.
    fn download_last(&self, cuda: &EnteredCuda<'_>, to: &mut [u64]) -> Result<(), Error> {
        let skipped = self.len + 1 - to.len() as u64;
        // SAFETY: there are as many offsets from there on, and the stream is synchronized before they are read.
        let started = unsafe { cuda.download(self.offsets.address() + skipped * OFFSET, to) };
        cuda.stream.synchronize().and(started)
    }
}

/// Writes the offsets of the host's ranges.
pub(crate) fn answer_offsets<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    lo: &[B],
    hi: &[B],
    to: &mut [u64],
) -> Result<UploadedRanges, Error> {
    let ranges = UploadedRanges::new(cuda, view, lo, hi)?;
    ranges.download_last(cuda, to)?;
    Ok(ranges)
}

/// Returns the live keys of the host's ranges, in a buffer on the GPU, and how many there are; `None` if there are
/// as many as `all`.
pub(crate) fn live_keys<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    (lo, hi): (&[B], &[B]),
    all: u64,
) -> Result<Option<(Buffer, u64)>, Error> {
    let ranges = UploadedRanges::new(cuda, view, lo, hi)?;
    let mut total = [0];
    ranges.download_last(cuda, &mut total)?;
    let [len] = total;
    if len == all {
        return Ok(None);
    }
    let [keys, _] = ranges.list(cuda, view, len, false)?;
    Ok(Some((keys, len)))
}

/// Returns all live pairs, of which there are `len`, in buffers on the GPU: the keys, and their values.
pub(crate) fn all_pairs<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    len: u64,
) -> Result<[Buffer; 2], Error> {
    UploadedRanges::new(cuda, view, &[B::LOWEST], &[B::HIGHEST])?.list(cuda, view, len, true)
}

/// Writes the offsets and, if there is room for all, the pairs of the host's ranges.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    (lo, hi): (&[B], &[B]),
    offsets: &mut [u64],
    keys: &mut [B],
    values: Option<&mut [u8]>,
) -> Result<(), Error> {
    let ranges = answer_offsets(cuda, view, lo, hi, offsets)?;
    let total = offsets[lo.len()] as usize;
    if total > keys.len() {
        return Ok(());
    }
    let listed = ranges.list(cuda, view, total as u64, values.is_some())?;
    let [from_keys, from_values] = listed.each_ref().map(Buffer::address);
    // SAFETY: the buffers are as long as what is copied from them, and the stream is synchronized before
    // anything is read.
    let started = unsafe {
        let values = &mut values.unwrap_or_default()[..listed[1].bytes() as usize];
        cuda.download(from_keys, &mut keys[..total])
            .and_then(|()| cuda.download(from_values, values))
    };
    // Copies that were started must be done before the caller has its memory back.
    cuda.stream.synchronize().and(started)
}
