//! Data on the GPU that callers lend for one call.

use std::cell::RefCell;

use bytemuck::Pod;

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::{Address, PairsOutput};
use crate::cuda::resident::keys::{EncodedKeys, encode};
use crate::cuda::resident::slice::{DeviceSlice, DeviceSliceMut};
use crate::error::{Error, check_buffer, check_lengths};
use crate::key::ScalarKey;
use crate::value::Value;

/// What a call was lent by its caller: before the call, the dictionary's stream waits for the lenders'
/// streams, and after it they wait for the dictionary's.
pub(super) struct Lent<'a> {
    cuda: EnteredCuda<'a>,
    lenders: RefCell<Vec<Stream>>,
}

impl<'a> Lent<'a> {
    pub fn new(cuda: &'a Cuda) -> Result<Self, Error> {
        Ok(Lent { cuda: cuda.enter()?, lenders: RefCell::default() })
    }

    pub fn cuda(&self) -> &EnteredCuda<'a> {
        &self.cuda
    }

    /// Borrows data to read.
    pub fn input<T: Pod>(&self, slice: DeviceSlice<'_, T>) -> Result<Address, Error> {
        let stream = slice.stream();
        let (data, dictionary) = (stream.gpu().index, self.cuda.gpu().index);
        if data != dictionary {
            return Err(Error::OtherDevice { data, dictionary });
        }
        let to = size_of::<T>().max(1) as u64;
        if !slice.is_empty() && !slice.address().is_multiple_of(to) {
            return Err(Error::Misaligned { address: slice.address(), to });
        }
        if *stream != self.cuda.stream && !self.lenders.borrow().contains(stream) {
            self.cuda.stream.wait_for(stream)?;
            self.lenders.borrow_mut().push(stream.clone());
        }
        Ok(slice.address())
    }

    /// Borrows memory to write `len` elements to.
    pub fn output<T: Pod>(
        &self,
        name: &'static str,
        slice: &DeviceSliceMut<'_, T>,
        len: u64,
    ) -> Result<Address, Error> {
        check_buffer(name, slice.len(), if size_of::<T>() == 0 { 0 } else { len as usize })?;
        self.input(slice.as_slice())
    }

    /// Borrows memory to write at most one pair for each of `len` queries to.
    pub fn pairs<K: ScalarKey, V: Value>(
        &self,
        (name, keys): (&'static str, &DeviceSliceMut<'_, K>),
        values: &DeviceSliceMut<'_, V>,
        found: &DeviceSliceMut<'_, u8>,
        len: u64,
    ) -> Result<PairsOutput, Error> {
        let keys = self.output(name, keys, len)?;
        let values = self.output("values", values, len)?;
        Ok(PairsOutput { keys, values, found: self.output("found", found, len)? })
    }

    /// Borrows keys.
    pub fn keys<K: ScalarKey>(&self, keys: DeviceSlice<'_, K>) -> Result<EncodedKeys, Error> {
        encode::<K>(&self.cuda, self.input(keys)?, keys.len())
    }

    /// Borrows the ends of ranges, as many on both sides.
    pub fn ranges<K: ScalarKey>(
        &self,
        lo: DeviceSlice<'_, K>,
        hi: DeviceSlice<'_, K>,
    ) -> Result<(EncodedKeys, EncodedKeys), Error> {
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        Ok((self.keys(lo)?, self.keys(hi)?))
    }

    /// Ends the call: makes the lenders' streams wait for what it did with their data.
    pub fn end(self) -> Result<(), Error> {
        self.give_back()
    }

    fn give_back(&self) -> Result<(), Error> {
        let lenders = self.lenders.take();
        // What a graph will do is not done yet: whoever launches it orders that.
        if lenders.is_empty() || self.cuda.is_capturing()? {
            return Ok(());
        }
        lenders.iter().try_for_each(|stream| stream.wait_for(&self.cuda.stream))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.give_back().ok(); // After an error: work that was started may still use the data.
    }
}
