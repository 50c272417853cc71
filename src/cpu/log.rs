//! Batches that wait to be taken in, as they came.

use std::borrow::Cow;

use bytemuck::Pod;

use crate::batch::{Order, Updates};
use crate::cpu::Cpu;
use crate::cpu::memory::Buffer;
use crate::device;
use crate::error::Error;
use crate::key::OrderedKey;

/// All inserts that wait, and all deletes, which came after them.
pub(crate) struct Log<B> {
    keys: Stack<B>,
    values: Stack<u8>,
    deletes: Stack<B>,
}

impl<B> Default for Log<B> {
    fn default() -> Self {
        Log { keys: Stack::default(), values: Stack::default(), deletes: Stack::default() }
    }
}

impl<B: OrderedKey> device::Log for Log<B> {
    fn len(&self) -> usize {
        self.keys.len + self.deletes.len
    }

    /// Within one batch deletes win over inserts: no insert may come after a delete.
    fn accepts(&self, inserts: usize, _deletes: usize) -> bool {
        self.deletes.len == 0 || inserts == 0
    }
}

impl<B: OrderedKey> Log<B> {
    pub fn append(&mut self, cpu: &Cpu, updates: &Updates<'_, B>) -> Result<(), Error> {
        self.keys.reserve(cpu, updates.keys.len())?;
        self.values.reserve(cpu, updates.values.len())?;
        self.deletes.reserve(cpu, updates.deletes.len())?;
        self.keys.push(&updates.keys);
        self.values.push(updates.values);
        self.deletes.push(&updates.deletes);
        Ok(())
    }

    /// All of it as one batch.
    pub fn updates(&self) -> Updates<'_, B> {
        Updates {
            keys: Cow::Borrowed(self.keys.all()),
            values: self.values.all(),
            deletes: Cow::Borrowed(self.deletes.all()),
            order: Order::Any,
        }
    }
}

/// A counted vector that grows.
struct Stack<T> {
    room: Option<Buffer<T>>,
    len: usize,
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Stack { room: None, len: 0 }
    }
}

impl<T: Pod> Stack<T> {
    fn all(&self) -> &[T] {
        self.room.as_ref().map_or(&[], |room| &room[..self.len])
    }

    /// Makes room for so many more.
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
