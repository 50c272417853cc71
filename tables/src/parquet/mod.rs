//! Parquet: a column for each part of keys and, but for a set, one of values.

mod kind;
mod pages;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::fs::File;

use parquet::column::reader::get_column_reader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::SchemaDescriptor;

use crate::columns::{self, Names};
use crate::error::plain;
use crate::rows::{RowOptions, Rows};
use crate::{Field, Holds, Type};
use kind::Kind;
use pages::Pages;
use source::Source;
pub use write::write;

/// Rows that are read at a time.
const CHUNK: usize = 1 << 14;

/// Reads all rows.
pub fn read(file: File, options: &RowOptions, rows: &mut Rows<'_>) -> Result<(), String> {
    let len = file.metadata().map_err(|error| plain(&error))?.len();
    let reader = SerializedFileReader::new(file).map_err(|error| reason(&error))?;
    check_places(reader.metadata(), len)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    // Columns inside of other columns are ignored.
    let fields = schema.root_schema().get_fields();
    let names = Names::Known(fields.iter().map(|field| field.name().into()).collect());
    let roles = options.roles();
    let places = columns::find(&names, &roles)?;
    let mut columns = Vec::new();
    for (role, &place) in places.iter().enumerate() {
        let leaf = leaf_of(schema, place, &names)?;
        let field = roles[role].field;
        rows.set_unit(role, Kind::of(&schema.column(leaf), field).ok().and_then(Kind::unit));
        columns.push(Column { leaf, field, name: names.shown(place) });
    }
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| reason(&error))?;
        let source = |column: &Column| {
            let pages =
                group.get_column_page_reader(column.leaf).map_err(|error| reason(&error))?;
            let descriptor = schema.column(column.leaf);
            let reader = get_column_reader(descriptor.clone(), Box::new(Pages::new(pages)));
            Source::new(reader, &descriptor, column, options.missing)
        };
        let mut sources = columns.iter().map(source).collect::<Result<Vec<_>, _>>()?;
        while read_chunk(&mut sources, rows)? {}
    }
    Ok(())
}

/// Returns what messages call the columns of the parts of keys and of values, and what they hold, if it is known.
pub fn types(
    file: File,
    parts: Option<usize>,
    mut options: RowOptions,
) -> Result<Vec<(String, Option<Holds>)>, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| reason(&error))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let fields = schema.root_schema().get_fields();
    let names: Vec<String> = fields.iter().map(|field| field.name().into()).collect();
    let is_named = |part: &usize| names.iter().any(|name| *name == format!("key{part}"));
    let parts = parts.unwrap_or_else(|| match options.key_columns.len() {
        0 => (1..).take_while(is_named).count().max(1),
        chosen => chosen,
    });
    options.keys = vec![Type::I64.into(); parts];
    let names = Names::Known(names);
    let places = columns::find(&names, &options.roles())?;
    let types = places.into_iter().map(|place| {
        let leaf = leaf_of(schema, place, &names)?;
        Ok((names.shown(place), Kind::holds(&schema.column(leaf))))
    });
    types.collect()
}

/// A column to be read.
struct Column {
    /// Its place among all leaves of the schema.
    leaf: usize,
    field: Field,
    /// What messages call it.
    name: String,
}

/// Reads the next rows of a group; returns whether there are any.
fn read_chunk(sources: &mut [Source], rows: &mut Rows<'_>) -> Result<bool, String> {
    let row = (rows.notes.rows + rows.notes.skipped + 1) as usize;
    let cells = sources.iter_mut().map(|source| source.read(CHUNK, row));
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    let len = cells[0].len();
    if cells.iter().any(|column| column.len() != len) {
        return Err(format!("row {row}: the columns don't have as many rows as each other"));
    }
    let mut present = Vec::new();
    for index in 0..len {
        present.clear();
        present.extend(cells.iter().map(|column| column[index]));
        rows.push(&present);
    }
    Ok(len > 0)
}

/// Checks that every column lies within the file: the reader panics where it does not.
fn check_places(metadata: &ParquetMetaData, len: u64) -> Result<(), String> {
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let is_within = |column: &ColumnChunkMetaData| {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end =
            u64::try_from(start).ok()?.checked_add(column.compressed_size().try_into().ok()?)?;
        (end <= len && column.data_page_offset() >= 0 && column.num_values() >= 0).then_some(())
    };
    for column in columns {
        let name = column.column_path();
        is_within(column).ok_or_else(|| {
            format!("this can't be read as Parquet: column {name} lies outside of the file")
        })?;
    }
    Ok(())
}

/// Returns the place among all leaves of the schema of a column that is a leaf itself.
fn leaf_of(schema: &SchemaDescriptor, field: usize, names: &Names) -> Result<usize, String> {
    let is_leaf = schema.root_schema().get_fields()[field].is_primitive();
    (0..schema.num_columns())
        .find(|&leaf| is_leaf && schema.get_column_root_idx(leaf) == field)
        .ok_or_else(|| format!("{} holds columns of its own, not numbers", names.shown(field)))
}

fn reason(error: &ParquetError) -> String {
    match error {
        ParquetError::External(error) => error.to_string(),
        _ => format!("this can't be read as Parquet: {error}"),
    }
}
