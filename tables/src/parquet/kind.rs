//! What a column's numbers mean.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::ColumnDescriptor;

use crate::{Field, Holds, Step, Type, Unit};

/// How the numbers of a column are understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Signed,
    Unsigned,
    Float,
    /// Integers to be divided by this power of ten.
    Decimal(u32),
    /// Signed integers that count this.
    Time(Unit),
    /// Bytes or text, to be read as this many bytes.
    Bytes(usize),
}

impl Kind {
    /// Returns the kind of a column from which this is wanted, or what it holds instead.
    pub fn of(column: &ColumnDescriptor, wanted: Field) -> Result<Kind, String> {
        if column.max_rep_level() > 0 {
            return Err("lists".into());
        }
        if let Field::Bytes(len) = wanted {
            return Kind::of_bytes(column, len);
        }
        match (column.logical_type_ref(), column.converted_type()) {
            (Some(logical), _) => Kind::of_logical(logical, column),
            (None, converted) => Kind::of_converted(converted, column),
        }
    }

    /// Returns what the numbers count, if they are times.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Kind::Time(unit) => Some(unit),
            _ => None,
        }
    }

    /// Returns what a column holds, if a field can hold just that.
    pub fn holds(column: &ColumnDescriptor) -> Option<Holds> {
        let wide = match column.physical_type() {
            Physical::INT32 | Physical::FLOAT => false,
            Physical::INT64 | Physical::DOUBLE | Physical::INT96 => true,
            Physical::FIXED_LEN_BYTE_ARRAY => {
                let len = usize::try_from(column.type_length()).ok()?;
                let is_bytes = Kind::of_bytes(column, len).is_ok();
                return is_bytes.then_some(Holds::Field(Field::Bytes(len)));
            }
            Physical::BOOLEAN | Physical::BYTE_ARRAY => return None,
        };
        let number = match (Kind::of(column, Type::I64.into()).ok()?, wide) {
            (Kind::Signed, false) => Type::I32,
            (Kind::Signed, true) => Type::I64,
            (Kind::Unsigned, false) => Type::U32,
            (Kind::Unsigned, true) => Type::U64,
            (Kind::Float, false) => Type::F32,
            (Kind::Float, true) => Type::F64,
            (Kind::Time(unit), _) => return Some(Holds::Time(unit)),
            (Kind::Decimal(_) | Kind::Bytes(_), _) => return None,
        };
        Some(Holds::Field(number.into()))
    }

    /// Returns the kind of a column of bytes or text.
    fn of_bytes(column: &ColumnDescriptor, len: usize) -> Result<Kind, String> {
        let logical = column.logical_type_ref();
        let are_numbers = matches!(logical, Some(LogicalType::Decimal(_) | LogicalType::Float16))
            || column.converted_type() == ConvertedType::DECIMAL;
        match column.physical_type() {
            Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY if !are_numbers => {
                Ok(Kind::Bytes(len))
            }
            _ => Err("numbers".into()),
        }
    }

    fn of_logical(logical: &LogicalType, column: &ColumnDescriptor) -> Result<Kind, String> {
        Ok(match logical {
            LogicalType::Integer(integer) if integer.is_signed => Kind::Signed,
            LogicalType::Integer(_) => Kind::Unsigned,
            LogicalType::Decimal(_) => return Kind::decimal(column),
            LogicalType::Date => Kind::Time(Unit::Days),
            LogicalType::Time(time) => Kind::Time(Unit::TimeOfDay(step(&time.unit))),
            LogicalType::Timestamp(time) => {
                Kind::timestamp(step(&time.unit), time.is_adjusted_to_u_t_c)
            }
            LogicalType::String | LogicalType::Enum | LogicalType::Json => {
                return Err("text".into());
            }
            other => return Err(format!("{other:?}")),
        })
    }

    /// Returns the kind of a column of an old file.
    fn of_converted(converted: ConvertedType, column: &ColumnDescriptor) -> Result<Kind, String> {
        Ok(match converted {
            ConvertedType::NONE => match column.physical_type() {
                Physical::INT32 | Physical::INT64 => Kind::Signed,
                Physical::FLOAT | Physical::DOUBLE => Kind::Float,
                // Only timestamps were ever written so.
                Physical::INT96 => Kind::timestamp(Step::Nanoseconds, false),
                Physical::BOOLEAN => return Err("true and false".into()),
                Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => return Err("bytes".into()),
            },
            ConvertedType::INT_8 | ConvertedType::INT_16 => Kind::Signed,
            ConvertedType::INT_32 | ConvertedType::INT_64 => Kind::Signed,
            ConvertedType::UINT_8 | ConvertedType::UINT_16 => Kind::Unsigned,
            ConvertedType::UINT_32 | ConvertedType::UINT_64 => Kind::Unsigned,
            ConvertedType::DECIMAL => return Kind::decimal(column),
            ConvertedType::DATE => Kind::Time(Unit::Days),
            ConvertedType::TIME_MILLIS => Kind::Time(Unit::TimeOfDay(Step::Milliseconds)),
            ConvertedType::TIME_MICROS => Kind::Time(Unit::TimeOfDay(Step::Microseconds)),
            ConvertedType::TIMESTAMP_MILLIS => Kind::timestamp(Step::Milliseconds, true),
            ConvertedType::TIMESTAMP_MICROS => Kind::timestamp(Step::Microseconds, true),
            ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON => {
                return Err("text".into());
            }
            other => return Err(format!("{other:?}")),
        })
    }

    fn decimal(column: &ColumnDescriptor) -> Result<Kind, String> {
        let (precision, scale) = (column.type_precision(), column.type_scale());
        match u32::try_from(scale) {
            // As many digits as a 128-bit integer can have.
            Ok(scale) if scale <= 38 => Ok(Kind::Decimal(scale)),
            _ => Err(format!("DECIMAL({precision},{scale}), of more than 38 places")),
        }
    }

    fn timestamp(step: Step, is_utc: bool) -> Kind {
        Kind::Time(Unit::Timestamp { step, is_utc })
    }
}

fn step(unit: &TimeUnit) -> Step {
    match unit {
        TimeUnit::MILLIS => Step::Milliseconds,
        TimeUnit::MICROS => Step::Microseconds,
        TimeUnit::NANOS => Step::Nanoseconds,
    }
}
