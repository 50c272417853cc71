//! Memory of the caller's: where it begins and how many elements it has.

#![allow(unsafe_code)]

use std::ops::Range;

use gpulsm::{Device, Error};
use pyo3::FromPyObject;

/// `len` elements from `address` on, in the host's memory or a GPU's.
///
/// Spans come from the package's Python half alone, and with each comes its promise: there are that many
/// elements of the type that the argument is documented to have, aligned, where the call's [`Place`]
/// says; the array that they are of lives until the call returns (on a GPU: is given back in the order
/// of the call's stream); and those that are answers are nobody else's. Everything unsafe here rests
/// on that.
#[derive(Clone, Copy, FromPyObject)]
pub struct Span(usize, usize);

impl Span {
    /// The elements, on the host, to be read; as atomics, to be written as well.
    pub fn host<'a, T>(self) -> &'a [T] {
        let at = if self.is_nothing::<T>() { std::ptr::dangling() } else { self.0 as *const T };
        // SAFETY: as promised; without any byte, every aligned address is right.
        unsafe { std::slice::from_raw_parts(at, self.1) }
    }

    /// A copy of the elements, on the host, each of which is read once: other threads may write to the array meanwhile,
    /// and what is read twice, for the log and for the dictionary, must be the same.
    pub fn copied<T: Copy>(self) -> Result<Vec<T>, Error> {
        let mut copy = Vec::new();
        if !self.is_nothing::<T>() {
            let wanted = (self.1 * size_of::<T>()) as u64;
            let failed = |_| Error::OutOfMemory { wanted, free: None, memory: None };
            copy.try_reserve_exact(self.1).map_err(failed)?;
            // SAFETY: as promised, there are as many elements, and as many were reserved.
            unsafe { std::ptr::copy_nonoverlapping(self.0 as *const T, copy.as_mut_ptr(), self.1) };
        }
        // SAFETY: they were written just now, or have no bytes.
        unsafe { copy.set_len(self.1) };
        Ok(copy)
    }

    /// The elements, on the host, to be written.
    pub fn host_mut<'a, T>(self) -> &'a mut [T] {
        let at = if self.is_nothing::<T>() { std::ptr::dangling_mut() } else { self.0 as *mut T };
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(at, self.1) }
    }

    /// The bytes of the elements, if each of them has this many.
    pub fn bytes(self, width: usize) -> Span {
        Span(self.0, self.1 * width)
    }

    /// Elements that are borrowed for longer than the span is used, to be read.
    pub fn of<T>(elements: &[T]) -> Self {
        Span(elements.as_ptr().expose_provenance(), elements.len())
    }

    /// Elements that are borrowed for longer than the span is used, to be written.
    pub fn of_mut<T>(elements: &mut [T]) -> Self {
        Span(elements.as_mut_ptr().expose_provenance(), elements.len())
    }

    /// How many elements there are.
    pub fn len(self) -> usize {
        self.1
    }

    /// Some of the elements, if each of them has this many bytes.
    pub fn part(self, range: &Range<usize>, width: usize) -> Span {
        assert!(range.end <= self.1, "{range:?} is not within {} elements", self.1);
        Span(self.0 + range.start * width, range.len())
    }

    /// Whether there is no byte, so that the address may be anything.
    fn is_nothing<T>(self) -> bool {
        self.1 == 0 || size_of::<T>() == 0
    }

    /// The elements, on the stream's GPU, to be read.
    #[cfg(feature = "cuda")]
    pub fn gpu<T: bytemuck::Pod>(
        self,
        stream: &gpulsm::cuda::Stream,
    ) -> gpulsm::cuda::DeviceSlice<'_, T> {
        // SAFETY: as promised.
        unsafe { gpulsm::cuda::DeviceSlice::from_raw(self.0 as *const T, self.1, stream) }
    }

    /// The elements, on the stream's GPU, to be written.
    #[cfg(feature = "cuda")]
    pub fn gpu_mut<T: bytemuck::Pod>(
        self,
        stream: &gpulsm::cuda::Stream,
    ) -> gpulsm::cuda::DeviceSliceMut<'_, T> {
        // SAFETY: as promised.
        unsafe { gpulsm::cuda::DeviceSliceMut::from_raw(self.0 as *mut T, self.1, stream) }
    }
}

/// Where the memory of one call is.
pub enum Place {
    Host,
    #[cfg(feature = "cuda")]
    Gpu(gpulsm::cuda::Stream),
}

impl Place {
    /// The memory of a dictionary's device, used in the order of a stream; without one, the host's.
    #[cfg(feature = "cuda")]
    pub fn new(device: Device, stream: Option<usize>) -> Result<Self, Error> {
        let Some(raw) = stream else { return Ok(Place::Host) };
        // SAFETY: Python's half has the stream from the library whose arrays these are, which keeps it
        // until the call returns; what the call makes of it is dropped by then.
        unsafe { gpulsm::cuda::Stream::from_raw(device, raw as *mut _) }.map(Place::Gpu)
    }

    /// As above; this build knows the host's memory only.
    #[cfg(not(feature = "cuda"))]
    pub fn new(_: Device, stream: Option<usize>) -> Result<Self, Error> {
        match stream {
            None => Ok(Place::Host),
            Some(_) => Err(Error::NotOnCuda),
        }
    }
}
