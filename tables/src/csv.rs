//! CSV: a line for each pair, with or without a header.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::columns::{self, Names};
use crate::format::Text;
use crate::options::{Choice, Header, Missing, Separator};
use crate::records::Records;
use crate::rows::{Role, RowOptions, Rows, WriteColumn};
use crate::table::Cell;
use crate::{Field, Scalar, Type, WriteOptions, shown};

/// Reads all rows.
pub fn read(
    file: File,
    format: Text,
    options: &RowOptions,
    rows: &mut Rows<'_>,
) -> Result<(), String> {
    let separator = options.separator.unwrap_or(format.separator);
    let mut records = Records::open(file, format.is_gzipped, separator)?;
    let roles = options.roles();
    if roles.iter().any(|role| matches!(role.field, Field::Bytes(_))) {
        records.notice_quotes();
    }
    if !records.advance()? {
        return Err("this file is empty: not even a header is in it".into());
    }
    let has_header = has_header(&records, options.header, &roles)?;
    let mut layout = Layout::of_first(&records, has_header, separator, roles)?;
    if has_header && !records.advance()? {
        return Ok(());
    }
    let hint = |error| match options.header {
        Header::Auto if !has_header => {
            format!("{error} (if this line names the columns, use the option header=yes)")
        }
        _ => error,
    };
    layout.add_row(&records, rows, options.missing).map_err(hint)?;
    while records.advance()? {
        layout.add_row(&records, rows, options.missing)?;
    }
    Ok(())
}

/// Returns whether the first record names the columns.
fn has_header(first: &Records, header: Header, roles: &[Role<'_>]) -> Result<bool, String> {
    let chooses_name = roles.iter().any(|role| matches!(role.choice, Some(Choice::Name(_))));
    Ok(match header {
        Header::Yes => true,
        Header::No if chooses_name => {
            return Err("without a header, columns can be chosen only by number".into());
        }
        Header::No => false,
        Header::Auto => {
            let has = |role: &Role<'_>| {
                first.fields().any(|field| field.eq_ignore_ascii_case(role.name.as_bytes()))
            };
            chooses_name || roles.iter().all(has) || is_of_words(first, roles)
        }
    })
}

/// Returns whether the first record consists of words, as no row of numbers does.
fn is_of_words(first: &Records, roles: &[Role<'_>]) -> bool {
    let has_numbers = roles.iter().any(|role| !matches!(role.field, Field::Bytes(_)));
    // A single word might be a misspelt `inf` or `NaN`.
    let is_clear = first.len() > 1 || !roles[0].field.is_float();
    let are_words = first.fields().all(|field| field.is_empty() || is_word(field));
    has_numbers && is_clear && are_words && first.fields().any(is_word)
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
    /// The places of the columns, and what they hold.
    columns: Vec<(usize, Field)>,
    /// How many fields a record has.
    fields: usize,
    /// The cells of the present row.
    cells: Vec<Option<Cell>>,
}

impl Layout {
    fn of_first(
        first: &Records,
        has_header: bool,
        separator: Separator,
        roles: Vec<Role<'_>>,
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
        let columns = columns::find(&names, &roles).map_err(|error| {
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
        let columns = columns.into_iter().zip(roles.iter().map(|role| role.field)).collect();
        Ok(Layout { names, columns, fields: first.len(), cells: Vec::new() })
    }

    fn add_row(
        &mut self,
        record: &Records,
        rows: &mut Rows<'_>,
        missing: Missing,
    ) -> Result<(), String> {
        if record.len() != self.fields {
            let (line, has, wanted) = (record.line(), record.len(), self.fields);
            let fields = if has == 1 { "field" } else { "fields" };
            return Err(format!("line {line}: {has} {fields}, where the first line has {wanted}"));
        }
        self.cells.clear();
        for &(column, field) in &self.columns {
            let cell = self.cell(record, column, field, missing)?;
            self.cells.push(cell);
        }
        rows.push(&self.cells);
        Ok(())
    }

    /// Parses a field; returns `None` if it is empty and may be.
    #[inline]
    fn cell(
        &self,
        record: &Records,
        column: usize,
        of: Field,
        missing: Missing,
    ) -> Result<Option<Cell>, String> {
        let field = match of {
            Field::Bytes(_) => record.text(column),
            _ => record.field(column),
        };
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
    (rows, columns): (usize, &[WriteColumn<'_>]),
    options: &WriteOptions,
) -> io::Result<()> {
    let separator = options.separator.unwrap_or(format.separator);
    if !format.is_gzipped {
        return write_lines(file, (rows, columns), separator);
    }
    // The encoder is slow if it gets a field at a time.
    let mut encoder = BufWriter::new(GzEncoder::new(file, Compression::default()));
    write_lines(&mut encoder, (rows, columns), separator)?;
    let encoder = encoder.into_inner().map_err(io::IntoInnerError::into_error)?;
    encoder.finish().map(|_| ())
}

fn write_lines(
    file: &mut dyn Write,
    (rows, columns): (usize, &[WriteColumn<'_>]),
    separator: Separator,
) -> io::Result<()> {
    let separator = char::from(separator.byte());
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    writeln!(file, "{}", names.join(&separator.to_string()))?;
    for row in 0..rows {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                write!(file, "{separator}")?;
            }
            match (column.get)(row) {
                Scalar::Bytes(bytes) => write_text(file, &bytes.to_string(), separator)?,
                number => write!(file, "{number}")?,
            }
        }
        writeln!(file)?;
    }
    Ok(())
}

/// Writes a text, in quotes if it contains the separator. It contains no quotes.
fn write_text(file: &mut dyn Write, text: &str, separator: char) -> io::Result<()> {
    match text.contains(separator) {
        true => write!(file, "\"{text}\""),
        false => write!(file, "{text}"),
    }
}

#[cfg(test)]
mod tests;
