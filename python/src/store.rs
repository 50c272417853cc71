//! The class that Python's half calls.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, TryLockError};
use std::time::Instant;

use gpulsm::private::{AsOf, Fold, HolderKind, Operation};
use gpulsm::{Devices, Error, Holders, MemoryStats, Stats};
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::asof::Asked;
use crate::durable::{Progress, Types};
use crate::error::{ForkError, file_exists, raise};
use crate::guard::detached;
use crate::packing::{PyLayout, QuestionColumns};
use crate::saving::save_new;
use crate::settings::{Files, Settings, Source, element_of};
use crate::span::{Place, Span};
use crate::typed::{AnyDictionary, Change, Pairs, Pop, Ranges, Which};

/// How often this process was forked from another since the module was loaded there. Threads do not
/// survive that: what was made before must not be used after.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// To be called in a process that was just forked.
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A dictionary of any type. Arrays are given as addresses and lengths; those of a GPU's memory with
/// the stream in whose order they are used.
#[pyclass(frozen, module = "gpulsm._native")]
pub struct Store {
    devices: Devices,
    /// None once it is closed. Calls share it, and closing waits for them.
    dictionary: RwLock<Option<Box<dyn AnyDictionary>>>,
    forks: u32,
}

#[pymethods]
impl Store {
    /// An empty dictionary.
    #[new]
    fn new(py: Python<'_>, types: Types, settings: Settings) -> PyResult<Self> {
        detached(py, || Store::make(&settings, &types, Source::Nothing))?
    }

    /// The dictionary that lives in a folder, in which it is created if it is missing. `progress` is called with how
    /// many bytes were read, of how many.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        types: Types,
        settings: Settings,
        files: Files,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut progress = Progress::new(progress);
        let opened = detached(py, || {
            let report = &mut |done, total| progress.report(done, total);
            Store::make(&settings, &types, Source::Folder(&path, &files, report))
        })?;
        progress.finish(opened)
    }

    /// The dictionary that was saved to a file.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        types: Types,
        settings: Settings,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut progress = Progress::new(progress);
        let loaded = detached(py, || {
            let report = &mut |done, total| progress.report(done, total);
            Store::make(&settings, &types, Source::File(&path, report))
        })?;
        progress.finish(loaded)
    }

    /// Writes all pairs to a file. `progress` is called with how many bytes were written, of how many.
    fn save(
        &self,
        py: Python<'_>,
        path: PathBuf,
        overwrites: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        // What `progress` does must not have to wait for this call.
        let copy = self.call(py, None, |dictionary, _| dictionary.copy(HolderKind::Snapshot))?;
        let mut progress = Progress::new(progress);
        let mut save =
            |path: &Path| copy.save(path, &mut |done, total| progress.report(done, total));
        let saved = detached(py, || if overwrites { save(&path) } else { save_new(&path, save) })?;
        progress.finish(saved.map_err(|error| match error {
            Error::Io { path, kind: ErrorKind::AlreadyExists, .. } if !overwrites => {
                file_exists(path, "overwrite=True")
            }
            error => raise(error),
        }))
    }

    /// Writes everything to the folder that the dictionary lives in.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, None, |dictionary, _| dictionary.checkpoint())
    }

    /// Returns once all updates are on stable storage.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, None, |dictionary, _| dictionary.sync())
    }

    /// Makes everything durable and releases the folder and the memory; after an error it is still open. The second
    /// time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        detached(py, || {
            let mut dictionary = self.dictionary.write().unwrap_or_else(PoisonError::into_inner);
            dictionary.as_ref().map_or(Ok(()), |dictionary| dictionary.close())?;
            *dictionary = None;
            Ok(())
        })?
        .map_err(raise)
    }

    #[getter]
    fn is_closed(&self) -> bool {
        match self.dictionary.try_read() {
            Ok(dictionary) => dictionary.is_none(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_none(),
            Err(TryLockError::WouldBlock) => false, // It is being closed.
        }
    }

    /// The batch size, which of a dictionary in files may be that of the files.
    #[getter]
    fn batch_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, None, |dictionary, _| Ok(dictionary.batch_size()))
    }

    /// Where the dictionary is.
    #[getter]
    fn device(&self) -> String {
        self.devices.to_string()
    }

    fn update(
        &self,
        py: Python<'_>,
        inserts: Pairs,
        deletes: Span,
        stream: Option<usize>,
    ) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.update(at, inserts, deletes))
    }

    /// Gives keys these values, whatever the rule of the dictionary.
    fn set(&self, py: Python<'_>, pairs: Pairs, stream: Option<usize>) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.set(at, pairs))
    }

    fn delete_range(&self, py: Python<'_>, ranges: Ranges, stream: Option<usize>) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.delete_range(at, ranges))
    }

    /// Makes changes in their order, as one batch: `insert` and `set` of keys and values, `delete` of keys (twice),
    /// `delete_range` of first and last keys.
    fn write(&self, py: Python<'_>, changes: Vec<(String, Span, Span)>) -> PyResult<()> {
        let changes = changes.into_iter().map(|(kind, first, second)| match &*kind {
            "insert" => Ok(Change::Insert(Pairs(first, second))),
            "set" => Ok(Change::Set(Pairs(first, second))),
            "delete" => Ok(Change::Delete(first)),
            "delete_range" => Ok(Change::DeleteRange(Ranges(first, second))),
            _ => Err(PyTypeError::new_err(format!("{kind} is no change"))),
        });
        let changes = changes.collect::<PyResult<Vec<_>>>()?;
        self.call(py, None, |dictionary, _| dictionary.write(&changes))
    }

    /// Deletes a pair, and writes it to where it is given, on the host: that of the key there, or the `first` or `last`
    /// one. Says whether there was one.
    fn pop(&self, py: Python<'_>, which: &str, pair: Pairs) -> PyResult<bool> {
        let which = match which {
            "key" => Pop::Key,
            "first" => Pop::First,
            "last" => Pop::Last,
            _ => return Err(PyTypeError::new_err(format!("{which} is no pair to pop"))),
        };
        self.call(py, None, |dictionary, _| dictionary.pop(which, pair))
    }

    /// Inserts one pair on the host, unless the key has a value, which is written there then. Says whether it has.
    fn set_default(&self, py: Python<'_>, pair: Pairs) -> PyResult<bool> {
        self.call(py, None, |dictionary, _| dictionary.set_default(pair))
    }

    fn merge_from(&self, py: Python<'_>, other: &Store) -> PyResult<()> {
        // Two that merge from each other must not wait for each other.
        let other = other.call(py, None, |dictionary, _| dictionary.copy(HolderKind::Snapshot))?;
        self.call(py, None, |dictionary, _| Ok(dictionary.merge_from(&*other)))?
            .ok_or_else(|| PyTypeError::new_err("the dictionaries are of different types"))?
            .map_err(raise)
    }

    fn cleanup(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, None, |dictionary, _| dictionary.cleanup())
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, None, |dictionary, _| dictionary.clear())
    }

    fn lookup(
        &self,
        py: Python<'_>,
        keys: Span,
        values: Span,
        found: Span,
        stream: Option<usize>,
    ) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.lookup(at, keys, values, found))
    }

    /// For benchmarks: the seconds that the library's own call takes, from its beginning until the
    /// answers are there.
    fn seconds_of_lookup(
        &self,
        py: Python<'_>,
        keys: Span,
        values: Span,
        found: Span,
        stream: Option<usize>,
    ) -> PyResult<f64> {
        self.call(py, stream, |dictionary, at| {
            let start = Instant::now();
            dictionary.lookup(at, keys, values, found)?;
            dictionary.synchronize()?;
            Ok(start.elapsed().as_secs_f64())
        })
    }

    fn contains(
        &self,
        py: Python<'_>,
        keys: Span,
        found: Span,
        stream: Option<usize>,
    ) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.contains(at, keys, found))
    }

    fn count(
        &self,
        py: Python<'_>,
        ranges: Ranges,
        counts: Span,
        stream: Option<usize>,
    ) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.count(at, ranges, counts))
    }

    /// What the values of ranges are combined to, and how many there are. `fold` is what is computed (`sum`,
    /// `min` or `max`), and the type of number that values consist of.
    fn aggregate(
        &self,
        py: Python<'_>,
        fold: (String, String),
        ranges: Ranges,
        answers: Span,
        counts: Span,
        stream: Option<usize>,
    ) -> PyResult<()> {
        let fold = fold_of(&fold.0, &fold.1)?;
        self.call(py, stream, |dictionary, at| {
            dictionary.aggregate(at, fold, ranges, answers, counts)
        })
    }

    fn rank(&self, py: Python<'_>, keys: Span, ranks: Span, stream: Option<usize>) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.rank(at, keys, ranks))
    }

    /// Fills in the offsets and says how many pairs there are.
    fn range_offsets(
        &self,
        py: Python<'_>,
        ranges: Ranges,
        offsets: Span,
        stream: Option<usize>,
    ) -> PyResult<usize> {
        self.call(py, stream, |dictionary, at| dictionary.range_offsets(at, ranges, offsets))
    }

    fn range(
        &self,
        py: Python<'_>,
        ranges: Ranges,
        offsets: Span,
        to: Pairs,
        stream: Option<usize>,
    ) -> PyResult<()> {
        self.call(py, stream, |dictionary, at| dictionary.range(at, ranges, offsets, to))
    }

    /// For each key (or, of `select`, index) at most one pair: its `successor` or `predecessor`.
    fn pairs(
        &self,
        py: Python<'_>,
        which: &str,
        queries: Span,
        to: Pairs,
        found: Span,
        stream: Option<usize>,
    ) -> PyResult<()> {
        let which = match which {
            "successor" => Which::Successor,
            "predecessor" => Which::Predecessor,
            "select" => Which::Select,
            _ => return Err(PyTypeError::new_err(format!("{which} is no query for pairs"))),
        };
        self.call(py, stream, |dictionary, at| dictionary.pairs(at, which, queries, to, found))
    }

    /// For each key at most one pair, as an as-of query finds it.
    fn asof(
        &self,
        py: Python<'_>,
        query: Asked,
        questions: Span,
        to: Pairs,
        found: Span,
        stream: Option<usize>,
    ) -> PyResult<()> {
        let which = Which::AsOf(query.try_into()?);
        self.call(py, stream, |dictionary, at| dictionary.pairs(at, which, questions, to, found))
    }

    /// The same, of keys whose parts are in columns, and with columns for the parts of answers.
    fn asof_of_columns(
        &self,
        py: Python<'_>,
        query: Asked,
        layout: &Bound<'_, PyLayout>,
        columns: (Vec<Span>, Vec<Span>),
        values: Span,
        found: Span,
    ) -> PyResult<()> {
        let query = AsOf::try_from(query)?;
        let (questions, answers) = (&*columns.0, &*columns.1);
        let columns = QuestionColumns { layout: layout.get(), questions, answers };
        self.call(py, None, |dictionary, _| {
            dictionary.asof_of_columns(&query, &columns, values, found)
        })
    }

    fn len(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, None, |dictionary, _| dictionary.len())
    }

    /// What the levels hold, and a picture of them under `picture`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, picture) = self.call(py, None, |dictionary, _| {
            let stats = dictionary.stats()?;
            let picture = stats.to_string();
            Ok((stats, picture))
        })?;
        describe(py, &stats, &picture)
    }

    /// How many keys there are, if that is known, and a picture of the levels: at once, and never an
    /// exception, even in a process that was forked.
    fn summary(&self) -> (Option<usize>, String) {
        // What a GPU's driver has pinned may not be there in a forked process.
        if self.check_process().is_err() {
            return (None, "a dictionary from before the process was forked".into());
        }
        let dictionary = match self.dictionary.try_read() {
            Ok(dictionary) => dictionary,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return (None, "a dictionary that another thread is closing".into());
            }
        };
        let closed = || (None, "a dictionary that is closed".into());
        dictionary.as_ref().map_or_else(closed, |dictionary| dictionary.summary())
    }

    /// Whether the dictionary was made before this process was forked, and can't be used in it.
    #[getter]
    fn is_from_before_fork(&self) -> bool {
        self.check_process().is_err()
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, None, |dictionary, _| dictionary.flush())
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, None, |dictionary, _| dictionary.synchronize())
    }

    /// For tests: checks every rule that the structure keeps.
    fn validate(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, None, |dictionary, _| Ok(dictionary.validate()))?
            .map_err(PyAssertionError::new_err)
    }

    /// For tests: panics in the middle of an update.
    fn panic(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.call(py, None, |dictionary, _| dictionary.panic(text))
    }

    /// The same pairs in a dictionary of its own, which shares the memory. Errors call it a `clone`, a `snapshot` or an
    /// `iterator`.
    fn copy(&self, py: Python<'_>, kind: &str) -> PyResult<Self> {
        let kind = match kind {
            "clone" => HolderKind::Dictionary,
            "snapshot" => HolderKind::Snapshot,
            "iterator" => HolderKind::Iterator,
            _ => return Err(PyTypeError::new_err(format!("{kind} is no kind of copy"))),
        };
        let dictionary = self.call(py, None, |dictionary, _| dictionary.copy(kind))?;
        Ok(Store::new_here(self.devices.clone(), dictionary))
    }
}

impl Store {
    fn new_here(devices: Devices, dictionary: Box<dyn AnyDictionary>) -> Self {
        let dictionary = RwLock::new(Some(dictionary));
        Store { devices, dictionary, forks: FORKS.load(Ordering::Relaxed) }
    }

    fn make(settings: &Settings, types: &Types, source: Source<'_>) -> PyResult<Self> {
        let devices = settings.devices()?;
        let dictionary = settings.make(types, devices.clone(), source)?;
        Ok(Store::new_here(devices, dictionary))
    }

    fn check_process(&self) -> PyResult<()> {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(ForkError::new_err(
            "this dictionary was made before the process was forked, and its threads did not come along: \
             make it in the new process, or start that with multiprocessing's `spawn`",
        ))
    }

    /// Makes a call without the GIL.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        stream: Option<usize>,
        make: impl FnOnce(&dyn AnyDictionary, &Place) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        detached(py, || {
            let dictionary = self.dictionary.read().unwrap_or_else(PoisonError::into_inner);
            let Some(dictionary) = &*dictionary else {
                return Err(PyValueError::new_err("this dictionary is closed"));
            };
            // Arrays in a GPU's memory are on the first GPU of the dictionary.
            let gpu = self.devices.iter().find(|device| device.is_cuda());
            let device = *gpu.unwrap_or(&self.devices[0]);
            let place = Place::new(device, stream).map_err(raise)?;
            make(&**dictionary, &place).map_err(raise)
        })?
    }
}

/// How values of a type, named at run time, are combined.
fn fold_of(operation: &str, element: &str) -> PyResult<Fold> {
    let operation = match operation {
        "sum" => Operation::Sum,
        "min" => Operation::Min,
        "max" => Operation::Max,
        _ => return Err(PyTypeError::new_err(format!("{operation} is no aggregate"))),
    };
    Ok(Fold { operation, element: element_of(element)? })
}

/// The figures as Python's `MemoryStats` takes them.
fn describe_memory<'py>(py: Python<'py>, memory: &MemoryStats) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("total", memory.total)?;
    all.set_item("free", memory.free)?;
    all.set_item("runs", memory.runs)?;
    all.set_item("filters", memory.filters)?;
    all.set_item("rest", memory.rest)?;
    all.set_item("idle", memory.idle)?;
    all.set_item("others", memory.others)?;
    all.set_item("shared", memory.shared)?;
    all.set_item("holders", describe_holders(py, &memory.holders)?)?;
    all.set_item("is_at_run_limit", memory.is_at_run_limit)?;
    Ok(all)
}

/// The figures as Python's `Holders` takes them.
fn describe_holders<'py>(py: Python<'py>, holders: &Holders) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("snapshots", holders.snapshots)?;
    all.set_item("clones", holders.clones)?;
    all.set_item("iterators", holders.iterators)?;
    all.set_item("views", holders.views)?;
    all.set_item("graphs", holders.graphs)?;
    all.set_item("checkpoints", holders.checkpoints)?;
    Ok(all)
}

/// The figures as Python's `Stats` takes them.
fn describe<'py>(py: Python<'py>, stats: &Stats, picture: &str) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("device", stats.devices().to_string())?;
    all.set_item("batch_size", stats.batch_size)?;
    all.set_item("entries", stats.entries)?;
    all.set_item("live", stats.live)?;
    all.set_item("stale", stats.stale)?;
    all.set_item("bytes", stats.bytes.total())?;
    all.set_item("bytes_shared", stats.bytes_shared)?;
    all.set_item("bytes_peak", stats.bytes_peak)?;
    all.set_item("memory", stats.memory.map(|memory| describe_memory(py, &memory)).transpose()?)?;
    let mut levels = Vec::new();
    for level in &stats.levels {
        let one = PyDict::new(py);
        one.set_item("level", level.level)?;
        one.set_item("capacity", level.capacity)?;
        one.set_item("entries", level.entries)?;
        one.set_item("tombstones", level.tombstones)?;
        one.set_item("bytes", level.bytes.total())?;
        levels.push(one);
    }
    all.set_item("levels", levels)?;
    let shards = stats.shards.iter().map(|shard| describe(py, shard, &shard.to_string()));
    all.set_item("shards", shards.collect::<PyResult<Vec<_>>>()?)?;
    all.set_item("picture", picture)?;
    Ok(all)
}
