//! Writing a log, and syncing it once for several threads.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::Error;
use crate::files::bytes::{Decoder, Encoder, checksum, seeded_checksum};
use crate::files::manifest::Manifest;
use crate::files::names;
use crate::files::record::{self, RecordHeader, RecordKind};
use crate::files::storage::{Directory, File};

pub(super) const MAGIC: [u8; 8] = *b"GPLSMLOG";
pub(super) const VERSION: u32 = 1;

/// The length of a log's header.
pub(crate) const LOG_HEADER: usize = 64;

/// Payloads of at least this many bytes are summed up by one thread and written by another. (In tests also shorter
/// ones, so that crashes in between are tried.)
const MIN_SHARED_BYTES: u64 = if cfg!(test) { 200 } else { 4 << 20 };

/// What a log says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub number: u64,
    /// The folder that it belongs to.
    pub identity: u64,
    /// The sequence number of its first record. Everything before is durable elsewhere; records of older logs
    /// from this number on no longer count.
    pub first: u64,
    /// A random number. A crash may take a log away before its name is durable, and the next one has the same
    /// number: what the disk kept of the first is not taken for records of the second.
    pub salt: u64,
    /// The token of the folder's owner that wrote it; 0 if it had none.
    pub owner: u64,
}

impl LogHeader {
    /// Returns the header of a new log of the folder that a manifest describes.
    pub fn new(number: u64, manifest: &Manifest, first: u64) -> Self {
        let salt = RandomState::new().build_hasher().finish();
        let (identity, owner) = (manifest.identity, manifest.owner.token);
        LogHeader { number, identity, first, salt, owner }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder(MAGIC.to_vec());
        out.u32(VERSION);
        out.u32(0);
        out.u64s(&[self.number, self.identity, self.first, self.salt, self.owner]);
        let sum = checksum(&out.0);
        out.u64(sum);
        out.0
    }

    /// Reads a header of this version whose checksum is right.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Decoder(bytes.get(16..)?);
        let (number, identity) = (fields.u64()?, fields.u64()?);
        let (first, salt, owner) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let header = LogHeader { number, identity, first, salt, owner };
        let is_possible = header.first > 0 && header.first >> 62 == 0;
        (is_possible && header.encode() == bytes).then_some(header)
    }

    /// Returns the seed of the checksums of the log's records.
    pub fn seed(&self) -> u64 {
        self.identity ^ self.number.rotate_left(32) ^ self.salt
    }
}

/// A log that is being written.
pub(crate) struct LogWriter {
    file: File,
    seed: u64,
    state: Mutex<State>,
    sync_ended: Condvar,
}

struct State {
    /// Where the next record goes.
    end: u64,
    /// The last sequence number that was written.
    last: u64,
    /// Where its record begins.
    last_start: u64,
    /// The last one that is durable…
    synced: u64,
    /// …and where its record ends.
    synced_end: u64,
    is_syncing: bool,
    /// Why nothing more can be written.
    failure: Option<Error>,
}

/// Why a log could not be created.
pub(crate) struct CreateError {
    pub error: Error,
    /// Whether the log may be there all the same, and hide what is appended to older ones.
    pub may_exist: bool,
}

impl LogWriter {
    /// Creates a log in a folder, with the records that `fill` appends. It gets its name when it is durable.
    pub fn create(
        folder: &Directory,
        header: LogHeader,
        fill: impl FnOnce(&LogWriter) -> Result<(), Error>,
    ) -> Result<Self, CreateError> {
        let name = names::log(header.number);
        let unfinished = names::unfinished(&name);
        let write = || {
            let file = folder.create(&unfinished)?;
            file.write_at(0, &[&header.encode()])?;
            let log = LogWriter::new(file, header);
            fill(&log)?;
            log.file.sync()?;
            log.state().all_is_synced();
            Ok(LogWriter { file: log.file.with_path(&folder.path_of(&name)), ..log })
        };
        let log = write().map_err(|error| {
            // Where it cannot be removed either, it is an orphan, which the next opening removes.
            folder.remove(&unfinished).ok();
            CreateError { error, may_exist: false }
        })?;
        folder.rename_new(&unfinished, &name).map_err(|error| {
            let may_exist = !folder.remove_if_present(&unfinished);
            CreateError { error, may_exist }
        })?;
        folder.sync().map_err(|error| CreateError { error, may_exist: true })?;
        Ok(log)
    }

    fn new(file: File, header: LogHeader) -> Self {
        let last = header.first - 1;
        let end = LOG_HEADER as u64;
        let state = State {
            end,
            last,
            last_start: end,
            synced: last,
            synced_end: end,
            is_syncing: false,
            failure: None,
        };
        LogWriter { file, seed: header.seed(), state: state.into(), sync_ended: Condvar::new() }
    }

    /// Appends a record, unsynced. If the write fails, the log is cut off where it was; if that fails too,
    /// everything else is refused.
    pub fn append(&self, kind: RecordKind, sequence: u64, payload: &[&[u8]]) -> Result<(), Error> {
        let mut state = self.state();
        state.check()?;
        let len = payload.iter().map(|part| part.len() as u64).sum();
        let header = RecordHeader {
            kind: kind as u16,
            flags: 0,
            len,
            sequence,
            watermark: state.synced,
            payload_checksum: 0,
        };
        if let Err(error) = self.write_record(state.end, header, payload) {
            match self.cut_off(state.end) {
                Ok(()) => state.all_is_synced(),
                Err(second) => state.failure = Some(second),
            }
            return Err(error);
        }
        state.last_start = state.end;
        state.end += record::HEADER as u64 + len;
        state.last = sequence;
        Ok(())
    }

    /// Writes a record, whose header lacks the checksum of the payload. A long payload is summed up by another thread
    /// while this one writes it; its header comes last then.
    fn write_record(
        &self,
        offset: u64,
        mut header: RecordHeader,
        payload: &[&[u8]],
    ) -> Result<(), Error> {
        if header.len < MIN_SHARED_BYTES {
            header.payload_checksum = seeded_checksum(self.seed, payload);
            let header = header.encode(self.seed);
            let parts: Vec<_> = [&header[..]].into_iter().chain(payload.iter().copied()).collect();
            return self.file.write_at(offset, &parts);
        }
        let sum_up = || seeded_checksum(self.seed, payload);
        let write = || self.file.write_at(offset + record::HEADER as u64, payload);
        let (sum, written) = thread::scope(|scope| {
            let helper = thread::Builder::new().spawn_scoped(scope, sum_up);
            let written = write();
            let sum = helper.map_or_else(|_| sum_up(), |helper| helper.join().expect("a sum"));
            (sum, written)
        });
        written?;
        header.payload_checksum = sum;
        self.file.write_at(offset, &[&header.encode(self.seed)])
    }

    /// Removes the record at the end of the log, which begins at `start`. Its header is destroyed first: the next
    /// record begins at the same place with the same number, and if that one is lost in a crash, the disk may show
    /// the old blocks again.
    fn cut_off(&self, start: u64) -> Result<(), Error> {
        if self.file.len()? >= start + record::HEADER as u64 {
            // Where there is no room to overwrite blocks, the file system writes elsewhere and shows no old ones.
            if self.file.write_at(start, &[&[0; record::HEADER]]).is_ok() {
                self.file.sync()?;
            }
        }
        self.file.truncate(start)?;
        self.file.sync()
    }

    /// Takes back the record that was appended last. When this returns, it is gone for good; after an error
    /// nobody knows, and everything else is refused.
    ///
    /// # Panics
    ///
    /// If it is not the last one, or was taken back already.
    pub fn undo(&self, sequence: u64) -> Result<(), Error> {
        let mut state = self.state();
        assert!(state.last == sequence && state.last_start < state.end, "only the last record");
        // A sync that is under way would take the record for a durable one.
        while state.is_syncing {
            state = self.sync_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.check()?;
        if let Err(error) = self.cut_off(state.last_start) {
            state.failure = Some(error.clone());
            return Err(error);
        }
        state.end = state.last_start;
        state.last -= 1;
        state.all_is_synced();
        Ok(())
    }

    /// Returns once the record with this number is durable. Threads that call this at the same time share
    /// syncs. After a sync that failed, nobody knows what is durable: everything else is refused.
    pub fn sync_to(&self, sequence: u64) -> Result<(), Error> {
        let mut state = self.state();
        loop {
            if state.synced >= sequence {
                return Ok(());
            }
            state.check()?;
            if !state.is_syncing {
                break;
            }
            state = self.sync_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_syncing = true;
        let (last, end) = (state.last, state.end);
        drop(state);
        let result = self.file.sync();
        let mut state = self.state();
        state.is_syncing = false;
        match &result {
            Ok(()) => {
                state.synced = state.synced.max(last);
                state.synced_end = state.synced_end.max(end);
            }
            Err(error) => state.failure = Some(error.clone()),
        }
        self.sync_ended.notify_all();
        result
    }

    /// Returns once everything that was appended before is durable.
    pub fn sync(&self) -> Result<(), Error> {
        let last = self.state().last;
        self.sync_to(last)
    }

    /// Refuses everything from now on.
    pub fn refuse(&self, error: Error) {
        self.state().failure = Some(error);
    }

    /// Returns an error if nothing more can be written.
    pub fn check(&self) -> Result<(), Error> {
        self.state().check()
    }

    /// Returns whether its name in an open folder still leads to it.
    pub fn is_in(&self, folder: &Directory) -> Result<bool, Error> {
        self.file.is_in(folder)
    }

    pub fn has_no_records(&self) -> bool {
        self.len() == LOG_HEADER as u64
    }

    /// Returns how many bytes were written.
    pub fn len(&self) -> u64 {
        self.state().end
    }

    /// Returns how many bytes are not durable yet.
    pub fn unsynced_bytes(&self) -> u64 {
        let state = self.state();
        state.end - state.synced_end
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn all_is_synced(&mut self) {
        self.synced = self.last;
        self.synced_end = self.end;
    }

    fn check(&self) -> Result<(), Error> {
        let Some(failure) = &self.failure else { return Ok(()) };
        let reason = format!(
            "the log cannot be written since an earlier error ({failure}); queries go on: reopen the \
             dictionary to update it again"
        );
        Err(Error::UpdatesRefused { reason: reason.into() })
    }
}
