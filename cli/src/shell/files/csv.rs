//! CSV: a row for each pair, with or without a header.

use std::fs::File;

use csv::{ReaderBuilder, StringRecord, Trim, Writer};

use super::{Rows, WriteSend, columns};
use crate::dictionary::Pair;
use crate::shell::command::{counted, shown};
use crate::types::{Type, Types, ValueType};

pub fn read(file: File, types: Types) -> Result<Rows, String> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(file);
    let mut rows = Rows::new(types);
    let mut layout = Layout::of_header(&StringRecord::new(), types);
    for (index, record) in reader.records().enumerate() {
        let row = index + 1;
        let record = record.map_err(|error| format!("row {row}: {}", reason(&error)))?;
        if index == 0 && is_header(&record, types) {
            layout = Layout::of_header(&record, types);
            continue;
        }
        let (key, value) =
            layout.parse(&record, types).map_err(|error| format!("row {row}: {error}"))?;
        rows.keys.push(key);
        rows.values.push(value);
    }
    Ok(rows)
}

/// The fields of a row that hold keys and values.
struct Layout {
    positions: Vec<usize>,
    /// How many fields a row has.
    fields: usize,
}

impl Layout {
    /// Finds the columns by the names in the header or, where it has other names, expects them in the
    /// order that `export` writes.
    fn of_header(header: &StringRecord, types: Types) -> Self {
        let columns = columns(types);
        let find = |name: &&str| header.iter().position(|field| field.eq_ignore_ascii_case(name));
        let named: Vec<usize> = columns.iter().filter_map(find).collect();
        if named.len() == columns.len() {
            return Layout { positions: named, fields: header.len() };
        }
        Layout { positions: (0..columns.len()).collect(), fields: columns.len() }
    }

    fn parse(&self, record: &StringRecord, types: Types) -> Result<Pair, String> {
        if record.len() != self.fields {
            let (has, wanted) = (counted(record.len(), "field"), self.fields);
            return Err(format!("{has} between commas, where there should be {wanted}"));
        }
        let field = |index: usize, of: Type| {
            let (name, field) = (columns(types)[index], &record[self.positions[index]]);
            let wrong = |error| format!("the {name} is `{}`: {error}", shown(field));
            of.parse(field).map_err(wrong)
        };
        let key = types.key.encode(field(0, types.key.into())?);
        let value = match types.value {
            ValueType::None => 0,
            of => of.encode(field(1, of.into())?),
        };
        Ok((key, value))
    }
}

/// Returns whether a first row names the columns: it has the names we look for, or none of its fields is
/// a number. (In a set, where there is one column, another name might be a bad key.)
fn is_header(record: &StringRecord, types: Types) -> bool {
    let has = |name: &&str| record.iter().any(|field| field.eq_ignore_ascii_case(name));
    let is_word = |field: &str| {
        let starts = field.starts_with(|first: char| first.is_alphabetic() || first == '_');
        starts && Type::F64.parse(field).is_err()
    };
    columns(types).iter().all(has) || types.value != ValueType::None && record.iter().all(is_word)
}

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "not UTF-8 text".into(),
        csv::ErrorKind::Io(error) => super::plain(error),
        _ => error.to_string(),
    }
}

pub fn write(file: &mut dyn WriteSend, rows: &Rows, types: Types) -> Result<(), String> {
    let mut writer = Writer::from_writer(file);
    let mut write = || -> csv::Result<()> {
        writer.write_record(columns(types))?;
        for (key, value) in rows.keys.iter().zip(rows.values.iter()) {
            let key = types.key.decode(key).to_string();
            match types.value {
                ValueType::None => writer.write_record([key])?,
                of => writer.write_record([key, of.decode(value).to_string()])?,
            }
        }
        Ok(writer.flush()?)
    };
    write().map_err(|error| reason(&error))
}
