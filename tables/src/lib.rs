//! Files of keys and values: CSV and Parquet, read and written by the program and the Python package.
//!
//! Types are chosen at run time, so that everything here is compiled once:
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("prices.csv");
//! # std::fs::write(&path, "price,id\n0.5,7\n,8\n").unwrap();
//! use gpulsm_tables::{Missing, Numbers, ReadOptions, Type, read};
//!
//! let options = ReadOptions {
//!     key_column: Some("id".parse()?),
//!     missing: Missing::Skip,
//!     ..ReadOptions::new(Type::U32, Type::F64)
//! };
//! let table = read(&path, &options)?;
//! assert_eq!(table.keys, Numbers::U32(vec![7]));
//! assert_eq!(table.values, Numbers::F64(vec![0.5]));
//! assert_eq!(table.skipped, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod columns;
mod csv;
mod error;
mod field;
mod format;
mod integers;
mod numbers;
mod options;
mod output;
mod parquet;
mod precision;
mod records;
mod rows;
mod scalar;
mod table;
mod unit;

use std::fs::File;
use std::path::Path;

pub use bytes::FixedBytes;
pub use error::Error;
pub use field::Field;
pub use numbers::Numbers;
pub use options::{Choice, Header, Missing, ReadOptions, Separator, WriteOptions};
pub use rows::{RowNotes, RowOptions, WriteColumn};
pub use scalar::{Scalar, Type};
pub use table::{Notes, Table};
pub use unit::{Step, Unit};

use error::Context;
use format::Format;
use rows::Rows;

/// Reads the keys and values of a file, whose format its name tells. Reads all of it, or returns which
/// row is wrong, and how.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Table, Error> {
    let (mut keys, mut values) = (Numbers::new(options.key), Numbers::new(options.value));
    let notes = read_rows(path, &options.into(), &mut |key, value| {
        keys.push(key[0]);
        values.push(value);
    })?;
    let [key_notes] = <[Notes; 1]>::try_from(notes.keys).expect("a key has one part");
    Ok(Table { keys, values, skipped: notes.skipped, key_notes, value_notes: notes.value })
}

/// Reads the rows of a file, whose format its name tells, and passes on the parts of each key and its value. Reads
/// all of it, or returns which row is wrong, and how.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("quotes.csv");
/// # std::fs::write(&path, "symbol,time,price\nAAPL,100,5\nMSFT,200,6\n").unwrap();
/// use gpulsm_tables::{Field, RowOptions, Type, read_rows};
///
/// let mut rows = Vec::new();
/// let options = RowOptions::new(vec![Field::Bytes(4), Type::I64.into()], Type::U32);
/// let notes = read_rows(&path, &options, &mut |key, value| {
///     rows.push(format!("{}:{} {value}", key[0], key[1]));
/// })?;
/// assert_eq!(rows, ["AAPL:100 5", "MSFT:200 6"]);
/// assert_eq!((notes.rows, notes.skipped), (2, 0));
/// # Ok::<(), gpulsm_tables::Error>(())
/// ```
pub fn read_rows(
    path: &Path,
    options: &RowOptions,
    take: &mut dyn FnMut(&[Scalar], Scalar),
) -> Result<RowNotes, Error> {
    let format = Format::of(path)?;
    let wrong = |message: &str| Error::Content { path: path.into(), message: message.into() };
    let is_of_text = options.separator.is_some() || options.header != Header::Auto;
    if format == Format::Parquet && is_of_text {
        return Err(wrong(NOT_FOR_PARQUET));
    }
    let file = File::open(path).for_path(path)?;
    if file.metadata().for_path(path)?.is_dir() {
        return Err(wrong("this is a folder"));
    }
    let mut rows = Rows::new(options, take);
    let read = match format {
        Format::Text(text) => csv::read(file, text, options, &mut rows),
        Format::Parquet => parquet::read(file, options, &mut rows),
    };
    read.map_err(|message| wrong(&message))?;
    Ok(rows.notes)
}

/// What a column of a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Numbers, or as many bytes in each row.
    Field(Field),
    /// Times, as 64-bit integers that count this.
    Time(Unit),
}

/// Returns what messages call the columns of a Parquet file that hold the parts of keys and, of other than sets, the
/// values, and what they hold, if a key or a value can hold just that. Of the options, only columns count, and whether
/// there are values. Without a number of parts there are as many as columns are chosen, or named `key1`, `key2`, ….
pub fn column_types(
    path: &Path,
    parts: Option<usize>,
    options: RowOptions,
) -> Result<Vec<(String, Option<Holds>)>, Error> {
    let file = File::open(path).for_path(path)?;
    let types = parquet::types(file, parts, options);
    types.map_err(|message| Error::Content { path: path.into(), message })
}

/// Writes keys and values, as columns `key` and `value`, to a file whose format its name tells. Until all
/// of it is written, an old file of this name stays as it was.
pub fn write(
    path: &Path,
    keys: &Numbers,
    values: &Numbers,
    options: &WriteOptions,
) -> Result<(), Error> {
    let (key, value) = (|row| keys.get(row), |row| values.get(row));
    let mut columns = vec![WriteColumn {
        name: "key".into(),
        field: keys.of().into(),
        times: options.key_times,
        get: &key,
    }];
    if values.of() != Type::None {
        let (field, times) = (values.of().into(), options.value_times);
        columns.push(WriteColumn { name: "value".into(), field, times, get: &value });
    }
    write_rows(path, keys.len(), &columns, options)
}

/// Writes rows to a file whose format its name tells. Until all of it is written, an old file of this name stays as
/// it was. What times count, the columns say.
pub fn write_rows(
    path: &Path,
    rows: usize,
    columns: &[WriteColumn<'_>],
    options: &WriteOptions,
) -> Result<(), Error> {
    let format = Format::of(path)?;
    if format == Format::Parquet && options.separator.is_some() {
        return Err(Error::Content { path: path.into(), message: NOT_FOR_PARQUET.into() });
    }
    if format != Format::Parquet && columns.iter().any(|column| column.times.is_some()) {
        return Err(Error::Content { path: path.into(), message: NO_TIMES_IN_TEXT.into() });
    }
    output::replace(path, options.force, |file| match format {
        Format::Text(text) => Ok(csv::write(file, text, (rows, columns), options)?),
        Format::Parquet => parquet::write(file, (rows, columns)),
    })
}

const NOT_FOR_PARQUET: &str = "separator and header are options for text; leave them out";

const NO_TIMES_IN_TEXT: &str = "times can be written to .parquet files only";

/// Returns the name of a file as messages show it, with control characters escaped.
fn shown_path(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

/// Returns a text as messages show it: short, with control characters escaped.
fn shown(text: &str) -> String {
    const MAX_LEN: usize = 40;
    let mut shown = text.chars().take(MAX_LEN).collect::<String>().escape_debug().to_string();
    if text.chars().nth(MAX_LEN).is_some() {
        shown.push('…');
    }
    shown
}
