//! Keys in a GPU's memory, divided among shards there.

use std::ops::Range;

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::{self, Address, check};
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;

/// Keys to divide, and what comes with them; `values` is 0 where there are none.
#[derive(Clone, Copy)]
pub(super) struct Items {
    pub keys: Address,
    pub values: Address,
    pub len: u64,
}

/// Keys, and what came with them, grouped by shard. Within a shard the order stays.
pub(super) struct Partition {
    keys: Buffer,
    values: Buffer,
    places: Buffer,
    /// Where the keys of each shard begin, and where the last end.
    bounds: Vec<u64>,
    key_width: u64,
    value_width: u64,
}

impl Partition {
    /// Groups items by shard, and waits for it; with the place of each key, if that is wanted.
    pub fn new<B: OrderedKey>(
        cuda: &EnteredCuda<'_>,
        splitters: &[B],
        items: &Items,
        wants_places: bool,
    ) -> Result<Self, Error> {
        let Items { keys, values, len } = *items;
        let shards = splitters.len() + 1;
        let value_width = if values == 0 { 0 } else { cuda.value_width };
        let (key_width, place_width) =
            (cuda.key_width as u64, if wants_places { size_of::<u32>() as u64 } else { 0 });
        let mut partition = Partition {
            keys: cuda.alloc_uncounted(len * key_width)?,
            values: cuda.alloc_uncounted(len * value_width as u64)?,
            places: cuda.alloc_uncounted(len * place_width)?,
            bounds: vec![0; shards + 1],
            key_width,
            value_width: value_width as u64,
        };
        if len == 0 {
            return Ok(partition);
        }
        let splitters = cuda.upload(splitters)?;
        let bounds = cuda.alloc_uncounted((shards * size_of::<u64>()) as u64)?;
        let mut bytes = 0;
        let launch = |scratch: Address, bytes: &mut u64| {
            // SAFETY: there are `len` keys and, unless that is null, values, and room for as many; `len` places, unless
            // that is null; a splitter less than there are shards, and room for a bound of each; all for this stream.
            check("dividing keys among shards", unsafe {
                ffi::gpulsm_partition(
                    cuda.key_width,
                    value_width,
                    scratch,
                    bytes,
                    keys,
                    values,
                    len,
                    splitters.address(),
                    shards as i32,
                    partition.keys.address(),
                    partition.values.address(),
                    partition.places.address(),
                    bounds.address(),
                    cuda.raw_stream(),
                )
            })
        };
        launch(0, &mut bytes)?;
        let scratch = cuda.alloc_uncounted(bytes)?;
        launch(scratch.address(), &mut bytes)?;
        // SAFETY: there are as many bounds, and the stream is synchronized before they are read or freed.
        let started = unsafe { cuda.download(bounds.address(), &mut partition.bounds[..shards]) };
        cuda.stream.synchronize().and(started)?;
        partition.bounds[shards] = len;
        Ok(partition)
    }

    /// Returns which of the grouped items are those of a shard.
    pub fn range(&self, shard: usize) -> Range<u64> {
        self.bounds[shard]..self.bounds[shard + 1]
    }

    /// Returns the items of a shard.
    pub fn part(&self, shard: usize) -> Items {
        let Range { start, end } = self.range(shard);
        let values = match self.value_width {
            0 => 0,
            width => self.values.address() + start * width,
        };
        Items { keys: self.keys.address() + start * self.key_width, values, len: end - start }
    }

    /// Frees the grouped items in the order of another stream, which has waited for whatever uses them.
    pub fn outlive(&mut self, stream: &Stream) {
        let buffers = [&mut self.keys, &mut self.values, &mut self.places];
        buffers.into_iter().for_each(|buffer| buffer.outlive(stream));
    }

    /// Returns where the places of the keys are, if they were wanted.
    pub fn places(&self) -> Address {
        self.places.address()
    }
}

/// Returns about `count` of these keys, each as far from the one before.
pub(super) fn sample<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    keys: Address,
    len: u64,
    count: usize,
) -> Result<Vec<B>, Error> {
    let step = len.div_ceil(count as u64).max(1);
    let count = len.div_ceil(step);
    let mut sample = try_zeroed::<B>(count as usize)?;
    let buffer = cuda.alloc_uncounted(size_of_val(&sample[..]) as u64)?;
    // SAFETY: there are `len` keys, more than the last that is read, and room for `count`.
    check("sampling keys", unsafe {
        let (to, stream) = (buffer.address(), cuda.raw_stream());
        ffi::gpulsm_sample(cuda.key_width, keys, step, count, to, stream)
    })?;
    // SAFETY: there are as many keys, and the stream is synchronized before they are read or freed.
    let started = unsafe { cuda.download(buffer.address(), &mut sample) };
    cuda.stream.synchronize().and(started)?;
    Ok(sample)
}
