//! Import and export: CSV and Parquet files of two columns, or one for a set.

mod csv;
mod parquet;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::shell::command::shown;
use crate::types::{Column, Types, ValueType};

/// The rows of a file.
#[derive(Debug)]
pub struct Rows {
    pub keys: Column,
    pub values: Column,
}

impl Rows {
    fn new(types: Types) -> Self {
        Rows { keys: types.key.column(), values: types.value.column() }
    }
}

/// Returns the names of the columns that a file has.
fn columns(types: Types) -> &'static [&'static str] {
    if types.value == ValueType::None { &["key"] } else { &["key", "value"] }
}

enum Format {
    Csv,
    Parquet,
}

/// Reads every row of a file, or returns which one is wrong, and how.
pub fn read(path: &Path, types: Types) -> Result<Rows, String> {
    let name = named(path);
    let format = format_of(path)?;
    let file = File::open(path).map_err(|error| format!("{name}: {}", plain(&error)))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(format!("{name}: this is a folder"));
    }
    let rows = match format {
        Format::Csv => csv::read(file, types),
        Format::Parquet => parquet::read(file, types),
    };
    rows.map_err(|error| format!("{name}: {error}"))
}

/// Writes every row to a file. An existing file is replaced only after everything is written.
pub fn write(path: &Path, rows: &Rows, types: Types) -> Result<(), String> {
    let format = format_of(path)?;
    if path.is_dir() {
        return Err(format!("{}: this is a folder", named(path)));
    }
    replace(path, |file| match format {
        Format::Csv => csv::write(file, rows, types),
        Format::Parquet => parquet::write(file, rows, types),
    })
    .map_err(|error| format!("{}: {error}", named(path)))
}

fn format_of(path: &Path) -> Result<Format, String> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("csv") => Ok(Format::Csv),
        Some("parquet") => Ok(Format::Parquet),
        _ => Err(format!("{}: a file's name must end in .csv or .parquet", named(path))),
    }
}

/// Writes a new file beside the old one, then renames it.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn WriteSend) -> Result<(), String>,
) -> Result<(), String> {
    // A device or a pipe is written directly.
    let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let target = if is_special { path.to_path_buf() } else { beside(path) };
    let written = (|| {
        let file = File::create(&target).map_err(|error| plain(&error))?;
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush().map_err(|error| plain(&error))?;
        if !is_special {
            fs::rename(&target, path).map_err(|error| plain(&error))?;
        }
        Ok(())
    })();
    if written.is_err() && !is_special {
        fs::remove_file(&target).ok();
    }
    written
}

/// The bounds that the Parquet writer requires.
trait WriteSend: Write + Send {}

impl<W: Write + Send> WriteSend for W {}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

fn named(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

/// Returns the system's message without its error number.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}
