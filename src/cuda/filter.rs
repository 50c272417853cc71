//! Filters: which runs a lookup need not search. A run gets one when lookups have asked it so often that
//! it pays.

use super::engine::Cuda;
use super::ffi::{self, Filters, check};
use super::memory::Buffer;
use super::run::Run;
use super::stream::Event;
use crate::error::Error;

/// Bits for each entry.
const BITS: u64 = 12;

/// A run gets a filter once it was asked so many times, and for this part of its entries besides:
/// making one takes as long as that many searches.
const OFTEN: u64 = 1 << 18;
const PART: u64 = 2;

/// A run's filter, and when it was written.
pub(crate) struct Filter {
    pub words: Buffer,
    pub written: Event,
}

impl Filter {
    /// Of all keys of a run.
    fn new(cuda: &Cuda, run: &Run) -> Result<Self, Error> {
        let bound = run.bound();
        let words = (bound * BITS).div_ceil(u64::from(u64::BITS)).max(1);
        let buffer = Buffer::counted(words * 8, &cuda.family.budget, &cuda.stream)?;
        buffer.zero(0, words * 8)?;
        let view = run.view();
        // SAFETY: the run has at most `bound` keys, is alive and written before what this stream does
        // now; there are so many words, and they are zeros by then.
        check("making a filter", unsafe {
            ffi::gpulsm_filter(
                cuda.key_width,
                view.keys,
                view.head,
                bound,
                buffer.address(),
                u32::try_from(words).expect("no GPU has room for more"),
                cuda.stream.raw(),
            )
        })?;
        Ok(Filter { words: buffer, written: Event::record(&cuda.stream)? })
    }
}

/// The filters for so many lookups on this stream, which has waited for the runs.
pub(crate) fn filters(cuda: &Cuda, runs: &[Run], lookups: u64) -> Result<Filters, Error> {
    let mut filters = Filters::default();
    if runs.len() < 2 {
        return Ok(filters); // To search the only run is all there is to do.
    }
    let is_captured = cuda.stream.is_capturing()?;
    for (at, run) in runs.iter().enumerate() {
        let asked = run.asked(lookups);
        if run.filter().is_none() && !is_captured && asked >= run.bound() / PART + OFTEN {
            // Without memory for it, lookups do without it. Who comes second comes with the same.
            if let Ok(filter) = Filter::new(cuda, run) {
                run.set_filter(filter);
            }
        }
        let Some(filter) = run.filter() else { continue };
        if is_captured {
            filter.written.synchronize()?;
        } else if *filter.words.stream() != cuda.stream {
            cuda.stream.wait(&filter.written)?;
        }
        filters.words[at] = filter.words.address();
        filters.len[at] = (filter.words.bytes() / 8) as u32;
    }
    Ok(filters)
}
