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

mod columns;
mod csv;
mod error;
mod format;
mod numbers;
mod options;
mod output;
mod parquet;
mod precision;
mod records;
mod scalar;
mod table;
mod unit;

use std::fs::File;
use std::path::Path;

pub use error::Error;
pub use numbers::Numbers;
pub use options::{Choice, Header, Missing, ReadOptions, Separator, WriteOptions};
pub use scalar::{Scalar, Type};
pub use table::{Notes, Table};
pub use unit::{Step, Unit};

use error::Context;
use format::Format;

/// Reads the keys and values of a file, whose format its name tells. Reads all of it, or returns which
/// row is wrong, and how.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Table, Error> {
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
    let table = match format {
        Format::Text(text) => csv::read(file, text, options),
        Format::Parquet => parquet::read(file, options),
    };
    table.map_err(|message| wrong(&message))
}

/// Writes keys and values, as columns `key` and `value`, to a file whose format its name tells. Until all
/// of it is written, an old file of this name stays as it was.
pub fn write(
    path: &Path,
    keys: &Numbers,
    values: &Numbers,
    options: &WriteOptions,
) -> Result<(), Error> {
    let format = Format::of(path)?;
    if format == Format::Parquet && options.separator.is_some() {
        return Err(Error::Content { path: path.into(), message: NOT_FOR_PARQUET.into() });
    }
    let has_times = options.key_times.is_some() || options.value_times.is_some();
    if format != Format::Parquet && has_times {
        return Err(Error::Content { path: path.into(), message: NO_TIMES_IN_TEXT.into() });
    }
    output::replace(path, options.force, |file| match format {
        Format::Text(text) => Ok(csv::write(file, text, (keys, values), options)?),
        Format::Parquet => parquet::write(file, (keys, values), options),
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
