//! Streams beside those of shards.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::cuda::driver::gpu::Gpu;
use crate::cuda::driver::stream::Stream;
use crate::error::Error;

/// The streams of a GPU on which data is divided among shards, and grouped data is freed. With them the next batch can
/// be divided while shards still merge the last one.
#[derive(Clone)]
pub(super) struct SideStreams {
    pub dividing: Stream,
    pub freeing: Stream,
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
        let streams = SideStreams {
            dividing: Stream::on(gpu, &entered)?,
            freeing: Stream::on(gpu, &entered)?,
        };
        all.insert(gpu.index, streams.clone());
        Ok(streams)
    }
}
