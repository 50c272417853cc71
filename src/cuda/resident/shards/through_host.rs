//! Queries on data in a GPU's memory that shards answer through the host's memory.

use bytemuck::Pod;

use super::transfer::fetch;
use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::write;
use crate::cuda::ffi::{Address, PairsOutput};
use crate::cuda::query::range::{PairsRoom, RangeQueries};
use crate::cuda::resident::device_query::DeviceQuery;
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;
use crate::query::{PairsOut, Query};
use crate::store::AnyStore;
use crate::value::ValueBuffer;

/// Copies the questions to the host, has the store answer them, and copies the answers back.
pub(super) fn answer<B: OrderedKey>(
    store: &dyn AnyStore<B>,
    cuda: &EnteredCuda<'_>,
    query: &DeviceQuery<'_>,
) -> Result<(), Error> {
    match *query {
        DeviceQuery::Lookup { .. } => unreachable!("lookups are divided on the GPU"),
        DeviceQuery::Count { ranges, counts: to } => {
            let ((lo, hi), mut counts) = (ends(cuda, &ranges)?, try_zeroed(ranges.len as usize)?);
            store.answer(Query::Count { lo: &lo, hi: &hi, counts: &mut counts })?;
            send(cuda, to, &counts)
        }
        DeviceQuery::Rank { keys, len, ranks: to } => {
            let (keys, mut ranks) = (fetch::<B>(cuda, keys, len)?, try_zeroed(len as usize)?);
            store.answer(Query::Rank { keys: &keys, ranks: &mut ranks })?;
            send(cuda, to, &ranks)
        }
        DeviceQuery::RangeOffsets { ranges, offsets } => {
            let none = PairsRoom { keys: 0, values: 0, len: 0 };
            list(store, cuda, &ranges, offsets, &none)
        }
        DeviceQuery::Range { ranges, offsets, pairs } => {
            list(store, cuda, &ranges, offsets, &pairs)
        }
        DeviceQuery::Aggregate { ranges, fold, answers: to, counts: to_counts } => {
            let ((lo, hi), len) = (ends(cuda, &ranges)?, ranges.len as usize);
            let mut answers = ValueBuffer::new(len, fold.answer_width(cuda.value_width as usize))?;
            let mut counts = try_zeroed(len)?;
            store.answer(Query::Aggregate {
                lo: &lo,
                hi: &hi,
                fold,
                answers: answers.bytes_mut(),
                counts: &mut counts,
            })?;
            send(cuda, to, answers.bytes())?;
            send(cuda, to_counts, &counts)
        }
        DeviceQuery::Select { indices, len, pairs } => {
            let indices = fetch::<u64>(cuda, indices, len)?;
            find(cuda, len, &pairs, |pairs| {
                store.answer(Query::Select { indices: &indices, pairs })
            })
        }
        DeviceQuery::Nearest { side, keys, len, pairs } => {
            let keys = fetch::<B>(cuda, keys, len)?;
            find(cuda, len, &pairs, |pairs| {
                store.answer(Query::Nearest { side, keys: &keys, pairs })
            })
        }
        DeviceQuery::AsOf { asof, keys, len, pairs } => {
            let keys = fetch::<B>(cuda, keys, len)?;
            find(cuda, len, &pairs, |pairs| {
                store.answer(Query::AsOf { asof: *asof, keys: &keys, pairs })
            })
        }
    }
}

/// Lists the pairs of ranges, if there is room for all.
fn list<B: OrderedKey>(
    store: &dyn AnyStore<B>,
    cuda: &EnteredCuda<'_>,
    ranges: &RangeQueries,
    to: Address,
    room: &PairsRoom,
) -> Result<(), Error> {
    let ((lo, hi), mut offsets) = (ends::<B>(cuda, ranges)?, try_zeroed(ranges.len as usize + 1)?);
    store.answer(Query::RangeOffsets { lo: &lo, hi: &hi, offsets: &mut offsets })?;
    let total = offsets[ranges.len as usize];
    if (1..=room.len).contains(&total) {
        let mut keys = try_zeroed::<B>(total as usize)?;
        let mut values = ValueBuffer::new(total as usize, cuda.value_width as usize)?;
        let wanted = (room.values != 0).then(|| values.bytes_mut());
        let (lo, hi, offsets) = (&lo, &hi, &mut offsets);
        store.answer(Query::Range { lo, hi, offsets, keys: &mut keys, values: wanted })?;
        send(cuda, room.keys, &keys)?;
        if room.values != 0 {
            send(cuda, room.values, values.bytes())?;
        }
    }
    send(cuda, to, &offsets)
}

/// Finds at most one pair for each question.
fn find<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    len: u64,
    to: &PairsOutput,
    answer: impl FnOnce(PairsOut<'_, B>) -> Result<(), Error>,
) -> Result<(), Error> {
    let len = len as usize;
    let (mut keys, mut found) = (try_zeroed::<B>(len)?, try_zeroed::<bool>(len)?);
    let mut values = ValueBuffer::new(len, cuda.value_width as usize)?;
    answer(PairsOut { keys: &mut keys, values: values.bytes_mut(), found: &mut found })?;
    send(cuda, to.keys, &keys)?;
    send(cuda, to.values, values.bytes())?;
    send(cuda, to.found, bytemuck::cast_slice::<_, u8>(&found))
}

/// Returns the ends of ranges.
fn ends<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    ranges: &RangeQueries,
) -> Result<(Vec<B>, Vec<B>), Error> {
    Ok((fetch(cuda, ranges.lo, ranges.len)?, fetch(cuda, ranges.hi, ranges.len)?))
}

/// Copies answers to the GPU.
fn send<T: Pod>(cuda: &EnteredCuda<'_>, to: Address, answers: &[T]) -> Result<(), Error> {
    // SAFETY: whoever asked has room for as many answers, for work on this stream.
    unsafe { write(to, answers, &cuda.stream, cuda.entered()) }
}
