//! Batches in a GPU's memory: divided there, and prepared and committed by all shards or none. The part of a shard on
//! the same GPU goes straight to its write buffer, if it is to be buffered.

use std::any::Any;

use super::partition::{Items, Partition, ShardOutput, sample};
use super::streams::SideStreams;
use super::transfer::{bring, fetch, fetch_into, is_beside};
use crate::batch::{Order, Updates};
use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::gpu::Gpu;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::ffi::Address;
use crate::cuda::resident::store::{CudaStore, on_cuda, on_cuda_mut};
use crate::cuda::update::batch::Batch;
use crate::cuda::update::buffer::Room;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::shards::Shards;
use crate::store::{AnyStore, PreparedChange};
use crate::value::ValueBuffer;

/// The part of a batch that a shard gets.
enum Part {
    /// The shard's write buffer has room for its data.
    Buffered(PreparedChange, Room),
    /// Its data is grouped with that of others.
    Grouped(Batch),
}

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
    let (data, freeing): (&Cuda, Stream) = (cuda, SideStreams::of(cuda.gpu())?.freeing);
    let divided = Divided::new(cuda, shards.splitters(), batch)?;
    let mut parts = divided.reserve(shards, cuda.gpu());
    let mut grouped = match divided.put(shards, cuda, &mut parts) {
        Ok(grouped) => grouped,
        Err(error) => {
            undo(shards, data, parts);
            return Err(error);
        }
    };
    let applied = shards.apply_parts(
        (batch.inserts as usize, batch.deletes as usize),
        parts.iter().flatten().map(Part::updates_to_prepare).sum(),
        parts,
        |store, part| part.prepare(store, data, &freeing),
    );
    grouped.iter_mut().for_each(|buffer| buffer.outlive(&freeing));
    applied
}

/// Undoes what was prepared of a batch. What was started may still write its data to where other batches will be.
fn undo<B: OrderedKey>(shards: &mut Shards<B>, data: &Cuda, parts: Vec<Option<Part>>) {
    for (store, part) in shards.stores_mut().zip(parts) {
        if let Some(Part::Buffered(change, _)) = part {
            if let Ok(store) = on_cuda(store) {
                store.cuda().stream.wait_for(&data.stream).ok();
            }
            store.undo(change);
        }
    }
}

/// A batch whose updates are counted by shard.
struct Divided<'a> {
    batch: &'a Batch,
    inserts: Partition,
    deletes: Partition,
}

impl<'a> Divided<'a> {
    fn new<B: OrderedKey>(
        cuda: &EnteredCuda<'_>,
        splitters: &[B],
        batch: &'a Batch,
    ) -> Result<Self, Error> {
        let inserts = Items { keys: batch.keys, values: batch.values, len: batch.inserts };
        let deletes = Items { keys: batch.delete_keys, values: 0, len: batch.deletes };
        Ok(Divided {
            batch,
            inserts: Partition::new(cuda, splitters, &inserts)?,
            deletes: Partition::new(cuda, splitters, &deletes)?,
        })
    }

    /// Returns the part of a shard, still without data.
    fn part(&self, shard: usize) -> Batch {
        let inserts = self.inserts.len_of(shard);
        Batch {
            inserts,
            deletes: self.deletes.len_of(shard),
            combines: self.batch.combines,
            // Those of the whole batch assign their values, or none.
            assigned: if self.batch.assigned == 0 { 0 } else { inserts },
            order: Order::Any,
            ..Batch::default()
        }
    }

    /// Makes room in the write buffers of shards on the same GPU that are to buffer their parts.
    fn reserve<B: OrderedKey>(&self, shards: &mut Shards<B>, gpu: &Gpu) -> Vec<Option<Part>> {
        let reserve = |(shard, store): (usize, &mut dyn AnyStore<B>)| {
            let part = self.part(shard);
            if part.len() == 0 {
                return None;
            }
            let beside = on_cuda_mut(store).ok().filter(|store| is_beside(store.cuda().gpu(), gpu));
            Some(match beside.and_then(|store| store.prepare_room(&part)) {
                Some((change, room)) => Part::Buffered(change, room),
                None => Part::Grouped(part),
            })
        };
        shards.stores_mut().enumerate().map(reserve).collect()
    }

    /// Puts the data of every part where it belongs. Returns the memory of those that are grouped.
    fn put<B: OrderedKey>(
        &self,
        shards: &mut Shards<B>,
        cuda: &EnteredCuda<'_>,
        parts: &mut [Option<Part>],
    ) -> Result<[Buffer; 3], Error> {
        let are_grouped = parts.iter().flatten().any(|part| matches!(part, Part::Grouped(_)));
        let alloc = |len: u64, width: i32| {
            cuda.alloc_uncounted(if are_grouped { len * width as u64 } else { 0 })
        };
        let grouped = [
            alloc(self.batch.inserts, cuda.key_width)?,
            alloc(self.batch.inserts, cuda.value_width)?,
            alloc(self.batch.deletes, cuda.key_width)?,
        ];
        let mut outputs = [const { Vec::new() }; 2];
        let mut streams = Vec::new();
        for ((shard, store), part) in shards.stores_mut().enumerate().zip(parts) {
            if let Some(Part::Buffered(_, room)) = part {
                let stream = &on_cuda(store)?.cuda().stream;
                if !room.is_there {
                    cuda.stream.wait_for(stream)?;
                }
                streams.push(stream.clone());
            }
            let [inserts, deletes] = self.outputs_of(cuda, shard, part, &grouped);
            outputs[0].push(inserts);
            outputs[1].push(deletes);
        }
        self.inserts.put(cuda, &outputs[0], 0)?;
        self.deletes.put(cuda, &outputs[1], 0)?;
        let is_put = Event::record(&cuda.stream, cuda.entered())?;
        streams.iter().try_for_each(|stream| stream.wait(&is_put, cuda.entered()))?;
        Ok(grouped)
    }

    /// Returns where the inserts and the deletes of a shard are put, and tells its part, if it is grouped.
    fn outputs_of(
        &self,
        cuda: &Cuda,
        shard: usize,
        part: &mut Option<Part>,
        grouped: &[Buffer; 3],
    ) -> [ShardOutput; 2] {
        let [keys, values, delete_keys] = grouped.each_ref().map(Buffer::address);
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        let (inserts, deletes) = (self.inserts.range(shard).start, self.deletes.range(shard).start);
        let (key_bytes, value_bytes) = (inserts * key_width, inserts * value_width);
        let delete_bytes = deletes * key_width;
        if let Some(Part::Grouped(part)) = part {
            part.keys = keys + key_bytes;
            part.values = values + value_bytes;
            part.delete_keys = delete_keys + delete_bytes;
        }
        let [inserts_to, deletes_to] = match part {
            // The first item of all shards would be before the first one there.
            Some(Part::Buffered(_, room)) => [
                (room.keys.wrapping_sub(key_bytes), room.values.wrapping_sub(value_bytes)),
                (room.delete_keys.wrapping_sub(delete_bytes), 0),
            ],
            _ => [(keys, values), (delete_keys, 0)],
        };
        [inserts_to, deletes_to].map(|(keys, values)| ShardOutput { keys, values })
    }
}

impl Part {
    /// Returns how many updates are still to be prepared.
    fn updates_to_prepare(&self) -> usize {
        match self {
            Part::Buffered(..) => 0,
            Part::Grouped(batch) => batch.len() as usize,
        }
    }

    /// Prepares it on its shard. What is put on the freeing stream afterwards may free it.
    fn prepare<B: OrderedKey>(
        self,
        store: &mut dyn AnyStore<B>,
        data: &Cuda,
        freeing: &Stream,
    ) -> Result<PreparedChange, Error> {
        let batch = match self {
            Part::Buffered(change, _) => return Ok(change),
            Part::Grouped(batch) => batch,
        };
        if on_cuda(store).is_err() {
            return prepare_on_host(store, data, &batch);
        }
        let store = on_cuda_mut(store)?;
        store.cuda().stream.wait_for(&data.stream)?;
        let prepared = prepare_on_gpu(store, data, batch);
        // After an error, too: work that was started may still use the data.
        freeing.wait_for(&store.cuda().stream)?;
        prepared
    }
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
