//! Writing: plain columns of one group after another.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::output::{Failure, WriteSend};
use crate::rows::WriteColumn;
use crate::{Field, Scalar, Step, Type};

/// Rows of a group.
const GROUP: usize = 1 << 20;

pub fn write(
    file: &mut dyn WriteSend,
    (rows, columns): (usize, &[WriteColumn<'_>]),
) -> Result<(), Failure> {
    let fields = columns.iter().map(declaration);
    let fields = fields.collect::<Result<String, String>>().map_err(Failure::Content)?;
    let schema = format!("message gpulsm {{ {fields}}}");
    write_groups(file, &schema, (rows, columns)).map_err(|error| match error {
        ParquetError::External(error) => match error.downcast() {
            Ok(error) => Failure::Io(*error),
            Err(error) => Failure::Content(error.to_string()),
        },
        error => Failure::Content(error.to_string()),
    })
}

/// Returns the declaration of a column in the schema.
fn declaration(column: &WriteColumn<'_>) -> Result<String, String> {
    let WriteColumn { name, field, times, .. } = column;
    let declared = match field {
        Field::Number(Type::U32) => format!("INT32 {name} (INTEGER(32,false))"),
        Field::Number(Type::U64) => format!("INT64 {name} (INTEGER(64,false))"),
        Field::Number(Type::I32) => format!("INT32 {name}"),
        Field::Number(Type::I64) => match times {
            Some(Step::Milliseconds) => format!("INT64 {name} (TIMESTAMP(MILLIS,false))"),
            Some(Step::Microseconds) => format!("INT64 {name} (TIMESTAMP(MICROS,false))"),
            Some(Step::Nanoseconds) => format!("INT64 {name} (TIMESTAMP(NANOS,false))"),
            None => format!("INT64 {name}"),
        },
        Field::Number(Type::F32) => format!("FLOAT {name}"),
        Field::Number(Type::F64) => format!("DOUBLE {name}"),
        Field::Bytes(len) => format!("FIXED_LEN_BYTE_ARRAY ({len}) {name}"),
        Field::I128 | Field::Number(Type::U128 | Type::None) => {
            return Err(format!("Parquet has no type for {}; write a .csv file", field.name()));
        }
    };
    Ok(format!("REQUIRED {declared}; "))
}

fn write_groups(
    file: &mut dyn WriteSend,
    schema: &str,
    (rows, columns): (usize, &[WriteColumn<'_>]),
) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(schema)?);
    // Keys are unique: dictionary encoding would only cost time.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_column_dictionary_enabled(ColumnPath::from("key"), false)
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    for start in (0..rows).step_by(GROUP) {
        let mut group = writer.next_row_group()?;
        for column in columns {
            let Some(mut out) = group.next_column()? else { break };
            write_column(&mut out, column, start..rows.min(start + GROUP))?;
            out.close()?;
        }
        group.close()?;
    }
    writer.close().map(|_| ())
}

fn write_column(
    out: &mut SerializedColumnWriter<'_>,
    column: &WriteColumn<'_>,
    rows: Range<usize>,
) -> Result<(), ParquetError> {
    let scalars = rows.map(column.get);
    match column.field {
        Field::Number(Type::F32) => write_all::<FloatType>(out, scalars, |scalar| match scalar {
            Scalar::Single(number) => Some(number),
            _ => None,
        }),
        Field::Number(Type::F64) => write_all::<DoubleType>(out, scalars, |scalar| match scalar {
            Scalar::Double(number) => Some(number),
            _ => None,
        }),
        Field::Number(Type::U32 | Type::I32) => {
            write_all::<Int32Type>(out, scalars, |scalar| integer(scalar).map(|it| it as i32))
        }
        Field::Bytes(_) => {
            write_all::<FixedLenByteArrayType>(out, scalars, |scalar| match scalar {
                Scalar::Bytes(bytes) => Some(bytes.as_slice().to_vec().into()),
                _ => None,
            })
        }
        _ => write_all::<Int64Type>(out, scalars, |scalar| integer(scalar).map(|it| it as i64)),
    }
}

/// Writes what scalars are to Parquet.
fn write_all<T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    scalars: impl Iterator<Item = Scalar>,
    convert: impl Fn(Scalar) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let numbers = scalars.map(|scalar| convert(scalar).expect("a column has one type"));
    let numbers: Vec<T::T> = numbers.collect();
    out.typed::<T>().write_batch(&numbers, None, None).map(|_| ())
}

/// Returns the low bits of an integer, of which the sign is one.
fn integer(scalar: Scalar) -> Option<i128> {
    match scalar {
        Scalar::Unsigned(number) => Some(number as i128),
        Scalar::Signed(number) => Some(number),
        _ => None,
    }
}
