//! The pairs of ranges: counted, laid end to end, and written straight to their places.

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::{Buffer, download};
use crate::cuda::ffi::{self, Address, RangeOutput, View, check};
use crate::cuda::query::count::count;
use crate::error::Error;
use crate::key::OrderedKey;

/// Where ranges begin and end in the runs may take so many bytes at a time, and this part of what is free.
const WINDOW_BYTES: u64 = 1 << 31;
const WINDOW_PART: u64 = 2;

/// Ranges on the GPU: where their ends are, and how many there are.
#[derive(Clone, Copy)]
pub(crate) struct RangeQueries {
    pub lo: Address,
    pub hi: Address,
    pub len: u64,
}

/// Where pairs go, and for how many there is room; `values` is 0 where they are not wanted.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub keys: Address,
    pub values: Address,
    pub len: u64,
}

/// Where each answer begins when all are laid end to end, and where the last ends: one offset more than
/// there are ranges, on the GPU's own data.
pub(crate) fn offsets(
    cuda: &Cuda,
    view: &View,
    asked: &RangeQueries,
    offsets: Address,
) -> Result<(), Error> {
    begin(cuda, offsets)?;
    if asked.len == 0 {
        return Ok(());
    }
    count(cuda, view, (asked.lo, asked.hi), asked.len, counts_at(offsets))?;
    add_up(cuda, offsets, asked.len)
}

/// The same, and every pair at its place, if there is room for all.
pub(crate) fn range(
    cuda: &Cuda,
    view: &View,
    asked: &RangeQueries,
    offsets: Address,
    room: &Room,
) -> Result<(), Error> {
    // Where ranges begin and end is found with their sizes, or, if there are very many, again later, some
    // at a time.
    if room.len == 0 || asked.len == 0 || asked.len > at_a_time(cuda, view) {
        self::offsets(cuda, view, asked, offsets)?;
        return fill(cuda, view, asked, offsets, room);
    }
    begin(cuda, offsets)?;
    let windows = windows(cuda, view, asked, counts_at(offsets))?;
    add_up(cuda, offsets, asked.len)?;
    let whole = Stretch { len: asked.len, offsets, total: asked.len, all: asked.len };
    write(cuda, view, &whole, &windows, room)
}

/// Every pair at its place, if there is room for all, with offsets that are known.
pub(crate) fn fill(
    cuda: &Cuda,
    view: &View,
    asked: &RangeQueries,
    offsets: Address,
    room: &Room,
) -> Result<(), Error> {
    if room.len == 0 {
        return Ok(());
    }
    let some = at_a_time(cuda, view);
    let width = cuda.key_width as u64;
    for first in (0..asked.len).step_by(some as usize) {
        let ahead = first * width;
        let len = some.min(asked.len - first);
        let part = RangeQueries { lo: asked.lo + ahead, hi: asked.hi + ahead, len };
        let windows = windows(cuda, view, &part, 0)?;
        let offsets = offsets + first * size_of::<u64>() as u64;
        let some = Stretch { len, offsets, total: asked.len - first, all: asked.len };
        write(cuda, view, &some, &windows, room)?;
    }
    Ok(())
}

/// Bytes of where one range begins and ends in one run.
const WINDOW: u64 = 2 * size_of::<u64>() as u64;

/// How many ranges' beginnings and ends are kept at a time.
fn at_a_time(cuda: &Cuda, view: &View) -> u64 {
    let free = cuda.budget().free().map_or(u64::MAX, |free| free / WINDOW_PART);
    (WINDOW_BYTES.min(free) / (WINDOW * view.count.max(1))).max(1)
}

/// Where counts are written that are then added up to offsets.
fn counts_at(offsets: Address) -> Address {
    offsets + size_of::<u64>() as u64
}

/// Writes the first offset.
fn begin(cuda: &Cuda, offsets: Address) -> Result<(), Error> {
    let _entered = cuda.gpu().enter()?;
    let stream = cuda.stream.raw();
    // SAFETY: there is room for at least one offset.
    let zeroed =
        unsafe { cudarc::driver::result::memset_d8_async(offsets, 0, size_of::<u64>(), stream) };
    crate::cuda::driver::gpu::check("cuMemsetD8Async", zeroed)
}

/// Makes offsets of counts.
fn add_up(cuda: &Cuda, offsets: Address, len: u64) -> Result<(), Error> {
    if len == 1 {
        return Ok(()); // The only count is where the only answer ends.
    }
    let launch = |temp: Address, temp_bytes: &mut usize| {
        let _entered = cuda.gpu().enter()?;
        // SAFETY: `len` counts are there, and `temp` is null or of the size that this asked for.
        check("adding up counts", unsafe {
            ffi::gpulsm_add_up(temp, temp_bytes, counts_at(offsets), len, cuda.stream.raw())
        })
    };
    let mut temp_bytes = 0;
    launch(0, &mut temp_bytes)?;
    let temp = Buffer::counted(temp_bytes as u64, cuda)?;
    launch(temp.address(), &mut temp_bytes)
}

/// Where each range begins and ends in every run; and how many keys it has, unless `counts` is 0.
fn windows(
    cuda: &Cuda,
    view: &View,
    asked: &RangeQueries,
    counts: Address,
) -> Result<Buffer, Error> {
    let bytes = asked.len * view.count * WINDOW;
    let windows = Buffer::counted(bytes, cuda)?;
    let _entered = cuda.gpu().enter()?;
    // SAFETY: there are so many ranges, room for a window of each in every run, and for as many counts; the
    // runs of the view are alive and written before what this stream does now.
    check("finding ranges", unsafe {
        let (at, stream) = (windows.address(), cuda.stream.raw());
        ffi::gpulsm_count(cuda.key_width, view, asked.lo, asked.hi, asked.len, at, counts, stream)
    })?;
    Ok(windows)
}

/// Some ranges of a call, next to each other.
struct Stretch {
    len: u64,
    /// Of the first of them, and of all that follow.
    offsets: Address,
    /// How many ranges there are from the first of them to the call's last.
    total: u64,
    /// How many the call has.
    all: u64,
}

/// Writes the pairs of some ranges.
fn write(
    cuda: &Cuda,
    view: &View,
    some: &Stretch,
    windows: &Buffer,
    room: &Room,
) -> Result<(), Error> {
    let windows = windows.address();
    let &Stretch { len, offsets, total, all } = some;
    let Room { keys, values, len: room } = *room;
    let (key_width, value_width) = (cuda.key_width, cuda.value_width);
    let words = |for_long: bool| {
        let mut zeros = 0;
        // SAFETY: one number to write.
        let words = unsafe {
            let runs = view.count;
            ffi::gpulsm_range_words(
                key_width,
                value_width,
                runs,
                total,
                all,
                room,
                for_long,
                &mut zeros,
            )
        };
        (words, zeros)
    };
    // Long answers are shared out, if there is memory for it.
    let is_room = |words: u64| cuda.budget().free().is_none_or(|free| words * 8 <= free);
    let for_long = is_room(words(true).0);
    let (words, zeros) = words(for_long);
    let shared = Buffer::counted(words * 8, cuda)?;
    shared.zero(0, zeros)?;
    let (flags, for_long) = (shared.address(), u64::from(for_long));
    let ranges =
        RangeOutput { len, offsets, windows, room, total, all, keys, values, flags, for_long };
    let _entered = cuda.gpu().enter()?;
    // SAFETY: there are `len` windows for every run, `total` offsets and one more, and room for `room` pairs,
    // which the kernel keeps to; the runs of the view are alive and written before what this stream does
    // now.
    check("listing ranges", unsafe {
        ffi::gpulsm_range(key_width, value_width, view, &ranges, cuda.stream.raw())
    })
}

/// Ranges on the GPU whose offsets are known.
pub(crate) struct Counted {
    lo: Buffer,
    hi: Buffer,
    offsets: Buffer,
    len: u64,
}

impl Counted {
    fn asked(&self) -> RangeQueries {
        RangeQueries { lo: self.lo.address(), hi: self.hi.address(), len: self.len }
    }
}

/// Offsets of the host's ranges.
pub(crate) fn answer_offsets<B: OrderedKey>(
    cuda: &Cuda,
    view: &View,
    lo: &[B],
    hi: &[B],
    to: &mut [usize],
) -> Result<Counted, Error> {
    let len = lo.len() as u64;
    let (lo, hi) = (Buffer::upload(lo, &cuda.stream)?, Buffer::upload(hi, &cuda.stream)?);
    let counted = Counted { lo, hi, offsets: Buffer::uncounted((len + 1) * 8, &cuda.stream)?, len };
    offsets(cuda, view, &counted.asked(), counted.offsets.address())?;
    // SAFETY: there is one offset more than there are ranges on both sides, a `usize` is 64 bits wide
    // here, and the stream is synchronized before they are read.
    unsafe { download(counted.offsets.address(), to, &cuda.stream)? };
    cuda.stream.synchronize()?;
    Ok(counted)
}

/// Offsets and, if there is room for all, pairs of the host's ranges.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &Cuda,
    view: &View,
    (lo, hi): (&[B], &[B]),
    offsets: &mut [usize],
    keys: &mut [B],
    values: Option<&mut [u8]>,
) -> Result<(), Error> {
    let counted = answer_offsets(cuda, view, lo, hi, offsets)?;
    let total = offsets[lo.len()];
    if total > keys.len() {
        return Ok(());
    }
    let out_keys = Buffer::uncounted(size_of_val(&keys[..total]) as u64, &cuda.stream)?;
    let wanted = if values.is_some() { cuda.value_bytes(total) } else { 0 };
    let out_values = Buffer::uncounted(wanted, &cuda.stream)?;
    let room = Room { keys: out_keys.address(), values: out_values.address(), len: total as u64 };
    fill(cuda, view, &counted.asked(), counted.offsets.address(), &room)?;
    // SAFETY: the buffers are as long as what goes into them, and the stream is synchronized before
    // anything is read.
    let begun = unsafe {
        let values = values.unwrap_or_default();
        let values = &mut values[..wanted as usize];
        download(out_keys.address(), &mut keys[..total], &cuda.stream)
            .and_then(|()| download(out_values.address(), values, &cuda.stream))
    };
    // Whatever was begun must be done before the caller has its memory back.
    cuda.stream.synchronize().and(begun)
}

const _: () = assert!(size_of::<usize>() == size_of::<u64>());
