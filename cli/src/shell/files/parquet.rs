//! Parquet: a column of keys and, but for a set, one of values.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::{Rows, WriteSend, columns};
use crate::shell::command::counted;
use crate::types::{Bits, Scalar, ShellKey, Type};

/// Rows that are read, and written as a group, at a time.
const CHUNK: usize = 1 << 16;
const GROUP: usize = 1 << 20;

pub fn read<K: ShellKey, V: Bits>(
    file: File,
    key: Type,
    value: Type,
) -> Result<Rows<K, V>, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| reason(&error))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let places = find_columns(schema, value)?;
    let mut rows = Rows { keys: Vec::new(), values: Vec::new() };
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| reason(&error))?;
        let before = rows.keys.len();
        let read = |place: usize, each: &mut dyn FnMut(Scalar) -> Result<(), String>| {
            let column = group.get_column_reader(place).map_err(|error| reason(&error))?;
            read_column(column, &schema.column(place), before, each)
        };
        let fitting = |of: Type, number: Scalar, name: &str, row: usize| {
            of.convert(number).map_err(|error| format!("row {row}: the {name} is {error}"))
        };
        read(places[0], &mut |number| {
            let number = fitting(key, number, "key", rows.keys.len() + 1)?;
            rows.keys.push(K::from_scalar(number));
            Ok(())
        })?;
        if let Some(&place) = places.get(1) {
            read(place, &mut |number| {
                let number = fitting(value, number, "value", rows.values.len() + 1)?;
                rows.values.push(V::from_scalar(number));
                Ok(())
            })?;
        }
    }
    rows.values.resize(rows.keys.len(), V::from_scalar(Scalar::There));
    Ok(rows)
}

/// Which columns hold keys and values: those so named or, where there are no others, the first ones.
/// What is inside of another column is none.
fn find_columns(schema: &SchemaDescriptor, value: Type) -> Result<Vec<usize>, String> {
    let wanted = columns(value);
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
    let place = |field: usize| {
        let name = fields[field].name();
        let is_plain = fields[field].is_primitive();
        let place = schema.columns().iter().position(|column| column.path().parts() == [name]);
        place
            .filter(|_| is_plain)
            .ok_or_else(|| format!("column `{name}` does not hold plain numbers"))
    };
    chosen.into_iter().map(place).collect()
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

pub fn write<K: ShellKey, V: Bits>(
    file: &mut dyn WriteSend,
    rows: &Rows<K, V>,
    key: Type,
    value: Type,
) -> Result<(), String> {
    let types = [key, value];
    let fields: Vec<String> = columns(value)
        .iter()
        .zip(types)
        .map(|(name, of)| Ok(format!("REQUIRED {};", field(of, name)?)))
        .collect::<Result<_, String>>()?;
    let schema = format!("message gpulsm {{ {} }}", fields.join(" "));
    let write = || -> Result<(), ParquetError> {
        let schema = Arc::new(parse_message_type(&schema)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        for (keys, values) in rows.keys.chunks(GROUP).zip(rows.values.chunks(GROUP)) {
            let mut group = writer.next_row_group()?;
            let mut parts: [&dyn Fn(usize) -> Scalar; 2] =
                [&|at| keys[at].scalar(), &|at| values[at].scalar(value)];
            for (part, of) in parts.iter_mut().zip(types) {
                let Some(mut column) = group.next_column()? else { break };
                write_column(&mut column, of, keys.len(), part)?;
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

/// How a schema says what a column holds.
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
    len: usize,
    scalar: &dyn Fn(usize) -> Scalar,
) -> Result<(), ParquetError> {
    fn write<T: DataType>(
        column: &mut SerializedColumnWriter<'_>,
        numbers: impl Iterator<Item = T::T>,
    ) -> Result<(), ParquetError> {
        let numbers: Vec<T::T> = numbers.collect();
        column.typed::<T>().write_batch(&numbers, None, None).map(|_| ())
    }
    let scalars = (0..len).map(scalar);
    let whole = |scalar: Scalar| <u64 as Bits>::from_scalar(scalar).cast_signed();
    match of {
        Type::U32 | Type::I32 => write::<Int32Type>(column, scalars.map(|s| whole(s) as i32)),
        Type::F32 => write::<FloatType>(
            column,
            scalars.map(|s| f32::from_bits(<u32 as Bits>::from_scalar(s))),
        ),
        Type::F64 => write::<DoubleType>(
            column,
            scalars.map(|s| f64::from_bits(<u64 as Bits>::from_scalar(s))),
        ),
        _ => write::<Int64Type>(column, scalars.map(whole)),
    }
}
