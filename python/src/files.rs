//! Files of keys and values, read and written by the code that the program uses.

use std::path::PathBuf;

use gpulsm_tables::{
    Choice, Error, Field, FixedBytes, Holds, Notes, Numbers, RowOptions, Scalar, Separator, Step,
    Type, Unit, WriteColumn, WriteOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{file_exists, os_error};
use crate::guard::detached;
use crate::span::Span;

/// A column of a file, which NumPy reads where it is.
#[pyclass(frozen, module = "gpulsm._native")]
pub struct Column {
    cells: Cells,
    notes: Notes,
}

/// What is in the rows of a column: numbers, or bytes, as many in each.
enum Cells {
    Numbers(Numbers),
    Bytes(Vec<u8>, usize),
}

impl Cells {
    fn new(field: Field) -> PyResult<Self> {
        match field {
            Field::Number(of) => Ok(Cells::Numbers(Numbers::new(of))),
            Field::Bytes(width) => Ok(Cells::Bytes(Vec::new(), width)),
            Field::I128 => Err(PyTypeError::new_err("NumPy has no such numbers")),
        }
    }

    fn push(&mut self, cell: Scalar) {
        match (self, cell) {
            (Cells::Numbers(numbers), number) => numbers.push(number),
            (Cells::Bytes(all, _), Scalar::Bytes(bytes)) => all.extend(bytes.as_slice()),
            (Cells::Bytes(..), _) => unreachable!("a field of bytes has bytes"),
        }
    }

    /// Where they are, how many, and what NumPy calls their type.
    fn span(&self) -> PyResult<(usize, usize, String)> {
        let numbers = match self {
            Cells::Bytes(bytes, width) => {
                return Ok((bytes.as_ptr().addr(), bytes.len() / width, format!("|S{width}")));
            }
            Cells::Numbers(numbers) => numbers,
        };
        let (address, kind) = match numbers {
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
        Ok((address, numbers.len(), format!("{order}{kind}")))
    }
}

#[pymethods]
impl Column {
    /// Where the cells are, how many, and of which type, as NumPy asks for it. For a set's values there
    /// is nothing to read.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (address, len, typestr) = self.cells.span()?;
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("data", (address, true))?; // Read only.
        interface.set_item("shape", (len,))?;
        interface.set_item("typestr", typestr)?;
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
        self.notes.unit.and_then(datetime_unit)
    }
}

/// The unit of NumPy's `datetime64` for what counts since 1970.
fn datetime_unit(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Days => Some("D"),
        Unit::Timestamp { step: Step::Milliseconds, .. } => Some("ms"),
        Unit::Timestamp { step: Step::Microseconds, .. } => Some("us"),
        Unit::Timestamp { step: Step::Nanoseconds, .. } => Some("ns"),
        Unit::TimeOfDay(_) => None,
    }
}

/// How a file is to be read: types by NumPy's names, none for the values of a set.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Reading {
    /// Those of the parts of a key.
    key_types: Vec<String>,
    value_type: Option<String>,
    /// As many as there are parts, or none.
    key_columns: Vec<ColumnChoice>,
    value_column: Option<ColumnChoice>,
    separator: Option<String>,
    header: String,
    missing: String,
}

/// A column by its place, counted from 1, or by its name.
#[derive(FromPyObject)]
pub enum ColumnChoice {
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
    fn options(self) -> PyResult<RowOptions> {
        let keys = self.key_types.iter().map(|name| field_of(name));
        let value = self.value_type.as_deref().map_or(Ok(Type::None), type_of)?;
        Ok(RowOptions {
            key_columns: self.key_columns.into_iter().map(Choice::from).collect(),
            value_column: self.value_column.map(Choice::from),
            separator: self.separator.as_deref().map(separator).transpose()?,
            header: self.header.parse().map_err(PyValueError::new_err)?,
            missing: self.missing.parse().map_err(PyValueError::new_err)?,
            ..RowOptions::new(keys.collect::<PyResult<_>>()?, value)
        })
    }
}

/// The parts of the keys of a file, the values, and how many rows were skipped.
pub fn read(
    py: Python<'_>,
    path: PathBuf,
    reading: Reading,
) -> PyResult<(Vec<Column>, Column, u64)> {
    let options = reading.options()?;
    let parts = options.keys.iter().map(|&field| Cells::new(field));
    let mut parts = parts.collect::<PyResult<Vec<_>>>()?;
    let mut values = Numbers::new(options.value);
    let notes = detached(py, || {
        gpulsm_tables::read_rows(&path, &options, &mut |key, value| {
            parts.iter_mut().zip(key).for_each(|(cells, &part)| cells.push(part));
            values.push(value);
        })
    })?;
    let notes = notes.map_err(raise)?;
    let columns = parts.into_iter().zip(notes.keys);
    let columns = columns.map(|(cells, notes)| Column { cells, notes }).collect();
    let values = Column { cells: Cells::Numbers(values), notes: notes.value };
    Ok((columns, values, notes.skipped))
}

/// What messages call the columns of a Parquet file that keys and values are to be read from, and their types by
/// NumPy's names, if they have one.
pub fn types(
    py: Python<'_>,
    path: PathBuf,
    parts: Option<usize>,
    keys: Vec<ColumnChoice>,
    value: Option<ColumnChoice>,
    has_values: bool,
) -> PyResult<Vec<(String, Option<String>)>> {
    let options = RowOptions {
        key_columns: keys.into_iter().map(Choice::from).collect(),
        value_column: value.map(Choice::from),
        ..RowOptions::new(Vec::new(), if has_values { Type::I64 } else { Type::None })
    };
    let types = detached(py, || gpulsm_tables::column_types(&path, parts, options))?;
    let types = types.map_err(raise)?.into_iter();
    Ok(types.map(|(column, holds)| (column, holds.and_then(name_of))).collect())
}

/// NumPy's name of what a column holds.
fn name_of(holds: Holds) -> Option<String> {
    let name = match holds {
        Holds::Field(Field::Bytes(len)) => return Some(format!("S{len}")),
        Holds::Field(Field::Number(number)) => TYPES.iter().find(|(_, of)| *of == number)?.0,
        Holds::Field(Field::I128) => return None,
        Holds::Time(unit) => return Some(format!("datetime64[{}]", datetime_unit(unit)?)),
    };
    Some(name.into())
}

/// A column to be written: its name, type by NumPy's name, what times count, and where the cells are.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Written {
    name: String,
    cell_type: String,
    times: Option<String>,
    cells: Span,
}

/// How a file is to be written.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Writing {
    separator: Option<String>,
    force: bool,
}

impl Writing {
    fn options(&self) -> PyResult<WriteOptions> {
        let separator = self.separator.as_deref().map(separator).transpose()?;
        Ok(WriteOptions { separator, force: self.force, ..WriteOptions::default() })
    }
}

/// Writes columns, all of which have as many rows, to a file.
pub fn write(
    py: Python<'_>,
    path: PathBuf,
    written: &[Written],
    writing: &Writing,
) -> PyResult<()> {
    let options = writing.options()?;
    let rows = written.first().map_or(0, |column| column.cells.len());
    let fields = written.iter().map(|column| field_of(&column.cell_type));
    let fields = fields.collect::<PyResult<Vec<_>>>()?;
    let times = written.iter().map(|column| column.times.as_deref().map(step_of).transpose());
    let times = times.collect::<PyResult<Vec<_>>>()?;
    detached(py, || {
        let cells = written.iter().zip(&fields).map(|(column, &field)| reader(column.cells, field));
        let cells: Vec<_> = cells.collect();
        let columns = written.iter().zip(&fields).zip(&times).zip(&cells);
        let columns: Vec<_> = columns
            .map(|(((column, &field), &times), get)| WriteColumn {
                name: column.name.clone(),
                field,
                times,
                get: &**get,
            })
            .collect();
        gpulsm_tables::write_rows(&path, rows, &columns, &options)
    })?
    .map_err(raise)
}

/// Returns a function that reads one element of a span, which are of this type.
fn reader(span: Span, field: Field) -> Box<dyn Fn(usize) -> Scalar> {
    fn each<T: Copy + 'static>(span: Span, of: fn(T) -> Scalar) -> Box<dyn Fn(usize) -> Scalar> {
        let elements = span.host::<T>();
        Box::new(move |row| of(elements[row]))
    }
    match field {
        Field::Number(Type::U32) => each::<u32>(span, |number| Scalar::Unsigned(number.into())),
        Field::Number(Type::U64) => each::<u64>(span, |number| Scalar::Unsigned(number.into())),
        Field::Number(Type::U128) => each(span, Scalar::Unsigned),
        Field::Number(Type::I32) => each::<i32>(span, |number| Scalar::Signed(number.into())),
        Field::Number(Type::I64) => each::<i64>(span, |number| Scalar::Signed(number.into())),
        Field::Number(Type::F32) => each(span, Scalar::Single),
        Field::Number(Type::F64) => each(span, Scalar::Double),
        Field::Number(Type::None) => Box::new(|_| Scalar::Present),
        Field::I128 => each(span, Scalar::Signed),
        Field::Bytes(width) => {
            let bytes = span.bytes(width).host::<u8>();
            Box::new(move |row| Scalar::Bytes(FixedBytes::new(&bytes[row * width..][..width])))
        }
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

/// The type of a part of keys: `S4` is 4 bytes.
fn field_of(name: &str) -> PyResult<Field> {
    let width = name.strip_prefix('S').and_then(|width| width.parse().ok());
    width.map_or_else(|| type_of(name).map(Field::from), |width| Ok(Field::Bytes(width)))
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
        Error::Exists { path } => file_exists(path, "force=True"),
        error => PyValueError::new_err(in_words_of_python(error.to_string())),
    }
}

/// Returns a message with the names that types and options have in Python.
fn in_words_of_python(message: String) -> String {
    const OPTIONS: [(&str, &str); 8] = [
        (
            "csv.gz and the like)",
            "csv.gz and the like); `save` and `load` are for files of gpulsm's own",
        ),
        ("(option key-column, given for each part)", "(argument key, a list)"),
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
    let bytes =
        (1..=16).map(|len| (format!("(expected bytes{len})"), format!("(expected S{len})")));
    let options = OPTIONS.into_iter().map(|(from, to)| (from.into(), to.into()));
    let mut message = message;
    if message.contains("(key1, key2") && message.contains("none named `key`") {
        message
            .push_str("; keys of several parts have a tuple of types, such as ('uint32', 'int64')");
    }
    options.chain(types).chain(bytes).fold(message, |text, (from, to)| text.replace(&from, &to))
}
