//! A batch on the GPU, and the parts in which it is sorted.

use crate::batch::{Order, Updates};
use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{Address, Combiner, DELETE_FLAG, Source, SourceKind};
use crate::engine::{PAIRS_PER_PART, WritePairs};
use crate::error::{Error, bytes_of, try_zeroed};
use crate::key::OrderedKey;
use crate::value::ValueBuffer;

/// Updates are numbered with 31 bits; the top bit of a number tells deletes.
const MAX_NUMBERED: u64 = DELETE_FLAG as u64;

/// A batch whose keys and values are on the GPU.
#[derive(Default)]
pub(crate) struct Batch {
    /// Keys to insert…
    pub keys: Address,
    /// …and their values.
    pub values: Address,
    pub inserts: u64,
    /// Keys to delete; they win over inserts of the same key.
    pub delete_keys: Address,
    pub deletes: u64,
    /// Whether the dictionary combines values…
    pub combines: bool,
    /// …and how many inserts, at the end, assign theirs nevertheless.
    pub assigned: u64,
    /// Of buffered batches with both inserts and deletes: `keys` are those of all updates in the order they
    /// came, values in step with them, and here are their numbers; later updates win. Otherwise 0.
    pub numbers: Address,
    pub order: Order,
    /// The memory that it is in, if that is its own.
    pub _memory: Vec<Buffer>,
}

impl Batch {
    /// Returns the number of updates.
    pub fn len(&self) -> u64 {
        self.inserts + self.deletes
    }

    /// Returns whether its updates are somewhere, and not only counted.
    pub fn has_data(&self) -> bool {
        self.keys != 0 || self.delete_keys != 0
    }

    /// Returns whether it only inserts, and, where values combine, assigns none.
    pub fn only_adds(&self) -> bool {
        self.deletes == 0 && self.assigned == 0
    }

    /// Copies the host's batch to the GPU.
    pub fn upload<B: OrderedKey>(
        cuda: &EnteredCuda<'_>,
        updates: &Updates<'_, B>,
    ) -> Result<Self, Error> {
        cuda.refuse_capture()?;
        let keys: &[u8] = bytemuck::cast_slice(&updates.keys);
        let deletes: &[u8] = bytemuck::cast_slice(&updates.deletes);
        let parts = [keys, updates.values, deletes];
        let (addresses, memory) = match parts.map(<[u8]>::len).iter().sum::<usize>() {
            ..=MAX_PACKED => upload_packed(cuda, parts)?,
            _ => upload_apart(cuda, parts)?,
        };
        let [keys, values, delete_keys] = addresses;
        Ok(Batch {
            keys,
            values,
            inserts: updates.keys.len() as u64,
            delete_keys,
            deletes: updates.deletes.len() as u64,
            combines: cuda.combiner.is_some(),
            assigned: updates.assigned as u64,
            numbers: 0,
            order: updates.order,
            _memory: memory,
        })
    }

    /// Copies `len` pairs with strictly ascending keys to the GPU, a part at a time, as `write` writes them.
    pub fn upload_parts<B: OrderedKey>(
        cuda: &EnteredCuda<'_>,
        len: usize,
        write: &mut WritePairs<'_, B>,
    ) -> Result<Self, Error> {
        cuda.refuse_capture()?;
        let keys = cuda.alloc_uncounted(bytes_of::<B>(len))?;
        let values = cuda.alloc_uncounted(cuda.value_bytes(len))?;
        let most = len.min(PAIRS_PER_PART);
        let mut part_keys = try_zeroed::<B>(most)?;
        let mut part_values = ValueBuffer::new(most, cuda.value_width as usize)?;
        for start in (0..len).step_by(PAIRS_PER_PART) {
            let count = (len - start).min(PAIRS_PER_PART);
            let part_keys = &mut part_keys[..count];
            let part_values = &mut part_values.bytes_mut()[..cuda.value_bytes(count) as usize];
            write(start, part_keys, part_values)?;
            keys.write(bytes_of::<B>(start), part_keys, cuda.entered())?;
            values.write(cuda.value_bytes(start), part_values, cuda.entered())?;
        }
        let batch = Self::of_sorted(cuda, keys.address(), values.address(), len as u64);
        Ok(Batch { _memory: vec![keys, values], ..batch })
    }

    /// Returns a batch that deletes these keys, which are strictly ascending and live.
    pub fn of_live_deletes(cuda: &Cuda, keys: Buffer, len: u64) -> Self {
        Batch {
            delete_keys: keys.address(),
            deletes: len,
            combines: cuda.combiner.is_some(),
            order: Order::LiveDeletes,
            _memory: vec![keys],
            ..Batch::default()
        }
    }

    /// Returns a batch that inserts these pairs, whose keys are strictly ascending.
    pub fn of_sorted(cuda: &Cuda, keys: Address, values: Address, len: u64) -> Self {
        Batch {
            keys,
            values,
            inserts: len,
            combines: cuda.combiner.is_some(),
            order: Order::Sorted,
            ..Batch::default()
        }
    }

    /// Returns whether it has inserts and deletes that are not numbered yet, but can be. (Where values combine,
    /// more than the last update of a key counts.)
    pub(super) fn can_be_numbered(&self) -> bool {
        let is_mixed = self.inserts > 0 && self.deletes > 0;
        is_mixed && !self.combines && self.numbers == 0 && self.len() < MAX_NUMBERED
    }
}

/// Batches of at most this many bytes are copied to the GPU at once: one allocation and one copy take less time than three.
const MAX_PACKED: usize = 1 << 14;

/// Copies parts of a batch to the GPU; parts without bytes have no address.
fn upload_apart(
    cuda: &EnteredCuda<'_>,
    parts: [&[u8]; 3],
) -> Result<([Address; 3], Vec<Buffer>), Error> {
    let (mut addresses, mut memory) = ([0; 3], Vec::new());
    for (address, part) in addresses.iter_mut().zip(parts) {
        let buffer = cuda.upload(part)?;
        *address = buffer.address();
        memory.push(buffer);
    }
    Ok((addresses, memory))
}

/// Copies short parts of a batch to the GPU, one behind the other.
fn upload_packed(
    cuda: &EnteredCuda<'_>,
    parts: [&[u8]; 3],
) -> Result<([Address; 3], Vec<Buffer>), Error> {
    let mut packed = Vec::with_capacity(MAX_PACKED + 3 * size_of::<u128>());
    let offsets = parts.map(|part| {
        packed.resize(packed.len().next_multiple_of(size_of::<u128>()), 0);
        let offset = packed.len() as Address;
        packed.extend_from_slice(part);
        (!part.is_empty()).then_some(offset)
    });
    let buffer = cuda.upload(&packed)?;
    let addresses = offsets.map(|offset| offset.map_or(0, |offset| buffer.address() + offset));
    Ok((addresses, vec![buffer]))
}

/// A part of a batch that is sorted by itself: all inserts of one kind, all deletes, or, if updates are
/// numbered, all of the batch.
pub(super) struct BatchPart {
    pub kind: SourceKind,
    pub keys: Address,
    /// What is sorted with the keys: values, numbers, or nothing.
    pub values: Address,
    pub len: u64,
    pub key_width: i32,
    pub value_width: i32,
    /// The values of a numbered batch, which stay where they are.
    pub values_by_number: Address,
    /// How the values of equal keys combine; the last one wins if they don't.
    pub combiner: Combiner,
}

impl BatchPart {
    /// Returns the batch in as few parts as possible, newest first.
    pub fn of(cuda: &Cuda, batch: &Batch) -> Vec<BatchPart> {
        let part = |kind, keys, len| BatchPart {
            kind,
            keys,
            values: 0,
            len,
            key_width: cuda.key_width,
            value_width: 0,
            values_by_number: 0,
            combiner: Combiner::NONE,
        };
        if batch.numbers != 0 {
            let (values, values_by_number) = (batch.numbers, batch.values);
            let all = part(SourceKind::Mixed, batch.keys, batch.len());
            let value_width = size_of::<u32>() as i32;
            return vec![BatchPart { values, value_width, values_by_number, ..all }];
        }
        // A delete wins over an insert of the same batch: deletes count as newer.
        let deletes = part(SourceKind::Deletes, batch.delete_keys, batch.deletes);
        let (values, value_width) = (batch.values, cuda.value_width);
        let combined = batch.inserts - batch.assigned;
        let inserts = part(SourceKind::Inserts, batch.keys, combined);
        let combiner = cuda.raw_combiner();
        let inserts = BatchPart { values, value_width, combiner, ..inserts };
        // No key is inserted by both kinds.
        let keys = batch.keys + combined * cuda.key_width as u64;
        let values = batch.values + combined * value_width as u64;
        let assigned = part(SourceKind::Assigned, keys, batch.assigned);
        let assigned = BatchPart { values, value_width, ..assigned };
        [deletes, assigned, inserts].into_iter().filter(|part| part.len > 0).collect()
    }

    /// Returns whether the values of equal keys combine.
    pub fn combines(&self) -> bool {
        self.combiner != Combiner::NONE
    }

    pub fn key_bytes(&self) -> u64 {
        self.len * self.key_width as u64
    }

    pub fn value_bytes(&self) -> u64 {
        self.len * self.value_width as u64
    }

    /// Returns this part, sorted to these keys and values, as a source of a merge; `len` is where its length
    /// is, or the lengths of its tiles.
    pub fn source(&self, keys: Address, values: Address, len: Address) -> Source {
        let (values, numbers) = match self.kind {
            SourceKind::Mixed => (self.values_by_number, values),
            _ => (values, 0),
        };
        Source { keys, values, numbers, len, kind: self.kind, marks: 0, shadows: 0 }
    }
}
