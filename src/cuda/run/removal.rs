//! Removing entries from a run in place: what is left moves over what goes, by copies on the run's stream. The fences
//! are copied out of the keys anew.

use std::ops::Range;
use std::sync::Arc;

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::{self, Buffer};
use crate::cuda::driver::stream::Event;
use crate::cuda::ffi::{Address, Head, NODE};
use crate::cuda::run::readers::LastReads;
use crate::cuda::run::unwritten::{next_id, part_bytes};
use crate::cuda::run::{MarkStorage, Run};
use crate::error::Error;

/// The most bytes that are moved at a time over a shorter gap.
const BOUNCE_BYTES: u64 = 8 << 20;

/// Every byte of the padding behind the last key.
const PADDING: u8 = 0xff;

/// Memory by which bytes are moved to where they overlap themselves.
pub(crate) struct Bounce(Buffer);

impl Bounce {
    /// Allocates it for a run of which entries are to be removed. Its head must be written, and all entries new.
    pub fn new(cuda: &EnteredCuda<'_>, run: &Run) -> Result<Self, Error> {
        cuda.refuse_capture()?;
        let head = run.head(cuda.entered())?;
        let width = cuda.key_width.max(cuda.value_width) as u64;
        let bytes = (head.len * width).min(BOUNCE_BYTES);
        if run.0.marks != MarkStorage::None || head.sum.cast_unsigned() != head.len {
            return Err(Error::OutOfMemory { wanted: bytes, free: None, memory: None });
        }
        Ok(Bounce(cuda.alloc(bytes)?))
    }

    /// Moves bytes down, by pieces.
    fn move_down(
        &self,
        cuda: &EnteredCuda<'_>,
        to: Address,
        from: Address,
        bytes: u64,
    ) -> Result<(), Error> {
        let (stream, entered) = (&cuda.stream, cuda.entered());
        let gap = from - to;
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(gap.max(self.0.bytes()));
            // SAFETY: both are within one section of a run that nothing else uses, and the piece ends before it meets
            // what it is copied from, or goes through memory of its own. All of it is on one stream.
            unsafe {
                match piece <= gap {
                    true => memory::copy(to + done, from + done, piece, stream, entered)?,
                    false => {
                        self.0.copy(0, from + done, piece, entered)?;
                        memory::copy(to + done, self.0.address(), piece, stream, entered)?;
                    }
                }
            }
            done += piece;
        }
        Ok(())
    }
}

impl Run {
    /// Removes the entries in these ranges of positions, which ascend and do not meet, and leaves some. Waits until
    /// that is done. No clone shares the run, and `bounce` was made for it.
    pub fn remove_entries(
        &mut self,
        cuda: &EnteredCuda<'_>,
        positions: &[Range<u64>],
        bounce: &Bounce,
    ) -> Result<(), Error> {
        let (stream, entered) = (&cuda.stream, cuda.entered());
        self.before_overwriting(stream, entered)?;
        self.free_caches(entered);
        let before = self.head(entered)?.len;
        let removed: u64 = positions.iter().map(|range| range.end - range.start).sum();
        let len = before - removed;
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        let view = self.view();
        for (section, width) in [(view.keys, key_width), (view.values, value_width)] {
            let mut end = positions.first().map_or(before, |gap| gap.start);
            for (index, gap) in positions.iter().enumerate() {
                let next = positions.get(index + 1).map_or(before, |next| next.start);
                let bytes = (next - gap.end) * width;
                bounce.move_down(cuda, section + end * width, section + gap.end * width, bytes)?;
                end += next - gap.end;
            }
        }
        let (nodes, groups) = (len.div_ceil(NODE), len.div_ceil(NODE).div_ceil(NODE));
        let pad = |section: Address, from: u64, to: u64| {
            // SAFETY: the section has room for whole nodes, of keys and of inner fences.
            unsafe {
                let at = section + from * key_width;
                memory::fill(at, (to - from) * key_width, PADDING, stream, entered)
            }
        };
        let sample = |to: Address, from: Address, count: u64| {
            let last = from + (NODE - 1) * key_width;
            // SAFETY: there are `count` whole nodes in `from`, and room for as many keys in `to`.
            unsafe {
                memory::copy_strided(
                    to,
                    (last, NODE * key_width),
                    key_width,
                    count,
                    stream,
                    entered,
                )
            }
        };
        // The last node may end with padding: its fences are the last key.
        let end_with_last = |section: Address, count: u64| {
            let (to, last) = (section + (count - 1) * key_width, view.keys + (len - 1) * key_width);
            // SAFETY: there are `count` fences, and `len` keys.
            unsafe { memory::copy(to, last, key_width, stream, entered) }
        };
        pad(view.keys, len, nodes * NODE)?;
        sample(view.inner, view.keys, nodes)?;
        end_with_last(view.inner, nodes)?;
        pad(view.inner, nodes, groups * NODE)?;
        sample(view.outer, view.inner, groups)?;
        end_with_last(view.outer, groups)?;
        let head = Head { len, sum: len.cast_signed(), tombstones: 0 };
        // SAFETY: the run has a head.
        unsafe { memory::write(view.head, &[head.len, len, 0], stream, entered)? };
        stream.synchronize()?;

        let bytes = part_bytes(cuda, len, MarkStorage::None);
        let parts = Arc::get_mut(&mut self.0).expect("no clone shares the run");
        parts.head.set(head);
        parts.id = next_id();
        (parts.bound, parts.least_sum) = (len, head.sum);
        *parts.searches.get_mut() = 0;
        parts.readers = LastReads::new().into();
        parts.storage.outlive(stream);
        parts.home = stream.clone();
        parts.written = Event::record(stream, entered)?;
        parts.storage.truncate(&bytes, entered);
        Ok(())
    }
}
