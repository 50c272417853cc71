//! Saving, loading and opening dictionaries: the calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::contents;
use super::journal::{Journal, Replayed, Ticket};
use super::schema::{FileTypes, schema_of, stored_types};
use crate::builder::Builder;
use crate::dictionary::Dictionary;
use crate::error::{Error, MAX_BATCH_SIZE};
use crate::files::{
    Disk, Durability, Manifest, Opening, Options, RunReader, SavedReader, SavedWriter, Schema,
    Section, Source, Storage, io_error,
};
use crate::key::{Key, OrderedKey};
use crate::snapshot::Snapshot;
use crate::store::AnyStore;
use crate::typed::{StoredTypes, TypedStore};
use crate::value::Value;

/// Opening a folder with more logs begins a checkpoint: every process that makes updates leaves one, however short.
const MAX_LOGS: usize = 32;

/// The name under which files keep the batch size.
const BATCH_SIZE: &str = "batch_size";

/// # Files
impl<K: Key, V: Value> Dictionary<K, V> {
    /// Loads a dictionary from a file that [`save`](Self::save) wrote, with default settings.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().load(path)
    }

    /// Writes all pairs into one file, which replaces the file of that name, if there is one, when it is complete
    /// and durable.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::save`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gpulsm::Dictionary;
    ///
    /// # let folder = std::env::temp_dir().join(format!("gpulsm-save-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("prices.gpulsm");
    /// let prices: Dictionary<u64, f32> = [(1, 0.5), (2, 1.5)].into_iter().collect();
    /// prices.save(&path)?;
    /// assert_eq!(Dictionary::<u64, f32>::load(&path)?.to_vecs()?, prices.to_vecs()?);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.snapshot().save(path)
    }

    /// Returns the folder that the dictionary lives in, if it was [opened](Builder::open) there.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.journal.as_ref().map(Journal::path)
    }

    /// Returns what was replayed from the logs when the dictionary was opened; `None` of one in memory.
    #[doc(hidden)]
    #[must_use]
    pub fn replayed(&self) -> Option<Replayed> {
        self.journal.as_ref().map(|journal| journal.replayed)
    }

    /// Writes everything into the folder that the dictionary lives in, so that its log begins anew. It does so
    /// by itself, in the background, when the log has grown long. A dictionary in memory does nothing.
    ///
    /// # Errors
    ///
    /// [`Io`](Error::Io), [`UpdatesRefused`](Error::UpdatesRefused) and [`OutOfMemory`](Error::OutOfMemory): the
    /// files are as they were.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let journal = self.journal.as_mut();
        journal.map_or(Ok(()), |journal| journal.checkpoint(self.store.any()))
    }

    /// Returns once all updates so far are on stable storage, for [`Durability::Os`]. Without a log it does
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`Io`](Error::Io): nobody knows which updates will be there after a crash, and others are refused until
    /// the dictionary is opened again.
    pub fn sync(&self) -> Result<(), Error> {
        self.journal.as_ref().map_or(Ok(()), Journal::sync)
    }

    /// Makes updates that need not be durable when they return; the ticket is waited for instead. So several
    /// threads that share a dictionary by a lock can share one sync, if they wait after they released it.
    ///
    /// # Errors
    ///
    /// That of the updates. Those that were made before it become durable with later ones.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gpulsm::Dictionary;
    /// use std::sync::Mutex;
    ///
    /// # let path = std::env::temp_dir().join(format!("gpulsm-later-{}", std::process::id()));
    /// let shared = Mutex::new(Dictionary::<u64, u64>::builder().open(&path)?);
    /// let ticket = shared.lock().unwrap().commit_later(|d| d.insert(&[1], &[10]))?;
    /// // The lock is free; other threads can update the dictionary meanwhile.
    /// ticket.wait()?;
    /// # drop(shared);
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit_later(
        &mut self,
        updates: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        /// Ends the exception, also if the caller's function panics.
        struct Deferring<'a, K: Key, V: Value>(&'a mut Dictionary<K, V>);

        impl<K: Key, V: Value> Drop for Deferring<'_, K, V> {
            fn drop(&mut self) {
                self.0.journal.iter_mut().for_each(|journal| journal.defers_commits = false);
            }
        }

        self.journal.iter_mut().for_each(|journal| journal.defers_commits = true);
        let deferring = Deferring(self);
        updates(&mut *deferring.0)?;
        drop(deferring);
        Ok(self.journal.as_ref().map_or_else(Ticket::of_nothing, Journal::ticket))
    }

    /// Waits for the checkpoint that is being written in the background, if there is one.
    #[cfg(feature = "testing")]
    pub fn wait_for_checkpoint(&mut self) {
        self.journal.iter_mut().for_each(Journal::wait);
    }

    /// Makes everything durable and releases the folder. From then on the dictionary can be queried, but not
    /// updated; closing it again does nothing. Dropping it closes it as well, but cannot report an error. A
    /// dictionary in memory does nothing.
    ///
    /// # Errors
    ///
    /// [`Io`](Error::Io), [`UpdatesRefused`](Error::UpdatesRefused) and [`OutOfMemory`](Error::OutOfMemory): the
    /// dictionary is still open, so that nothing is lost: make room and close it again, or
    /// [`save`](Self::save) it elsewhere.
    pub fn close(&mut self) -> Result<(), Error> {
        let journal = self.journal.as_mut();
        journal.map_or(Ok(()), |journal| journal.close(self.store.any()))
    }
}

impl<K: Key, V: Value> Snapshot<K, V> {
    /// Writes all pairs into one file, which replaces the file of that name, if there is one, when it is complete
    /// and durable. The dictionary can be updated meanwhile.
    ///
    /// # Errors
    ///
    /// [`Io`](Error::Io), [`OutOfMemory`](Error::OutOfMemory); [`UnnamedValue`](Error::UnnamedValue) if the values
    /// have no name. An existing file is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.save_with(path, &mut |_, _| ())
    }

    /// Writes all pairs into one file, and tells how many bytes are written, of how many, now and then.
    ///
    /// # Errors
    ///
    /// Those of [`save`](Self::save).
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let store = self.store.any();
        let stored_as = self.store.stored_as.as_deref();
        check_value_name::<V>(stored_as)?;
        let schema = schema_of::<K, V>(store.combiner(), stored_as);
        let storage = Storage::new(Disk);
        save(&storage, &destination(&storage, path.as_ref())?, schema, store, progress)
    }
}

/// # Files
impl<K: Key, V: Value> Builder<K, V> {
    /// Sets what is durable when an update of a dictionary in files returns. Default: the update.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether [`open`](Self::open) creates a dictionary where there is none. Default: it does. Where one is
    /// expected, `create(false)` tells a folder that is misspelt.
    pub fn create(mut self, creates: bool) -> Self {
        self.creates = creates;
        self
    }

    /// Sets how many bytes the log of a dictionary in files may have. Default: about as many as its pairs,
    /// but at least 256 MiB.
    ///
    /// When it has half as many, a checkpoint is written in the background. It is given up, and written again later, if
    /// an update needs the memory that it holds. Updates wait for it if the log reaches the limit; a single update that is
    /// longer becomes part of a checkpoint at once.
    pub fn log_limit(mut self, bytes: u64) -> Self {
        self.log_limit = Some(bytes);
        self
    }

    /// Sets the types that files name, if `K` and `V` only stand for them: integers for packed keys, and for
    /// values of the same width.
    #[doc(hidden)]
    pub fn stored_as(mut self, types: StoredTypes) -> Self {
        self.stored_as = Some(Arc::new(types));
        self
    }

    /// Opens the dictionary that lives in a folder, after a crash as well; creates it if there is none, unless
    /// [`create`](Self::create) says not to. It is on the builder's device with the builder's settings, whatever it
    /// was before, except that the batch size and the rule of combining, if none are set, are those that it was
    /// created with.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Builder::build); [`Locked`](Error::Locked) if it is open already;
    /// [`WrongType`](Error::WrongType) if it has other keys, values or another rule of combining;
    /// [`UnnamedValue`](Error::UnnamedValue) if it is new and its values have no name;
    /// [`NotADictionary`](Error::NotADictionary) if other files are there, or none and none may be created;
    /// [`CorruptFile`](Error::CorruptFile); [`Io`](Error::Io); [`OutOfMemory`](Error::OutOfMemory). All leave the
    /// files as they were.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gpulsm::Dictionary;
    ///
    /// # let path = std::env::temp_dir().join(format!("gpulsm-open-{}", std::process::id()));
    /// let mut prices = Dictionary::<u64, f32>::builder().open(&path)?;
    /// prices.insert(&[1, 2], &[0.5, 1.5])?; // On stable storage when it returns.
    /// prices.close()?;
    ///
    /// let prices = Dictionary::<u64, f32>::builder().open(&path)?;
    /// assert_eq!(prices.lookup_one(2)?, Some(1.5));
    /// # drop(prices);
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(self, path: impl AsRef<Path>) -> Result<Dictionary<K, V>, Error> {
        self.open_with(path, &mut |_, _| ())
    }

    /// Opens the dictionary that lives in a folder, and tells how many bytes of runs and logs are loaded, of how
    /// many, now and then.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn open_with(
        self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Dictionary<K, V>, Error> {
        // The process may change its working directory while the dictionary is open.
        let path = path.as_ref();
        let path = std::path::absolute(path).map_err(io_error(path, "open"))?;
        self.open_in(&Storage::new(Disk), &path, progress)
    }

    /// Opens the dictionary in a folder of a simulated storage.
    #[cfg(feature = "testing")]
    pub fn open_simulated(
        self,
        storage: &crate::files::simulated::Simulated,
        path: impl AsRef<Path>,
    ) -> Result<Dictionary<K, V>, Error> {
        self.open_in(&Storage::new(storage.clone()), path.as_ref(), &mut |_, _| ())
    }

    fn open_in(
        self,
        storage: &Storage,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Dictionary<K, V>, Error> {
        let builder = self.validated()?;
        let options = Options { durability: builder.durability, log_limit: builder.log_limit };
        let schema = builder.schema();
        let settings = [(BATCH_SIZE.to_string(), builder.settings.batch_size as u64)];
        if builder.creates && Opening::read_manifest(storage, path)?.is_none() {
            check_value_name::<V>(builder.stored_as.as_deref())?;
        }
        let create = builder.creates.then_some((&schema, &settings[..]));
        let opening = Opening::open(storage, path, create)?;
        let mut store = builder.store_for(path, opening.manifest())?;
        read_folder(&opening, store.any_mut(), progress)?;
        let recovered = opening.recovered();
        let (updates, torn_bytes) = (recovered.records(), recovered.torn_bytes);
        let logs = recovered.logs();
        let folder = opening.finish(storage, options)?;
        folder.set_setting(BATCH_SIZE, store.any().batch_size() as u64);
        let mut journal = Journal::new(folder, Replayed { updates, torn_bytes });
        if logs > MAX_LOGS {
            journal.start_checkpoint(store.any());
        }
        Ok(Dictionary { store, journal: Some(journal) })
    }

    /// Loads a dictionary from a file that [`Dictionary::save`] wrote, or from a folder that one lives in, which
    /// may be on a disk that is full or read-only. It is in memory: what is done to it afterwards is in no file.
    /// It is on the builder's device with the builder's settings, as by [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// Those of [`build`](Builder::build); [`Locked`](Error::Locked) if the folder is open;
    /// [`WrongType`](Error::WrongType) if it has other keys, values or another
    /// rule of combining; [`NotADictionary`](Error::NotADictionary); [`CorruptFile`](Error::CorruptFile);
    /// [`Io`](Error::Io); [`OutOfMemory`](Error::OutOfMemory).
    pub fn load(self, path: impl AsRef<Path>) -> Result<Dictionary<K, V>, Error> {
        self.load_with(path, &mut |_, _| ())
    }

    /// Loads a dictionary from a file, and tells how many bytes are read, of how many, now and then.
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load).
    pub fn load_with(
        self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Dictionary<K, V>, Error> {
        self.load_in(&Storage::new(Disk), path.as_ref(), progress)
    }

    /// Loads a dictionary from a file of a simulated storage.
    #[cfg(feature = "testing")]
    pub fn load_simulated(
        self,
        storage: &crate::files::simulated::Simulated,
        path: impl AsRef<Path>,
    ) -> Result<Dictionary<K, V>, Error> {
        self.load_in(&Storage::new(storage.clone()), path.as_ref(), &mut |_, _| ())
    }

    fn load_in(
        self,
        storage: &Storage,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Dictionary<K, V>, Error> {
        let builder = self.validated()?;
        let source = Source::open(storage, path)?;
        let mut store = builder.store_for(path, source.manifest())?;
        match &source {
            Source::File(saved) => read_saved(saved, store.any_mut(), progress)?,
            Source::Folder(opening) => read_folder(opening, store.any_mut(), progress)?,
        }
        Ok(Dictionary { store, journal: None })
    }

    /// Returns what files say of the types and the rule.
    fn schema(&self) -> Schema {
        schema_of::<K, V>(self.settings.combiner, self.stored_as.as_deref())
    }

    /// Creates an empty store for what files hold. If no batch size, or no rule, is set, it has that of the files.
    /// What other languages call the types is kept.
    fn store_for(mut self, path: &Path, manifest: &Manifest) -> Result<TypedStore<K, V>, Error> {
        let stored = &manifest.schema;
        self = self.with_stored_rule(&known_types(path, stored)?)?;
        let is_nameless = check_value_name::<V>(self.stored_as.as_deref()).is_err();
        stored.check(path, &self.schema(), is_nameless)?;
        if !stored.notes.is_empty() {
            self.stored_as = Some(Arc::new(stored_types(stored)));
        }
        let stored = manifest.setting(BATCH_SIZE).and_then(|size| usize::try_from(size).ok());
        let stored = stored.filter(|size| (1..=MAX_BATCH_SIZE).contains(size));
        if let (None, Some(batch_size)) = (self.batch_size, stored) {
            self.settings.batch_size = batch_size;
        }
        self.empty_store()
    }
}

/// Returns an error if files would have no name for these values.
fn check_value_name<V: Value>(stored_as: Option<&StoredTypes>) -> Result<(), Error> {
    match (stored_as, V::TYPE.name()) {
        (None, "") => Err(Error::UnnamedValue { value: std::any::type_name::<V>() }),
        _ => Ok(()),
    }
}

/// Returns the file to replace: that which links lead to. Devices, pipes, and what dictionaries in folders consist of
/// are not replaced.
fn destination(storage: &Storage, path: &Path) -> Result<PathBuf, Error> {
    let is_not_replaced = |reason| Error::NotADictionary { path: path.into(), reason };
    let target = match path.canonicalize() {
        Ok(target) if target.is_file() => target,
        Ok(target) if !target.is_dir() => {
            return Err(is_not_replaced("it is no regular file, and is not replaced"));
        }
        _ => path.into(),
    };
    if Opening::owns(storage, &target) {
        return Err(is_not_replaced(
            "it is a part of the dictionary that lives in this folder, and is not replaced",
        ));
    }
    Ok(target)
}

/// Writes all pairs of a store, which nobody changes meanwhile, into one file.
fn save<B: OrderedKey>(
    storage: &Storage,
    path: &Path,
    schema: Schema,
    store: &dyn AnyStore<B>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let shape = contents::shape(store)?;
    let settings = vec![(BATCH_SIZE.to_string(), store.batch_size() as u64)];
    let runs = usize::from(shape.entries > 0);
    let mut file = SavedWriter::create(storage, path, schema, settings, runs)?;
    if runs > 0 {
        let mut run = file.create_run(shape)?;
        let total = run.section_len(Section::Keys) + run.section_len(Section::Values);
        let mut done = 0;
        contents::write_pairs(&store, shape, &mut run, &mut |bytes| {
            done += bytes;
            progress(done, total);
        })?;
        file.finish_run(run, 0)?;
    }
    file.finish()
}

/// Returns the types of the dictionary in a file or folder, which may be open.
#[doc(hidden)]
pub fn types_in(path: &Path) -> Result<FileTypes, Error> {
    let manifest = Source::read_manifest(&Storage::new(Disk), path)?;
    known_types(path, &manifest.schema)
}

/// Returns the types of the dictionary that lives in a folder, which may be open; `None` if there is none, and
/// nothing else.
#[doc(hidden)]
pub fn types_in_folder(path: &Path) -> Result<Option<FileTypes>, Error> {
    let manifest = Opening::read_manifest(&Storage::new(Disk), path)?;
    manifest.map(|manifest| known_types(path, &manifest.schema)).transpose()
}

fn known_types(path: &Path, schema: &Schema) -> Result<FileTypes, Error> {
    FileTypes::new(schema).ok_or_else(|| Error::UnsupportedVersion {
        path: path.into(),
        what: "the rule of combining",
        found: schema.rule.into(),
    })
}

/// Reads the runs of a saved file into an empty store.
fn read_saved<B: OrderedKey>(
    saved: &SavedReader,
    store: &mut dyn AnyStore<B>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let total = saved.manifest().run_bytes();
    let runs = 0..saved.manifest().runs.len();
    read_runs(runs.map(|index| saved.run(index)), store, &mut |done| progress(done, total))?;
    progress(total, total);
    Ok(())
}

/// Reads runs, the oldest first, into an empty store, and tells how many bytes of them are read.
fn read_runs<B: OrderedKey>(
    runs: impl Iterator<Item = Result<RunReader, Error>>,
    store: &mut dyn AnyStore<B>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mut done = 0;
    for run in runs {
        contents::load_run(&run?, store, &mut |bytes| {
            done += bytes;
            progress(done);
        })?;
    }
    Ok(())
}

/// Reads the runs and logs of a folder into an empty store.
fn read_folder<B: OrderedKey>(
    opening: &Opening,
    store: &mut dyn AnyStore<B>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let mut done = opening.manifest().run_bytes();
    let total = done + opening.recovered().bytes();
    let runs = 0..opening.manifest().runs.len();
    read_runs(runs.map(|index| opening.run(index)), store, &mut |done| progress(done, total))?;
    opening.replay(&mut |_, update| {
        done += update.bytes();
        contents::replay(update, store)?;
        progress(done, total);
        Ok(())
    })?;
    progress(total, total);
    Ok(())
}
