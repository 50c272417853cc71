//! Batches that wait on the GPU to be taken in, as they came.

use crate::batch::Order;
use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{self, Address, check};
use crate::cuda::update::batch::Batch;
use crate::error::Error;

/// All updates that wait, one behind the other: of each batch first the inserts, then the deletes, so
/// that for one key the last always wins.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    keys: GrowBuffer,
    /// In step with the keys, unless there are only deletes; of deletes, anything.
    values: GrowBuffer,
    /// In step with the keys, if there are both inserts and deletes: which is which.
    numbers: GrowBuffer,
    inserts: u64,
    deletes: u64,
}

impl WriteBuffer {
    /// Returns the number of buffered batch.
    pub fn len(&self) -> u64 {
        self.inserts + self.deletes
    }

    /// Whether the updates of a batch can be numbered.
    pub fn can_number(batch: &Batch) -> bool {
        batch.len() < 1 << 31
    }

    /// Puts a batch behind those that wait.
    pub fn append(&mut self, cuda: &Cuda, batch: &Batch) -> Result<(), Error> {
        cuda.stream.refuse_capture()?;
        let _entered = cuda.gpu().enter()?;
        let len = self.inserts + self.deletes;
        let (inserts, deletes) = (self.inserts + batch.inserts, self.deletes + batch.deletes);
        let mut reserve =
            |stack: fn(&mut Self) -> &mut GrowBuffer, used: bool, wanted: bool, width| {
                let used = if used { len * width } else { 0 };
                let wanted = if wanted { (inserts + deletes) * width } else { 0 };
                stack(self).reserve(cuda, used, wanted)
            };
        let was_mixed = inserts > batch.inserts && deletes > batch.deletes;
        let is_mixed = inserts > 0 && deletes > 0;
        let had_values = inserts > batch.inserts;
        reserve(|log| &mut log.keys, true, true, cuda.key_width as u64)?;
        reserve(|log| &mut log.values, had_values, inserts > 0, cuda.value_width as u64)?;
        reserve(|log| &mut log.numbers, was_mixed, is_mixed, size_of::<u32>() as u64)?;
        if is_mixed && !was_mixed && len > 0 {
            // Those that were there are of one kind, and get their numbers now.
            let (inserts, deletes) = (self.inserts, self.deletes);
            let there =
                Batch { keys: 0, values: 0, inserts, delete_keys: 0, deletes, ..Batch::default() };
            self.put(cuda, 0, &there, is_mixed)?;
        }
        self.put(cuda, len, batch, is_mixed)?;
        (self.inserts, self.deletes) = (inserts, deletes);
        Ok(())
    }

    /// Puts updates where room was made for them, with their numbers if the log will have both kinds; those
    /// without addresses are only numbered.
    fn put(&self, cuda: &Cuda, first: u64, part: &Batch, is_mixed: bool) -> Result<(), Error> {
        let at = |stack: &GrowBuffer, width: u64| match stack.address() {
            0 => 0,
            address => address + first * width,
        };
        // SAFETY: there are so many keys and values, or none, and room for as many behind the first;
        // all are used in the order of this stream.
        check("keeping a batch", unsafe {
            ffi::gpulsm_append(
                cuda.key_width,
                cuda.value_width,
                part.keys,
                part.values,
                part.inserts,
                part.delete_keys,
                part.deletes,
                at(&self.keys, cuda.key_width as u64),
                at(&self.values, cuda.value_width as u64),
                if is_mixed { at(&self.numbers, size_of::<u32>() as u64) } else { 0 },
                first,
                cuda.stream.raw(),
            )
        })
    }

    /// All of it as one batch.
    pub fn batch(&self) -> Batch {
        let is_mixed = self.inserts > 0 && self.deletes > 0;
        Batch {
            keys: self.keys.address(),
            values: self.values.address(),
            inserts: self.inserts,
            delete_keys: self.keys.address(),
            deletes: self.deletes,
            numbers: if is_mixed { self.numbers.address() } else { 0 },
            order: Order::Any,
            ..Batch::default()
        }
    }
}

/// Bytes that grow.
#[derive(Default)]
struct GrowBuffer(Option<Buffer>);

impl GrowBuffer {
    fn address(&self) -> Address {
        self.0.as_ref().map_or(0, Buffer::address)
    }

    /// Makes room for so many bytes; the first `used` stay.
    fn reserve(&mut self, cuda: &Cuda, used: u64, wanted: u64) -> Result<(), Error> {
        let room = self.0.as_ref().map_or(0, Buffer::bytes);
        if wanted > room {
            let bytes = wanted.max(2 * room);
            let larger = Buffer::counted(bytes, cuda)?;
            larger.copy(0, self.address(), used)?;
            self.0 = Some(larger);
        }
        Ok(())
    }
}
