//! Checkpoints: the runs of a snapshot become files, and a new manifest names them.

use std::sync::Arc;

use crate::error::Error;
use crate::files::folder::{Folder, State, refused};
use crate::files::manifest::Manifest;
use crate::files::names;
use crate::files::publish::remove_orphans;
use crate::files::run::{RunInfo, RunShape, RunWriter};

/// A checkpoint that is being written. Dropped before it is finished, it leaves everything as it was.
pub(crate) struct Checkpoint {
    folder: Arc<Folder>,
    /// The last update that the checkpoint contains.
    sequence: u64,
    /// The log that follows it.
    first_log: u64,
    is_unlogged: bool,
    written: Vec<RunInfo>,
    /// The files of runs that nothing names yet.
    files: Vec<String>,
    /// Why it failed, unless it succeeded.
    failure: Option<Error>,
}

impl Folder {
    /// Begins a checkpoint of everything so far: the caller's snapshot must contain exactly the updates that
    /// were appended before this call. Updates can be appended meanwhile. Returns `None` while another
    /// checkpoint is being written.
    pub fn begin_checkpoint(self: &Arc<Self>) -> Result<Option<Checkpoint>, Error> {
        self.check_claim()?;
        let mut state = self.usable_state()?;
        if state.is_checkpointing {
            return Ok(None);
        }
        let first_log = self.end_log(&mut state);
        let first_log =
            first_log.inspect_err(|error| state.note_checkpoint(Some(error.clone())))?;
        state.is_checkpointing = true;
        Ok(Some(self.checkpoint(state.sequence, first_log, false)))
    }

    /// Returns the number of a log that follows everything so far.
    fn end_log(&self, state: &mut State) -> Result<u64, Error> {
        state.log.as_ref().map_or(Ok(()), |log| log.check())?;
        Ok(match state.log.clone() {
            // An empty log follows everything already.
            Some(log) if log.has_no_records() => state.log_number,
            Some(log) => {
                log.sync()?;
                let number = state.take_number();
                self.switch_log(state, number)?;
                number
            }
            None => state.take_number(),
        })
    }

    /// Begins a checkpoint of everything so far and of one more update, which is too large for the log. Until
    /// it is finished or dropped, no other update can be appended. The update's sequence number is used only if
    /// it succeeds.
    pub fn begin_unlogged(self: &Arc<Self>) -> Result<Option<Checkpoint>, Error> {
        self.check_claim()?;
        let mut state = self.usable_state()?;
        if state.is_checkpointing {
            return Ok(None);
        }
        state.log.as_ref().map_or(Ok(()), |log| log.check())?;
        state.is_checkpointing = true;
        state.is_exclusive = true;
        let first_log = state.take_number();
        Ok(Some(self.checkpoint(state.sequence + 1, first_log, true)))
    }

    fn checkpoint(
        self: &Arc<Self>,
        sequence: u64,
        first_log: u64,
        is_unlogged: bool,
    ) -> Checkpoint {
        Checkpoint {
            folder: self.clone(),
            sequence,
            first_log,
            is_unlogged,
            written: Vec::new(),
            files: Vec::new(),
            failure: Some(refused("it was given up")),
        }
    }
}

impl Checkpoint {
    /// Returns the number of the last update that the checkpoint contains.
    #[cfg(test)]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Starts to write a run that has no file yet.
    pub fn create_run(&mut self, shape: RunShape) -> Result<RunWriter, Error> {
        let number = self.folder.usable_state()?.take_number();
        let name = names::run(number);
        let file = self.folder.directories.runs()?.create(&name)?;
        self.files.push(name);
        RunWriter::new(file, 0, number, shape)
    }

    /// Completes a run and syncs it.
    pub fn finish_run(&mut self, run: RunWriter, level: u32) -> Result<RunInfo, Error> {
        let file = run.file().clone();
        let info = run.finish(level)?;
        file.sync()?;
        self.written.push(info);
        Ok(info)
    }

    /// Makes these runs, the oldest first, the contents of the folder, and removes the files that are not needed
    /// any more. Each run was written by this checkpoint, or is one of [`Folder::manifest`]; its level may differ.
    pub fn finish(mut self, runs: Vec<RunInfo>) -> Result<(), Error> {
        self.failure = self.publish(runs).err();
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Gives the checkpoint up because of an error, which the folder keeps.
    pub fn give_up(mut self, error: Error) -> Error {
        self.failure = Some(error.clone());
        error
    }

    /// Gives the checkpoint up because it is in the way. That is no failure: another one can be begun.
    pub fn cancel(mut self) {
        self.failure = None;
    }

    fn publish(&mut self, runs: Vec<RunInfo>) -> Result<(), Error> {
        let folder = self.folder.clone();
        let (manifest, number) = self.manifest(runs)?;
        if !self.written.is_empty() {
            folder.directories.runs()?.sync()?;
        }
        folder.publish(&manifest, number).map_err(|failed| {
            if failed.may_be_published {
                self.keep_everything(&failed.error);
            }
            failed.error
        })?;
        self.files.clear();
        self.install(&manifest);
        remove_orphans(&folder.directories, &manifest, &|_| true);
        Ok(())
    }

    /// Returns the new manifest, and a number for its file.
    fn manifest(&self, runs: Vec<RunInfo>) -> Result<(Manifest, u64), Error> {
        let mut state = self.folder.usable_state()?;
        for run in &runs {
            let mut known = self.written.iter().chain(&state.manifest.runs);
            assert!(known.any(|known| known.file == run.file), "no such run: {run:?}");
        }
        let number = state.take_number();
        // The log of an update that is in no log is created only when the update is durable.
        let has_log = state.log.is_some() && !self.is_unlogged;
        let manifest = Manifest {
            generation: state.manifest.generation + 1,
            sequence: self.sequence,
            synced: self.sequence,
            next_file: state.next_file(),
            first_log: self.first_log,
            last_log: if has_log { self.first_log } else { 0 },
            runs,
            ..state.manifest.clone()
        };
        Ok((manifest, number))
    }

    /// Takes over a manifest that is the folder's now.
    fn install(&self, manifest: &Manifest) {
        let mut state = self.folder.state();
        let settings = std::mem::take(&mut state.manifest.settings);
        state.manifest = Manifest { settings, ..manifest.clone() };
        if self.is_unlogged {
            state.sequence = self.sequence;
            if let Some(old) = state.log.clone()
                && let Err(error) = self.folder.switch_log(&mut state, self.first_log)
            {
                // The update is durable, but what follows it has no log.
                old.refuse(error);
            }
        }
        state.old_log_bytes = 0;
    }

    /// Keeps the new files as well as the old ones, since either may be named after a crash.
    fn keep_everything(&mut self, error: &Error) {
        self.files.clear();
        if let (true, Some(log)) = (self.is_unlogged, &self.folder.state().log) {
            // The next number may or may not be used already.
            log.refuse(error.clone());
        }
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if self.folder.check_process().is_err() {
            return;
        }
        if let (Ok(()), Ok(runs)) = (self.folder.check_claim(), self.folder.directories.runs()) {
            for name in &self.files {
                runs.remove(name).ok();
            }
        }
        let mut state = self.folder.state();
        state.note_checkpoint(self.failure.take());
        state.is_checkpointing = false;
        state.is_exclusive &= !self.is_unlogged;
    }
}
