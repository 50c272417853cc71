//! Scratch memory of all steps of a batch, in one buffer.
//!
//! A step reserves what it needs in a [`ScratchLayout`], which yields [`Slot`]s, and later exchanges these
//! for addresses: what is used is what was sized, since both are one call.

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::Address;
use crate::error::Error;

/// Slots begin at multiples of this.
const ALIGNMENT: u64 = 256;

/// A part of the scratch memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    is_zeroed: bool,
    /// Among the slots that are zeroed, or among the others.
    offset: u64,
}

/// The scratch memory that steps have reserved.
#[derive(Debug, Default)]
pub(super) struct ScratchLayout {
    zeroed: u64,
    unzeroed: u64,
}

impl ScratchLayout {
    /// Reserves memory of any content.
    pub fn reserve(&mut self, bytes: u64) -> Slot {
        Slot { is_zeroed: false, offset: advance(&mut self.unzeroed, bytes) }
    }

    /// Reserves memory that is zero.
    pub fn reserve_zeroed(&mut self, bytes: u64) -> Slot {
        Slot { is_zeroed: true, offset: advance(&mut self.zeroed, bytes) }
    }

    /// Returns the bytes of all that was reserved.
    pub fn bytes(&self) -> u64 {
        self.zeroed + self.unzeroed
    }

    /// Allocates all that was reserved; what must be zero is zeroed by one call.
    pub fn allocate(self, cuda: &EnteredCuda<'_>) -> Result<Scratch, Error> {
        let buffer = cuda.alloc(self.bytes())?;
        buffer.zero(0, self.zeroed, cuda.entered())?;
        Ok(Scratch { buffer, zeroed: self.zeroed })
    }
}

/// Returns the offset of the next slot, which has this many bytes.
fn advance(end: &mut u64, bytes: u64) -> u64 {
    let offset = *end;
    *end += bytes.next_multiple_of(ALIGNMENT);
    offset
}

/// The scratch memory of a batch: first the slots that are zeroed, then the others.
pub(super) struct Scratch {
    buffer: Buffer,
    zeroed: u64,
}

impl Scratch {
    /// Returns the address of a slot of this scratch's layout.
    pub fn address(&self, slot: Slot) -> Address {
        self.buffer.address() + self.offset(slot)
    }

    /// Writes a number to a slot.
    pub fn write(&self, cuda: &EnteredCuda<'_>, slot: Slot, number: u64) -> Result<(), Error> {
        self.buffer.write(self.offset(slot), &[number], cuda.entered())
    }

    /// Sets the first `bytes` bytes of a slot.
    pub fn fill(
        &self,
        cuda: &EnteredCuda<'_>,
        slot: Slot,
        bytes: u64,
        value: u8,
    ) -> Result<(), Error> {
        self.buffer.fill(self.offset(slot), bytes, value, cuda.entered())
    }

    fn offset(&self, slot: Slot) -> u64 {
        let offset = if slot.is_zeroed { slot.offset } else { self.zeroed + slot.offset };
        debug_assert!(offset <= self.buffer.bytes(), "the slot is of another layout");
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_do_not_overlap() {
        let mut layout = ScratchLayout::default();
        let slots =
            [layout.reserve(1), layout.reserve_zeroed(300), layout.reserve(0), layout.reserve(8)];
        assert_eq!(slots.map(|slot| slot.offset), [0, 0, 256, 256]);
        assert_eq!((layout.zeroed, layout.bytes()), (512, 1024));
    }
}
