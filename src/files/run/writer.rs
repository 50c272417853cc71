//! Writing a run.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::layout::{BLOCK, Layout, RunInfo, RunShape, Section};
use crate::error::Error;
use crate::files::bytes::{PAGE, checksum};
use crate::files::storage::File;

/// Writes a run into a file, from a given offset on. Each section is written from its beginning to its end, in
/// pieces of any size, the larger the faster; sections can take turns.
pub(crate) struct RunWriter {
    file: File,
    start: u64,
    number: u64,
    layout: Layout,
    sections: [SectionWriter; 3],
}

/// How far a section is written, and the checksums of its blocks.
#[derive(Default)]
struct SectionWriter {
    written: u64,
    block: XxHash3_64,
    checksums: Vec<u64>,
}

impl RunWriter {
    /// Starts to write a run that the manifest calls `number`.
    pub fn new(file: File, start: u64, number: u64, shape: RunShape) -> Result<Self, Error> {
        let wanted = u64::MAX;
        let layout =
            Layout::new(shape).ok_or(Error::OutOfMemory { wanted, free: None, memory: None })?;
        Ok(RunWriter { file, start, number, layout, sections: Default::default() })
    }

    /// Returns how many bytes a section has in all.
    pub fn section_len(&self, section: Section) -> u64 {
        self.layout.len(section)
    }

    /// Writes the next bytes of a section.
    ///
    /// # Panics
    ///
    /// If the section ends before.
    pub fn write(&mut self, section: Section, bytes: &[u8]) -> Result<(), Error> {
        let state = &mut self.sections[section as usize];
        let end = state.written + bytes.len() as u64;
        assert!(end <= self.layout.len(section), "more {section:?} than entries");
        let offset = self.start + self.layout.start(section) + state.written;
        if !bytes.is_empty() {
            self.file.write_at(offset, &[bytes])?;
            self.file.start_writing_back(offset, bytes.len() as u64);
        }
        state.add(bytes);
        Ok(())
    }

    /// Writes the checksums and the header. The file is not synced.
    ///
    /// # Panics
    ///
    /// If a section is incomplete.
    pub fn finish(mut self, level: u32) -> Result<RunInfo, Error> {
        let mut table = Vec::new();
        for section in Section::EACH {
            let state = &mut self.sections[section as usize];
            assert_eq!(state.written, self.layout.len(section), "{section:?} are incomplete");
            state.end_block();
            table.extend(state.checksums.iter().flat_map(|sum| sum.to_le_bytes()));
            self.pad(section)?;
        }
        let header = self.layout.header(checksum(&table));
        if !table.is_empty() {
            self.file.write_at(self.start + self.layout.table_start, &[&table])?;
        }
        self.file.write_at(self.start, &[&header])?;
        Ok(RunInfo {
            file: self.number,
            level,
            entries: self.layout.shape.entries,
            bytes: self.layout.end(),
            checksum: checksum(&header),
        })
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes zeros from the end of a section to the end of its page.
    fn pad(&self, section: Section) -> Result<(), Error> {
        let end = self.layout.start(section) + self.layout.len(section);
        let padding = (end.next_multiple_of(PAGE) - end) as usize;
        if padding == 0 {
            return Ok(());
        }
        self.file.write_at(self.start + end, &[&[0; PAGE as usize][..padding]])
    }
}

impl SectionWriter {
    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK - self.written % BLOCK;
            let (front, rest) = bytes.split_at(bytes.len().min(room as usize));
            if front.len() as u64 == BLOCK {
                self.checksums.push(checksum(front));
            } else {
                self.block.write(front);
                if front.len() as u64 == room {
                    self.checksums.push(std::mem::take(&mut self.block).finish());
                }
            }
            self.written += front.len() as u64;
            bytes = rest;
        }
    }

    /// Adds the checksum of a last block that is not full.
    fn end_block(&mut self) {
        if !self.written.is_multiple_of(BLOCK) {
            self.checksums.push(self.block.finish());
        }
    }
}
