//! The records of a log: what an update is as bytes.

use crate::files::bytes::{Decoder, Encoder, seeded_checksum};
use crate::files::run::Widths;

/// The length of a record's header.
pub(crate) const HEADER: usize = 40;

/// Arrays in a payload begin at multiples of this.
const ALIGNMENT: usize = 16;

/// What a record is. Numbers 16 (prepared) and 17 (decision) are reserved for updates of several dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Batch = 1,
    RangeDelete = 2,
    Clear = 3,
}

impl RecordKind {
    pub fn from_number(number: u16) -> Option<Self> {
        let kinds = [Self::Batch, Self::RangeDelete, Self::Clear];
        kinds.into_iter().find(|&kind| kind as u16 == number)
    }
}

/// What stands before the payload of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// The number of a [`RecordKind`], unless a newer version wrote it.
    pub kind: u16,
    /// None are defined.
    pub flags: u16,
    /// The length of the payload.
    pub len: u64,
    pub sequence: u64,
    /// The last update that was known to be synced when this record was written.
    pub watermark: u64,
    /// The checksum of the payload.
    pub payload_checksum: u64,
}

impl RecordHeader {
    /// Returns the bytes, with a checksum of them. The seed is of the log, so that a record that the disk kept of
    /// another one is not taken for one of this.
    pub fn encode(&self, seed: u64) -> Vec<u8> {
        let mut out = Encoder::default();
        out.u16(self.kind);
        out.u16(self.flags);
        out.u32(0);
        out.u64s(&[self.len, self.sequence, self.watermark, self.payload_checksum]);
        let sum = seeded_checksum(seed, &[&out.0]) as u32;
        out.0[4..8].copy_from_slice(&sum.to_le_bytes());
        out.0
    }

    /// Returns `None` if the checksum is wrong or the numbers contradict each other.
    pub fn decode(bytes: &[u8], seed: u64) -> Option<Self> {
        let mut fields = Decoder(bytes);
        let (kind, flags, _) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let (len, sequence, watermark) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let header =
            RecordHeader { kind, flags, len, sequence, watermark, payload_checksum: fields.u64()? };
        (watermark < sequence && header.encode(seed) == bytes).then_some(header)
    }
}

/// An update of a dictionary, as arrays of keys and values in the form that runs store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update<'a> {
    /// Inserts and deletes, in the order of the call.
    Batch {
        keys: &'a [u8],
        values: &'a [u8],
        /// How many inserts, at the end, assign their values in a dictionary that combines others.
        assigned: u64,
        deletes: &'a [u8],
    },
    /// The keys from each `lows` to the `highs` at the same index, both included, are deleted.
    RangeDelete { lows: &'a [u8], highs: &'a [u8] },
    /// Everything is deleted.
    Clear,
}

/// The payload of a record in parts, to be written one after the other.
pub(crate) struct Payload<'a> {
    pub kind: RecordKind,
    counts: [u8; 32],
    arrays: [&'a [u8]; 3],
}

impl<'a> Payload<'a> {
    /// Returns the parts of the payload.
    pub fn parts(&self) -> Vec<&[u8]> {
        const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];
        if self.kind == RecordKind::Clear {
            return Vec::new();
        }
        let mut parts = vec![&self.counts[..]];
        for array in self.arrays.into_iter().filter(|array| !array.is_empty()) {
            parts.push(array);
            let padding = array.len().next_multiple_of(ALIGNMENT) - array.len();
            if padding > 0 {
                parts.push(&ZEROS[..padding]);
            }
        }
        parts
    }
}

impl<'a> Update<'a> {
    /// Returns the payload of the update's record.
    pub fn payload(&self, widths: Widths) -> Payload<'a> {
        let count = |keys: &[u8]| (keys.len() / widths.key) as u64;
        let (kind, counts, arrays) = match *self {
            Update::Batch { keys, values, assigned, deletes } => {
                let counts = [count(keys), assigned, count(deletes), 0];
                (RecordKind::Batch, counts, [keys, values, deletes])
            }
            Update::RangeDelete { lows, highs } => {
                (RecordKind::RangeDelete, [count(lows), 0, 0, 0], [lows, highs, &[]])
            }
            Update::Clear => (RecordKind::Clear, [0; 4], [&[][..]; 3]),
        };
        let mut bytes = [0; 32];
        for (field, count) in bytes.as_chunks_mut().0.iter_mut().zip(counts) {
            *field = count.to_le_bytes();
        }
        Payload { kind, counts: bytes, arrays }
    }

    /// Returns how many bytes the arrays have.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Update::Batch { keys, values, deletes, .. } => {
                keys.len() + values.len() + deletes.len()
            }
            Update::RangeDelete { lows, highs } => lows.len() + highs.len(),
            Update::Clear => 0,
        };
        bytes as u64
    }

    /// Reads the payload of a record; `None` if it is none of such a dictionary. Arrays begin at multiples of 16
    /// bytes from the payload's beginning.
    pub fn decode(kind: RecordKind, payload: &'a [u8], widths: Widths) -> Option<Self> {
        let mut fields = Decoder(payload);
        if kind == RecordKind::Clear {
            return payload.is_empty().then_some(Update::Clear);
        }
        let counts = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let update = match (kind, counts) {
            (RecordKind::Batch, [inserts, assigned, deletes, 0]) if assigned <= inserts => {
                Update::Batch {
                    keys: array(&mut fields, inserts, widths.key)?,
                    values: array(&mut fields, inserts, widths.value)?,
                    assigned,
                    deletes: array(&mut fields, deletes, widths.key)?,
                }
            }
            (RecordKind::RangeDelete, [ranges, 0, 0, 0]) => Update::RangeDelete {
                lows: array(&mut fields, ranges, widths.key)?,
                highs: array(&mut fields, ranges, widths.key)?,
            },
            _ => return None,
        };
        fields.0.is_empty().then_some(update)
    }
}

/// Takes an array and its padding off the front of a payload.
fn array<'a>(fields: &mut Decoder<'a>, count: u64, width: usize) -> Option<&'a [u8]> {
    let len = usize::try_from(count).ok()?.checked_mul(width)?;
    let array = fields.bytes(len)?;
    fields.bytes(len.checked_next_multiple_of(ALIGNMENT)? - len)?;
    Some(array)
}
