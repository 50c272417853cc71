//! Keys of several parts in a GPU's memory: columns in and out, integers to the dictionary.
//!
//! The integers are those that [`Layout`] makes on the host. All slices of a call must be on one stream, which
//! the work is put on.

use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::{self, Address, BYTES, KeyColumn, KeyColumns, MAX_COLUMNS, check};
use crate::cuda::resident::slice::{DeviceSlice, DeviceSliceMut};
use crate::error::{Error, check_buffer, check_lengths};
use crate::key::{Layout, Part};

/// One part of keys.
pub enum Column<'a> {
    /// The bytes of an element for each key, in the GPU's memory.
    Each(DeviceSlice<'a, u8>),
    /// Those of one element for all keys, in the host's.
    All(&'a [u8]),
}

/// Packs columns into integers, whose bytes are given.
///
/// # Panics
///
/// If there is not one column for each part, if there are more than four, if the slices are on different streams,
/// or if an element for all keys does not have as many bytes as its part, aligned as its type wants it.
pub fn pack(
    layout: &Layout,
    columns: &[Column<'_>],
    packed: &DeviceSliceMut<'_, u8>,
) -> Result<(), Error> {
    assert_eq!(columns.len(), layout.parts().len(), "there is one column for each part");
    let call = Packing::new(layout, packed.as_slice())?;
    let (mut raw, mut common) = (KeyColumns::default(), 0);
    for (index, (column, (part, below))) in columns.iter().zip(layout.places()).enumerate() {
        match column {
            Column::Each(elements) => call.add(&mut raw, *elements, part, below)?,
            Column::All(element) => common |= layout.bits_of(index, element),
        }
    }
    (raw.low, raw.high) = (common as u64, (common >> 64) as u64);
    call.launch(|width, packed, len, stream| {
        // SAFETY: there are `len` elements in every column and room for as many integers, all used in the order
        // of this stream.
        unsafe { ffi::gpulsm_pack(width, &raw, len, packed, stream) }
    })
}

/// Unpacks integers, whose bytes are given, into the bytes of columns; where a key is not `found`, into zeros.
///
/// # Panics
///
/// As [`pack`].
pub fn unpack(
    layout: &Layout,
    packed: DeviceSlice<'_, u8>,
    found: Option<DeviceSlice<'_, u8>>,
    columns: &[DeviceSliceMut<'_, u8>],
) -> Result<(), Error> {
    assert_eq!(columns.len(), layout.parts().len(), "there is one column for each part");
    let call = Packing::new(layout, packed)?;
    let mut raw = KeyColumns::default();
    for (column, (part, below)) in columns.iter().zip(layout.places()) {
        call.add(&mut raw, column.as_slice(), part, below)?;
    }
    let found = match found {
        Some(found) => call.checked("found", found, 1)?,
        None => 0,
    };
    call.launch(|width, packed, len, stream| {
        // SAFETY: as above; there are `len` bytes in `found`, unless that is null.
        unsafe { ffi::gpulsm_unpack(width, packed, len, found, &raw, stream) }
    })
}

/// Moves the ends of ranges of packed keys that are excluded to the next integer inside. A range without any
/// becomes one whose ends are in the wrong order.
///
/// # Panics
///
/// If the slices are on different streams.
pub fn exclude_ends(
    layout: &Layout,
    lo: &DeviceSliceMut<'_, u8>,
    hi: &DeviceSliceMut<'_, u8>,
    (excludes_lo, excludes_hi): (bool, bool),
) -> Result<(), Error> {
    check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
    let call = Packing::new(layout, lo.as_slice())?;
    let hi = call.checked("hi", hi.as_slice(), layout.width())?;
    let bits = layout.bits() as i32;
    call.launch(|width, lo, len, stream| {
        // SAFETY: there are `len` integers in both, used in the order of this stream.
        unsafe {
            ffi::gpulsm_exclude_ends(width, bits, lo, hi, len, excludes_lo, excludes_hi, stream)
        }
    })
}

/// A call on packed keys.
struct Packing<'a> {
    width: usize,
    packed: Address,
    len: usize,
    stream: &'a Stream,
}

impl<'a> Packing<'a> {
    fn new(layout: &Layout, packed: DeviceSlice<'a, u8>) -> Result<Self, Error> {
        let (width, stream) = (layout.width(), packed.stream());
        let len = packed.len() / width;
        let call = Packing { width, packed: packed.address(), len, stream };
        call.checked("packed", packed, width)?;
        Ok(call)
    }

    /// Adds the column of a part.
    fn add(
        &self,
        columns: &mut KeyColumns,
        elements: DeviceSlice<'_, u8>,
        part: Part,
        below: u32,
    ) -> Result<(), Error> {
        assert!((columns.count as usize) < MAX_COLUMNS, "a key has at most four parts");
        let encoding = match part {
            Part::Number(encoding, _) => encoding as i32,
            Part::Bytes(_) => BYTES,
        };
        let to = if encoding == BYTES { 1 } else { part.width() };
        let data = self.aligned("columns", elements, part.width(), to)?;
        let (width, below) = (part.width() as i32, below as i32);
        columns.at[columns.count as usize] = KeyColumn { data, width, encoding, below };
        columns.count += 1;
        Ok(())
    }

    /// Returns where elements begin, of which each has as many bytes as it is aligned to.
    fn checked(
        &self,
        name: &'static str,
        elements: DeviceSlice<'_, u8>,
        width: usize,
    ) -> Result<Address, Error> {
        self.aligned(name, elements, width, width)
    }

    /// Returns where elements begin, of which there must be one for each key.
    fn aligned(
        &self,
        name: &'static str,
        elements: DeviceSlice<'_, u8>,
        width: usize,
        to: usize,
    ) -> Result<Address, Error> {
        assert_eq!(elements.stream(), self.stream, "all of a call is on one stream");
        check_buffer(name, elements.len(), self.len * width)?;
        let (address, to) = (elements.address(), to as u64);
        if self.len > 0 && !address.is_multiple_of(to) {
            return Err(Error::Misaligned { address, to });
        }
        Ok(address)
    }

    /// Calls a kernel, unless there are no keys.
    fn launch(
        &self,
        kernel: impl FnOnce(i32, Address, u64, cudarc::driver::sys::CUstream) -> i32,
    ) -> Result<(), Error> {
        if self.len == 0 {
            return Ok(());
        }
        let entered = self.stream.enter()?;
        let stream = self.stream.raw(&entered);
        check("packing keys", kernel(self.width as i32, self.packed, self.len as u64, stream))
    }
}
