//! Parquet: a column of keys and, but for a set, one of values.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, SchemaDescriptor};

use super::{Rows, WriteSend, columns};
use crate::shell::command::counted;
use crate::types::{Scalar, Type, Types};

/// Rows that are read at a time, and rows of a group that is written.
const CHUNK: usize = 1 << 16;
const GROUP: usize = 1 << 20;

pub fn read(file: File, types: Types) -> Result<Rows, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| reason(&error))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let columns = find_columns(schema, types)?;
    let mut rows = Rows::new(types);
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| reason(&error))?;
        let before = rows.keys.len();
        let read = |column: usize, each: &mut dyn FnMut(Scalar) -> Result<(), String>| {
            let reader = group.get_column_reader(column).map_err(|error| reason(&error))?;
            read_column(reader, &schema.column(column), before, each)
        };
        let convert = |of: Type, number: Scalar, name: &str, row: usize| {
            of.convert(number).map_err(|error| format!("row {row}: the {name} is {error}"))
        };
        read(columns[0], &mut |number| {
            let number = convert(types.key.into(), number, "key", rows.keys.len() + 1)?;
            rows.keys.push(types.key.encode(number));
            Ok(())
        })?;
        match columns.get(1) {
            Some(&column) => read(column, &mut |number| {
                let number = convert(types.value.into(), number, "value", rows.values.len() + 1)?;
                rows.values.push(types.value.encode(number));
                Ok(())
            })?,
            None => (before..rows.keys.len()).for_each(|_| rows.values.push(0)),
        }
    }
    Ok(rows)
}

/// Returns the columns of keys and values: those so named or, where there are no others, the first ones.
/// Columns inside of other columns are ignored.
fn find_columns(schema: &SchemaDescriptor, types: Types) -> Result<Vec<usize>, String> {
    let wanted = columns(types);
    let fields = schema.root_schema().get_fields();
    let named = |name: &&str| fields.iter().position(|f| f.name().eq_ignore_ascii_case(name));
    let mut chosen: Vec<usize> = wanted.iter().filter_map(named).collect();
    if chosen.len() < wanted.len() && fields.len() == wanted.len() {
        chosen = (0..wanted.len()).collect();
    }
    if let Some(missing) = wanted.iter().find(|name| named(name).is_none())
        && chosen.len() < wanted.len()
    {
        let has = counted(fields.len(), "column");
        return Err(format!("{has}, none of which is named `{missing}`"));
    }
    let column = |field: usize| {
        let name = fields[field].name();
        let is_plain = fields[field].is_primitive();
        let column = schema.columns().iter().position(|column| column.path().parts() == [name]);
        column
            .filter(|_| is_plain)
            .ok_or_else(|| format!("column `{name}` does not hold plain numbers"))
    };
    chosen.into_iter().map(column).collect()
}

/// Calls `each` with every number of a column, whose first row is `before`.
fn read_column(
    reader: ColumnReader,
    column: &ColumnDescriptor,
    before: usize,
    each: &mut dyn FnMut(Scalar) -> Result<(), String>,
) -> Result<(), String> {
    let is_unsigned = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => !integer.is_signed,
        (None, ConvertedType::UINT_8 | ConvertedType::UINT_16) => true,
        (None, ConvertedType::UINT_32 | ConvertedType::UINT_64) => true,
        (None, ConvertedType::NONE | ConvertedType::INT_8 | ConvertedType::INT_16) => false,
        (None, ConvertedType::INT_32 | ConvertedType::INT_64) => false,
        _ => return Err(not_numbers(column)),
    };
    match reader {
        ColumnReader::Int32ColumnReader(reader) => read_typed(reader, column, before, |number| {
            each(match is_unsigned {
                true => Scalar::Unsigned(number.cast_unsigned().into()),
                false => Scalar::Signed(number.into()),
            })
        }),
        ColumnReader::Int64ColumnReader(reader) => read_typed(reader, column, before, |number| {
            each(match is_unsigned {
                true => Scalar::Unsigned(number.cast_unsigned().into()),
                false => Scalar::Signed(number),
            })
        }),
        ColumnReader::FloatColumnReader(reader) => {
            read_typed(reader, column, before, |number| each(Scalar::Single(number)))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            read_typed(reader, column, before, |number| each(Scalar::Double(number)))
        }
        _ => Err(not_numbers(column)),
    }
}

fn read_typed<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    column: &ColumnDescriptor,
    mut row: usize,
    mut each: impl FnMut(T::T) -> Result<(), String>,
) -> Result<(), String> {
    if column.max_rep_level() > 0 {
        return Err(not_numbers(column));
    }
    loop {
        let (mut numbers, mut levels) = (Vec::new(), Vec::new());
        let (records, ..) = reader
            .read_records(CHUNK, Some(&mut levels), None, &mut numbers)
            .map_err(|error| reason(&error))?;
        if records == 0 {
            return Ok(());
        }
        // Only nulls are below the deepest level, and a required column has no levels at all.
        let missing = levels.iter().position(|&level| level < column.max_def_level());
        let whole = missing.unwrap_or(numbers.len());
        numbers.into_iter().take(whole).try_for_each(&mut each)?;
        if let Some(at) = missing {
            return Err(format!("row {}: the {} is missing", row + at + 1, column.name()));
        }
        row += records;
    }
}

fn not_numbers(column: &ColumnDescriptor) -> String {
    format!("column `{}` does not hold plain numbers", column.name())
}

fn reason(error: &ParquetError) -> String {
    match error {
        ParquetError::External(error) => error.to_string(),
        _ => format!("this can't be read as Parquet: {error}"),
    }
}

pub fn write(file: &mut dyn WriteSend, rows: &Rows, types: Types) -> Result<(), String> {
    let kinds = [types.key.into(), types.value.into()];
    let fields: Vec<String> = columns(types)
        .iter()
        .zip(kinds)
        .map(|(name, of)| Ok(format!("REQUIRED {};", field(of, name)?)))
        .collect::<Result<_, String>>()?;
    let schema = format!("message gpulsm {{ {} }}", fields.join(" "));
    let key = |row: usize| types.key.decode(rows.keys.get(row));
    let value = |row: usize| types.value.decode(rows.values.get(row));
    let parts: [(Type, &dyn Fn(usize) -> Scalar); 2] = [(kinds[0], &key), (kinds[1], &value)];
    let write = || -> Result<(), ParquetError> {
        let schema = Arc::new(parse_message_type(&schema)?);
        // Keys are unique: dictionary encoding would only cost time.
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_column_dictionary_enabled(ColumnPath::from(columns(types)[0]), false)
            .build();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        for start in (0..rows.keys.len()).step_by(GROUP) {
            let end = rows.keys.len().min(start + GROUP);
            let mut group = writer.next_row_group()?;
            for (of, scalar) in parts {
                let Some(mut column) = group.next_column()? else { break };
                write_column(&mut column, of, start..end, scalar)?;
                column.close()?;
            }
            group.close()?;
        }
        writer.close().map(|_| ())
    };
    write().map_err(|error| match error {
        ParquetError::External(error) => error.to_string(),
        error => error.to_string(),
    })
}

/// Returns the declaration of a column in the schema.
fn field(of: Type, name: &str) -> Result<String, String> {
    Ok(match of {
        Type::U32 => format!("INT32 {name} (INTEGER(32,false))"),
        Type::U64 => format!("INT64 {name} (INTEGER(64,false))"),
        Type::I32 => format!("INT32 {name}"),
        Type::I64 => format!("INT64 {name}"),
        Type::F32 => format!("FLOAT {name}"),
        Type::F64 => format!("DOUBLE {name}"),
        Type::U128 | Type::None => {
            return Err(format!("Parquet has no type for {}; write a .csv file", of.name()));
        }
    })
}

fn write_column(
    column: &mut SerializedColumnWriter<'_>,
    of: Type,
    rows: Range<usize>,
    scalar: &dyn Fn(usize) -> Scalar,
) -> Result<(), ParquetError> {
    fn write<T: DataType>(
        column: &mut SerializedColumnWriter<'_>,
        numbers: impl Iterator<Item = T::T>,
    ) -> Result<(), ParquetError> {
        let numbers: Vec<T::T> = numbers.collect();
        column.typed::<T>().write_batch(&numbers, None, None).map(|_| ())
    }
    let scalars = rows.map(scalar);
    let integer = |scalar| match scalar {
        Scalar::Unsigned(number) => number as i64,
        Scalar::Signed(number) => number,
        _ => unreachable!("`field` gives every type its own column"),
    };
    let single = |scalar| match scalar {
        Scalar::Single(number) => number,
        _ => unreachable!("`field` gives every type its own column"),
    };
    let double = |scalar| match scalar {
        Scalar::Double(number) => number,
        _ => unreachable!("`field` gives every type its own column"),
    };
    match of {
        Type::U32 | Type::I32 => write::<Int32Type>(column, scalars.map(|s| integer(s) as i32)),
        Type::F32 => write::<FloatType>(column, scalars.map(single)),
        Type::F64 => write::<DoubleType>(column, scalars.map(double)),
        _ => write::<Int64Type>(column, scalars.map(integer)),
    }
}
