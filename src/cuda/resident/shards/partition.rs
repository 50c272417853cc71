//! Keys in a GPU's memory, divided among shards there.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::PoisonError;

use bytemuck::{Pod, Zeroable};

use super::streams::SideStreams;
use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::Event;
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

/// Where the items of a shard are put, if the first item of all shards were put there.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ShardOutput {
    pub keys: Address,
    pub values: Address,
}

/// Up to this many shards, what there is for each of them is a parameter of kernels.
const FEW_SHARDS: usize = 16;

/// One of something for each shard, or for each but one, as kernels take it.
struct OfShards {
    here: Vec<u8>,
    /// Nothing, if there are few.
    there: Buffer,
}

impl OfShards {
    fn new<T: Pod>(cuda: &EnteredCuda<'_>, all: &[T]) -> Result<Self, Error> {
        let many = if all.len() <= FEW_SHARDS { &[] } else { all };
        Ok(OfShards { here: bytemuck::cast_slice(all).to_vec(), there: cuda.upload(many)? })
    }

    fn here(&self) -> *const c_void {
        self.here.as_ptr().cast()
    }
}

/// How keys are divided among shards: those of each together, in the order they came.
pub(super) struct Partition {
    items: Items,
    /// Where the keys of each shard begin, and where the last end.
    bounds: Vec<u64>,
    splitters: OfShards,
    /// Where the keys of each tile go.
    starts: Buffer,
}

impl Partition {
    /// Counts the keys of each shard, and waits for that. The context's stream is the one on which data is divided.
    pub fn new<B: OrderedKey>(
        cuda: &EnteredCuda<'_>,
        splitters: &[B],
        items: &Items,
    ) -> Result<Self, Error> {
        let shards = splitters.len() + 1;
        let splitters = OfShards::new(cuda, splitters)?;
        if items.len == 0 {
            let (bounds, starts) = (vec![0; shards + 1], cuda.alloc_uncounted(0)?);
            return Ok(Partition { items: *items, bounds, splitters, starts });
        }
        let memory = SideStreams::of(cuda.gpu())?.bounds;
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = memory.bytes_mut();
        let mut bytes = 0;
        let mut launch = |scratch: Address, bytes: &mut u64| {
            // SAFETY: there are `len` keys, a splitter less than there are shards, and room for a bound of each; all for
            // this stream.
            check("counting the keys of shards", unsafe {
                ffi::gpulsm_count_by_shard(
                    cuda.key_width,
                    scratch,
                    bytes,
                    items.keys,
                    items.len,
                    splitters.here(),
                    splitters.there.address(),
                    shards as i32,
                    bounds.as_mut_ptr() as Address,
                    cuda.raw_stream(),
                )
            })
        };
        launch(0, &mut bytes)?;
        let starts = cuda.alloc_uncounted(bytes)?;
        launch(starts.address(), &mut bytes)?;
        Event::record(&cuda.stream, cuda.entered())?.synchronize(cuda.entered())?;
        let mut bounds = bytemuck::cast_slice(memory.bytes())[..shards].to_vec();
        bounds.push(items.len);
        Ok(Partition { items: *items, bounds, splitters, starts })
    }

    /// Returns which of all items, grouped by shard, are those of a shard.
    pub fn range(&self, shard: usize) -> Range<u64> {
        self.bounds[shard]..self.bounds[shard + 1]
    }

    /// Returns how many items a shard has.
    pub fn len_of(&self, shard: usize) -> u64 {
        self.bounds[shard + 1] - self.bounds[shard]
    }

    /// Puts the items of each shard to its output and, unless that is 0, the place of each item among all to `places`.
    pub fn put(
        &self,
        cuda: &EnteredCuda<'_>,
        outputs: &[ShardOutput],
        places: Address,
    ) -> Result<(), Error> {
        let Items { keys, values, len } = self.items;
        if len == 0 {
            return Ok(());
        }
        assert_eq!(outputs.len() + 1, self.bounds.len(), "every shard has an output");
        let shards = outputs.len() as i32;
        let outputs = OfShards::new(cuda, outputs)?;
        // SAFETY: there are `len` keys and, unless that is null, values, and room for those of each shard; `len` places,
        // unless that is null; the same splitters and shards as when they were counted; all for this stream.
        check("dividing keys among shards", unsafe {
            ffi::gpulsm_partition(
                cuda.key_width,
                if values == 0 { 0 } else { cuda.value_width },
                self.starts.address(),
                keys,
                values,
                len,
                self.splitters.here(),
                self.splitters.there.address(),
                shards,
                outputs.here(),
                outputs.there.address(),
                places,
                cuda.raw_stream(),
            )
        })
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
