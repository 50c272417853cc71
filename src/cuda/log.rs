//! Batches that wait on the GPU to be taken in, as they came.

use bytemuck::Pod;

use super::absorb::Updates;
use super::engine::Cuda;
use super::ffi::Address;
use super::memory::Buffer;
use crate::batch::{self, Order};
use crate::device;
use crate::error::Error;

/// All inserts that wait, and all deletes.
#[derive(Default)]
pub(crate) struct Log {
    keys: Stack,
    values: Stack,
    inserts: u64,
    delete_keys: Stack,
    deletes: u64,
}

impl device::Log for Log {
    fn inserts(&self) -> usize {
        self.inserts as usize
    }

    fn deletes(&self) -> usize {
        self.deletes as usize
    }
}

impl Log {
    /// Puts a batch of the host's behind those that wait.
    pub fn append<B: Pod>(
        &mut self,
        cuda: &Cuda,
        updates: &batch::Updates<'_, B>,
    ) -> Result<(), Error> {
        self.grow(
            cuda,
            updates.keys.len() as u64,
            updates.deletes.len() as u64,
            |log, inserts, deletes| {
                log.keys.write(inserts * cuda.key_width as u64, &updates.keys)?;
                log.values.write(inserts * cuda.value_width as u64, updates.values)?;
                log.delete_keys.write(deletes * cuda.key_width as u64, &updates.deletes)
            },
        )
    }

    /// Puts a batch that is on the GPU behind those that wait.
    pub fn append_resident(&mut self, cuda: &Cuda, updates: &Updates) -> Result<(), Error> {
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        self.grow(cuda, updates.inserts, updates.deletes, |log, inserts, deletes| {
            let key_bytes = updates.inserts * key_width;
            log.keys.copy(inserts * key_width, updates.keys, key_bytes)?;
            let value_bytes = updates.inserts * value_width;
            log.values.copy(inserts * value_width, updates.values, value_bytes)?;
            let delete_bytes = updates.deletes * key_width;
            log.delete_keys.copy(deletes * key_width, updates.delete_keys, delete_bytes)
        })
    }

    /// Makes room for more, and counts it once `fill` has put it there, behind so many inserts and
    /// deletes.
    fn grow(
        &mut self,
        cuda: &Cuda,
        inserts: u64,
        deletes: u64,
        fill: impl FnOnce(&Self, u64, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        cuda.stream.refuse_capture()?;
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        self.keys.reserve(cuda, self.inserts * key_width, inserts * key_width)?;
        self.values.reserve(cuda, self.inserts * value_width, inserts * value_width)?;
        self.delete_keys.reserve(cuda, self.deletes * key_width, deletes * key_width)?;
        fill(self, self.inserts, self.deletes)?;
        self.inserts += inserts;
        self.deletes += deletes;
        Ok(())
    }

    /// All of it as one batch.
    pub fn updates(&self) -> Updates {
        Updates {
            keys: self.keys.address(),
            values: self.values.address(),
            inserts: self.inserts,
            delete_keys: self.delete_keys.address(),
            deletes: self.deletes,
            order: Order::Any,
        }
    }
}

/// Bytes that grow.
#[derive(Default)]
struct Stack(Option<Buffer>);

impl Stack {
    fn address(&self) -> Address {
        self.0.as_ref().map_or(0, Buffer::address)
    }

    /// Makes room for so many bytes more than the first `used`.
    fn reserve(&mut self, cuda: &Cuda, used: u64, more: u64) -> Result<(), Error> {
        let room = self.0.as_ref().map_or(0, Buffer::bytes);
        if used + more > room {
            let bytes = (used + more).max(2 * room);
            let larger = Buffer::counted(bytes, &cuda.family.budget, &cuda.stream)?;
            larger.copy(0, self.address(), used)?;
            self.0 = Some(larger);
        }
        Ok(())
    }

    /// Copies the host's data to where room was made for it.
    fn write<T: Pod>(&self, offset: u64, data: &[T]) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |buffer| buffer.write(offset, data))
    }

    /// Copies the GPU's data to where room was made for it.
    fn copy(&self, offset: u64, from: Address, bytes: u64) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |buffer| buffer.copy(offset, from, bytes))
    }
}
