//! Mapping keys on the GPU to the ordered integers that engines sort, and back.

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{self, Address, check};
use crate::error::{Error, bytes_of};
use crate::key::{Encoding, ScalarKey};

/// Keys as ordered integers: the caller's own, or a mapped copy.
pub(super) struct EncodedKeys {
    pub address: Address,
    copy: Option<Buffer>,
}

impl EncodedKeys {
    /// Returns a copy of `len` keys, unless these are one already. What is read twice must not be the caller's: work on
    /// another stream may write to it meanwhile.
    pub fn copied(mut self, cuda: &EnteredCuda<'_>, len: usize) -> Result<Self, Error> {
        if self.copy.is_none() && len > 0 {
            let copy = copied(cuda, self.address, len as u64 * cuda.key_width as u64)?;
            self.address = copy.address();
            self.copy = Some(copy);
        }
        Ok(self)
    }
}

/// Copies `bytes` bytes of the GPU's memory, which are there for work on this stream.
pub(super) fn copied(cuda: &EnteredCuda<'_>, from: Address, bytes: u64) -> Result<Buffer, Error> {
    let copy = cuda.alloc_uncounted(bytes)?;
    copy.copy(0, from, bytes, cuda.entered())?;
    Ok(copy)
}

/// Maps `len` keys to ordered integers, in a copy if they aren't already.
pub(super) fn encode<K: ScalarKey>(
    cuda: &EnteredCuda<'_>,
    keys: Address,
    len: usize,
) -> Result<EncodedKeys, Error> {
    if K::ENCODING == Encoding::Unsigned || len == 0 {
        return Ok(EncodedKeys { address: keys, copy: None });
    }
    let copy = cuda.alloc_uncounted(bytes_of::<K>(len))?;
    let (address, len) = (copy.address(), len as u64);
    // SAFETY: there are `len` keys and room for as many, used in the order of this stream.
    check("mapping keys", unsafe {
        let (encoding, stream) = (K::ENCODING as i32, cuda.raw_stream());
        ffi::gpulsm_encode(cuda.key_width, encoding, keys, len, address, stream)
    })?;
    Ok(EncodedKeys { address, copy: Some(copy) })
}

/// Maps ordered integers back to keys, in place: those `found`, or all where that is 0; as many as are
/// `written`, or all where that is 0.
pub(super) fn decode<K: ScalarKey>(
    cuda: &EnteredCuda<'_>,
    keys: Address,
    room: u64,
    found: Address,
    written: Address,
) -> Result<(), Error> {
    if K::ENCODING == Encoding::Unsigned || room == 0 {
        return Ok(());
    }
    // SAFETY: there is room for `room` keys, as many bytes in `found` and one number in `written` unless
    // they are null; all are used in the order of this stream.
    check("mapping keys", unsafe {
        let (encoding, stream) = (K::ENCODING as i32, cuda.raw_stream());
        ffi::gpulsm_decode(cuda.key_width, encoding, keys, room, found, written, stream)
    })
}
