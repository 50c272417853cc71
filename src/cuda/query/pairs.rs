//! Answers of at most one pair per query.

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::{Buffer, download};
use crate::cuda::ffi;
use crate::error::Error;
use crate::query::PairsOut;

/// Answers of at most one pair per query on their way to the host.
pub(super) struct PairsBuffers {
    keys: Buffer,
    values: Buffer,
    found: Buffer,
}

impl PairsBuffers {
    pub fn new<B>(cuda: &Cuda, len: usize) -> Result<Self, Error> {
        Ok(PairsBuffers {
            keys: Buffer::uncounted((len * size_of::<B>()) as u64, &cuda.stream)?,
            values: Buffer::uncounted(cuda.value_bytes(len), &cuda.stream)?,
            found: Buffer::uncounted(len as u64, &cuda.stream)?,
        })
    }

    pub fn addresses(&self) -> ffi::PairsOutput {
        let [keys, values, found] = [&self.keys, &self.values, &self.found].map(Buffer::address);
        ffi::PairsOutput { keys, values, found }
    }

    pub fn download<B>(&self, cuda: &Cuda, out: PairsOut<'_, B>) -> Result<(), Error> {
        let PairsOut { keys, values, found } = out;
        // SAFETY: the buffers are as long as what goes into them, `found` is 0 or 1, and the stream
        // is synchronized before anything is read.
        let begun = unsafe {
            download(self.keys.address(), keys, &cuda.stream)
                .and_then(|()| download(self.values.address(), values, &cuda.stream))
                .and_then(|()| download(self.found.address(), found, &cuda.stream))
        };
        // Whatever was begun must be done before the caller has its memory back.
        cuda.stream.synchronize().and(begun)
    }
}
