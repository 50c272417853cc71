//! Streams beside those of shards.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cuda::driver::gpu::Gpu;
use crate::cuda::driver::staging::Staging;
use crate::cuda::driver::stream::Stream;
use crate::error::{Error, MAX_SHARDS};

/// The streams of a GPU on which data is divided among shards, and grouped data is freed. With them the next batch can
/// be divided while shards still merge the last one.
#[derive(Clone)]
pub(super) struct SideStreams {
    pub dividing: Stream,
    pub freeing: Stream,
    /// Where the keys of each shard begin, as a kernel on the first of these streams has written it.
    pub bounds: Arc<Mutex<Staging>>,
}

impl SideStreams {
    /// Returns those of a GPU, which live as long as the process.
    pub fn of(gpu: &'static Gpu) -> Result<Self, Error> {
        static STREAMS: Mutex<BTreeMap<usize, SideStreams>> = Mutex::new(BTreeMap::new());
        let mut all = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(streams) = all.get(&gpu.index) {
            return Ok(streams.clone());
        }
        let entered = gpu.enter()?;
        let bounds = Staging::zeroed(MAX_SHARDS * size_of::<u64>(), gpu, &entered)?;
        let streams = SideStreams {
            dividing: Stream::on(gpu, &entered)?,
            freeing: Stream::on(gpu, &entered)?,
            bounds: Arc::new(Mutex::new(bounds)),
        };
        all.insert(gpu.index, streams.clone());
        Ok(streams)
    }
}
