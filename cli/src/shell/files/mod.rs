//! Pairs from and to files: CSV and Parquet, two columns, or one for a set.

mod csv;
mod parquet;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::shell::command::shown;
use crate::types::{Bits, ShellKey, Type};

/// The rows of a file.
#[derive(Debug)]
pub struct Rows<K, V> {
    pub keys: Vec<K>,
    pub values: Vec<V>,
}

/// Which columns a file has, as its header names them.
fn columns(value: Type) -> &'static [&'static str] {
    if value == Type::None { &["key"] } else { &["key", "value"] }
}

enum Format {
    Csv,
    Parquet,
}

/// Every row of a file, or which one is wrong, and how.
pub fn read<K: ShellKey, V: Bits>(
    path: &Path,
    key: Type,
    value: Type,
) -> Result<Rows<K, V>, String> {
    let name = named(path);
    let format = format_of(path)?;
    let file = File::open(path).map_err(|error| format!("{name}: {}", plain(&error)))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(format!("{name}: this is a folder"));
    }
    let rows = match format {
        Format::Csv => csv::read(file, key, value),
        Format::Parquet => parquet::read(file, key, value),
    };
    rows.map_err(|error| format!("{name}: {error}"))
}

/// Writes every row to a file. What was there is replaced once all is written, not before.
pub fn write<K: ShellKey, V: Bits>(
    path: &Path,
    rows: &Rows<K, V>,
    key: Type,
    value: Type,
) -> Result<(), String> {
    let format = format_of(path)?;
    if path.is_dir() {
        return Err(format!("{}: this is a folder", named(path)));
    }
    replace(path, |file| match format {
        Format::Csv => csv::write(file, rows, value),
        Format::Parquet => parquet::write(file, rows, key, value),
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

/// Writes a new file beside the old one, and puts it in its place.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn WriteSend) -> Result<(), String>,
) -> Result<(), String> {
    // A device or a pipe is written as it is.
    let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let place = if is_special { path.to_path_buf() } else { beside(path) };
    let written = (|| {
        let file = File::create(&place).map_err(|error| plain(&error))?;
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush().map_err(|error| plain(&error))?;
        if !is_special {
            fs::rename(&place, path).map_err(|error| plain(&error))?;
        }
        Ok(())
    })();
    if written.is_err() && !is_special {
        fs::remove_file(&place).ok();
    }
    written
}

/// What the writer of Parquet files asks for.
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

/// The system's words without its error number.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".into(),
        io::ErrorKind::PermissionDenied => "this is not allowed".into(),
        _ => error.to_string(),
    }
}
