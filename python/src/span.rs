//! Memory of the caller's: where it begins and how many elements it has.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::{Mutex, MutexGuard};

use gpulsm::{Device, Error};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

/// The most bytes of a copy whose memory is kept for the next one, and how many are: to touch new memory costs as much
/// as to copy.
const MAX_KEPT: usize = 16 << 20;
const KEPT: usize = 3;

/// Memory of copies; nothing while another thread is at it, which in a forked child may be for ever.
fn kept() -> Option<MutexGuard<'static, Vec<Vec<u128>>>> {
    static KEPT: Mutex<Vec<Vec<u128>>> = Mutex::new(Vec::new());
    KEPT.try_lock().ok()
}

/// A copy of elements. None needs more than 16 bytes, or to be aligned to more.
pub struct Copied<T> {
    memory: Vec<u128>,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Copy> Deref for Copied<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        const { assert!(align_of::<T>() <= align_of::<u128>()) };
        // SAFETY: as many elements were written to this memory, or have no bytes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

impl<T> Drop for Copied<T> {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        if size_of::<u128>() * memory.capacity() <= MAX_KEPT
            && let Some(mut kept) = kept()
            && kept.len() < KEPT
        {
            kept.push(memory);
        }
    }
}

/// Elements of the caller's, or a copy of them.
pub enum Elements<'a, T> {
    Lent(&'a [T]),
    Copied(Copied<T>),
}

impl<T: Copy> Deref for Elements<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Elements::Lent(elements) => elements,
            Elements::Copied(elements) => elements,
        }
    }
}

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
    pub fn copied<T: Copy>(self) -> Result<Copied<T>, Error> {
        let len = if self.is_nothing::<T>() { 0 } else { self.1 };
        let bytes = len * size_of::<T>();
        let mut memory = kept().and_then(|mut kept| kept.pop()).unwrap_or_default();
        memory.clear();
        let failed = |_| Error::OutOfMemory { wanted: bytes as u64, free: None, memory: None };
        memory.try_reserve_exact(bytes.div_ceil(size_of::<u128>())).map_err(failed)?;
        // SAFETY: as promised, there are as many elements, and room for as many was reserved.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0 as *const u8, memory.as_mut_ptr().cast(), bytes);
        }
        Ok(Copied { memory, len: self.1, kind: PhantomData })
    }

    /// The elements, on the host; a copy if they are read twice.
    pub fn read<'a, T: Copy>(self, is_read_twice: bool) -> Result<Elements<'a, T>, Error> {
        Ok(match is_read_twice {
            true => Elements::Copied(self.copied()?),
            false => Elements::Lent(self.host()),
        })
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

/// What NumPy's `__array_struct__` leads to; its attribute is named after the structure `PyArrayInterface`.
#[repr(C)]
struct ArrayInterface {
    two: i32,
    dimensions: i32,
    kind: u8,
    width: i32,
    flags: i32,
    shape: *const isize,
    strides: *const isize,
    data: *const u8,
}

/// Returns where the first element of an array is. The array must be one of NumPy's own class.
pub fn address_of(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    let capsule = array.getattr(intern!(array.py(), "__array_struct__"))?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let interface = capsule.pointer_checked(None)?.cast::<ArrayInterface>();
    // SAFETY: NumPy documents what such a capsule, which has no name, holds, and it lives as long as the capsule.
    let interface = unsafe { interface.as_ref() };
    if interface.two != 2 {
        return Err(PyTypeError::new_err("expected an array of NumPy's"));
    }
    Ok(interface.data.addr())
}
