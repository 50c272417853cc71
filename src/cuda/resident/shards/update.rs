//! Batches in a GPU's memory: divided there, and prepared and committed by all shards or none.

use std::any::Any;

use super::partition::{Items, Partition, sample};
use super::streams::SideStreams;
use super::transfer::{bring, fetch, fetch_into, is_beside};
use crate::batch::{Order, Updates};
use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::Address;
use crate::cuda::resident::store::{CudaStore, on_cuda, on_cuda_mut};
use crate::cuda::update::batch::Batch;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::shards::Shards;
use crate::store::{AnyStore, PreparedChange};
use crate::value::ValueBuffer;

/// Applies a batch in the memory of this context's GPU to shards, as a whole or not at all.
///
/// # Panics
///
/// If the store is not one of shards.
pub(in crate::cuda::resident) fn apply<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    cuda: &EnteredCuda<'_>,
    batch: &Batch,
) -> Result<(), Error> {
    let store: &mut dyn Any = store;
    let shards = store.downcast_mut::<Shards<B>>().expect("a store of shards");
    cuda.refuse_capture()?;
    if batch.inserts > 0 {
        shards.choose_splitters_of(|count| sample(cuda, batch.keys, batch.inserts, count))?;
    }
    let inserts = Items { keys: batch.keys, values: batch.values, len: batch.inserts };
    let deletes = Items { keys: batch.delete_keys, values: 0, len: batch.deletes };
    let mut inserts = Partition::new(cuda, shards.splitters(), &inserts, false)?;
    let mut deletes = Partition::new(cuda, shards.splitters(), &deletes, false)?;
    let part = |shard: usize| {
        let (inserts, deletes) = (inserts.part(shard), deletes.part(shard));
        Batch {
            keys: inserts.keys,
            values: inserts.values,
            inserts: inserts.len,
            delete_keys: deletes.keys,
            deletes: deletes.len,
            combines: batch.combines,
            // Those of the whole batch assign their values, or none.
            assigned: if batch.assigned == 0 { 0 } else { inserts.len },
            order: Order::Any,
            ..Batch::default()
        }
    };
    let parts = (0..shards.count()).map(part).map(|part| (part.len() > 0).then_some(part));
    let (parts, data): (Vec<_>, &Cuda) = (parts.collect(), cuda);
    let freeing = SideStreams::of(cuda.gpu())?.freeing;
    let counts = (batch.inserts as usize, batch.deletes as usize);
    let applied =
        shards.apply_parts(counts, parts, |store, part| prepare(store, data, &freeing, part));
    inserts.outlive(&freeing);
    deletes.outlive(&freeing);
    applied
}

/// Prepares a part of a batch on its shard. What is put on the freeing stream afterwards may free it.
fn prepare<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    data: &Cuda,
    freeing: &Stream,
    part: Batch,
) -> Result<PreparedChange, Error> {
    if on_cuda(store).is_err() {
        return prepare_on_host(store, data, &part);
    }
    let store = on_cuda_mut(store)?;
    let prepared = prepare_on_gpu(store, data, part);
    // After an error, too: work that was started may still use the data.
    freeing.wait_for(&store.cuda().stream)?;
    prepared
}

fn prepare_on_gpu(
    store: &mut dyn CudaStore,
    data: &Cuda,
    part: Batch,
) -> Result<PreparedChange, Error> {
    let cuda = store.cuda().clone();
    let cuda = &cuda.enter()?;
    if is_beside(cuda.gpu(), data.gpu()) {
        return store.prepare_staged(&part);
    }
    let key_width = cuda.key_width as u64;
    let copy = |from: Address, bytes: u64| bring(cuda, data.gpu(), from, bytes);
    let keys = copy(part.keys, part.inserts * key_width)?;
    let values = copy(part.values, cuda.value_bytes(part.inserts as usize))?;
    let deletes = copy(part.delete_keys, part.deletes * key_width)?;
    let [keys_at, values_at, deletes_at] = [&keys, &values, &deletes].map(Buffer::address);
    store.prepare_staged(&Batch {
        keys: keys_at,
        values: values_at,
        delete_keys: deletes_at,
        _memory: vec![keys, values, deletes],
        ..part
    })
}

fn prepare_on_host<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    data: &Cuda,
    part: &Batch,
) -> Result<PreparedChange, Error> {
    let cuda = &data.enter()?;
    let keys: Vec<B> = fetch(cuda, part.keys, part.inserts)?;
    let mut values = ValueBuffer::new(keys.len(), cuda.value_width as usize)?;
    fetch_into(cuda, part.values, values.bytes_mut())?;
    let deletes: Vec<B> = fetch(cuda, part.delete_keys, part.deletes)?;
    store.prepare(&Updates {
        keys: keys.into(),
        values: values.bytes(),
        assigned: part.assigned as usize,
        deletes: deletes.into(),
        order: part.order,
    })
}
