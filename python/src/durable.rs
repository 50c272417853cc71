//! Dictionaries in files: their types, what the files contain, and progress.

use std::path::{Path, PathBuf};

use gpulsm::files::{self, Info};
use gpulsm::private::{Encoding, FileTypes, Part, StoredTypes, types_in, types_in_folder};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;
use crate::guard::detached;
use crate::packing::part_of;
use crate::settings::element_name;

/// The types of a dictionary, and what files call them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Types {
    /// What keys are stored as, by NumPy's name.
    key: String,
    value_width: usize,
    /// The parts of keys: their kinds, and how many bytes they have.
    parts: Vec<(String, usize)>,
    /// The name that values have in Rust; empty if they have none.
    value: String,
    /// What Python calls the types, where that does not follow from the others.
    notes: Vec<(String, String)>,
}

impl Types {
    /// What keys are stored as, by NumPy's name, and how many bytes values have.
    pub fn in_memory(&self) -> (&str, usize) {
        (&self.key, self.value_width)
    }

    /// What files call them.
    pub fn in_files(&self) -> PyResult<StoredTypes> {
        let parts = self.parts.iter().map(|(kind, width)| part_of(kind, *width));
        let key = parts.collect::<PyResult<_>>()?;
        Ok(StoredTypes { key, value: self.value.clone(), notes: self.notes.clone() })
    }
}

/// Calls a function of Python with how much of a long call is done, of how much.
pub struct Progress {
    function: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Progress {
    pub fn new(function: Option<Py<PyAny>>) -> Self {
        Progress { function, raised: None }
    }

    /// Calls the function, unless it has raised an exception before.
    pub fn report(&mut self, done: u64, total: u64) {
        let (Some(function), None) = (&self.function, &self.raised) else { return };
        self.raised = Python::attach(|py| function.call1(py, (done, total)).err());
    }

    /// The result of the call; the exception of the function, if it raised one.
    pub fn finish<T>(self, result: PyResult<T>) -> PyResult<T> {
        let result = result?;
        self.raised.map_or(Ok(result), Err)
    }
}

/// The types of the dictionary in a file, or in a folder; None if the folder is missing or empty.
pub fn stored_types(
    py: Python<'_>,
    path: PathBuf,
    is_folder: bool,
) -> PyResult<Option<Bound<'_, PyDict>>> {
    let read = |path: &Path| match is_folder {
        true => types_in_folder(path),
        false => types_in(path).map(Some),
    };
    let types = detached(py, || read(&path))?.map_err(raise)?;
    types.map(|types| describe_types(py, types)).transpose()
}

fn describe_types(py: Python<'_>, types: FileTypes) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    let parts: Vec<_> =
        types.stored.key.iter().map(|&part| (kind_of(part), part.width())).collect();
    all.set_item("parts", parts)?;
    all.set_item("value", types.stored.value)?;
    all.set_item("value_width", types.value_width)?;
    all.set_item("combine", (types.rule.name(), types.element.map_or("", element_name)))?;
    all.set_item("notes", types.stored.notes)?;
    Ok(all)
}

/// The name of a kind of part, as Python's half has it.
fn kind_of(part: Part) -> &'static str {
    match part {
        Part::Number(Encoding::Unsigned, _) => "unsigned",
        Part::Number(Encoding::Signed, _) => "signed",
        Part::Number(Encoding::Float, _) => "float",
        Part::Bytes(_) => "bytes",
    }
}

/// What the files of a dictionary contain.
pub fn info(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let info = detached(py, || files::info(path))?.map_err(raise)?;
    describe(py, &info)
}

/// The same, once everything was read and verified.
pub fn check(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let mut progress = Progress::new(progress);
    let checked =
        detached(py, || files::check_with(path, &mut |done, total| progress.report(done, total)))?;
    let info = progress.finish(checked.map_err(raise))?;
    describe(py, &info)
}

/// The figures as Python's `FileInfo` takes them.
fn describe<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let batch_size = info.settings.iter().find(|(name, _)| name == "batch_size");
    all.set_item("batch_size", batch_size.map(|(_, size)| *size))?;
    all.set_item("entries", info.entries())?;
    all.set_item("updates", info.updates)?;
    all.set_item("bytes", info.bytes())?;
    all.set_item("log_bytes", info.log_bytes)?;
    all.set_item("torn_bytes", info.torn_bytes)?;
    all.set_item("text", info.to_string())?;
    Ok(all)
}
