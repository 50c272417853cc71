//! Lookups: each run, newest first, unless a filter says that it doesn't have the key; until one has it or, if the
//! dictionary combines values, until one has an entry that combines with nothing older. Many keys are ordered by
//! buckets first, if the dictionary is large.

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::pinned::{SHORT_CALL_BYTES, ShortCall};
use crate::cuda::ffi::{self, Address, CombineQueries, Filters, View, check};
use crate::cuda::query::buckets::{Buckets, Lookups};
use crate::cuda::query::combine;
use crate::cuda::run::Run;
use crate::cuda::run::filter_policy::lookup_filters;
use crate::error::Error;
use crate::key::OrderedKey;

/// Looks up keys, on data on the GPU; `values` is 0 where they are not wanted.
pub(crate) fn lookup(
    cuda: &EnteredCuda<'_>,
    runs: &[Run],
    keys: Address,
    len: u64,
    values: Address,
    found: Address,
) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    let filters = lookup_filters(cuda, runs, len)?;
    let view = View::new(runs.iter().map(Run::view), cuda.raw_combiner());
    let lookups = Lookups { keys, len, values, found };
    match Buckets::for_lookups(cuda, runs, &lookups)? {
        Some(buckets) => {
            buckets.look_up(cuda, &lookups, |ordered| search(cuda, &view, &filters, ordered))
        }
        None => search(cuda, &view, &filters, &lookups),
    }
}

/// Searches the runs of the view for the keys.
fn search(
    cuda: &EnteredCuda<'_>,
    view: &View,
    filters: &Filters,
    &Lookups { keys, len, values, found }: &Lookups,
) -> Result<(), Error> {
    if cuda.combiner.is_some() && values != 0 {
        let queries = CombineQueries { keys, len, count: 0, values, found, are_answers: false };
        return combine::lookup(cuda, view, filters, &queries);
    }
    // SAFETY: there are `len` keys, and room for as many answers; the runs and their filters are alive and
    // written before what this stream does now.
    check("looking keys up", unsafe {
        ffi::gpulsm_lookup(
            cuda.key_width,
            cuda.value_width,
            view,
            filters,
            keys,
            len,
            values,
            found,
            cuda.raw_stream(),
        )
    })
}

/// Up to this many keys of the host are looked up by kernels that read and write the host's memory: allocating memory on
/// the GPU and copying would take longer.
const MAX_DIRECT: usize = 256;

/// Looks up the host's keys.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    runs: &[Run],
    keys: &[B],
    values: Option<&mut [u8]>,
    found: &mut [bool],
) -> Result<(), Error> {
    let len = keys.len();
    if len <= MAX_DIRECT
        && let Some(memory) = ShortCall::take()
    {
        return answer_directly(cuda, runs, keys, values, found, memory);
    }
    let keys = cuda.upload(keys)?;
    let wanted = if values.is_some() { cuda.value_bytes(len) } else { 0 };
    let out_values = cuda.alloc_uncounted(wanted)?;
    let out_found = cuda.alloc_uncounted(len as u64)?;
    let (to_values, to_found) = (out_values.address(), out_found.address());
    lookup(cuda, runs, keys.address(), len as u64, to_values, to_found)?;
    // SAFETY: the buffers are as long as what goes into them, `found` is 0 or 1, and the stream is
    // synchronized before anything is read.
    let started = unsafe {
        cuda.download(to_values, values.unwrap_or_default())
            .and_then(|()| cuda.download(to_found, found))
    };
    // Copies that were started must be done before the caller has its memory back.
    cuda.stream.synchronize().and(started)
}

/// Looks up a few of the host's keys by way of memory that kernels read and write directly.
fn answer_directly<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    runs: &[Run],
    keys: &[B],
    values: Option<&mut [u8]>,
    found: &mut [bool],
    mut memory: ShortCall,
) -> Result<(), Error> {
    const { assert!(MAX_DIRECT * (size_of::<[u128; 2]>() + size_of::<bool>()) <= SHORT_CALL_BYTES) };
    let key_bytes: &[u8] = bytemuck::cast_slice(keys);
    let value_bytes = values.as_ref().map_or(0, |values| values.len());
    let values_at = key_bytes.len().next_multiple_of(size_of::<u128>());
    let found_at = values_at + value_bytes;
    memory.write(key_bytes);
    let first = memory.address();
    let to_values = if value_bytes > 0 { first + values_at as Address } else { 0 };
    let to_found = first + found_at as Address;
    let launched = lookup(cuda, runs, first, keys.len() as u64, to_values, to_found);
    // If this fails, kernels may still be using the memory: it is not given back.
    cuda.stream.synchronize()?;
    let mut flags = [0; MAX_DIRECT];
    if launched.is_ok() {
        memory.read(values_at, values.unwrap_or_default());
        memory.read(found_at, &mut flags[..found.len()]);
        found.iter_mut().zip(flags).for_each(|(found, flag)| *found = flag != 0);
    }
    memory.give_back();
    launched
}
