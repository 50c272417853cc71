//! CSV: a row for each pair, with or without a header.

use std::fs::File;

use csv::{ReaderBuilder, StringRecord, Trim, Writer};

use super::{Rows, WriteSend, columns, pair};
use crate::shell::command::shown;
use crate::types::{Bits, Scalar, ShellKey, Type};

pub fn read<K: ShellKey, V: Bits>(
    file: File,
    key: Type,
    value: Type,
) -> Result<Rows<K, V>, String> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(file);
    let mut rows = Rows { keys: Vec::new(), values: Vec::new() };
    for (index, record) in reader.records().enumerate() {
        let row = index + 1;
        let record = record.map_err(|error| format!("row {row}: {}", reason(&error)))?;
        if index == 0 && is_header(&record, value) {
            continue;
        }
        let (key, value) =
            parse(&record, key, value).map_err(|error| format!("row {row}: {error}"))?;
        rows.keys.push(key);
        rows.values.push(value);
    }
    Ok(rows)
}

fn parse<K: ShellKey, V: Bits>(
    record: &StringRecord,
    key: Type,
    value: Type,
) -> Result<(K, V), String> {
    let wanted = columns(value).len();
    if record.len() != wanted {
        return Err(format!("{} fields where {wanted} are wanted", record.len()));
    }
    let field = |at: usize, of: Type| {
        of.parse(&record[at]).map_err(|error| format!("`{}`: {error}", shown(&record[at])))
    };
    let value = if value == Type::None { Ok(Scalar::There) } else { field(1, value) };
    pair(field(0, key), value)
}

/// Whether a first row names the columns: with the names that `export` gives them, or with any two
/// words that are no numbers.
fn is_header(record: &StringRecord, value: Type) -> bool {
    let is_named = record.iter().zip(columns(value)).all(|(a, b)| a.eq_ignore_ascii_case(b));
    let is_text = |field: &str| !field.is_empty() && Type::F64.parse(field).is_err();
    let is_word =
        |field: &str| field.starts_with(|first: char| first.is_alphabetic() || first == '_');
    record.len() == columns(value).len()
        && (is_named || value != Type::None && record.iter().all(|f| is_text(f) && is_word(f)))
}

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "not UTF-8 text".into(),
        csv::ErrorKind::Io(error) => super::plain(error),
        _ => error.to_string(),
    }
}

pub fn write<K: ShellKey, V: Bits>(
    file: &mut dyn WriteSend,
    rows: &Rows<K, V>,
    value: Type,
) -> Result<(), String> {
    let mut writer = Writer::from_writer(file);
    let mut write = || -> csv::Result<()> {
        writer.write_record(columns(value))?;
        for (&key, &bits) in rows.keys.iter().zip(&rows.values) {
            let key = key.scalar().to_string();
            match value {
                Type::None => writer.write_record([key])?,
                _ => writer.write_record([key, bits.scalar(value).to_string()])?,
            }
        }
        Ok(writer.flush()?)
    };
    write().map_err(|error| reason(&error))
}
