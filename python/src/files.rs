//! Files of keys and values, read and written by the code that the program uses.

use std::path::PathBuf;

use gpulsm_tables::{
    Choice, Error, Notes, Numbers, ReadOptions, Separator, Step, Table, Type, Unit, WriteOptions,
};
use pyo3::exceptions::{PyFileExistsError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::os_error;
use crate::guard::detached;
use crate::span::Span;
use crate::typed::Pairs;

/// The code of the error that a file exists, on every system.
const EEXIST: i32 = 17;

/// A column of a file, which NumPy reads where it is.
#[pyclass(frozen, module = "gpulsm._native")]
pub struct Column {
    numbers: Numbers,
    notes: Notes,
}

#[pymethods]
impl Column {
    /// Where the numbers are, how many, and of which type, as NumPy asks for it. For a set's values there
    /// is nothing to read.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (address, kind) = match &self.numbers {
            Numbers::U32(numbers) => (numbers.as_ptr().addr(), "u4"),
            Numbers::U64(numbers) => (numbers.as_ptr().addr(), "u8"),
            Numbers::I32(numbers) => (numbers.as_ptr().addr(), "i4"),
            Numbers::I64(numbers) => (numbers.as_ptr().addr(), "i8"),
            Numbers::F32(numbers) => (numbers.as_ptr().addr(), "f4"),
            Numbers::F64(numbers) => (numbers.as_ptr().addr(), "f8"),
            Numbers::U128(_) | Numbers::None(_) => {
                return Err(PyTypeError::new_err("NumPy has no such numbers"));
            }
        };
        let order = if cfg!(target_endian = "little") { '<' } else { '>' };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("data", (address, true))?; // Read only.
        interface.set_item("shape", (self.numbers.len(),))?;
        interface.set_item("typestr", format!("{order}{kind}"))?;
        Ok(interface)
    }

    /// How many numbers lost precision.
    #[getter]
    fn rounded(&self) -> u64 {
        self.notes.rounded
    }

    /// What the numbers count, in words, if the file says so.
    #[getter]
    fn unit(&self) -> Option<String> {
        self.notes.unit.map(|unit| unit.to_string())
    }

    /// The unit as NumPy's `datetime64` has it, if the numbers count since 1970.
    #[getter]
    fn datetime_unit(&self) -> Option<&'static str> {
        match self.notes.unit? {
            Unit::Days => Some("D"),
            Unit::Timestamp { step: Step::Milliseconds, .. } => Some("ms"),
            Unit::Timestamp { step: Step::Microseconds, .. } => Some("us"),
            Unit::Timestamp { step: Step::Nanoseconds, .. } => Some("ns"),
            Unit::TimeOfDay(_) => None,
        }
    }
}

/// How a file is to be read: types by NumPy's names, none for the values of a set.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Reading {
    key_type: String,
    value_type: Option<String>,
    key_column: Option<ColumnChoice>,
    value_column: Option<ColumnChoice>,
    separator: Option<String>,
    header: String,
    missing: String,
}

/// A column by its place, counted from 1, or by its name.
#[derive(FromPyObject)]
enum ColumnChoice {
    Number(usize),
    Name(String),
}

impl From<ColumnChoice> for Choice {
    fn from(choice: ColumnChoice) -> Self {
        match choice {
            ColumnChoice::Number(number) => Choice::Number(number),
            ColumnChoice::Name(name) => Choice::Name(name),
        }
    }
}

impl Reading {
    fn options(self) -> PyResult<ReadOptions> {
        let value = self.value_type.as_deref().map_or(Ok(Type::None), type_of)?;
        Ok(ReadOptions {
            key_column: self.key_column.map(Choice::from),
            value_column: self.value_column.map(Choice::from),
            separator: self.separator.as_deref().map(separator).transpose()?,
            header: self.header.parse().map_err(PyValueError::new_err)?,
            missing: self.missing.parse().map_err(PyValueError::new_err)?,
            ..ReadOptions::new(type_of(&self.key_type)?, value)
        })
    }
}

/// The keys and the values of a file, and how many rows were skipped.
pub fn read(py: Python<'_>, path: PathBuf, reading: Reading) -> PyResult<(Column, Column, u64)> {
    let options = reading.options()?;
    let table = detached(py, || gpulsm_tables::read(&path, &options))?;
    let Table { keys, values, skipped, key_notes, value_notes } = table.map_err(raise)?;
    Ok((
        Column { numbers: keys, notes: key_notes },
        Column { numbers: values, notes: value_notes },
        skipped,
    ))
}

/// How a file is to be written: types by NumPy's names, and what times count.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Writing {
    key_type: String,
    value_type: Option<String>,
    key_times: Option<String>,
    value_times: Option<String>,
    separator: Option<String>,
    force: bool,
}

impl Writing {
    fn options(&self) -> PyResult<WriteOptions> {
        Ok(WriteOptions {
            separator: self.separator.as_deref().map(separator).transpose()?,
            force: self.force,
            key_times: self.key_times.as_deref().map(step_of).transpose()?,
            value_times: self.value_times.as_deref().map(step_of).transpose()?,
        })
    }
}

/// Writes keys and values to a file.
pub fn write(py: Python<'_>, path: PathBuf, pairs: Pairs, writing: Writing) -> PyResult<()> {
    let options = writing.options()?;
    let value = writing.value_type.as_deref().map_or(Ok(Type::None), type_of)?;
    let key = type_of(&writing.key_type)?;
    let Pairs(keys, values) = pairs;
    detached(py, || {
        gpulsm_tables::write(&path, &numbers(keys, key), &numbers(values, value), &options)
    })?
    .map_err(raise)
}

/// The elements of a span, which are of this type.
fn numbers(span: Span, of: Type) -> Numbers {
    match of {
        Type::U32 => Numbers::U32(span.host().to_vec()),
        Type::U64 => Numbers::U64(span.host().to_vec()),
        Type::U128 => Numbers::U128(span.host().to_vec()),
        Type::I32 => Numbers::I32(span.host().to_vec()),
        Type::I64 => Numbers::I64(span.host().to_vec()),
        Type::F32 => Numbers::F32(span.host().to_vec()),
        Type::F64 => Numbers::F64(span.host().to_vec()),
        Type::None => Numbers::None(span.host::<()>().len()),
    }
}

/// NumPy's names of the types that files hold.
const TYPES: [(&str, Type); 6] = [
    ("uint32", Type::U32),
    ("uint64", Type::U64),
    ("int32", Type::I32),
    ("int64", Type::I64),
    ("float32", Type::F32),
    ("float64", Type::F64),
];

fn type_of(name: &str) -> PyResult<Type> {
    let known = TYPES.into_iter().find(|(known, _)| *known == name);
    known.map(|(_, of)| of).ok_or_else(|| PyTypeError::new_err(format!("no file holds {name}")))
}

fn step_of(unit: &str) -> PyResult<Step> {
    match unit {
        "ms" => Ok(Step::Milliseconds),
        "us" => Ok(Step::Microseconds),
        "ns" => Ok(Step::Nanoseconds),
        _ => Err(PyTypeError::new_err(format!("no file holds times in {unit}"))),
    }
}

fn separator(text: &str) -> PyResult<Separator> {
    text.parse().map_err(|error| {
        PyValueError::new_err(format!("separator: {error}, got '{}'", text.escape_debug()))
    })
}

/// Returns the exception for an error: that of the system, or a `ValueError`.
fn raise(error: Error) -> PyErr {
    match error {
        Error::Io { path, source } => match source.raw_os_error() {
            Some(code) => os_error(code, &source.to_string(), path),
            None => source.into(),
        },
        Error::Exists { path } => {
            let text = "this file exists; to replace it, give force=True";
            PyFileExistsError::new_err((EEXIST, text, path.into_os_string()))
        }
        error => PyValueError::new_err(in_words_of_python(error.to_string())),
    }
}

/// Returns a message with the names that types and options have in Python.
fn in_words_of_python(message: String) -> String {
    const OPTIONS: [(&str, &str); 6] = [
        ("(option key-column)", "(argument key)"),
        ("(option value-column)", "(argument value)"),
        ("(option separator)", "(argument separator)"),
        ("(option value=none)", "(value_type=None)"),
        ("use the option header=yes", "give header='yes'"),
        ("use the option missing=skip", "give missing='skip'"),
    ];
    let types = TYPES.into_iter().flat_map(|(name, of)| {
        let of = of.name();
        [
            (format!("(expected {of})"), format!("(expected {name})")),
            (format!(" {of} goes from "), format!(" {name} goes from ")),
            (format!("too large for {of}"), format!("too large for {name}")),
        ]
    });
    let options = OPTIONS.into_iter().map(|(from, to)| (from.into(), to.into()));
    options.chain(types).fold(message, |text, (from, to)| text.replace(&from, &to))
}
