//! Reading a run.

use std::iter::Enumerate;
use std::panic::resume_unwind;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::layout::{BLOCK, Layout, MAGIC, RunInfo, RunShape, Section, VERSION, Widths};
use crate::error::{Error, try_zeroed};
use crate::files::bytes::{PAGE, checksum};
use crate::files::storage::File;

/// At most this many threads read one part of a run…
const MAX_THREADS: usize = 4;

/// …each at least this many bytes.
const MIN_BYTES_PER_THREAD: usize = 4 << 20;

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

    /// Returns the run if its keys and values have as many bytes as those of the dictionary.
    pub fn with_widths(self, widths: Widths) -> Result<Self, Error> {
        if self.layout.shape.widths == widths {
            return Ok(self);
        }
        let reason = "the run's keys or values have another width than the manifest says";
        Err(self.file.corrupt(self.start, reason))
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

    /// Reads a part of a section that begins `offset` bytes into it, at a block, and calls `read` now and then with
    /// the bytes that were read since. Several threads share a long part.
    pub fn read_part(
        &self,
        section: Section,
        offset: u64,
        buffer: &mut [u8],
        read: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let first = offset / BLOCK;
        let helpers = (buffer.len() / MIN_BYTES_PER_THREAD).min(MAX_THREADS).saturating_sub(1);
        let blocks = Blocks { rest: Mutex::new(buffer.chunks_mut(BLOCK as usize).enumerate()) };
        let read_bytes = AtomicU64::new(0);
        let read_blocks = |read: &mut dyn FnMut()| {
            while let Some((block, part)) = blocks.next() {
                let outcome = self.read_block(section, first + block as u64, part);
                outcome.inspect_err(|_| blocks.stop())?;
                read_bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
                read();
            }
            Ok(())
        };
        thread::scope(|scope| {
            let help = || thread::Builder::new().spawn_scoped(scope, || read_blocks(&mut || ()));
            let helpers: Vec<_> = (0..helpers).map_while(|_| help().ok()).collect();
            let mut outcome = read_blocks(&mut || read(read_bytes.swap(0, Ordering::Relaxed)));
            for helper in helpers {
                let helped = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
                outcome = outcome.and(helped);
            }
            read(read_bytes.swap(0, Ordering::Relaxed));
            outcome
        })
    }

    /// Returns the error of an entry whose key is wrong.
    pub fn corrupt_entry(&self, index: u64, reason: &str) -> Error {
        let offset = self.layout.start(Section::Keys) + index * self.layout.shape.widths.key as u64;
        self.file.corrupt(self.start + offset, reason)
    }
}

/// The blocks of a part, which threads take one by one.
struct Blocks<'a> {
    rest: Mutex<Enumerate<ChunksMut<'a, u8>>>,
}

impl<'a> Blocks<'a> {
    fn next(&self) -> Option<(usize, &'a mut [u8])> {
        self.rest().next()
    }

    /// Leaves the rest unread.
    fn stop(&self) {
        *self.rest() = [].chunks_mut(1).enumerate();
    }

    fn rest(&self) -> MutexGuard<'_, Enumerate<ChunksMut<'a, u8>>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::files::run::RunWriter;
    use crate::files::simulated::Simulated;
    use crate::files::storage::Storage;

    /// Long parts are read by several threads: every block is read once, told once, and verified.
    #[test]
    fn threads_share_the_blocks_of_a_part() {
        let entries = 2 * MIN_BYTES_PER_THREAD as u64 / 4 + 12_345;
        let shape = RunShape { widths: Widths { key: 4, value: 0 }, entries, has_marks: false };
        let storage = Storage::new(Simulated::new());
        storage.ensure_directory(Path::new("/runs")).unwrap();
        let runs = storage.open_directory(Path::new("/runs")).unwrap();
        let file = runs.create("run").unwrap();
        let mut run = RunWriter::new(file.clone(), 0, 1, shape).unwrap();
        let keys: Vec<u8> = (0..entries as u32).flat_map(|key| key.to_le_bytes()).collect();
        run.write(Section::Keys, &keys).unwrap();
        let run = RunReader::open(file.clone(), 0, &run.finish(0).unwrap()).unwrap();

        let (mut buffer, mut told) = (vec![0; keys.len()], 0);
        run.read_part(Section::Keys, 0, &mut buffer, &mut |bytes| told += bytes).unwrap();
        assert!(buffer == keys && told == keys.len() as u64);
        let offset = 3 * BLOCK as usize;
        run.read_part(Section::Keys, 3 * BLOCK, &mut buffer[offset..], &mut |_| ()).unwrap();
        assert!(buffer == keys);

        let damaged = PAGE + 5 * BLOCK + 17;
        file.write_at(damaged, &[&[0xff]]).unwrap();
        let error = run.read_part(Section::Keys, 0, &mut buffer, &mut |_| ()).unwrap_err();
        let at = PAGE + 5 * BLOCK;
        assert!(matches!(error, Error::CorruptFile { offset, .. } if offset == at), "{error}");
    }
}
