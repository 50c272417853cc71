//! Combined values: over all runs that hold a key, if the dictionary combines values.

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, CombineQueries, Filters, View, check};
use crate::error::Error;

/// Looks up the combined values of keys, on data on the GPU.
pub(super) fn lookup(
    cuda: &EnteredCuda<'_>,
    view: &View,
    filters: &Filters,
    queries: &CombineQueries,
) -> Result<(), Error> {
    // SAFETY: there are `len` keys, or as many as are counted, and room for as many answers; the runs of the
    // view and their filters are alive and written before what this stream does now.
    check("combining values", unsafe {
        let (key_width, value_width) = (cuda.key_width, cuda.value_width);
        ffi::gpulsm_combine(key_width, value_width, view, filters, queries, cuda.raw_stream())
    })
}

/// Replaces the values of pairs that were found, which are those of the newest runs that hold their keys, by
/// the combined values of all runs, if the dictionary combines values.
pub(super) fn combine_values(
    cuda: &EnteredCuda<'_>,
    view: &View,
    pairs: &CombineQueries,
) -> Result<(), Error> {
    if cuda.combiner.is_none() || view.count < 2 || pairs.values == 0 {
        return Ok(());
    }
    lookup(cuda, view, &Filters::default(), pairs)
}
