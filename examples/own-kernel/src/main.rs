//! Queries from your own kernel: what the paper calls the individual approach.
//!
//! The dictionary's values are keys again, and walkers follow them. What a walker asks next depends
//! on the last answer, so its queries can't be asked as one batch: `kernels/walk.cu` asks them one by
//! one, each thread for its own walker.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};

use bytemuck::{Pod, Zeroable};
use gpulsm::cuda::DeviceVec;
use gpulsm::{Batch, Device, Dictionary, Error, Snapshot};

/// What the dictionary means.
type Model = BTreeMap<u32, u32>;

/// Updates in a batch: three links made for each one cut.
const BATCH: u32 = 1 << 16;

/// Eleven batches fill the levels of one, two and eight.
const BATCHES: u32 = 11;

/// Keys are multiples of this, so that most other integers are none.
const SPACING: u32 = 1 << 12;

const WALKERS: u32 = 100_000;
const STEPS: u32 = 24;
const RADIUS: u32 = 1 << 20;

/// Where a walk ended; `kernels/walk.cu` has the same structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct End {
    key: u32,
    /// 1 if the dictionary has that key, else 0.
    is_there: u32,
    /// Keys no further from it than the radius.
    near: u64,
}

unsafe extern "C" {
    fn own_kernel_walk(
        links: *const c_void,
        starts: *const u32,
        ends: *mut End,
        len: u64,
        steps: u32,
        radius: u32,
        stream: *mut c_void,
    ) -> c_int;
}

fn main() -> Result<(), Error> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("this example needs an NVIDIA GPU: {error}");
            return Ok(());
        }
    };
    let (dictionary, model) = build(device)?;
    let snapshot = dictionary.snapshot();
    println!("{}", snapshot.stats()?);

    // The last start is past every key: that walker stays where it is.
    let starts: Vec<u32> = (0..WALKERS).map(scatter).chain([0, u32::MAX]).collect();
    let ends = walk_all(&snapshot, &starts)?;
    for (&start, &end) in starts.iter().zip(&ends) {
        assert_eq!(end, walk(&model, start), "the walk from {start}");
    }

    let places = ends.iter().map(|end| end.key).collect::<BTreeSet<_>>().len();
    let near = ends.iter().map(|end| end.near).sum::<u64>() / ends.len() as u64;
    println!("{} walkers ended at {places} places after at most {STEPS} steps,", ends.len());
    println!("with {near} keys near each on average; the host finds the same for every one");
    Ok(())
}

/// Links between random places, in batches that replace and delete some of those before.
fn build(device: Device) -> Result<(Dictionary<u32, u32>, Model), Error> {
    let mut dictionary = Dictionary::builder().device(device).batch_size(BATCH as usize).build()?;
    let mut model = Model::new();
    let place = |number| scatter(number) / SPACING * SPACING;
    for batch in 0..BATCHES {
        let first = batch * 2 * BATCH;
        let keys: Vec<u32> = (first..first + BATCH).map(place).collect();
        let values: Vec<u32> = (first + BATCH..first + 2 * BATCH).map(place).collect();
        let (keys, cut) = keys.split_at(keys.len() / 4 * 3);
        let values = &values[..keys.len()];
        dictionary.update(Batch::new().insert(keys, values).delete(cut))?;
        model.extend(keys.iter().copied().zip(values.iter().copied()));
        for key in cut {
            model.remove(key);
        }
    }
    Ok((dictionary, model))
}

/// Every walk, on the GPU.
fn walk_all(snapshot: &Snapshot<u32, u32>, starts: &[u32]) -> Result<Vec<End>, Error> {
    let resident = snapshot.resident()?;
    let stream = resident.stream();
    let starts = DeviceVec::from_slice(stream, starts)?;
    let mut ends = DeviceVec::<End>::zeroed(stream, starts.len())?;
    let view = resident.view()?;
    // SAFETY: both vectors have `len` elements, and the view's keys and values are u32, as the kernel
    // has them. Vectors, view and kernel are all on `stream`, which is on GPU 0: the one that a launch
    // goes to on a thread that never chose another. The view is dropped after the launch.
    let error = unsafe {
        own_kernel_walk(
            view.as_ptr(),
            starts.as_ptr(),
            ends.as_mut_ptr(),
            starts.len() as u64,
            STEPS,
            RADIUS,
            stream.as_raw(),
        )
    };
    drop(view);
    if error != 0 {
        return Err(Error::Cuda {
            call: "own_kernel_walk",
            reason: format!("cudaError_t {error}").into(),
        });
    }
    ends.to_vec()
}

/// One walk, on the host.
fn walk(links: &Model, start: u32) -> End {
    let mut key = start;
    for _ in 0..STEPS {
        let successor = || links.range(key..).next().map(|(&key, _)| key);
        let Some(next) = links.get(&key).copied().or_else(successor) else { break };
        key = next;
    }
    let near = key.saturating_sub(RADIUS)..=key.saturating_add(RADIUS);
    End { key, is_there: links.contains_key(&key).into(), near: links.range(near).count() as u64 }
}

/// A different number for each, all over the range.
fn scatter(mut x: u32) -> u32 {
    x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}
