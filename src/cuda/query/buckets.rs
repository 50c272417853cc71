//! Lookups of many keys in a large dictionary, ordered by buckets first: what is searched at the same time then lies
//! in the same part of the dictionary, so caches serve more of the reads.
//!
//! The buckets are equal parts of the largest run, whatever its keys are. Lookups write their answers in the order of
//! buckets, and these are brought back.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{self, Address, RunView, check};
use crate::cuda::query::bucket_policy::policy;
use crate::cuda::run::Run;
use crate::error::Error;

/// Keys to look up, and room for the answers; `values` is 0 where they are not wanted.
#[derive(Clone, Copy)]
pub(crate) struct Lookups {
    pub keys: Address,
    pub len: u64,
    pub values: Address,
    pub found: Address,
}

impl Lookups {
    /// Returns the part of at most `len` keys from `first` on.
    pub fn part(&self, cuda: &EnteredCuda<'_>, first: u64, len: u64) -> Self {
        let values = match self.values {
            0 => 0,
            values => values + first * cuda.value_width as u64,
        };
        Lookups {
            keys: self.keys + first * cuda.key_width as u64,
            len: len.min(self.len - first),
            values,
            found: self.found + first,
        }
    }
}

/// Parts of the memory begin at multiples of this.
const ALIGNMENT: u64 = 256;

/// After there was no memory, this many calls do without buckets: an attempt in vain waits for the stream.
const AFTER_REFUSAL: u32 = 64;

/// How many calls still do without buckets.
static WITHOUT: AtomicU32 = AtomicU32::new(0);

/// Memory for some keys in the order of their buckets, and for their answers.
pub(super) struct Buckets {
    /// The largest run, whose parts the buckets are.
    run: RunView,
    bits: u32,
    /// The most keys that there is room for.
    room: u64,
    buffer: Buffer,
    /// Offsets in the buffer, which begins with the numbers of keys.
    places: u64,
    keys: u64,
    values: u64,
    found: u64,
}

impl Buckets {
    /// Returns what it takes to order these lookups by buckets, if that pays and there is memory for it.
    pub fn for_lookups(
        cuda: &EnteredCuda<'_>,
        runs: &[Run],
        lookups: &Lookups,
    ) -> Result<Option<Self>, Error> {
        let policy = policy(lookups.len);
        if lookups.len < policy.min_keys {
            return Ok(None);
        }
        let Some(largest) = runs.iter().max_by_key(|run| run.bound()) else { return Ok(None) };
        let entries: u64 = runs.iter().map(Run::bound).sum();
        let bytes = entries * (cuda.key_width + cuda.value_width) as u64;
        if bytes < policy.min_bytes || cuda.is_capturing()? {
            return Ok(None);
        }
        let one_less = |left: u32| left.checked_sub(1);
        if WITHOUT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Ok(None);
        }
        let parts = lookups.len.div_ceil(policy.max_part);
        let room = lookups.len.div_ceil(parts);
        let value_width = if lookups.values == 0 { 0 } else { cuda.value_width as u64 };
        let after = |offset: u64, bytes: u64| (offset + bytes).next_multiple_of(ALIGNMENT);
        let places = after(0, count_bytes(policy.bits));
        let keys = after(places, room * size_of::<u32>() as u64);
        let values = after(keys, room * cuda.key_width as u64);
        let found = after(values, room * value_width);
        match cuda.alloc_uncounted(found + room) {
            Ok(buffer) => Ok(Some(Buckets {
                run: largest.view(),
                bits: policy.bits,
                room,
                buffer,
                places,
                keys,
                values,
                found,
            })),
            Err(Error::OutOfMemory { .. }) => {
                WITHOUT.store(AFTER_REFUSAL, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Has `look_up` look up the keys in the order of their buckets, and brings the answers back.
    pub fn look_up(
        &self,
        cuda: &EnteredCuda<'_>,
        lookups: &Lookups,
        look_up: impl Fn(&Lookups) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for first in (0..lookups.len).step_by(self.room as usize) {
            let part = lookups.part(cuda, first, self.room);
            let at = |offset: u64| self.buffer.address() + offset;
            let values = if part.values == 0 { 0 } else { at(self.values) };
            let ordered =
                Lookups { keys: at(self.keys), len: part.len, values, found: at(self.found) };
            self.order(cuda, &part, &ordered)?;
            look_up(&ordered)?;
            self.restore_order(cuda, &ordered, &part)?;
        }
        Ok(())
    }

    /// Writes the keys in the order of their buckets, and where each is.
    fn order(
        &self,
        cuda: &EnteredCuda<'_>,
        part: &Lookups,
        ordered: &Lookups,
    ) -> Result<(), Error> {
        self.buffer.zero(0, count_bytes(self.bits), cuda.entered())?;
        // SAFETY: there are `len` keys, and room for as many keys and places, and for two zeros for each bucket, in a
        // buffer of this stream; the run is alive and written before what this stream does now.
        check("ordering keys by buckets", unsafe {
            ffi::gpulsm_order_by_bucket(
                cuda.key_width,
                &self.run,
                part.keys,
                part.len,
                self.bits as i32,
                self.buffer.address(),
                ordered.keys,
                self.buffer.address() + self.places,
                cuda.raw_stream(),
            )
        })
    }

    /// Brings the answers back to the order of their keys.
    fn restore_order(
        &self,
        cuda: &EnteredCuda<'_>,
        ordered: &Lookups,
        part: &Lookups,
    ) -> Result<(), Error> {
        // SAFETY: there are `len` places, each less than `len`, and as many answers; and room for them there.
        check("bringing answers back", unsafe {
            ffi::gpulsm_restore_order(
                cuda.value_width,
                self.buffer.address() + self.places,
                part.len,
                ordered.values,
                ordered.found,
                part.values,
                part.found,
                cuda.raw_stream(),
            )
        })
    }
}

/// Returns the bytes of the two numbers of keys for each bucket: of all keys, and of those that have a place.
fn count_bytes(bits: u32) -> u64 {
    (2 * size_of::<u32>() as u64) << bits
}
