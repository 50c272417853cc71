//! Taking in a batch: order & dedupe, shadows where they are needed now, and one merge with the carried
//! runs. All of it is put on the stream; nothing is waited for.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::batch::Order;
use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{
    self, Address, Filters, Head, MAX_SOURCES, RunOutput, ShadowQueries, Source, SourceKind,
    Sources, View, check,
};
use crate::cuda::run::filter::run_filters;
use crate::cuda::run::resolve::{find_all, find_bytes};
use crate::cuda::run::{Marks, Run, Unwritten};
use crate::cuda::update::batch::Batch;
use crate::cuda::update::buffer::WriteBuffer;
use crate::error::Error;

/// Batches up to this length are sorted in tiles…
const SHORT: u64 = 1 << 17;

/// …if no more entries than this are merged: every one of them is compared more often, the more tiles
/// there are.
const FEW_MERGED: u64 = 1 << 20;

/// A run gets a filter for the sake of short batches once they asked for this part of its entries…
const SHORT_PART: u64 = 8;

/// …or with its entries, where it is made by a batch of more than this that looks for shadows: so will the next.
/// (Fewer searches are hidden behind what else a merge must know beforehand.)
const FILTERED: u64 = 1 << 14;

/// Merges the batch and the carried runs into one run on top of the older ones.
pub(crate) fn absorb(
    cuda: &Cuda,
    batch: &Batch,
    carried: &[Run],
    older: &[Run],
) -> Result<Option<Run>, Error> {
    cuda.stream.refuse_capture()?;
    let _entered = cuda.gpu().enter()?;
    if batch.inserts > 0
        && batch.deletes > 0
        && batch.numbers == 0
        && WriteBuffer::can_number(batch)
    {
        // One sort of both costs half of what two do.
        let mut buffer = WriteBuffer::default();
        buffer.append(cuda, batch)?;
        return absorb(cuda, &buffer.batch(), carried, older);
    }
    let wanted = cuda.shared.wants_marks.swap(false, Ordering::Relaxed);
    let marks = marks(batch.deletes, wanted && batch.len() <= SHORT, carried, older);
    if marks == Marks::Within {
        let runs: Vec<Run> = carried.iter().chain(older).cloned().collect();
        find_all(cuda, &runs)?;
    }
    // Bounds shrink when figures arrive: what is known later fits into what was known before.
    let entries = batch.len() + carried.iter().map(Run::bound).sum::<u64>();
    let bound = bound(cuda, batch, carried, older)?;
    if bound == 0 {
        return Ok(None);
    }
    let least_sum = carried.iter().map(Run::least_sum).sum::<i64>() - batch.deletes.cast_signed();
    let mut parts = Half::of(cuda, batch);
    let sort = match &parts[..] {
        _ if batch.order == Order::Sorted => Sort::Not,
        [half] if half.is_short() => {
            let sources = half.tiles() as usize + carried.len();
            if entries <= FEW_MERGED && sources <= MAX_SOURCES {
                Sort::Tiles
            } else if half.kind == SourceKind::Inserts {
                Sort::MergedTiles
            } else {
                Sort::Whole
            }
        }
        _ => Sort::Whole,
    };
    let shadows = marks == Marks::Within;
    let steps = Steps {
        sort,
        shadows,
        merge: !carried.is_empty() || batch.deletes > 0 || shadows || sort.is_in_tiles(),
    };
    let mut work = Work::new(cuda, &steps, &parts, carried.len(), entries)?;
    let mut run = Unwritten::new(cuda, bound, marks)?;
    if shadows && (FILTERED + 1..=SHORT).contains(&batch.len()) {
        run = run.with_filter(cuda);
    }
    for half in parts.iter_mut().filter(|half| steps.sort == Sort::Whole && half.len > 1) {
        // Inserts alone, and nothing carried: none will be dropped but doubles, so they are sorted
        // straight into the run, and ordered there.
        let to = match steps.merge {
            true => (work.room(half.key_bytes()), work.room(half.value_bytes())),
            false => (run.output().keys, run.output().values),
        };
        half.sort(cuda, to)?;
    }
    let reading = cuda.read(carried.iter().chain(older))?;
    let asked = if steps.shadows { older } else { &[] };
    let filters = match batch.len() {
        len @ ..=SHORT => run_filters(cuda, asked, len, SHORT_PART)?,
        _ => Filters::default(), // Many keys, sorted, are looked for as fast without.
    };
    let older = Older { view: View::new(asked.iter().map(Run::view)), filters };
    run.write(&cuda.stream, |output| match steps.merge {
        true => merge(cuda, &mut work, &parts, carried, &older, entries, output),
        false => parts[0].order_into(cuda, &mut work, output),
    })?;
    reading.end()?;
    run.written(cuda, least_sum).map(Some)
}

/// Returns the most bytes that absorbing `updates` updates may take, whichever of these runs are carried:
/// copies of the batch while it is sorted, marks that are still to be found out, and the new run.
pub(crate) fn working_bytes(cuda: &Cuda, updates: u64, runs: &[Run]) -> u64 {
    /// What sorting any batch takes besides, heads, and what alignment costs.
    const FIXED: u64 = 1 << 20;
    let entries = updates + runs.iter().map(Run::bound).sum::<u64>();
    // A batch of both kinds is sorted with numbers in the place of values.
    let pair = (cuda.key_width + cuda.value_width.max(size_of::<u32>() as i32)) as u64;
    let sorting = updates * (pair * 9 / 4 + size_of::<u8>() as u64);
    let marking = runs.iter().filter(|run| run.lacks_marks()).map(find_bytes).sum::<u64>();
    let merging = 2 * merge_scratch(cuda, MAX_SOURCES as i32, entries);
    sorting + marking + merging + Unwritten::bytes(cuda, entries, Marks::Within) + FIXED
}

/// Which marks the run gets that these runs, and a batch with so many deletes, are merged into. As long as
/// only inserts meet inserts, it is left open which of them are shadows; with deletes it is found out on
/// the way, and where they are wanted now: by somebody who wants to know after every batch, if two kernels
/// more would be felt.
pub(in crate::cuda) fn marks(deletes: u64, wanted: bool, carried: &[Run], older: &[Run]) -> Marks {
    match (older, deletes) {
        ([], _) => Marks::Needless,
        (_, 0) if !wanted && carried.iter().all(Run::lacks_marks) => Marks::Later,
        _ => Marks::Within,
    }
}

/// The most entries that can come of it.
fn bound(cuda: &Cuda, batch: &Batch, carried: &[Run], older: &[Run]) -> Result<u64, Error> {
    if batch.len() == 0 && older.is_empty() {
        // A cleanup leaves what is live and nothing else: room for just that, so wait to know it.
        find_all(cuda, carried)?;
        return crate::cuda::query::count::sum(carried);
    }
    // In the oldest run there are no tombstones.
    let deletes = if older.is_empty() { 0 } else { batch.deletes };
    Ok(batch.inserts + deletes + carried.iter().map(Run::bound).sum::<u64>())
}

/// Which steps a batch must go through.
#[derive(Clone, Copy)]
struct Steps {
    sort: Sort,
    shadows: bool,
    merge: bool,
}

/// How a batch is sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// It came so.
    Not,
    Whole,
    /// In tiles only, which are then merged like runs.
    Tiles,
    /// In tiles, which are merged with each other before anything else is.
    MergedTiles,
}

impl Sort {
    fn is_in_tiles(self) -> bool {
        matches!(self, Sort::Tiles | Sort::MergedTiles)
    }
}

/// Runs that shadows are looked for in.
struct Older {
    view: View,
    filters: Filters,
}

/// Half of a batch: its inserts, or its deletes; or all of it. At first as it came, then sorted.
struct Half {
    kind: SourceKind,
    keys: Address,
    /// What is sorted with the keys: values, numbers, or nothing.
    values: Address,
    len: u64,
    key_width: i32,
    value_width: i32,
    /// The values of a mixed batch, which stay where they are.
    values_by_number: Address,
    /// Whether it lies in working space, and not with the caller.
    is_ours: bool,
}

impl Half {
    /// The batch in as few parts as can be sorted, newest first.
    fn of(cuda: &Cuda, batch: &Batch) -> Vec<Half> {
        let half = |kind, keys, len| Half {
            kind,
            keys,
            values: 0,
            len,
            key_width: cuda.key_width,
            value_width: 0,
            values_by_number: 0,
            is_ours: false,
        };
        if batch.numbers != 0 {
            let (values, values_by_number) = (batch.numbers, batch.values);
            let all = half(SourceKind::Mixed, batch.keys, batch.len());
            let value_width = size_of::<u32>() as i32;
            return vec![Half { values, value_width, values_by_number, ..all }];
        }
        // A delete wins over an insert of the same batch: deletes count as newer.
        let deletes = half(SourceKind::Deletes, batch.delete_keys, batch.deletes);
        let (values, value_width) = (batch.values, cuda.value_width);
        let inserts = half(SourceKind::Inserts, batch.keys, batch.inserts);
        let inserts = Half { values, value_width, ..inserts };
        [deletes, inserts].into_iter().filter(|half| half.len > 0).collect()
    }

    fn key_bytes(&self) -> u64 {
        self.len * self.key_width as u64
    }

    fn value_bytes(&self) -> u64 {
        self.len * self.value_width as u64
    }

    /// Whether it is so short that a sort of all of it would take longer than sorting tiles of it, and
    /// merging them with what is carried.
    fn is_short(&self) -> bool {
        (2..=SHORT).contains(&self.len) && self.tiles() <= MAX_SOURCES as u64
    }

    /// How many tiles it is sorted in, if it is short.
    fn tiles(&self) -> u64 {
        self.len.div_ceil(tile_len())
    }

    /// Sorts it in tiles, without all but the last of equal keys in each: things to merge. This is the
    /// oldest; the others lie behind it.
    fn sort_tiles(&self, cuda: &Cuda, work: &mut Work, shadows: Address) -> Result<Source, Error> {
        let keys = work.room(self.key_bytes());
        let values = work.room(self.value_bytes());
        let lens = work.room(self.tiles() * size_of::<u64>() as u64);
        // SAFETY: inputs and outputs have `len` elements of the widths given, and there is a number for
        // each tile; all are used in the order of this stream.
        check("sorting a short batch", unsafe {
            ffi::gpulsm_sort_tiles(
                self.key_width,
                self.value_width,
                self.keys,
                self.values,
                self.len,
                keys,
                values,
                lens,
                cuda.stream.raw(),
            )
        })?;
        let (values, numbers) = match self.kind {
            SourceKind::Mixed => (self.values_by_number, values),
            _ => (values, 0),
        };
        Ok(Source { keys, values, numbers, shadows, len: lens, kind: self.kind, marks: 0 })
    }

    /// Sorts it, equal keys in the order of the input, to these keys and values.
    fn sort(&mut self, cuda: &Cuda, (keys, values): (Address, Address)) -> Result<(), Error> {
        let launch = |temp: Address, temp_bytes: &mut usize| {
            // SAFETY: inputs and outputs have `len` elements of the widths given, `temp` is null or
            // of the size that this function asked for, and all are used in the order of this stream.
            check("sorting a batch", unsafe {
                ffi::gpulsm_sort(
                    self.key_width,
                    self.value_width,
                    temp,
                    temp_bytes,
                    self.keys,
                    keys,
                    self.values,
                    values,
                    self.len,
                    cuda.stream.raw(),
                )
            })
        };
        let batch = (self.value_width, self.len);
        let mut room = cuda.shared.sort_room.lock().unwrap_or_else(PoisonError::into_inner);
        let mut temp_bytes = match *room {
            Some((last, bytes)) if last == batch => bytes,
            _ => {
                let mut bytes = 0;
                launch(0, &mut bytes)?;
                *room = Some((batch, bytes));
                bytes
            }
        };
        drop(room);
        let temp = Buffer::counted(temp_bytes as u64, cuda)?;
        launch(temp.address(), &mut temp_bytes)?;
        (self.keys, self.values, self.is_ours) = (keys, values, true);
        Ok(())
    }

    /// Bytes of zeros that ordering it takes.
    fn order_scratch(&self) -> u64 {
        // SAFETY: no pointers.
        unsafe { ffi::gpulsm_order_scratch(self.key_width, self.value_width, self.len) }
    }

    /// Writes it, sorted, without all but the last of equal keys.
    fn order_into(&self, cuda: &Cuda, work: &mut Work, out: &RunOutput) -> Result<(), Error> {
        // SAFETY: keys and values have `len` elements of their widths, the output has room for as
        // many, there are as many zeros as are asked for, and all are used on this stream.
        check("ordering a batch", unsafe {
            ffi::gpulsm_order(
                self.key_width,
                self.value_width,
                self.keys,
                self.values,
                self.len,
                work.zeros(self.order_scratch()),
                out,
                cuda.stream.raw(),
            )
        })
    }

    /// Sorts inserts in tiles, and merges those: something to merge with others, with room to say which
    /// keys are shadows. Sooner done than a sort of all.
    fn merge_tiles(&self, cuda: &Cuda, work: &mut Work, shadows: Address) -> Result<Source, Error> {
        let mut sources = Sources::new();
        sources.push_tiles(self.sort_tiles(cuda, work, 0)?, self.tiles());
        let head = work.room(size_of::<Head>() as u64);
        let (keys, values) = (work.room(self.key_bytes()), work.room(self.value_bytes()));
        let out = RunOutput { head, keys, values, ..RunOutput::default() };
        let none = Older { view: View::new([].into_iter()), filters: Filters::default() };
        merge_sources(cuda, work, &sources, self.len, &Default::default(), &none, &out)?;
        Ok(Source { keys, values, len: head, kind: self.kind, shadows, ..Source::default() })
    }

    /// The same in working space: something to merge, with room to say which keys are shadows.
    fn order(&self, cuda: &Cuda, work: &mut Work, shadows: Address) -> Result<Source, Error> {
        let (keys, values) = match self.is_ours {
            true => (self.keys, self.values),
            false => (work.room(self.key_bytes()), work.room(self.value_bytes())),
        };
        let head = work.room(size_of::<Head>() as u64);
        let out = RunOutput { head, keys, values, ..RunOutput::default() };
        self.order_into(cuda, work, &out)?;
        let RunOutput { keys, values, head, .. } = out;
        let (values, numbers) = match self.kind {
            SourceKind::Mixed => (self.values_by_number, values),
            _ => (values, 0),
        };
        Ok(Source { keys, values, numbers, len: head, kind: self.kind, shadows, marks: 0 })
    }
}

/// Working space of all steps but the sort's own, in one buffer; what must be zero is zeroed in one go.
struct Work {
    steps: Steps,
    buffer: Buffer,
    zeros: std::ops::Range<u64>,
    room: std::ops::Range<u64>,
}

impl Work {
    fn new(
        cuda: &Cuda,
        steps: &Steps,
        batch: &[Half],
        carried: usize,
        entries: u64,
    ) -> Result<Self, Error> {
        let (mut zeros, mut room) = (0, 0);
        let mut sources = carried;
        for half in batch {
            let tiles = half.tiles();
            sources += if steps.sort == Sort::Tiles { tiles as usize } else { 1 };
            let pairs = aligned(half.key_bytes()) + aligned(half.value_bytes());
            let length = aligned(size_of::<Head>() as u64);
            let lengths = aligned(tiles * size_of::<u64>() as u64);
            let scratch = || aligned(merge_scratch(cuda, tiles as i32, half.len));
            match steps.sort {
                Sort::Tiles => room += lengths + pairs,
                Sort::MergedTiles => room += lengths + pairs + length + pairs + scratch(),
                Sort::Not | Sort::Whole => {
                    zeros += aligned(half.order_scratch());
                    room += if steps.merge { length + pairs } else { 0 };
                }
            }
            room += if steps.shadows { aligned(half.len) } else { 0 };
        }
        if steps.merge {
            room += aligned(merge_scratch(cuda, sources as i32, entries));
        }
        let buffer = Buffer::counted(zeros + room, cuda)?;
        buffer.zero(0, zeros)?;
        Ok(Work { steps: *steps, buffer, zeros: 0..zeros, room: zeros..zeros + room })
    }

    /// So many bytes of zeros.
    fn zeros(&mut self, bytes: u64) -> Address {
        take(&self.buffer, &mut self.zeros, bytes)
    }

    /// So many bytes of anything.
    fn room(&mut self, bytes: u64) -> Address {
        take(&self.buffer, &mut self.room, bytes)
    }
}

/// Takes the first so many bytes of what is left of a buffer's stretch.
fn take(buffer: &Buffer, left: &mut std::ops::Range<u64>, bytes: u64) -> Address {
    let address = buffer.address() + left.start;
    left.start += aligned(bytes);
    assert!(left.start <= left.end, "working space is as large as its steps say");
    address
}

/// How many updates a tile of a short batch has.
fn tile_len() -> u64 {
    // SAFETY: no pointers.
    unsafe { ffi::gpulsm_sorted_tile() }
}

/// Where the next part of a buffer can begin.
fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(256)
}

/// Merges a batch and the carried runs into the output in one pass. Shadows are looked for in the older
/// runs only: where a carried run has the key too, the oldest entry's shadow is the merge's, and says
/// the same.
fn merge(
    cuda: &Cuda,
    work: &mut Work,
    batch: &[Half],
    carried: &[Run],
    older: &Older,
    bound: u64,
    out: &RunOutput,
) -> Result<(), Error> {
    let steps = work.steps;
    let mut sources = Sources::new();
    let mut asked = [ShadowQueries::default(); 2];
    for (half, asked) in batch.iter().zip(&mut asked) {
        let shadows = if steps.shadows { work.room(half.len) } else { 0 };
        let (keys, len) = if steps.sort == Sort::Tiles {
            let oldest = half.sort_tiles(cuda, work, shadows)?;
            sources.push_tiles(oldest, half.tiles());
            (oldest.keys, 0)
        } else {
            let ordered = match steps.sort {
                Sort::MergedTiles => half.merge_tiles(cuda, work, shadows)?,
                _ => half.order(cuda, work, shadows)?,
            };
            sources.push(ordered);
            (ordered.keys, ordered.len)
        };
        if steps.shadows {
            *asked = ShadowQueries { keys, len, bound: half.len, shadows };
        }
    }
    carried.iter().for_each(|run| sources.push(run.source()));
    merge_sources(cuda, work, &sources, bound, &asked, older, out)
}

/// Merges sources of at most `bound` entries into the output.
fn merge_sources(
    cuda: &Cuda,
    work: &mut Work,
    sources: &Sources,
    bound: u64,
    asked: &[ShadowQueries; 2],
    older: &Older,
    out: &RunOutput,
) -> Result<(), Error> {
    let scratch = work.room(merge_scratch(cuda, sources.count, bound));
    // SAFETY: the sources have at most `bound` entries, and those asked about are among them; they and the
    // older runs are alive, and written before what this stream does now; the output has room for what
    // can come of them; there is as much room to work in as is asked for.
    check("merging runs", unsafe {
        ffi::gpulsm_merge(
            cuda.key_width,
            cuda.value_width,
            sources,
            bound,
            0,
            u64::MAX,
            asked,
            &older.view,
            &older.filters,
            scratch,
            out,
            cuda.stream.raw(),
        )
    })
}

/// Bytes that a merge works in.
pub(in crate::cuda) fn merge_scratch(cuda: &Cuda, sources: i32, bound: u64) -> u64 {
    // SAFETY: no pointers.
    unsafe { ffi::gpulsm_merge_scratch(cuda.key_width, cuda.value_width, sources, bound) }
}
