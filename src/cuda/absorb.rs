//! Taking in a batch: order & dedupe, shadows, and one merge with the carried runs. All of it is put
//! on the stream; nothing is waited for.

use super::engine::Cuda;
use super::ffi::{self, Address, Head, Kind, Output, Source, Sources, View, check};
use super::memory::Buffer;
use super::run::{Run, Unwritten};
use crate::batch::Order;
use crate::error::Error;

/// A batch whose keys and values are on the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Updates {
    /// Keys to insert…
    pub keys: Address,
    /// …and their values.
    pub values: Address,
    pub inserts: u64,
    /// Keys to delete; they win over inserts of the same key.
    pub delete_keys: Address,
    pub deletes: u64,
    pub order: Order,
}

impl Updates {
    pub fn len(&self) -> u64 {
        self.inserts + self.deletes
    }
}

/// Merges the batch and the carried runs into one run on top of the older ones.
pub(crate) fn absorb(
    cuda: &Cuda,
    updates: &Updates,
    carried: &[Run],
    older: &[Run],
) -> Result<Option<Run>, Error> {
    // Bounds shrink when figures arrive: what is known later fits into what was known before.
    let entries = updates.len() + carried.iter().map(Run::bound).sum::<u64>();
    let bound = bound(updates, carried, older)?;
    if bound == 0 {
        return Ok(None);
    }
    let least_sum = carried.iter().map(Run::least_sum).sum::<i64>() - updates.deletes.cast_signed();
    let inserts = sort(cuda, updates.keys, Some(updates.values), updates.inserts, updates.order)?;
    let reading = cuda.read(carried.iter().chain(older))?;
    let run = if carried.is_empty() && older.is_empty() && updates.deletes == 0 {
        // Nothing to merge with and nothing to shadow: ordered straight into the run.
        let run = Unwritten::new(cuda, bound, false)?;
        inserts.order_into(cuda, &run.output())?;
        run
    } else {
        let deletes = sort(cuda, updates.delete_keys, None, updates.deletes, updates.order)?;
        let view = View::new(older.iter().map(Run::view));
        let batch = [(deletes, Kind::Deletes), (inserts, Kind::Inserts)];
        let batch = batch
            .into_iter()
            .filter(|(sorted, _)| sorted.len > 0)
            .map(|(sorted, kind)| Ordered::new(cuda, sorted, kind, &view))
            .collect::<Result<Vec<_>, Error>>()?;
        let sources: Vec<Source> =
            batch.iter().map(|part| part.source).chain(carried.iter().map(Run::source)).collect();
        let run = Unwritten::new(cuda, bound, !older.is_empty())?;
        merge(cuda, &sources, entries, older.is_empty(), &run.output())?;
        run
    };
    reading.end()?;
    run.written(cuda, least_sum).map(Some)
}

/// The most entries that can come of it.
fn bound(updates: &Updates, carried: &[Run], older: &[Run]) -> Result<u64, Error> {
    if updates.len() == 0 && older.is_empty() {
        // A cleanup leaves what is live and nothing else: room for just that, so wait to know it.
        return super::count::len(carried);
    }
    // In the oldest run there are no tombstones.
    let deletes = if older.is_empty() { 0 } else { updates.deletes };
    Ok(updates.inserts + deletes + carried.iter().map(Run::bound).sum::<u64>())
}

/// Half of a batch in key order, equal keys in the order of the input.
struct Sorted {
    keys: Address,
    values: Address,
    len: u64,
    value_width: i32,
    /// What holds it, unless that is the caller's.
    _buffer: Option<Buffer>,
}

/// Sorts half of a batch.
fn sort(
    cuda: &Cuda,
    keys: Address,
    values: Option<Address>,
    len: u64,
    order: Order,
) -> Result<Sorted, Error> {
    let value_width = if values.is_some() { cuda.value_width } else { 0 };
    let values = values.unwrap_or(0);
    if len <= 1 || order == Order::Sorted {
        return Ok(Sorted { keys, values, len, value_width, _buffer: None });
    }
    let key_bytes = (len * cuda.key_width as u64).next_multiple_of(256);
    let bytes = key_bytes + len * value_width as u64;
    let buffer = Buffer::counted(bytes, &cuda.family.budget, &cuda.stream)?;
    let (sorted_keys, sorted_values) = (buffer.address(), buffer.address() + key_bytes);
    let launch = |temp: Address, temp_bytes: &mut usize| {
        let _entered = cuda.gpu().enter()?;
        // SAFETY: inputs and outputs have `len` elements of the widths given, `temp` is null or of
        // the size that this function asked for, and all are used in the order of this stream.
        check("sorting a batch", unsafe {
            ffi::gpulsm_sort(
                cuda.key_width,
                value_width,
                temp,
                temp_bytes,
                keys,
                sorted_keys,
                values,
                sorted_values,
                len,
                cuda.stream.raw(),
            )
        })
    };
    let mut temp_bytes = 0;
    launch(0, &mut temp_bytes)?;
    let temp = Buffer::counted(temp_bytes as u64, &cuda.family.budget, &cuda.stream)?;
    launch(temp.address(), &mut temp_bytes)?;
    Ok(Sorted { keys: sorted_keys, values: sorted_values, len, value_width, _buffer: Some(buffer) })
}

impl Sorted {
    /// Writes it where it belongs, without all but the last of equal keys.
    fn order_into(&self, cuda: &Cuda, out: &Output) -> Result<(), Error> {
        // SAFETY: no pointers.
        let bytes = unsafe { ffi::gpulsm_order_scratch(self.len) };
        let scratch = Buffer::counted(bytes, &cuda.family.budget, &cuda.stream)?;
        let _entered = cuda.gpu().enter()?;
        // SAFETY: keys and values have `len` elements of their widths, the output has room for as
        // many, the scratch memory is of the size asked for, and all are used on this stream.
        check("ordering a batch", unsafe {
            ffi::gpulsm_order(
                cuda.key_width,
                self.value_width,
                self.keys,
                self.values,
                self.len,
                scratch.address(),
                out,
                cuda.stream.raw(),
            )
        })
    }
}

/// Half of a batch with unique keys, and which of them shadow an older entry.
struct Ordered {
    source: Source,
    _buffer: Buffer,
}

impl Ordered {
    fn new(cuda: &Cuda, sorted: Sorted, kind: Kind, older: &View) -> Result<Self, Error> {
        let len = sorted.len;
        let after = |offset: u64, bytes: u64| (offset + bytes).next_multiple_of(256);
        let keys = after(0, size_of::<Head>() as u64);
        let values = after(keys, len * cuda.key_width as u64);
        let shadows = after(values, len * sorted.value_width as u64);
        let end = if older.count == 0 { shadows } else { after(shadows, len) };
        let buffer = Buffer::counted(end, &cuda.family.budget, &cuda.stream)?;
        let at = |offset: u64| buffer.address() + offset;
        let out = Output { keys: at(keys), values: at(values), head: at(0), ..Output::default() };
        sorted.order_into(cuda, &out)?;
        let mut source =
            Source { keys: out.keys, values: out.values, len: out.head, kind, ..Source::default() };
        if older.count > 0 {
            source.shadows = at(shadows);
            let _entered = cuda.gpu().enter()?;
            // SAFETY: there are at most `len` keys and a byte for each; the older runs are alive,
            // and written before what this stream does now.
            check("finding shadows", unsafe {
                ffi::gpulsm_shadows(
                    cuda.key_width,
                    source.keys,
                    source.len,
                    len,
                    older,
                    source.shadows,
                    cuda.stream.raw(),
                )
            })?;
        }
        Ok(Ordered { source, _buffer: buffer })
    }
}

/// Merges everything into the output in one pass.
fn merge(
    cuda: &Cuda,
    sources: &[Source],
    bound: u64,
    live_only: bool,
    out: &Output,
) -> Result<(), Error> {
    let sources = Sources::new(sources);
    // SAFETY: no pointers.
    let bytes = unsafe { ffi::gpulsm_merge_scratch(sources.count, bound) };
    let scratch = Buffer::counted(bytes, &cuda.family.budget, &cuda.stream)?;
    let _entered = cuda.gpu().enter()?;
    // SAFETY: the sources have at most `bound` entries, are alive, and are written before what this
    // stream does now; the output has room for what can come of them; the scratch memory is of the
    // size asked for.
    check("merging runs", unsafe {
        ffi::gpulsm_merge(
            cuda.key_width,
            cuda.value_width,
            &sources,
            bound,
            live_only,
            scratch.address(),
            out,
            cuda.stream.raw(),
        )
    })
}
