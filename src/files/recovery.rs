//! Which records of the logs count after a crash.
//!
//! A bad record is either what a crash left of an update that was never durable, or damage. It is damage if
//! anything proves that the update was durable: a later record that names a watermark, or a later log.

use crate::error::Error;
use crate::files::directories::Directories;
use crate::files::log::LOG_HEADER;
use crate::files::log_reader::{Found, LogReader, PayloadBuffer};
use crate::files::manifest::Manifest;
use crate::files::names;
use crate::files::record::{HEADER, RecordHeader, Update};
use crate::files::run::Widths;

/// The records that follow what the runs contain.
pub(crate) struct Recovered {
    logs: Vec<Segment>,
    widths: Widths,
    /// The last update.
    pub last: u64,
    /// The last update that is known to be durable.
    pub watermark: u64,
    /// How many bytes at the end of the last log are cut off.
    pub torn_bytes: u64,
}

/// What is called for a record and its payload.
pub(crate) type Visit<'a> = dyn FnMut(&LogReader, &RecordHeader, &[u8]) -> Result<(), Error> + 'a;

/// The part of a log that counts.
struct Segment {
    log: LogReader,
    /// The sequence numbers of the records that count.
    from: u64,
    until: u64,
}

impl Recovered {
    /// Reads the logs with these numbers, in ascending order, and verifies every record that counts.
    pub fn scan(
        directories: &Directories,
        manifest: &Manifest,
        numbers: &[u64],
    ) -> Result<Self, Error> {
        let folder = directories.root.path_of(names::LOGS);
        if manifest.last_log != 0 && !numbers.contains(&manifest.last_log) {
            let path = folder.join(names::log(manifest.last_log));
            return Err(Error::CorruptFile {
                path,
                offset: 0,
                reason: "the log is missing".into(),
            });
        }
        let open = |&number: &u64| {
            let file = directories.logs()?.open(names::log(number))?;
            LogReader::open(file, number, manifest.identity)
        };
        let mut readers = numbers.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        // A later log of another owner is one of an opening that was not completed, or of a handle that had lost
        // the folder: it has no update that the owner acknowledged.
        readers
            .retain(|log| log.number() <= manifest.last_log || log.owner() == manifest.owner.token);
        let mut recovered = Recovered {
            logs: Vec::new(),
            widths: manifest.schema.widths,
            last: manifest.sequence,
            watermark: readers.iter().fold(manifest.synced, |mark, log| mark.max(log.first() - 1)),
            torn_bytes: 0,
        };
        let firsts: Vec<_> = readers.iter().map(LogReader::first).collect();
        for (index, log) in readers.into_iter().enumerate() {
            let until = firsts[index + 1..].iter().copied().min().unwrap_or(u64::MAX);
            if log.first() < until {
                recovered.scan_log(log, until)?;
            }
        }
        if recovered.last < recovered.watermark {
            let reason = format!("the log of update {} is missing", recovered.last + 1).into();
            return Err(Error::CorruptFile { path: folder, offset: 0, reason });
        }
        Ok(recovered)
    }

    /// Verifies the records of a log up to the number `until`, where a later log takes over.
    fn scan_log(&mut self, log: LogReader, until: u64) -> Result<(), Error> {
        if log.first() > self.last + 1 {
            let reason = format!("the log before is missing: it has update {}", self.last + 1);
            return Err(log.file().corrupt(0, reason));
        }
        let mut buffer = PayloadBuffer::default();
        let mut next = log.first();
        let mut offset = LOG_HEADER as u64;
        while next < until {
            let header = match log.read(offset, &mut buffer)? {
                Found::Record(header) => header,
                Found::End | Found::Bad => break,
            };
            let kind = log.kind_of(&header)?;
            if header.sequence != next {
                break;
            }
            if Update::decode(kind, buffer.bytes(), self.widths).is_none() {
                return Err(log.file().corrupt(offset, "the record is none of these types"));
            }
            self.watermark = self.watermark.max(header.watermark);
            next += 1;
            offset += HEADER as u64 + header.len;
        }
        if next < until {
            self.end_log(&log, next, offset)?;
        }
        let from = (self.last + 1).max(log.first());
        self.last = self.last.max(next - 1);
        self.logs.push(Segment { log, from, until: next });
        Ok(())
    }

    /// Decides what it means that a log has no intact record `next` at `offset`.
    fn end_log(&mut self, log: &LogReader, next: u64, offset: u64) -> Result<(), Error> {
        let proven = self.watermark.max(log.watermark_after(offset)?);
        if next <= proven {
            let reason = format!("the record of update {next} is bad, and it was durable");
            return Err(log.file().corrupt(offset, reason));
        }
        self.torn_bytes = log.len() - offset.min(log.len());
        Ok(())
    }

    /// Returns how many bytes the logs have.
    pub fn bytes(&self) -> u64 {
        self.logs.iter().map(|segment| segment.log.len()).sum()
    }

    /// Returns how many logs there are.
    pub fn logs(&self) -> usize {
        self.logs.len()
    }

    /// Returns how many records count.
    pub fn records(&self) -> u64 {
        self.logs.iter().map(|segment| segment.until - segment.from.min(segment.until)).sum()
    }

    /// Returns the numbers of logs whose records count, or would.
    pub fn needed_logs(&self) -> Vec<u64> {
        let needed = self.logs.iter().filter(|segment| segment.from < segment.until);
        needed.map(|segment| segment.log.number()).collect()
    }

    /// Calls `apply` for every update that the runs lack, in order. Arrays are aligned to 16 bytes.
    pub fn replay(
        &self,
        apply: &mut dyn FnMut(u64, Update<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.each_record(0, &mut |log, header, payload| {
            let kind = log.kind_of(header)?;
            let update = Update::decode(kind, payload, self.widths)
                .ok_or_else(|| log.file().corrupt(0, "the log changed while it was read"))?;
            apply(header.sequence, update)
        })
    }

    /// Calls `visit` for every record from a number on.
    pub fn each_record(&self, from: u64, visit: &mut Visit<'_>) -> Result<(), Error> {
        let mut buffer = PayloadBuffer::default();
        for Segment { log, from: first, until } in &self.logs {
            let mut offset = LOG_HEADER as u64;
            let mut next = log.first();
            while next < *until {
                let Found::Record(header) = log.read(offset, &mut buffer)? else {
                    return Err(log.file().corrupt(offset, "the log changed while it was read"));
                };
                if next >= from.max(*first) {
                    visit(log, &header, buffer.bytes())?;
                }
                next += 1;
                offset += HEADER as u64 + header.len;
            }
        }
        Ok(())
    }
}
