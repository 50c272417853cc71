//! Parquet: a column of keys and, but for a set, one of values.

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
use crate::table::Cell;
use crate::{ReadOptions, Table};
use kind::Kind;
use pages::Pages;
use source::Source;
pub use write::write;

/// Rows that are read at a time.
const CHUNK: usize = 1 << 14;

pub fn read(file: File, options: &ReadOptions) -> Result<Table, String> {
    let len = file.metadata().map_err(|error| plain(&error))?.len();
    let reader = SerializedFileReader::new(file).map_err(|error| reason(&error))?;
    check_places(reader.metadata(), len)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    // Columns inside of other columns are ignored.
    let fields = schema.root_schema().get_fields();
    let names = Names::Known(fields.iter().map(|field| field.name().into()).collect());
    let columns = columns::find(&names, options)?;
    let leaf = |field: usize| leaf_of(schema, field, &names);
    let key = leaf(columns.key)?;
    let value = columns.value.map(leaf).transpose()?;
    let mut table = Table::new(options);
    table.key_notes.unit = Kind::of(&schema.column(key)).ok().and_then(Kind::unit);
    table.value_notes.unit =
        value.and_then(|leaf| Kind::of(&schema.column(leaf)).ok().and_then(Kind::unit));
    let mut row = 1;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| reason(&error))?;
        let source = |leaf: usize, field: usize, of| {
            let pages = group.get_column_page_reader(leaf).map_err(|error| reason(&error))?;
            let pages = Box::new(Pages::new(pages));
            let reader = get_column_reader(schema.column(leaf), pages);
            Source::new(reader, &schema.column(leaf), of, names.shown(field), options.missing)
        };
        let mut keys = source(key, columns.key, options.key)?;
        let mut values = match value.zip(columns.value) {
            Some((leaf, field)) => Some(source(leaf, field, options.value)?),
            None => None,
        };
        loop {
            let keys = keys.read(CHUNK, row)?;
            let values = match &mut values {
                Some(values) => values.read(CHUNK, row)?,
                None => vec![Some(Cell::PRESENT); keys.len()],
            };
            if keys.len() != values.len() {
                return Err(format!("row {row}: there are not as many values as keys"));
            }
            if keys.is_empty() {
                break;
            }
            row += keys.len();
            keys.into_iter().zip(values).for_each(|(key, value)| table.push(key, value));
        }
    }
    Ok(table)
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
