//! Data on the GPU: vectors of its own, and slices of anybody's.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use bytemuck::Pod;

use crate::cuda::driver::memory::{Buffer, download};
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::Address;
use crate::error::{Error, bytes_of, check_buffer, try_zeroed};

/// A vector in the memory of a GPU.
///
/// Its contents are written and read in the order of its stream. Calls that use it from another
/// stream wait for that one, and make that one wait for them.
///
/// ```no_run
/// # fn main() -> Result<(), gpulsm::Error> {
/// use gpulsm::Device;
/// use gpulsm::cuda::{DeviceVec, Stream};
///
/// let stream = Stream::new(Device::cuda(0)?)?;
/// let keys = DeviceVec::from_slice(&stream, &[3u32, 1, 2])?;
/// assert_eq!(keys.to_vec()?, [3, 1, 2]);
/// # Ok(())
/// # }
/// ```
pub struct DeviceVec<T> {
    buffer: Buffer,
    len: usize,
    stream: Stream,
    items: PhantomData<T>,
}

impl<T: Pod> DeviceVec<T> {
    /// Allocates `len` zeros.
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self, Error> {
        let entered = stream.enter()?;
        stream.refuse_capture(&entered)?;
        let bytes = bytes_of::<T>(len);
        let buffer = Buffer::uncounted(bytes, stream, &entered)?;
        buffer.zero(0, bytes, &entered)?;
        Ok(DeviceVec { buffer, len, stream: stream.clone(), items: PhantomData })
    }

    /// Copies the host's data to the GPU.
    pub fn from_slice(stream: &Stream, data: &[T]) -> Result<Self, Error> {
        let entered = stream.enter()?;
        stream.refuse_capture(&entered)?;
        let buffer = Buffer::upload(data, stream, &entered)?;
        Ok(DeviceVec { buffer, len: data.len(), stream: stream.clone(), items: PhantomData })
    }

    /// Copies it to the host, which waits for everything on the stream.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.as_slice().to_vec()
    }

    /// Copies the host's data over the beginning of the vector.
    pub fn write(&mut self, data: &[T]) -> Result<(), Error> {
        check_buffer("self", self.len, data.len())?;
        let entered = self.stream.enter()?;
        self.stream.refuse_capture(&entered)?;
        self.buffer.write(0, data, &entered)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the stream in whose order the vector is written and read.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Borrows all of it, to be read.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        let address = self.buffer.address();
        DeviceSlice { address, len: self.len, stream: &self.stream, items: PhantomData }
    }

    /// Borrows all of it, to be written.
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut(self.as_slice())
    }

    /// Borrows a part of it, to be read.
    ///
    /// # Panics
    ///
    /// If the part is not within the vector.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> DeviceSlice<'_, T> {
        self.as_slice().slice(range)
    }

    /// Borrows a part of it, to be written.
    ///
    /// # Panics
    ///
    /// If the part is not within the vector.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut(self.as_slice().slice(range))
    }

    /// Returns where it begins in the GPU's memory.
    pub fn as_ptr(&self) -> *const T {
        self.as_slice().as_ptr()
    }

    /// Returns where it begins in the GPU's memory, to be written.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.as_ptr().cast_mut()
    }
}

impl<T: Pod> fmt::Debug for DeviceVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// Elements in the memory of a GPU, borrowed to be read.
#[derive(Clone, Copy)]
pub struct DeviceSlice<'a, T> {
    address: Address,
    len: usize,
    stream: &'a Stream,
    items: PhantomData<&'a [T]>,
}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    /// Wraps memory of the caller's, which is written by what is on `stream` now, or earlier.
    ///
    /// # Safety
    ///
    /// From `pointer` on there are `len` elements in the memory of the stream's GPU. For as long as
    /// this lives nobody writes them, and they are freed only in the order of the stream.
    pub unsafe fn from_raw(pointer: *const T, len: usize, stream: &'a Stream) -> Self {
        DeviceSlice { address: pointer as Address, len, stream, items: PhantomData }
    }

    /// Returns a slice without elements.
    pub fn empty(stream: &'a Stream) -> Self {
        DeviceSlice { address: 0, len: 0, stream, items: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns where it begins in the GPU's memory.
    pub fn as_ptr(&self) -> *const T {
        self.address as *const T
    }

    /// Returns the stream in whose order the memory is written and read.
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// Borrows a part of it.
    ///
    /// # Panics
    ///
    /// If the part is not within the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> DeviceSlice<'a, T> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        assert!(start <= end && end <= self.len, "{start}..{end} of {} elements", self.len);
        let address = self.address + (start * size_of::<T>()) as Address;
        DeviceSlice { address, len: end - start, ..*self }
    }

    /// Copies it to the host, which waits for everything on the stream.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut data = try_zeroed(self.len)?;
        let entered = self.stream.enter()?;
        // SAFETY: there are `len` elements of plain data, and the stream is synchronized before they are
        // read.
        unsafe { download(self.address, &mut data, self.stream, &entered)? };
        self.stream.synchronize()?;
        Ok(data)
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }
}

impl<T> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "[{name}; {}] at {:#x}, {:?}", self.len, self.address, self.stream)
    }
}

impl<'a, T: Pod> From<&'a DeviceVec<T>> for DeviceSlice<'a, T> {
    fn from(vec: &'a DeviceVec<T>) -> Self {
        vec.as_slice()
    }
}

/// Elements in the memory of a GPU, borrowed to be written.
pub struct DeviceSliceMut<'a, T>(DeviceSlice<'a, T>);

impl<'a, T: Pod> DeviceSliceMut<'a, T> {
    /// Wraps memory of the caller's, which may be written after what is on `stream` now.
    ///
    /// # Safety
    ///
    /// From `pointer` on there is room for `len` elements in the memory of the stream's GPU. For as
    /// long as this lives nobody else reads or writes them, and they are freed only in the order
    /// of the stream.
    pub unsafe fn from_raw(pointer: *mut T, len: usize, stream: &'a Stream) -> Self {
        // SAFETY: the caller's promise is more than what a slice to be read wants.
        DeviceSliceMut(unsafe { DeviceSlice::from_raw(pointer, len, stream) })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns where it begins in the GPU's memory.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.0.as_ptr().cast_mut()
    }

    /// Borrows the same elements, to be read.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        self.0
    }
}

impl<T> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a, T: Pod> From<&'a mut DeviceVec<T>> for DeviceSliceMut<'a, T> {
    fn from(vec: &'a mut DeviceVec<T>) -> Self {
        vec.as_mut_slice()
    }
}
