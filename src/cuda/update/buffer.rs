//! Buffered batches on the GPU, in the order they came.

use crate::batch::Order;
use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{self, Address, check};
use crate::cuda::update::batch::Batch;
use crate::engine::Counts;
use crate::error::Error;

/// The bytes of the number of an update.
const NUMBER_WIDTH: u64 = size_of::<u32>() as u64;

/// Where the data of a batch is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub keys: Address,
    pub values: Address,
    pub delete_keys: Address,
    /// Whether nothing was put on the buffer's stream since the last room was made, and nothing to make this one: who has
    /// waited for the stream then need not wait again.
    pub is_there: bool,
}

/// All buffered updates, one after the other: of each batch first the inserts, then the deletes, so that for
/// one key the last always wins. Where values combine, all updates are of one kind.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    keys: GrowBuffer,
    /// In step with the keys, unless there are only deletes; of deletes, undefined.
    values: GrowBuffer,
    /// In step with the keys, if there are both inserts and deletes: which is which.
    numbers: GrowBuffer,
    inserts: u64,
    deletes: u64,
    /// How many of the inserts assign: all or none.
    assigned: u64,
    /// Whether the dictionary combines values.
    combines: bool,
    /// Whether work was put on the stream that uses the buffer since room was last made for a batch without data.
    is_in_use: bool,
    /// Whether that batch took room that there was, with nothing put on the stream before it.
    was_there: bool,
}

impl WriteBuffer {
    /// Returns the number of buffered updates.
    pub fn len(&self) -> u64 {
        self.inserts + self.deletes
    }

    /// Returns whether a batch may be appended. Updates are numbered in the order they came, and the last of a
    /// key wins; where values combine, more than the last counts, and only updates of one kind are buffered.
    pub fn accepts(&self, batch: &Batch) -> bool {
        let (inserts, deletes) = (self.inserts + batch.inserts, self.deletes + batch.deletes);
        let assigned = self.assigned + batch.assigned;
        let kinds = [inserts - assigned, assigned, deletes];
        !batch.combines || kinds.into_iter().filter(|&updates| updates > 0).count() <= 1
    }

    fn is_mixed(&self) -> bool {
        self.inserts > 0 && self.deletes > 0
    }

    /// Appends a batch; after an error the buffer is as it was. There is only made room for one without data.
    pub fn append(&mut self, cuda: &EnteredCuda<'_>, batch: &Batch) -> Result<(), Error> {
        cuda.refuse_capture()?;
        let len = self.len();
        let (inserts, deletes) = (self.inserts + batch.inserts, self.deletes + batch.deletes);
        let is_mixed = inserts > 0 && deletes > 0;
        let new_len = len + batch.len();
        let valued = |inserts: u64, len: u64| if inserts > 0 { len } else { 0 };
        let numbered = |is_mixed: bool, len: u64| if is_mixed { len } else { 0 };
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        let mut has_room = !is_mixed;
        has_room &= self.keys.reserve(cuda, len * key_width, new_len * key_width)?;
        let (used, needed) = (valued(self.inserts, len), valued(inserts, new_len));
        has_room &= self.values.reserve(cuda, used * value_width, needed * value_width)?;
        let (used, needed) = (numbered(self.is_mixed(), len), numbered(is_mixed, new_len));
        self.numbers.reserve(cuda, used * NUMBER_WIDTH, needed * NUMBER_WIDTH)?;
        if is_mixed && !self.is_mixed() && len > 0 {
            // The updates so far are of one kind, and are numbered now.
            let (inserts, deletes) = (self.inserts, self.deletes);
            self.put(cuda, 0, &Batch { inserts, deletes, ..Batch::default() }, is_mixed)?;
        }
        self.put(cuda, len, batch, is_mixed)?;
        (self.inserts, self.deletes) = (inserts, deletes);
        self.assigned += batch.assigned;
        self.combines = batch.combines;
        self.was_there = has_room && !self.is_in_use;
        self.is_in_use = batch.has_data();
        Ok(())
    }

    /// Writes updates from position `first` on, where there is room for them, with their numbers if the
    /// buffer has both kinds; those without addresses are only numbered.
    fn put(
        &self,
        cuda: &EnteredCuda<'_>,
        first: u64,
        updates: &Batch,
        is_mixed: bool,
    ) -> Result<(), Error> {
        if !updates.has_data() && !is_mixed {
            return Ok(());
        }
        let at = |buffer: &GrowBuffer, width: u64| match buffer.address() {
            0 => 0,
            address => address + first * width,
        };
        // SAFETY: there are as many keys and values as the updates say, or none, and room for as many from
        // `first` on; all are used in the order of this stream.
        check("buffering a batch", unsafe {
            ffi::gpulsm_append(
                cuda.key_width,
                cuda.value_width,
                updates.keys,
                updates.values,
                updates.inserts,
                updates.delete_keys,
                updates.deletes,
                at(&self.keys, cuda.key_width as u64),
                at(&self.values, cuda.value_width as u64),
                if is_mixed { at(&self.numbers, NUMBER_WIDTH) } else { 0 },
                first,
                cuda.raw_stream(),
            )
        })
    }

    /// Returns where the batch is that was appended last.
    pub fn last_room(&self, cuda: &Cuda, last: Counts) -> Room {
        let first = self.len() - (last.inserts + last.deletes) as u64;
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        let keys = self.keys.address() + first * key_width;
        let values = match self.values.address() {
            0 => 0,
            values => values + first * value_width,
        };
        let delete_keys = keys + last.inserts as u64 * key_width;
        Room { keys, values, delete_keys, is_there: self.was_there }
    }

    /// Removes the batch that was appended last.
    pub fn remove_last(&mut self, Counts { inserts, assigned, deletes }: Counts) {
        self.inserts -= inserts as u64;
        self.assigned -= assigned as u64;
        self.deletes -= deletes as u64;
        // What was put on the stream for it is still there.
        self.is_in_use = true;
    }

    /// Returns all of it as one batch.
    pub fn batch(&self) -> Batch {
        Batch {
            keys: self.keys.address(),
            values: self.values.address(),
            inserts: self.inserts,
            delete_keys: self.keys.address(),
            deletes: self.deletes,
            combines: self.combines,
            assigned: self.assigned,
            numbers: if self.is_mixed() { self.numbers.address() } else { 0 },
            order: Order::Any,
            ..Batch::default()
        }
    }
}

/// A counted buffer that grows.
#[derive(Default)]
struct GrowBuffer(Option<Buffer>);

impl GrowBuffer {
    fn address(&self) -> Address {
        self.0.as_ref().map_or(0, Buffer::address)
    }

    /// Makes room for `needed` bytes; the first `used` stay. Returns whether there was room.
    fn reserve(&mut self, cuda: &EnteredCuda<'_>, used: u64, needed: u64) -> Result<bool, Error> {
        let room = self.0.as_ref().map_or(0, Buffer::bytes);
        if needed <= room {
            return Ok(true);
        }
        let larger = cuda.alloc(needed.max(2 * room))?;
        larger.copy(0, self.address(), used, cuda.entered())?;
        self.0 = Some(larger);
        Ok(false)
    }
}
