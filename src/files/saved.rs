//! A dictionary in one file: a manifest, then its runs, each at the beginning of a page.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use crate::error::Error;
use crate::files::bytes::{PAGE, round_up_to_page};
use crate::files::manifest::{Manifest, Owner};
use crate::files::names;
use crate::files::run::{RunInfo, RunReader, RunShape, RunWriter};
use crate::files::schema::Schema;
use crate::files::storage::{Directory, File, Storage, parent_of};

/// Writes a dictionary into one file, which gets its name, or replaces the one that has it, when it is complete
/// and durable. Dropped before that, it leaves everything as it was.
pub(crate) struct SavedWriter {
    folder: Directory,
    name: OsString,
    unfinished: String,
    file: File,
    manifest: Manifest,
    /// How many runs there will be.
    runs: usize,
    /// Where the next run begins.
    end: u64,
    is_finished: bool,
}

impl SavedWriter {
    /// Starts to write a dictionary of this many runs.
    pub fn create(
        storage: &Storage,
        path: &Path,
        schema: Schema,
        settings: Vec<(String, u64)>,
        runs: usize,
    ) -> Result<Self, Error> {
        let Some(name) = path.file_name() else {
            let reason = "a saved file needs a name";
            return Err(Error::NotADictionary { path: path.into(), reason });
        };
        let random = RandomState::new().build_hasher().finish();
        let unfinished = names::unfinished(&format!("{}.{random:016x}", name.to_string_lossy()));
        let manifest = Manifest {
            identity: random,
            generation: 0,
            owner: Owner::default(),
            schema,
            settings,
            sequence: 0,
            synced: 0,
            next_file: 0,
            first_log: 0,
            last_log: 0,
            runs: Vec::new(),
        };
        let folder =
            storage.open_directory(parent_of(path)).map_err(|error| naming(path, error))?;
        let file = folder.create(&unfinished).map_err(|error| naming(path, error))?;
        remove_abandoned(&folder, name, &unfinished);
        let mut writer = SavedWriter {
            folder,
            name: name.into(),
            unfinished,
            file,
            manifest,
            runs,
            end: 0,
            is_finished: false,
        };
        writer.end = writer.manifest_len();
        Ok(writer)
    }

    /// Returns the length of the manifest with all runs, in whole pages.
    fn manifest_len(&self) -> u64 {
        let run = RunInfo { file: 0, level: 0, entries: 0, bytes: 0, checksum: 0 };
        let manifest = Manifest { runs: vec![run; self.runs], ..self.manifest.clone() };
        (manifest.encode().len() as u64).next_multiple_of(PAGE)
    }

    /// Starts to write the next run, the oldest first. Only one is written at a time.
    pub fn create_run(&mut self, shape: RunShape) -> Result<RunWriter, Error> {
        let number = self.manifest.runs.len() as u64;
        RunWriter::new(self.file.clone(), self.end, number, shape)
    }

    /// Completes a run.
    pub fn finish_run(&mut self, run: RunWriter, level: u32) -> Result<(), Error> {
        let info = run.finish(level)?;
        self.end += info.bytes.next_multiple_of(PAGE);
        self.manifest.runs.push(info);
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Panics
    ///
    /// If there are fewer or more runs than announced.
    pub fn finish(mut self) -> Result<(), Error> {
        assert_eq!(self.manifest.runs.len(), self.runs);
        let mut pages = self.manifest.encode();
        pages.resize(self.manifest_len() as usize, 0);
        self.file.write_at(0, &[&pages])?;
        self.folder.copy_permissions(&self.name, &self.unfinished)?;
        self.file.sync()?;
        let renamed = self.folder.rename(&self.unfinished, &self.name);
        renamed.map_err(|error| naming(&self.folder.path_of(&self.name), error))?;
        self.is_finished = true;
        self.folder.sync()
    }
}

impl Drop for SavedWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            self.folder.remove(&self.unfinished).ok();
        }
    }
}

/// Removes what processes left that ended while they wrote the same file, except `unfinished`. What cannot be removed
/// stays.
fn remove_abandoned(folder: &Directory, name: &OsStr, unfinished: &str) {
    let (name, list) = (name.to_string_lossy(), folder.list().unwrap_or_default());
    for file in list.iter().filter(|file| names::is_unfinished(file, &name)) {
        if file != unfinished {
            folder.remove_abandoned(file).ok();
        }
    }
}

/// Returns an error of the unfinished file as one of the file that it is to become: the only one that callers know.
fn naming(path: &Path, error: Error) -> Error {
    match error {
        Error::Io { call, kind, code, reason, .. } => {
            Error::Io { path: path.into(), call, kind, code, reason }
        }
        other => other,
    }
}

/// Reads a dictionary from one file.
pub(crate) struct SavedReader {
    file: File,
    manifest: Manifest,
    starts: Vec<u64>,
}

impl SavedReader {
    /// Reads the manifest, and verifies that the file is as long as its runs are.
    pub fn open(storage: &Storage, path: &Path) -> Result<Self, Error> {
        let file = storage.open_file(path)?;
        if let Some(reason) = Manifest::other_kind(&file)? {
            return Err(Error::NotADictionary { path: path.into(), reason });
        }
        let (manifest, manifest_len) = Manifest::read(&file)?;
        let mut end = manifest_len;
        let mut starts = Vec::new();
        for run in &manifest.runs {
            let start = check_gap(&file, end)?;
            starts.push(start);
            end = start + run.bytes;
        }
        if manifest.runs.is_empty() {
            end = check_gap(&file, end)?;
        }
        let len = file.len()?;
        if len != end {
            return Err(file.corrupt(len.min(end), "the file is shorter or longer than its runs"));
        }
        Ok(SavedReader { file, manifest, starts })
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Opens the run at this index of the manifest's.
    pub fn run(&self, index: usize) -> Result<RunReader, Error> {
        let Manifest { schema, runs, .. } = &self.manifest;
        let run = RunReader::open(self.file.clone(), self.starts[index], &runs[index])?;
        run.with_widths(schema.widths)
    }
}

/// Returns where the next page begins; there must be zeros up to there.
fn check_gap(file: &File, end: u64) -> Result<u64, Error> {
    let next = round_up_to_page(end).ok_or_else(|| file.corrupt(0, "a length is impossible"))?;
    let mut gap = vec![0; (next - end) as usize];
    file.read_at(end, &mut gap)?;
    match gap.iter().position(|&byte| byte != 0) {
        Some(index) => Err(file.corrupt(end + index as u64, "padding is not zero")),
        None => Ok(next),
    }
}
