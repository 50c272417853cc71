//! Reading a log.

use crate::error::{Error, try_with_capacity};
use crate::files::bytes::seeded_checksum;
use crate::files::log::{LOG_HEADER, LogHeader, MAGIC, VERSION};
use crate::files::record::{HEADER, RecordHeader, RecordKind};
use crate::files::storage::File;

/// How much is read at a time while looking for headers.
const CHUNK: u64 = 1 << 20;

/// A log that is being read.
pub(crate) struct LogReader {
    file: File,
    header: LogHeader,
    seed: u64,
    len: u64,
}

/// What is at an offset of a log.
pub(crate) enum Found {
    Record(RecordHeader),
    /// The end of the file.
    End,
    /// No intact record.
    Bad,
}

/// Room for the payload of a record, aligned for arrays of keys and values.
#[derive(Default)]
pub(crate) struct PayloadBuffer {
    words: Vec<u128>,
    len: usize,
}

impl PayloadBuffer {
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    fn resized(&mut self, len: usize) -> Result<&mut [u8], Error> {
        let words = len.div_ceil(16);
        if words > self.words.len() {
            self.words = try_with_capacity(words)?;
            self.words.resize(words, 0);
        }
        self.len = len;
        Ok(&mut bytemuck::cast_slice_mut(&mut self.words)[..len])
    }
}

impl LogReader {
    /// Opens the log of this number. A log gets its name when its header is durable: a bad one is no crash's.
    pub fn open(file: File, number: u64, identity: u64) -> Result<Self, Error> {
        let len = file.len()?;
        let mut bytes = [0; LOG_HEADER];
        file.read_at(0, &mut bytes)?;
        if bytes[..8] != MAGIC {
            return Err(file.corrupt(0, "this is not the beginning of a log"));
        }
        let found = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let header = match LogHeader::decode(&bytes) {
            Some(header) if found == VERSION => header,
            Some(_) => return Err(file.corrupt(8, "the version is damaged")),
            None if found == VERSION => {
                return Err(file.corrupt(0, "the log's header is damaged"));
            }
            None => {
                let path = file.path().into();
                return Err(Error::UnsupportedVersion { path, what: "a log of version", found });
            }
        };
        if (header.number, header.identity) != (number, identity) {
            return Err(file.corrupt(0, "this is another log, or one of another dictionary"));
        }
        Ok(LogReader { file, header, seed: header.seed(), len })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Returns the token of the owner that wrote it.
    pub fn owner(&self) -> u64 {
        self.header.owner
    }

    /// Returns the sequence number of the first record.
    pub fn first(&self) -> u64 {
        self.header.first
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads the record at an offset, and its payload into the buffer.
    pub fn read(&self, offset: u64, buffer: &mut PayloadBuffer) -> Result<Found, Error> {
        let rest = self.len - offset.min(self.len);
        if rest == 0 {
            return Ok(Found::End);
        }
        if rest < HEADER as u64 {
            return Ok(Found::Bad);
        }
        let mut bytes = [0; HEADER];
        self.file.read_at(offset, &mut bytes)?;
        let header = RecordHeader::decode(&bytes, self.seed);
        let Some(header) = header.filter(|header| header.len <= rest - HEADER as u64) else {
            return Ok(Found::Bad);
        };
        let payload = buffer.resized(header.len as usize)?;
        if !payload.is_empty() {
            self.file.read_at(offset + HEADER as u64, payload)?;
        }
        let is_intact = seeded_checksum(self.seed, &[payload]) == header.payload_checksum;
        Ok(if is_intact { Found::Record(header) } else { Found::Bad })
    }

    /// Returns the kind of an intact record, or an error if this version does not know it.
    pub fn kind_of(&self, header: &RecordHeader) -> Result<RecordKind, Error> {
        let unsupported = |what, found| {
            let path = self.file.path().into();
            Err(Error::UnsupportedVersion { path, what, found })
        };
        match RecordKind::from_number(header.kind) {
            _ if header.flags != 0 => unsupported("a record with flags", header.flags.into()),
            Some(kind) => Ok(kind),
            None => unsupported("a record of kind", header.kind.into()),
        }
    }

    /// Returns the highest watermark in any intact header after an offset. A header proves what was durable when
    /// it was written even if the record before it is bad.
    pub fn watermark_after(&self, offset: u64) -> Result<u64, Error> {
        let mut highest = 0;
        let mut start = offset.next_multiple_of(8);
        let mut chunk = Vec::new();
        while start + HEADER as u64 <= self.len {
            chunk.resize((self.len - start).min(CHUNK) as usize, 0);
            self.file.read_at(start, &mut chunk)?;
            for header in chunk.windows(HEADER).step_by(8) {
                highest = highest.max(self.watermark_in(header));
            }
            // Headers that begin in the last bytes of a chunk are in the next one.
            let positions = (chunk.len() - HEADER) / 8 + 1;
            start += positions as u64 * 8;
        }
        Ok(highest)
    }

    fn watermark_in(&self, bytes: &[u8]) -> u64 {
        // Most positions are no headers, which is seen without a checksum.
        let is_plausible = bytes[0] != 0 && bytes[1] == 0 && bytes[14..16] == [0, 0];
        let header = is_plausible.then(|| RecordHeader::decode(bytes, self.seed)).flatten();
        header.map_or(0, |header| header.watermark)
    }
}
