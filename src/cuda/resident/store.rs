//! Stores on a GPU, found behind [`AnyStore`].

use std::any::Any;
use std::sync::Arc;

use crate::cuda::context::Cuda;
use crate::cuda::driver::stream::Stream;
use crate::cuda::engine::CudaEngine;
use crate::cuda::ffi::View;
use crate::cuda::query::{count, range};
use crate::cuda::run::Run;
use crate::cuda::run::reading::Reading;
use crate::cuda::run::resolve::resolve;
use crate::cuda::update::batch::Batch;
use crate::cuda::update::buffer::{Room, WriteBuffer};
use crate::engine::DeviceBatch;
use crate::error::Error;
use crate::holders::{Hold, HolderKind};
use crate::key::OrderedKey;
use crate::shards::Shards;
use crate::store::{AnyStore, Levels, PreparedChange, Store};

/// A store on a GPU, whatever the width of its keys.
pub(super) trait CudaStore {
    fn cuda(&self) -> &Cuda;

    /// Returns the same for queries, which may use up the reserve.
    fn cuda_with_reserve(&self) -> Cuda;

    /// Applies the buffered batches and returns every level.
    fn flushed(&self) -> Result<Arc<Levels<Run>>, Error>;

    /// Counts another holder of the store's runs.
    fn hold(&self, kind: HolderKind) -> Hold;

    /// Keeps these runs for as long as the store lives: a graph has their addresses.
    fn pin(&self, levels: Arc<Levels<Run>>);

    /// Applies one batch that is on the GPU, as a whole or not at all.
    fn apply_staged(&mut self, batch: &Batch) -> Result<(), Error>;

    /// Does everything that can fail of applying such a batch; the store commits or undoes it next.
    fn prepare_staged(&mut self, batch: &Batch) -> Result<PreparedChange, Error>;

    /// Makes room in the write buffer for a batch without data, if one like it would be buffered: the store commits or
    /// undoes it next, and meanwhile the caller writes the data where it says, on a stream that has waited for this
    /// one's, and this one's waits for it.
    fn prepare_room(&mut self, batch: &Batch) -> Option<(PreparedChange, Room)>;

    /// Runs all further calls on another stream.
    fn move_to_stream(&mut self, stream: &Stream) -> Result<(), Error>;
}

impl<B: OrderedKey> CudaStore for Store<CudaEngine<B>> {
    fn cuda(&self) -> &Cuda {
        &self.engine.cuda
    }

    fn cuda_with_reserve(&self) -> Cuda {
        self.engine_with_reserve().cuda
    }

    fn flushed(&self) -> Result<Arc<Levels<Run>>, Error> {
        self.flushed()
    }

    fn hold(&self, kind: HolderKind) -> Hold {
        self.hold(kind)
    }

    fn pin(&self, levels: Arc<Levels<Run>>) {
        self.pin(levels);
    }

    fn apply_staged(&mut self, batch: &Batch) -> Result<(), Error> {
        self.apply_staged(batch)
    }

    fn prepare_staged(&mut self, batch: &Batch) -> Result<PreparedChange, Error> {
        Ok(Box::new(self.prepare_staged(batch)?))
    }

    fn prepare_room(&mut self, batch: &Batch) -> Option<(PreparedChange, Room)> {
        // If there is no memory, preparing the batch with its data says so.
        let prepared = self.try_reserve(batch).ok()??;
        let room = |buffer: &WriteBuffer| buffer.last_room(&self.engine.cuda, batch.counts());
        Some((Box::new(prepared), self.read_buffer(room)?))
    }

    fn move_to_stream(&mut self, stream: &Stream) -> Result<(), Error> {
        // Buffered batches are applied, and missing marks computed, on the old stream.
        resolve(&self.engine.cuda.enter()?, self.flushed()?.runs())?;
        self.abandon_merge(); // It would continue on the old stream.
        self.engine.cuda.stream = stream.clone();
        Ok(())
    }
}

/// Returns a store as one on a GPU, or an error if it is not. (Not generic: compiled with this crate.)
pub(super) fn on_cuda(store: &dyn Any) -> Result<&dyn CudaStore, Error> {
    if let Some(store) = store.downcast_ref::<Store<CudaEngine<u32>>>() {
        return Ok(store);
    }
    if let Some(store) = store.downcast_ref::<Store<CudaEngine<u64>>>() {
        return Ok(store);
    }
    let of_u128 = store.downcast_ref::<Store<CudaEngine<u128>>>();
    of_u128.map(|store| store as &dyn CudaStore).ok_or_else(|| not_one_gpu(store))
}

/// Returns a store as one on a GPU, to be changed, or an error if it is not.
pub(super) fn on_cuda_mut(store: &mut dyn Any) -> Result<&mut dyn CudaStore, Error> {
    let refused = not_one_gpu(store);
    // Not `if let`: the borrow would last to the end of the function.
    let store: Option<&mut dyn CudaStore> = if store.is::<Store<CudaEngine<u32>>>() {
        store.downcast_mut::<Store<CudaEngine<u32>>>().map(|store| store as _)
    } else if store.is::<Store<CudaEngine<u64>>>() {
        store.downcast_mut::<Store<CudaEngine<u64>>>().map(|store| store as _)
    } else {
        store.downcast_mut::<Store<CudaEngine<u128>>>().map(|store| store as _)
    };
    store.ok_or(refused)
}

/// Returns why a store is not one on a GPU.
fn not_one_gpu(store: &dyn Any) -> Error {
    let shards = [
        store.downcast_ref::<Shards<u32>>().map(Shards::count),
        store.downcast_ref::<Shards<u64>>().map(Shards::count),
        store.downcast_ref::<Shards<u128>>().map(Shards::count),
    ];
    let shards = shards.into_iter().flatten().next();
    shards.map_or(Error::NotOnCuda, |shards| Error::Sharded { shards })
}

/// Returns a store as one of several shards, if it is.
pub(super) fn on_shards<B: OrderedKey>(store: &dyn AnyStore<B>) -> Option<&Shards<B>> {
    let store: &dyn Any = store;
    store.downcast_ref()
}

/// Inserts all pairs of another store as one batch, as a whole or not at all, if both are on the same GPU; returns
/// whether they are.
pub(crate) fn insert_all<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    other: &dyn AnyStore<B>,
) -> Result<bool, Error> {
    let (Ok(store), Ok(other)) = (on_cuda_mut(store), on_cuda(other)) else { return Ok(false) };
    if store.cuda().gpu() != other.cuda().gpu() {
        return Ok(false);
    }
    let levels = other.flushed()?;
    let runs = levels.runs();
    // What the other holds, on the stream of this one.
    let cuda = Cuda { stream: store.cuda().stream.clone(), ..other.cuda_with_reserve() };
    let cuda = &cuda.enter()?;
    cuda.refuse_capture()?;
    let len = count::len(cuda, runs)?;
    let reading = Reading::begin(cuda, runs.iter())?;
    let view = View::new(runs.iter().map(Run::view), cuda.raw_combiner());
    let sorted = |keys, values| Batch::of_sorted(store.cuda(), keys, values, len);
    let batch = match runs {
        [only] => sorted(only.view().keys, only.view().values), // It has no stale entry.
        _ => {
            let [keys, values] = range::all_pairs::<B>(cuda, &view, len)?;
            let batch = sorted(keys.address(), values.address());
            Batch { _memory: vec![keys, values], ..batch }
        }
    };
    store.apply_staged(&batch)?;
    reading.end()?;
    Ok(true)
}

/// Runs all further calls of a store on a new stream, if it is on a GPU.
pub(crate) fn move_to_new_stream<B: OrderedKey>(store: &mut dyn AnyStore<B>) -> Result<(), Error> {
    let Ok(store) = on_cuda_mut(store) else { return Ok(()) };
    let stream = {
        let cuda = store.cuda().enter()?;
        Stream::on(cuda.gpu(), cuda.entered())?
    };
    store.move_to_stream(&stream)
}

/// Runs all further calls of a store on another stream.
pub(crate) fn move_to_stream<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    stream: &Stream,
) -> Result<(), Error> {
    on_cuda_mut(store)?.move_to_stream(stream)
}
