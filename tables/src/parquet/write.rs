//! Writing: plain columns of one group after another.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::output::{Failure, WriteSend};
use crate::{Numbers, Step, Type, WriteOptions};

/// Rows of a group.
const GROUP: usize = 1 << 20;

pub fn write(
    file: &mut dyn WriteSend,
    (keys, values): (&Numbers, &Numbers),
    options: &WriteOptions,
) -> Result<(), Failure> {
    let columns = [("key", keys), ("value", values)];
    let columns = if values.of() == Type::None { &columns[..1] } else { &columns };
    let times = [options.key_times, options.value_times];
    let fields =
        columns.iter().zip(times).map(|((name, numbers), times)| field(numbers.of(), times, name));
    let fields = fields.collect::<Result<String, String>>().map_err(Failure::Content)?;
    let schema = format!("message gpulsm {{ {fields}}}");
    write_groups(file, &schema, columns).map_err(|error| match error {
        ParquetError::External(error) => match error.downcast() {
            Ok(error) => Failure::Io(*error),
            Err(error) => Failure::Content(error.to_string()),
        },
        error => Failure::Content(error.to_string()),
    })
}

/// Returns the declaration of a column in the schema.
fn field(of: Type, times: Option<Step>, name: &str) -> Result<String, String> {
    let declared = match of {
        Type::U32 => format!("INT32 {name} (INTEGER(32,false))"),
        Type::U64 => format!("INT64 {name} (INTEGER(64,false))"),
        Type::I32 => format!("INT32 {name}"),
        Type::I64 => match times {
            Some(Step::Milliseconds) => format!("INT64 {name} (TIMESTAMP(MILLIS,false))"),
            Some(Step::Microseconds) => format!("INT64 {name} (TIMESTAMP(MICROS,false))"),
            Some(Step::Nanoseconds) => format!("INT64 {name} (TIMESTAMP(NANOS,false))"),
            None => format!("INT64 {name}"),
        },
        Type::F32 => format!("FLOAT {name}"),
        Type::F64 => format!("DOUBLE {name}"),
        Type::U128 | Type::None => {
            return Err(format!("Parquet has no type for {}; write a .csv file", of.name()));
        }
    };
    Ok(format!("REQUIRED {declared}; "))
}

fn write_groups(
    file: &mut dyn WriteSend,
    schema: &str,
    columns: &[(&str, &Numbers)],
) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(schema)?);
    // Keys are unique: dictionary encoding would only cost time.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_column_dictionary_enabled(ColumnPath::from("key"), false)
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let rows = columns[0].1.len();
    for start in (0..rows).step_by(GROUP) {
        let mut group = writer.next_row_group()?;
        for (_, numbers) in columns {
            let Some(mut column) = group.next_column()? else { break };
            write_column(&mut column, numbers, start..rows.min(start + GROUP))?;
            column.close()?;
        }
        group.close()?;
    }
    writer.close().map(|_| ())
}

fn write_column(
    column: &mut SerializedColumnWriter<'_>,
    numbers: &Numbers,
    rows: Range<usize>,
) -> Result<(), ParquetError> {
    fn write<T: DataType>(
        column: &mut SerializedColumnWriter<'_>,
        numbers: &[T::T],
    ) -> Result<(), ParquetError> {
        column.typed::<T>().write_batch(numbers, None, None).map(|_| ())
    }
    match numbers {
        Numbers::U32(numbers) => {
            let numbers: Vec<i32> = numbers[rows].iter().map(|it| it.cast_signed()).collect();
            write::<Int32Type>(column, &numbers)
        }
        Numbers::U64(numbers) => {
            let numbers: Vec<i64> = numbers[rows].iter().map(|it| it.cast_signed()).collect();
            write::<Int64Type>(column, &numbers)
        }
        Numbers::I32(numbers) => write::<Int32Type>(column, &numbers[rows]),
        Numbers::I64(numbers) => write::<Int64Type>(column, &numbers[rows]),
        Numbers::F32(numbers) => write::<FloatType>(column, &numbers[rows]),
        Numbers::F64(numbers) => write::<DoubleType>(column, &numbers[rows]),
        Numbers::U128(_) | Numbers::None(_) => unreachable!("`field` refuses these"),
    }
}
