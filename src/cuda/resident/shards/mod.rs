//! Calls on data in a GPU's memory of a dictionary with several shards. Batches and lookups are divided on that GPU
//! (`partition.rs`), and each part is brought to its shard (`transfer.rs`). Other queries, few of whose bytes are keys
//! that could be divided, go through the host's memory (`through_host.rs`).

mod lookup;
mod partition;
mod streams;
mod through_host;
mod transfer;
mod update;

use self::streams::SideStreams;
use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::stream::Stream;
use crate::cuda::query::buckets::Lookups;
use crate::cuda::resident::device_query::DeviceQuery;
use crate::cuda::resident::store::on_cuda;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::shards::Shards;

pub(super) use update::apply;

/// Returns a context to divide data on the GPU of this stream, or an error if no shard is there.
pub(super) fn dividing_cuda<B: OrderedKey>(
    shards: &Shards<B>,
    stream: &Stream,
) -> Result<Cuda, Error> {
    let on_gpus = shards.all().filter_map(|shard| on_cuda(&*shard.store).ok());
    let mut first = None;
    for store in on_gpus {
        let cuda = store.cuda();
        if cuda.gpu() == stream.gpu() {
            let stream = SideStreams::of(cuda.gpu())?.dividing;
            return Ok(Cuda { stream, ..cuda.clone() });
        }
        first = first.or(Some(cuda.gpu().index));
    }
    let data = stream.gpu().index;
    Err(first.map_or(Error::NotOnCuda, |dictionary| Error::OtherDevice { data, dictionary }))
}

/// Returns the context of the first shard on a GPU.
pub(super) fn first_cuda<B: OrderedKey>(shards: &Shards<B>) -> Option<&Cuda> {
    shards.all().find_map(|shard| Some(on_cuda(&*shard.store).ok()?.cuda()))
}

/// Has the shards answer a query on data of this GPU. What is on the context's stream afterwards finds the answers.
pub(super) fn answer<B: OrderedKey>(
    shards: &Shards<B>,
    cuda: &EnteredCuda<'_>,
    query: &DeviceQuery<'_>,
) -> Result<(), Error> {
    cuda.refuse_capture()?;
    match *query {
        DeviceQuery::Lookup { keys, len, values, found } => {
            lookup::look_up(shards, cuda, &Lookups { keys, len, values, found })
        }
        _ => through_host::answer(shards, cuda, query),
    }
}
