//! A filter: for most keys that a run, or several, don't have, one read tells so.

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::mapped::available;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::Event;
use crate::cuda::ffi::{self, Address, check};
use crate::error::Error;

/// Bits for each entry.
const BITS: u64 = 12;

/// Whether there is memory for a filter of fewer bytes is found out by trying.
const MIN_BYTES_TO_ASK: u64 = 64 << 20;

/// A blocked Bloom filter of all keys of a run, or of several.
pub(crate) struct Filter {
    words: Buffer,
    /// When it was written, if not with its run.
    written: Option<Event>,
    /// The ids of the runs: those that share a filter may change.
    runs: Vec<u64>,
}

/// The keys of a run, to be added to a filter.
pub(crate) struct FilterKeys {
    /// The id of the run.
    pub run: u64,
    pub keys: Address,
    /// Where the number of keys is.
    pub len: Address,
    /// An upper bound of that number.
    pub bound: u64,
}

impl Filter {
    /// Allocates a filter for the merge that writes its run. Returns `None` where there is no memory for it.
    pub fn of_unwritten(cuda: &EnteredCuda<'_>, bound: u64) -> Option<Self> {
        let words = cuda.budget().allows_filter().then(|| alloc(cuda, bound).ok())??;
        Some(Filter { words, written: None, runs: Vec::new() })
    }

    /// Builds the filter of these keys, of runs that the stream has waited for. Returns `None` where there
    /// is no memory for it, or a graph is being captured: searches do without it then.
    pub fn build(cuda: &EnteredCuda<'_>, runs: &[FilterKeys]) -> Option<Self> {
        let may_build = cuda.is_capturing() == Ok(false) && cuda.budget().allows_filter();
        let entries = runs.iter().map(|run| run.bound).sum();
        let may_build = may_build && has_memory(cuda, entries);
        if may_build { Self::try_build(cuda, runs).ok() } else { None }
    }

    fn try_build(cuda: &EnteredCuda<'_>, runs: &[FilterKeys]) -> Result<Self, Error> {
        let words = alloc(cuda, runs.iter().map(|run| run.bound).sum())?;
        words.zero(0, words.bytes(), cuda.entered())?;
        for &FilterKeys { keys, len, bound, .. } in runs {
            let (to, to_len) = (words.address(), word_count(&words));
            // SAFETY: the run has at most `bound` keys, is alive and written before what this stream does
            // now; there are `to_len` words, which are zeros, or hold other runs' bits, by then.
            check("making a filter", unsafe {
                let stream = cuda.raw_stream();
                ffi::gpulsm_filter(cuda.key_width, keys, len, bound, to, to_len, stream)
            })?;
        }
        let written = Some(Event::record(&cuda.stream, cuda.entered())?);
        Ok(Filter { words, written, runs: runs.iter().map(|run| run.run).collect() })
    }

    pub fn words_mut(&mut self) -> &mut Buffer {
        &mut self.words
    }

    pub fn bytes(&self) -> u64 {
        self.words.bytes()
    }

    /// Returns the address and the number of its words.
    pub fn words(&self) -> (Address, u32) {
        (self.words.address(), word_count(&self.words))
    }

    /// Returns whether it is of the runs with these ids.
    pub fn is_of(&self, runs: impl Iterator<Item = u64>) -> bool {
        self.runs.iter().copied().eq(runs)
    }

    /// Makes the stream, which has waited for the runs, wait for the filter; returns its words.
    pub fn read(&self, cuda: &EnteredCuda<'_>) -> Result<(Address, u32), Error> {
        if let Some(written) = &self.written {
            if cuda.is_capturing()? {
                written.synchronize(cuda.entered())?;
            } else if *self.words.stream() != cuda.stream {
                cuda.stream.wait(written, cuda.entered())?;
            }
        }
        Ok(self.words())
    }
}

/// Allocates the words for `entries` entries.
fn alloc(cuda: &EnteredCuda<'_>, entries: u64) -> Result<Buffer, Error> {
    cuda.alloc(bytes_for(entries))
}

/// Returns the bytes of the words for `entries` entries: a multiple of 16.
fn bytes_for(entries: u64) -> u64 {
    (entries * BITS).div_ceil(u64::from(u64::BITS)).max(1).next_multiple_of(2) * 8
}

/// Returns whether there is memory for the filter of `entries` entries, and for as much else again: to try in vain
/// takes long, and updates need memory more.
fn has_memory(cuda: &EnteredCuda<'_>, entries: u64) -> bool {
    let bytes = bytes_for(entries);
    bytes < MIN_BYTES_TO_ASK
        || available(cuda.gpu(), cuda.entered()).is_none_or(|available| 2 * bytes <= available)
}

/// Returns how many words of a filter these are.
fn word_count(words: &Buffer) -> u32 {
    u32::try_from(words.bytes() / 8).expect("no GPU has room for more")
}
