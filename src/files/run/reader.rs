//! Reading a run.

use super::layout::{BLOCK, Layout, MAGIC, RunInfo, RunShape, Section, VERSION};
use crate::error::{Error, try_zeroed};
use crate::files::bytes::{PAGE, checksum};
use crate::files::storage::File;

/// Reads a run from a file, in blocks. Each one is verified; they can be read in any order and by several
/// threads.
pub(crate) struct RunReader {
    file: File,
    start: u64,
    layout: Layout,
    checksums: Vec<u64>,
}

impl RunReader {
    /// Opens the run at `start`, and verifies everything but its blocks. If a manifest describes the run, it must
    /// be that one.
    pub fn open(file: File, start: u64, info: &RunInfo) -> Result<Self, Error> {
        let mut header = [0; PAGE as usize];
        let len = file.len()?;
        file.read_at(start, &mut header)?;
        let corrupt = |reason: &str| file.corrupt(start, reason);
        if header[..8] != MAGIC {
            return Err(corrupt("this is not the beginning of a run"));
        }
        let (fields, sum) = header.split_at(PAGE as usize - 8);
        if checksum(fields).to_le_bytes() != sum {
            return Err(corrupt("the checksum of the run's header is wrong"));
        }
        let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if version != VERSION {
            let path = file.path().into();
            return Err(Error::UnsupportedVersion {
                path,
                what: "runs of version",
                found: version,
            });
        }
        let (layout, table_checksum) =
            Layout::from_header(&header).ok_or_else(|| corrupt("the header contradicts itself"))?;
        if checksum(&header) != info.checksum || layout.shape.entries != info.entries {
            return Err(corrupt("this is another run than the manifest names"));
        }
        if start.checked_add(layout.end()).is_none_or(|end| end > len) || layout.end() != info.bytes
        {
            return Err(file.corrupt(len, "the file ends too early"));
        }
        let mut reader = RunReader { file, start, layout, checksums: Vec::new() };
        reader.read_table(table_checksum)?;
        Section::EACH.iter().try_for_each(|&section| reader.check_padding(section))?;
        Ok(reader)
    }

    fn read_table(&mut self, expected: u64) -> Result<(), Error> {
        let mut table = try_zeroed(self.layout.table_len() as usize)?;
        let offset = self.start + self.layout.table_start;
        self.file.read_at(offset, &mut table)?;
        if checksum(&table) != expected {
            return Err(self.file.corrupt(offset, "the checksum of the run's checksums is wrong"));
        }
        let (sums, _) = table.as_chunks();
        self.checksums = sums.iter().map(|&sum| u64::from_le_bytes(sum)).collect();
        Ok(())
    }

    fn check_padding(&self, section: Section) -> Result<(), Error> {
        let end = self.layout.start(section) + self.layout.len(section);
        let mut padding = vec![0; (end.next_multiple_of(PAGE) - end) as usize];
        self.file.read_at(self.start + end, &mut padding)?;
        match padding.iter().position(|&byte| byte != 0) {
            Some(index) => {
                Err(self.file.corrupt(self.start + end + index as u64, "padding is not zero"))
            }
            None => Ok(()),
        }
    }

    pub fn shape(&self) -> RunShape {
        self.layout.shape
    }

    /// Returns how many bytes a section has.
    pub fn section_len(&self, section: Section) -> u64 {
        self.layout.len(section)
    }

    /// Returns how many blocks a section has.
    pub fn blocks(&self, section: Section) -> u64 {
        self.layout.blocks(section)
    }

    /// Returns how many bytes a block has: 1 MiB, the last one of a section mostly fewer.
    pub fn block_len(&self, section: Section, block: u64) -> usize {
        (self.layout.len(section) - block * BLOCK).min(BLOCK) as usize
    }

    /// Reads a block into a buffer of its length, and verifies it.
    pub fn read_block(&self, section: Section, block: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let offset = self.start + self.layout.start(section) + block * BLOCK;
        self.file.read_at(offset, buffer)?;
        if checksum(buffer) == self.checksums[(self.layout.first_block(section) + block) as usize] {
            return Ok(());
        }
        Err(self.file.corrupt(offset, "the checksum of a block is wrong"))
    }

    /// Reads a section into a buffer of its length, and calls `read` with the bytes of each block.
    pub fn read_section(
        &self,
        section: Section,
        buffer: &mut [u8],
        read: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        for (block, part) in buffer.chunks_mut(BLOCK as usize).enumerate() {
            self.read_block(section, block as u64, part)?;
            read(part.len() as u64);
        }
        Ok(())
    }

    /// Returns the error of an entry whose key is wrong.
    pub fn corrupt_entry(&self, index: u64, reason: &str) -> Error {
        let offset = self.layout.start(Section::Keys) + index * self.layout.shape.widths.key as u64;
        self.file.corrupt(self.start + offset, reason)
    }
}
