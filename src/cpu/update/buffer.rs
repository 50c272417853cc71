//! The write buffer: batches that are buffered, to be applied as one.

use std::borrow::Cow;

use bytemuck::Pod;

use crate::batch::{Order, Updates};
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::engine::Counts;
use crate::error::Error;
use crate::key::OrderedKey;

/// The buffered inserts, and the buffered deletes, all of which are newer.
pub(crate) struct WriteBuffer<B> {
    keys: GrowBuffer<B>,
    values: GrowBuffer<u8>,
    /// How many of the inserts assign: all or none.
    assigned: usize,
    deletes: GrowBuffer<B>,
}

impl<B> Default for WriteBuffer<B> {
    fn default() -> Self {
        WriteBuffer {
            keys: GrowBuffer::default(),
            values: GrowBuffer::default(),
            assigned: 0,
            deletes: GrowBuffer::default(),
        }
    }
}

impl<B: OrderedKey> WriteBuffer<B> {
    /// Returns the number of buffered updates.
    pub fn len(&self) -> usize {
        self.keys.len + self.deletes.len
    }

    /// Returns whether a batch may be appended. Within one batch deletes win over inserts, so an
    /// insert may not follow a delete; and inserts that assign may not follow, or precede, others.
    pub fn accepts(&self, updates: &Updates<'_, B>) -> bool {
        let assigned = self.assigned + updates.assigned;
        let is_uniform = assigned == 0 || assigned == self.keys.len + updates.keys.len();
        is_uniform && (self.deletes.len == 0 || updates.keys.is_empty())
    }

    /// Appends a batch. An error leaves the buffer as it was.
    pub fn append(&mut self, cpu: &Cpu, updates: &Updates<'_, B>) -> Result<(), Error> {
        self.keys.reserve(cpu, updates.keys.len())?;
        self.values.reserve(cpu, updates.values.len())?;
        self.deletes.reserve(cpu, updates.deletes.len())?;
        self.keys.extend(&updates.keys);
        self.values.extend(updates.values);
        self.deletes.extend(&updates.deletes);
        self.assigned += updates.assigned;
        Ok(())
    }

    /// Removes the batch that was appended last.
    pub fn remove_last(&mut self, Counts { inserts, assigned, deletes }: Counts) {
        let width = self.values.len / self.keys.len.max(1);
        self.keys.len -= inserts;
        self.values.len -= inserts * width;
        self.assigned -= assigned;
        self.deletes.len -= deletes;
    }

    /// Returns all buffered updates as one batch.
    pub fn batch(&self) -> Updates<'_, B> {
        Updates {
            keys: Cow::Borrowed(self.keys.as_slice()),
            values: self.values.as_slice(),
            assigned: self.assigned,
            deletes: Cow::Borrowed(self.deletes.as_slice()),
            order: Order::Any,
        }
    }
}

/// A buffer that grows, and whose bytes are counted.
struct GrowBuffer<T> {
    data: Option<Buffer<T>>,
    len: usize,
}

impl<T> Default for GrowBuffer<T> {
    fn default() -> Self {
        GrowBuffer { data: None, len: 0 }
    }
}

impl<T: Pod> GrowBuffer<T> {
    fn as_slice(&self) -> &[T] {
        self.data.as_ref().map_or(&[], |data| &data[..self.len])
    }

    /// Makes room for this many more items.
    fn reserve(&mut self, cpu: &Cpu, more: usize) -> Result<(), Error> {
        let capacity = self.data.as_ref().map_or(0, |data| data.len());
        if self.len + more > capacity {
            let mut larger = cpu.memory.zeroed::<T>((self.len + more).max(2 * capacity))?;
            larger[..self.len].copy_from_slice(self.as_slice());
            self.data = Some(larger);
        }
        Ok(())
    }

    /// Appends items, for which room must have been reserved.
    fn extend(&mut self, items: &[T]) {
        if let Some(data) = &mut self.data {
            data[self.len..self.len + items.len()].copy_from_slice(items);
            self.len += items.len();
        }
    }
}
