//! Buffered batches, in the order they came.

use std::borrow::Cow;

use bytemuck::Pod;

use crate::batch::{Order, Updates};
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::error::Error;
use crate::key::OrderedKey;

/// All buffered inserts, and all buffered deletes, which came after them.
pub(crate) struct WriteBuffer<B> {
    keys: GrowBuffer<B>,
    values: GrowBuffer<u8>,
    deletes: GrowBuffer<B>,
}

impl<B> Default for WriteBuffer<B> {
    fn default() -> Self {
        WriteBuffer {
            keys: GrowBuffer::default(),
            values: GrowBuffer::default(),
            deletes: GrowBuffer::default(),
        }
    }
}

impl<B: OrderedKey> WriteBuffer<B> {
    /// Returns the number of buffered updates.
    pub fn len(&self) -> usize {
        self.keys.len + self.deletes.len
    }

    /// Returns whether a batch may be appended. Within one batch deletes win over inserts, so no insert may
    /// come after a delete.
    pub fn accepts(&self, updates: &Updates<'_, B>) -> bool {
        self.deletes.len == 0 || updates.keys.is_empty()
    }

    /// Appends a batch; after an error the buffer is as it was.
    pub fn append(&mut self, cpu: &Cpu, updates: &Updates<'_, B>) -> Result<(), Error> {
        self.keys.reserve(cpu, updates.keys.len())?;
        self.values.reserve(cpu, updates.values.len())?;
        self.deletes.reserve(cpu, updates.deletes.len())?;
        self.keys.push(&updates.keys);
        self.values.push(updates.values);
        self.deletes.push(&updates.deletes);
        Ok(())
    }

    /// Returns all of it as one batch.
    pub fn batch(&self) -> Updates<'_, B> {
        Updates {
            keys: Cow::Borrowed(self.keys.all()),
            values: self.values.all(),
            deletes: Cow::Borrowed(self.deletes.all()),
            order: Order::Any,
        }
    }
}

/// A counted buffer that grows.
struct GrowBuffer<T> {
    room: Option<Buffer<T>>,
    len: usize,
}

impl<T> Default for GrowBuffer<T> {
    fn default() -> Self {
        GrowBuffer { room: None, len: 0 }
    }
}

impl<T: Pod> GrowBuffer<T> {
    fn all(&self) -> &[T] {
        self.room.as_ref().map_or(&[], |room| &room[..self.len])
    }

    /// Makes room for this many more.
    fn reserve(&mut self, cpu: &Cpu, more: usize) -> Result<(), Error> {
        let room = self.room.as_ref().map_or(0, |room| room.len());
        if self.len + more > room {
            let mut larger = cpu.memory.zeroed::<T>((self.len + more).max(2 * room))?;
            larger[..self.len].copy_from_slice(self.all());
            self.room = Some(larger);
        }
        Ok(())
    }

    /// Puts items where room was made for them.
    fn push(&mut self, items: &[T]) {
        if let Some(room) = &mut self.room {
            room[self.len..self.len + items.len()].copy_from_slice(items);
            self.len += items.len();
        }
    }
}
