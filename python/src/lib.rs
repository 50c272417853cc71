//! The native half of the Python package: dictionaries of every type behind one class.
//!
//! It sees addresses and lengths. Which arrays they are of, whether their types and lengths are right,
//! and what answers come back in, is the business of the package's Python half (`package/gpulsm/_arrays.py`,
//! `package/gpulsm/_dictionary.py`), the only one to call it.

mod asof;
mod durable;
mod error;
mod files;
mod grouping;
mod guard;
mod packing;
mod parallel;
mod saving;
mod settings;
mod span;
mod store;
mod typed;

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The native half of gpulsm; not for use by itself.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::files::Column;
    #[pymodule_export]
    use super::packing::PyLayout;
    use super::span::Span;
    #[pymodule_export]
    use super::store::Store;
    use super::*;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const BUILT_WITH_CUDA: bool = cfg!(feature = "cuda");

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        guard::silence_panics();
        Ok(())
    }

    /// To be called in a process that was just forked.
    #[pyfunction]
    fn after_fork() {
        store::after_fork();
        guard::after_fork();
    }

    /// Returns where the first element of an array of NumPy's is, in a tenth of the time that Python takes.
    #[pyfunction]
    fn address_of(array: &Bound<'_, PyAny>) -> PyResult<usize> {
        span::address_of(array)
    }

    /// To be called when the program ends.
    #[pyfunction]
    fn at_exit(py: Python<'_>) {
        guard::at_exit(py);
    }

    /// The device that a text names, by its full name; an error says why it can't be used.
    #[pyfunction]
    fn device(py: Python<'_>, name: &str) -> PyResult<String> {
        guard::detached(py, || name.parse::<gpulsm::Device>().map(|device| device.to_string()))?
            .map_err(error::raise)
    }

    /// Writes for each key how many of the ascending splitters are less than or equal to it (16 bits). `key` is NumPy's
    /// name of the key type, without byte order.
    #[pyfunction]
    fn places(
        py: Python<'_>,
        key: &str,
        keys: Span,
        splitters: Span,
        places: Span,
    ) -> PyResult<()> {
        let find = match key {
            "u4" => grouping::places::<u32>,
            "i4" => grouping::places::<i32>,
            "f4" => grouping::places::<f32>,
            "u8" => grouping::places::<u64>,
            "i8" => grouping::places::<i64>,
            "f8" => grouping::places::<f64>,
            "V16" => grouping::places::<u128>,
            _ => return Err(PyTypeError::new_err(format!("{key} is not a key type"))),
        };
        guard::detached(py, || find(keys, splitters, places))
    }

    /// Writes the indices of elements by group, given the group of each (16 bits), in their original order within a
    /// group; and where each group begins, and the last one ends.
    #[pyfunction]
    fn group(py: Python<'_>, group_of_each: Span, indices: Span, offsets: Span) -> PyResult<()> {
        guard::detached(py, || {
            grouping::group(group_of_each.host(), indices.host(), offsets.host_mut());
        })
    }

    /// Writes the elements at some indices one after the other; each has `width` bytes.
    #[pyfunction]
    fn take(py: Python<'_>, source: Span, indices: Span, to: Span, width: usize) -> PyResult<()> {
        guard::detached(py, || grouping::take(source, indices.host(), to, width))
    }

    /// Writes the elements of each group to the indices beside them, which are all distinct; each has `width` bytes.
    #[pyfunction]
    fn put(py: Python<'_>, groups: Vec<(Span, Span)>, to: Span, width: usize) -> PyResult<()> {
        guard::detached(py, || grouping::put(&groups, to, width))
    }

    /// The parts of the keys of a file, the values, and how many rows were skipped.
    #[pyfunction]
    fn read_file(
        py: Python<'_>,
        path: PathBuf,
        options: files::Reading,
    ) -> PyResult<(Vec<Column>, Column, u64)> {
        files::read(py, path, options)
    }

    /// What the columns of a Parquet file are called that keys and values are to be read from, and their types.
    #[pyfunction]
    fn file_types(
        py: Python<'_>,
        path: PathBuf,
        parts: Option<usize>,
        keys: Vec<files::ColumnChoice>,
        value: Option<files::ColumnChoice>,
        has_values: bool,
    ) -> PyResult<Vec<(String, Option<String>)>> {
        files::types(py, path, parts, keys, value, has_values)
    }

    /// Writes columns to a file.
    #[pyfunction]
    fn write_file(
        py: Python<'_>,
        path: PathBuf,
        columns: Vec<files::Written>,
        options: files::Writing,
    ) -> PyResult<()> {
        files::write(py, path, &columns, &options)
    }

    /// The types of the dictionary in a file, or in a folder; None if the folder is missing or empty.
    #[pyfunction]
    fn stored_types(
        py: Python<'_>,
        path: PathBuf,
        is_folder: bool,
    ) -> PyResult<Option<Bound<'_, PyDict>>> {
        durable::stored_types(py, path, is_folder)
    }

    /// What the files of a dictionary contain.
    #[pyfunction]
    fn files_info(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
        durable::info(py, path)
    }

    /// The same, once everything was read and verified.
    #[pyfunction]
    fn check_files(
        py: Python<'_>,
        path: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'_, PyDict>> {
        durable::check(py, path, progress)
    }
}
