//! CSV: a row for each pair, with or without a header.

use std::fs::File;

use csv::{ReaderBuilder, StringRecord, Trim, Writer};

use super::{Rows, WriteSend, columns};
use crate::shell::command::{counted, shown};
use crate::types::{Bits, Scalar, ShellKey, Type};

pub fn read<K: ShellKey, V: Bits>(
    file: File,
    key: Type,
    value: Type,
) -> Result<Rows<K, V>, String> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(file);
    let mut rows = Rows { keys: Vec::new(), values: Vec::new() };
    let mut layout = Layout::of_header(&StringRecord::new(), value);
    for (index, record) in reader.records().enumerate() {
        let row = index + 1;
        let record = record.map_err(|error| format!("row {row}: {}", reason(&error)))?;
        if index == 0 && is_header(&record, value) {
            layout = Layout::of_header(&record, value);
            continue;
        }
        let (key, value) =
            layout.parse(&record, key, value).map_err(|error| format!("row {row}: {error}"))?;
        rows.keys.push(key);
        rows.values.push(value);
    }
    Ok(rows)
}

/// Where in a row keys and values are.
struct Layout {
    places: Vec<usize>,
    /// How many fields a row has.
    fields: usize,
}

impl Layout {
    /// Where the header names them or, where it has other names, in the order that `export` has.
    fn of_header(header: &StringRecord, value: Type) -> Self {
        let place = |name: &&str| header.iter().position(|field| field.eq_ignore_ascii_case(name));
        let named: Vec<usize> = columns(value).iter().filter_map(place).collect();
        if named.len() == columns(value).len() {
            return Layout { places: named, fields: header.len() };
        }
        Layout { places: (0..columns(value).len()).collect(), fields: columns(value).len() }
    }

    fn parse<K: ShellKey, V: Bits>(
        &self,
        record: &StringRecord,
        key: Type,
        value: Type,
    ) -> Result<(K, V), String> {
        if record.len() != self.fields {
            let (has, wanted) = (counted(record.len(), "field"), self.fields);
            return Err(format!("{has} between commas, where there should be {wanted}"));
        }
        let field = |at: usize, of: Type| {
            let (name, field) = (columns(value)[at], &record[self.places[at]]);
            let wrong = |error| format!("the {name} is `{}`: {error}", shown(field));
            of.parse(field).map_err(wrong)
        };
        let key = K::from_scalar(field(0, key)?);
        let bits = if value == Type::None { Scalar::There } else { field(1, value)? };
        Ok((key, V::from_scalar(bits)))
    }
}

/// Whether a first row names the columns: those we look for are among its fields, or none of them
/// is a number. (In a set, where there is one column, another name might be a bad key.)
fn is_header(record: &StringRecord, value: Type) -> bool {
    let has = |name: &&str| record.iter().any(|field| field.eq_ignore_ascii_case(name));
    let is_word = |field: &str| {
        let starts = field.starts_with(|first: char| first.is_alphabetic() || first == '_');
        starts && Type::F64.parse(field).is_err()
    };
    columns(value).iter().all(has) || value != Type::None && record.iter().all(is_word)
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
