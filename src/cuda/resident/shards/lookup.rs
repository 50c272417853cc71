//! Lookups of keys in a GPU's memory: divided there, answered by all shards at the same time, and brought back.

use super::partition::{Items, Partition, ShardOutput};
use super::transfer::{bring, fetch, is_beside, take_back};
use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::memory::write;
use crate::cuda::ffi::{self, check};
use crate::cuda::query::buckets::Lookups;
use crate::cuda::resident::device_query::DeviceQuery;
use crate::cuda::resident::store::{CudaStore, on_cuda};
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;
use crate::query::Query;
use crate::shards::Shards;
use crate::store::AnyStore;
use crate::value::ValueBuffer;

/// Keys are numbered with 32 bits: no more are divided at once.
const MAX_KEYS: u64 = 1 << 30;

pub(super) fn look_up<B: OrderedKey>(
    shards: &Shards<B>,
    cuda: &EnteredCuda<'_>,
    lookups: &Lookups,
) -> Result<(), Error> {
    for first in (0..lookups.len).step_by(MAX_KEYS as usize) {
        look_up_some(shards, cuda, &lookups.part(cuda, first, MAX_KEYS))?;
    }
    Ok(())
}

fn look_up_some<B: OrderedKey>(
    shards: &Shards<B>,
    cuda: &EnteredCuda<'_>,
    lookups: &Lookups,
) -> Result<(), Error> {
    let Lookups { keys, len, values, found } = *lookups;
    let (key_width, value_width) =
        (cuda.key_width as u64, if values == 0 { 0 } else { cuda.value_width as u64 });
    let partition = Partition::new(cuda, shards.splitters(), &Items { keys, values: 0, len })?;
    let grouped_keys = cuda.alloc_uncounted(len * key_width)?;
    let grouped_values = cuda.alloc_uncounted(len * value_width)?;
    let grouped_found = cuda.alloc_uncounted(len)?;
    let places = cuda.alloc_uncounted(len * size_of::<u32>() as u64)?;
    let output = ShardOutput { keys: grouped_keys.address(), values: 0 };
    partition.put(cuda, &vec![output; shards.count()], places.address())?;
    let part = |shard: usize| {
        let start = partition.range(shard).start;
        Lookups {
            keys: grouped_keys.address() + start * key_width,
            len: partition.len_of(shard),
            values: if values == 0 { 0 } else { grouped_values.address() + start * value_width },
            found: grouped_found.address() + start,
        }
    };
    let parts = (0..shards.count()).map(|shard| (shard, part(shard)));
    let data: &Cuda = cuda;
    shards.ask(len as usize, parts.filter(|(_, part)| part.len > 0), |store, part| {
        look_up_in(store, data, &part)
    })?;
    // SAFETY: there are `len` places, each less than `len`, and as many answers; and room for them there.
    check("bringing answers back", unsafe {
        ffi::gpulsm_restore_order(
            cuda.value_width,
            places.address(),
            len,
            grouped_values.address(),
            grouped_found.address(),
            values,
            found,
            cuda.raw_stream(),
        )
    })
}

/// Has one shard answer. What is put on the stream of the data's context afterwards finds the answers.
fn look_up_in<B: OrderedKey>(
    store: &dyn AnyStore<B>,
    data: &Cuda,
    lookups: &Lookups,
) -> Result<(), Error> {
    let Ok(store) = on_cuda(store) else { return look_up_on_host(store, data, lookups) };
    store.cuda().stream.wait_for(&data.stream)?; // It has the keys, and the memory for the answers.
    let answered = look_up_on_gpu(store, data, lookups);
    // After an error, too: work that was started may still use the data.
    data.stream.wait_for(&store.cuda().stream).and(answered)
}

fn look_up_on_gpu(store: &dyn CudaStore, data: &Cuda, lookups: &Lookups) -> Result<(), Error> {
    let Lookups { keys, len, values, found } = *lookups;
    let cuda = &store.cuda().enter()?;
    if is_beside(cuda.gpu(), data.gpu()) {
        return DeviceQuery::Lookup { keys, len, values, found }.answer(store, cuda);
    }
    let value_width = if values == 0 { 0 } else { cuda.value_width as u64 };
    let own_keys = bring(cuda, data.gpu(), keys, len * cuda.key_width as u64)?;
    let own_values = cuda.alloc_uncounted(len * value_width)?;
    let own_found = cuda.alloc_uncounted(len)?;
    let query = DeviceQuery::Lookup {
        keys: own_keys.address(),
        len,
        values: own_values.address(),
        found: own_found.address(),
    };
    query.answer(store, cuda)?;
    take_back(cuda, &own_values, data.gpu(), values)?;
    take_back(cuda, &own_found, data.gpu(), found)
}

fn look_up_on_host<B: OrderedKey>(
    store: &dyn AnyStore<B>,
    data: &Cuda,
    lookups: &Lookups,
) -> Result<(), Error> {
    let cuda = &data.enter()?;
    let keys: Vec<B> = fetch(cuda, lookups.keys, lookups.len)?;
    let mut found = try_zeroed::<bool>(keys.len())?;
    let width = if lookups.values == 0 { 0 } else { cuda.value_width as usize };
    let mut values = ValueBuffer::new(keys.len(), width)?;
    let wanted = (lookups.values != 0).then(|| values.bytes_mut());
    store.answer(Query::Lookup { keys: &keys, values: wanted, found: &mut found })?;
    // SAFETY: there is room for as many answers, for work on this stream.
    unsafe {
        write(lookups.values, values.bytes(), &cuda.stream, cuda.entered())?;
        write(lookups.found, bytemuck::cast_slice::<_, u8>(&found), &cuda.stream, cuda.entered())
    }
}
