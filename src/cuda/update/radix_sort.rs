//! Sorting a part of a batch as a whole, by the bits in which its keys differ.

use std::ops::Range;
use std::sync::PoisonError;

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, check};
use crate::cuda::update::batch::BatchPart;
use crate::error::Error;

/// From how many updates on it pays to find out first in which bits the keys differ, by the width of keys. The sort
/// then waits for the answer, about 20 µs; ids and times may save it half of its passes or more.
fn min_len_for_bits(key_width: i32) -> u64 {
    match key_width {
        4 => u64::MAX, // At most four passes, which take less time than random keys would lose.
        8 => 1 << 22,
        _ => 1 << 20,
    }
}

/// Sorts a part to these keys and values; equal keys stay in the order of the input.
pub(super) fn radix_sort(
    cuda: &EnteredCuda<'_>,
    part: &BatchPart,
    (keys, values): (Address, Address),
) -> Result<(), Error> {
    let all_bits = 0..part.key_width * 8;
    let launch = |temp: Address, temp_bytes: &mut usize, bits: &Range<i32>| {
        // SAFETY: inputs and outputs have `len` elements of the widths given, `temp` is null or of the size
        // that this function returned, and all are used in the order of this stream.
        check("sorting a batch", unsafe {
            ffi::gpulsm_sort(
                part.key_width,
                part.value_width,
                temp,
                temp_bytes,
                part.keys,
                keys,
                part.values,
                values,
                part.len,
                bits.start,
                bits.end,
                cuda.raw_stream(),
            )
        })
    };
    let bits = match part.len < min_len_for_bits(part.key_width) {
        true => all_bits.clone(),
        false => differing_bits(cuda, part)?,
    };
    let shape = (part.value_width, part.len);
    let mut last = cuda.shared.sort_temp_bytes.lock().unwrap_or_else(PoisonError::into_inner);
    let mut temp_bytes = match *last {
        Some((last_shape, bytes)) if last_shape == shape => bytes,
        _ => {
            let mut bytes = 0;
            launch(0, &mut bytes, &all_bits)?; // Fewer bits take no more.
            *last = Some((shape, bytes));
            bytes
        }
    };
    drop(last);
    let temp = cuda.alloc(temp_bytes as u64)?;
    launch(temp.address(), &mut temp_bytes, &bits)
}

/// Returns a range of bits outside of which all keys of the part agree; not an empty one.
fn differing_bits(cuda: &EnteredCuda<'_>, part: &BatchPart) -> Result<Range<i32>, Error> {
    let mut words = [0u64; 2];
    let buffer = cuda.alloc_uncounted(size_of_val(&words) as u64)?;
    buffer.zero(0, buffer.bytes(), cuda.entered())?;
    // SAFETY: the part has `len` keys of its width, and the buffer two words; both are used on this stream.
    check("finding the bits in which keys differ", unsafe {
        ffi::gpulsm_differing_bits(
            part.key_width,
            part.keys,
            part.len,
            buffer.address(),
            cuda.raw_stream(),
        )
    })?;
    // SAFETY: the buffer holds as many words.
    unsafe { cuda.download(buffer.address(), &mut words)? };
    Ok(range_of(u128::from(words[1]) << 64 | u128::from(words[0])))
}

/// Returns the range from the lowest to the highest bit that is set, or one bit if none is.
fn range_of(bits: u128) -> Range<i32> {
    match bits {
        0 => 0..1,
        _ => bits.trailing_zeros() as i32..(u128::BITS - bits.leading_zeros()) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_holds_all_bits_that_are_set() {
        assert_eq!(range_of(0), 0..1);
        assert_eq!(range_of(1), 0..1);
        assert_eq!(range_of(0b101 << 40), 40..43);
        assert_eq!(range_of(u128::MAX), 0..128);
    }
}
