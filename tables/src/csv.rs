//! CSV: a line for each pair, with or without a header.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::columns::{self, Columns, Names};
use crate::format::Text;
use crate::options::{Choice, Header, Missing, Separator};
use crate::records::Records;
use crate::table::Cell;
use crate::{Numbers, ReadOptions, Table, Type, WriteOptions, shown};

pub fn read(file: File, format: Text, options: &ReadOptions) -> Result<Table, String> {
    let separator = options.separator.unwrap_or(format.separator);
    let mut records = Records::open(file, format.is_gzipped, separator)?;
    if !records.advance()? {
        return Err("this file is empty: not even a header is in it".into());
    }
    let has_header = has_header(&records, options)?;
    let layout = Layout::of_first(&records, has_header, separator, options)?;
    let mut table = Table::new(options);
    if has_header && !records.advance()? {
        return Ok(table);
    }
    let hint = |error| match options.header {
        Header::Auto if !has_header => {
            format!("{error} (if this line names the columns, use the option header=yes)")
        }
        _ => error,
    };
    layout.add_row(&records, &mut table, options).map_err(hint)?;
    while records.advance()? {
        layout.add_row(&records, &mut table, options)?;
    }
    Ok(table)
}

/// Returns whether the first record names the columns.
fn has_header(first: &Records, options: &ReadOptions) -> Result<bool, String> {
    let choices = [&options.key_column, &options.value_column];
    let chooses_name = choices.iter().any(|choice| matches!(choice, Some(Choice::Name(_))));
    let is_set = options.value == Type::None;
    Ok(match options.header {
        Header::Yes => true,
        Header::No if chooses_name => {
            return Err("without a header, columns can be chosen only by number".into());
        }
        Header::No => false,
        Header::Auto => {
            let has = |name: &str| {
                first.fields().any(|field| field.eq_ignore_ascii_case(name.as_bytes()))
            };
            let has_names = has("key") && (is_set || has("value"));
            // A single word might be a misspelt `inf` or `NaN`.
            let is_clear = first.len() > 1 || !matches!(options.key, Type::F32 | Type::F64);
            let is_words = is_clear
                && first.fields().all(|field| field.is_empty() || is_word(field))
                && first.fields().any(is_word);
            chooses_name || has_names || is_words
        }
    })
}

/// Returns whether a field is neither a number nor empty.
fn is_word(field: &[u8]) -> bool {
    let text = String::from_utf8_lossy(field);
    let starts = text.starts_with(|first: char| first.is_alphabetic() || first == '_');
    starts && Type::F64.parse(&text).is_err()
}

/// The fields of a record that hold keys and values.
struct Layout {
    names: Names,
    columns: Columns,
    /// How many fields a record has.
    fields: usize,
}

impl Layout {
    fn of_first(
        first: &Records,
        has_header: bool,
        separator: Separator,
        options: &ReadOptions,
    ) -> Result<Self, String> {
        let line = first.line();
        if first.fields().any(|field| field.contains(&0)) {
            return Err(format!("line {line}: not text; is this a CSV file?"));
        }
        let name = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        let names = match has_header {
            true => Names::Known(first.fields().map(name).collect()),
            false => Names::Unknown(first.len()),
        };
        let columns = columns::find(&names, options).map_err(|error| {
            if first.fields().any(|field| str::from_utf8(field).is_err()) {
                return format!("line {line}: not UTF-8 text; is this a CSV file?");
            }
            let other =
                b";\t,| ".iter().find(|&&byte| first.len() == 1 && first.field(0).contains(&byte));
            match other.and_then(|&byte| Separator::new(byte)) {
                Some(other) => format!(
                    "line {line}: {error}; is the separator `{other}`, not `{separator}`? (option \
                     separator)"
                ),
                None => format!("line {line}: {error}"),
            }
        })?;
        Ok(Layout { names, columns, fields: first.len() })
    }

    fn add_row(
        &self,
        record: &Records,
        table: &mut Table,
        options: &ReadOptions,
    ) -> Result<(), String> {
        if record.len() != self.fields {
            let (line, has, wanted) = (record.line(), record.len(), self.fields);
            let fields = if has == 1 { "field" } else { "fields" };
            return Err(format!("line {line}: {has} {fields}, where the first line has {wanted}"));
        }
        let key = self.cell(record, self.columns.key, options.key, options.missing)?;
        let value = match self.columns.value {
            Some(column) => self.cell(record, column, options.value, options.missing)?,
            None => Some(Cell::PRESENT),
        };
        table.push(key, value);
        Ok(())
    }

    /// Parses a field; returns `None` if it is empty and may be.
    #[inline]
    fn cell(
        &self,
        record: &Records,
        column: usize,
        of: Type,
        missing: Missing,
    ) -> Result<Option<Cell>, String> {
        let field = record.field(column);
        if field.is_empty() && missing == Missing::Skip {
            return Ok(None);
        }
        let cell = match str::from_utf8(field) {
            Ok(text) => Cell::parse(of, text),
            Err(_) => Err("not UTF-8 text".into()),
        };
        cell.map(Some).map_err(|error| {
            let (line, name) = (record.line_of(column), self.names.shown(column));
            if field.is_empty() {
                let advice = "to skip such rows, use the option missing=skip";
                return format!("line {line}: {name} is empty; {advice}");
            }
            format!("line {line}: {name} is `{}`: {error}", shown(&String::from_utf8_lossy(field)))
        })
    }
}

pub fn write(
    file: &mut dyn Write,
    format: Text,
    (keys, values): (&Numbers, &Numbers),
    options: &WriteOptions,
) -> io::Result<()> {
    let separator = options.separator.unwrap_or(format.separator);
    if !format.is_gzipped {
        return write_lines(file, (keys, values), separator);
    }
    // The encoder is slow if it gets a field at a time.
    let mut encoder = BufWriter::new(GzEncoder::new(file, Compression::default()));
    write_lines(&mut encoder, (keys, values), separator)?;
    let encoder = encoder.into_inner().map_err(io::IntoInnerError::into_error)?;
    encoder.finish().map(|_| ())
}

fn write_lines(
    file: &mut dyn Write,
    (keys, values): (&Numbers, &Numbers),
    separator: Separator,
) -> io::Result<()> {
    let separator = char::from(separator.byte());
    if values.of() == Type::None {
        writeln!(file, "key")?;
        return (0..keys.len()).try_for_each(|row| writeln!(file, "{}", keys.get(row)));
    }
    writeln!(file, "key{separator}value")?;
    (0..keys.len())
        .try_for_each(|row| writeln!(file, "{}{separator}{}", keys.get(row), values.get(row)))
}

#[cfg(test)]
mod tests;
