//! Single keys and values: parsing, conversion, display.

use std::fmt;

use serde_core::{Serialize, Serializer};

use crate::FixedBytes;
use crate::integers::{Integers, expected, not_a_number};

/// The type of a key or of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 128 bits.
    U128,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Floating point, 32 bits.
    F32,
    /// Floating point, 64 bits.
    F64,
    /// A set has no values.
    None,
}

/// One key or value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Of [`Type::U32`], [`Type::U64`] or [`Type::U128`].
    Unsigned(u128),
    /// Of [`Type::I32`], [`Type::I64`] or [`Field::I128`](crate::Field::I128).
    Signed(i128),
    /// Of [`Type::F32`].
    Single(f32),
    /// Of [`Type::F64`].
    Double(f64),
    /// Of [`Field::Bytes`](crate::Field::Bytes).
    Bytes(FixedBytes),
    /// Stands for the value of a key in a set.
    Present,
}

impl Type {
    /// Returns the name, as Rust has it; `none` for a set's values.
    pub fn name(self) -> &'static str {
        match self {
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::U128 => "u128",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::None => "none",
        }
    }

    /// Returns the integers of the type; `None` for floats.
    pub(crate) fn integers(self) -> Option<Integers> {
        let (least, greatest) = match self {
            Type::U32 => (0, u32::MAX.into()),
            Type::U64 => (0, u64::MAX.into()),
            Type::U128 => (0, u128::MAX),
            Type::I32 => (i32::MIN.into(), i32::MAX as u128),
            Type::I64 => (i64::MIN.into(), i64::MAX as u128),
            Type::F32 | Type::F64 | Type::None => return None,
        };
        Some(Integers { name: self.name(), least, greatest })
    }

    /// Parses a number of this type, or returns what is wrong with the text.
    pub fn parse(self, text: &str) -> Result<Scalar, String> {
        if text.is_empty() {
            return Err(format!("missing (expected {})", self.name()));
        }
        if let Some(integers) = self.integers() {
            return integers.parse(text);
        }
        let number = match self {
            Type::F32 => text.parse().map(Scalar::Single),
            _ => text.parse().map(Scalar::Double),
        };
        let number = number.map_err(|_| not_a_number(text, self.name(), "number"))?;
        let names_infinity = text.to_ascii_lowercase().contains("inf");
        if number.is_infinite() && !names_infinity {
            return Err(self.too_large());
        }
        Ok(number)
    }

    /// Converts a number to this type, or returns what is wrong with it. A float is rounded.
    pub fn convert(self, number: Scalar) -> Result<Scalar, String> {
        if let Some(integers) = self.integers() {
            return integers.convert(number);
        }
        let (single, double) = match number {
            Scalar::Unsigned(number) => (number as f32, number as f64),
            Scalar::Signed(number) => (number as f32, number as f64),
            Scalar::Single(number) => (number, number.into()),
            Scalar::Double(number) => (number as f32, number),
            Scalar::Bytes(_) | Scalar::Present => return Err(expected(self.name(), "number")),
        };
        match self {
            Type::F32 if single.is_infinite() && double.is_finite() => Err(self.too_large()),
            Type::F32 => Ok(Scalar::Single(single)),
            _ => Ok(Scalar::Double(double)),
        }
    }

    fn too_large(self) -> String {
        format!("out of range: too large for {}", self.name())
    }
}

impl Scalar {
    fn is_infinite(self) -> bool {
        match self {
            Scalar::Single(number) => number.is_infinite(),
            Scalar::Double(number) => number.is_infinite(),
            _ => false,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Unsigned(number) => number.fmt(f),
            Scalar::Signed(number) => number.fmt(f),
            // Debug writes large and small numbers with exponents.
            Scalar::Single(number) => fmt::Debug::fmt(number, f),
            Scalar::Double(number) => fmt::Debug::fmt(number, f),
            Scalar::Bytes(bytes) => bytes.fmt(f),
            Scalar::Present => "true".fmt(f),
        }
    }
}

/// Writes JSON numbers. Floats that JSON has no number for become strings, and so do bytes.
impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Scalar::Unsigned(number) => match u64::try_from(number) {
                Ok(number) => serializer.serialize_u64(number),
                Err(_) => serializer.serialize_u128(number),
            },
            Scalar::Signed(number) => match i64::try_from(number) {
                Ok(number) => serializer.serialize_i64(number),
                Err(_) => serializer.serialize_i128(number),
            },
            Scalar::Single(number) if number.is_finite() => serializer.serialize_f32(number),
            Scalar::Double(number) if number.is_finite() => serializer.serialize_f64(number),
            Scalar::Single(_) | Scalar::Double(_) | Scalar::Bytes(_) => {
                serializer.collect_str(self)
            }
            Scalar::Present => serializer.serialize_bool(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_ranges() {
        assert_eq!(Type::U32.parse("4294967295"), Ok(Scalar::Unsigned(u32::MAX.into())));
        assert_eq!(Type::I32.parse("-2147483648"), Ok(Scalar::Signed(i32::MIN.into())));
        assert_eq!(Type::I64.parse("9223372036854775807"), Ok(Scalar::Signed(i64::MAX.into())));
        assert_eq!(Type::F32.parse("-inf"), Ok(Scalar::Single(f32::NEG_INFINITY)));
        for (of, text) in [
            (Type::U32, "4294967296"),
            (Type::U32, "-1"),
            (Type::U64, "18446744073709551616"),
            (Type::I32, "2147483648"),
            (Type::I64, "-9223372036854775809"),
            (Type::U32, "999999999999999999999999999999999999999999"),
            (Type::F32, "1e39"),
            (Type::F64, "-1e309"),
        ] {
            let error = of.parse(text).unwrap_err();
            assert!(error.starts_with("out of range"), "{text}: {error}");
        }
        for (of, text) in [
            (Type::U32, "-"),
            (Type::U32, "1.5"),
            (Type::I32, "1e3"),
            (Type::U64, "0x10"),
            (Type::F64, "one"),
            (Type::F32, "1,5"),
        ] {
            assert!(of.parse(text).unwrap_err().starts_with("not a"), "{text}");
        }
    }

    #[test]
    fn numbers_of_other_types_are_converted_where_they_fit() {
        assert_eq!(Type::F32.convert(Scalar::Signed(-3)), Ok(Scalar::Single(-3.0)));
        assert_eq!(Type::U64.convert(Scalar::Signed(3)), Ok(Scalar::Unsigned(3)));
        assert_eq!(Type::I32.convert(Scalar::Unsigned(3)), Ok(Scalar::Signed(3)));
        assert!(Type::I32.convert(Scalar::Double(3.0)).is_err());
        assert!(Type::U32.convert(Scalar::Signed(-3)).is_err());
        assert!(Type::F32.convert(Scalar::Double(1e300)).is_err());
        assert_eq!(Type::F32.convert(Scalar::Double(0.1)), Ok(Scalar::Single(0.1)));
    }

    #[test]
    fn times_and_commas_get_advice() {
        for text in [
            "2024-02-29",
            "2024-02-29T12:00:00Z",
            "2024-02-29 12:00:00.5+01:00",
            "20240229T120000Z",
            "12:30:00",
            "29.02.2024",
            "02/29/2024",
            "2024/02/29",
        ] {
            for of in [Type::U64, Type::I64, Type::F64] {
                let error = of.parse(text).unwrap_err();
                assert!(error.contains("convert it to a number first"), "{text}: {error}");
            }
        }
        assert!(Type::U64.parse("2024-02").unwrap_err().starts_with("not an integer"));
        assert!(Type::F64.parse("1,5").unwrap_err().contains("use a decimal point"));
        assert!(Type::U64.parse("1,000").unwrap_err().contains("no mark between thousands"));
    }

    #[test]
    fn json_has_no_number_for_some_floats() {
        let json = |scalar: Scalar| serde_json::to_string(&scalar).unwrap();
        assert_eq!(json(Scalar::Single(0.1)), "0.1");
        assert_eq!(json(Scalar::Double(f64::NAN)), "\"NaN\"");
        assert_eq!(json(Scalar::Single(f32::NEG_INFINITY)), "\"-inf\"");
        assert_eq!(json(Scalar::Unsigned(u128::MAX)), u128::MAX.to_string());
        assert_eq!(json(Scalar::Signed(i128::MIN)), i128::MIN.to_string());
        assert_eq!(json(Scalar::Bytes(FixedBytes::new(b"AB"))), "\"AB\"");
        assert_eq!(json(Scalar::Present), "true");
    }
}
