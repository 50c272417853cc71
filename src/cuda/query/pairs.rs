//! Results of at most one pair per query.

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi;
use crate::error::Error;
use crate::query::PairsOut;

/// Results of at most one pair per query on their way to the host.
pub(super) struct PairsBuffers {
    keys: Buffer,
    values: Buffer,
    found: Buffer,
}

impl PairsBuffers {
    /// Allocates results of `len` queries.
    pub fn new(cuda: &EnteredCuda<'_>, len: usize) -> Result<Self, Error> {
        Ok(PairsBuffers {
            keys: cuda.alloc_uncounted(len as u64 * cuda.key_width as u64)?,
            values: cuda.alloc_uncounted(cuda.value_bytes(len))?,
            found: cuda.alloc_uncounted(len as u64)?,
        })
    }

    /// Returns where kernels write them.
    pub fn addresses(&self) -> ffi::PairsOutput {
        let [keys, values, found] = [&self.keys, &self.values, &self.found].map(Buffer::address);
        ffi::PairsOutput { keys, values, found }
    }

    /// Copies them to the host, and waits for that.
    pub fn download<B>(&self, cuda: &EnteredCuda<'_>, out: PairsOut<'_, B>) -> Result<(), Error> {
        let PairsOut { keys, values, found } = out;
        // SAFETY: the buffers are as long as what goes into them, `found` is 0 or 1, and the stream
        // is synchronized before anything is read.
        let started = unsafe {
            cuda.download(self.keys.address(), keys)
                .and_then(|()| cuda.download(self.values.address(), values))
                .and_then(|()| cuda.download(self.found.address(), found))
        };
        // Copies that were started must be done before the caller has its memory back.
        cuda.stream.synchronize().and(started)
    }
}
