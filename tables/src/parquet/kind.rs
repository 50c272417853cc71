//! What a column's numbers mean.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::ColumnDescriptor;

/// How the numbers of a column are understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Signed,
    Unsigned,
    Float,
    /// Integers to be divided by this power of ten.
    Decimal(u32),
    /// Signed integers that count this since some moment.
    Time(String),
}

impl Kind {
    /// Returns the kind of a column, or what it holds instead of numbers.
    pub fn of(column: &ColumnDescriptor) -> Result<Kind, String> {
        if column.max_rep_level() > 0 {
            return Err("lists".into());
        }
        match (column.logical_type_ref(), column.converted_type()) {
            (Some(logical), _) => Kind::of_logical(logical, column),
            (None, converted) => Kind::of_converted(converted, column),
        }
    }

    fn of_logical(logical: &LogicalType, column: &ColumnDescriptor) -> Result<Kind, String> {
        Ok(match logical {
            LogicalType::Integer(integer) if integer.is_signed => Kind::Signed,
            LogicalType::Integer(_) => Kind::Unsigned,
            LogicalType::Decimal(_) => return Kind::decimal(column),
            LogicalType::Date => Kind::date(),
            LogicalType::Time(time) => Kind::of_day(unit(&time.unit)),
            LogicalType::Timestamp(time) => {
                Kind::timestamp(unit(&time.unit), time.is_adjusted_to_u_t_c)
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
                Physical::INT96 => Kind::timestamp("nanoseconds", false),
                Physical::BOOLEAN => return Err("true and false".into()),
                Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => return Err("bytes".into()),
            },
            ConvertedType::INT_8 | ConvertedType::INT_16 => Kind::Signed,
            ConvertedType::INT_32 | ConvertedType::INT_64 => Kind::Signed,
            ConvertedType::UINT_8 | ConvertedType::UINT_16 => Kind::Unsigned,
            ConvertedType::UINT_32 | ConvertedType::UINT_64 => Kind::Unsigned,
            ConvertedType::DECIMAL => return Kind::decimal(column),
            ConvertedType::DATE => Kind::date(),
            ConvertedType::TIME_MILLIS => Kind::of_day("milliseconds"),
            ConvertedType::TIME_MICROS => Kind::of_day("microseconds"),
            ConvertedType::TIMESTAMP_MILLIS => Kind::timestamp("milliseconds", true),
            ConvertedType::TIMESTAMP_MICROS => Kind::timestamp("microseconds", true),
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

    fn date() -> Kind {
        Kind::Time("days since 1970-01-01".into())
    }

    fn of_day(unit: &str) -> Kind {
        Kind::Time(format!("{unit} since midnight"))
    }

    fn timestamp(unit: &str, is_utc: bool) -> Kind {
        let zone = if is_utc { "UTC" } else { "(no time zone)" };
        Kind::Time(format!("{unit} since 1970-01-01 {zone}"))
    }
}

fn unit(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::MILLIS => "milliseconds",
        TimeUnit::MICROS => "microseconds",
        TimeUnit::NANOS => "nanoseconds",
    }
}
