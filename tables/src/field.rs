//! What one column of a file, or one part of a key, holds.

use crate::integers::Integers;
use crate::{FixedBytes, Scalar, Type};

/// What one column of a file, or one part of a key, holds: numbers or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Numbers of a type that columns of [`Numbers`](crate::Numbers) have.
    Number(Type),
    /// Signed integers of 128 bits.
    I128,
    /// As many bytes, at most 16.
    Bytes(usize),
}

impl From<Type> for Field {
    fn from(of: Type) -> Self {
        Field::Number(of)
    }
}

impl Field {
    /// Returns the name: that of the type, or `bytes` and how many.
    pub fn name(self) -> String {
        match self {
            Field::Number(of) => of.name().into(),
            Field::I128 => I128.name.into(),
            Field::Bytes(len) => format!("bytes{len}"),
        }
    }

    /// Parses a number or bytes, or returns what is wrong with the text.
    pub fn parse(self, text: &str) -> Result<Scalar, String> {
        match self {
            Field::Number(of) => of.parse(text),
            _ if text.is_empty() => Err(format!("missing (expected {})", self.name())),
            Field::I128 => I128.parse(text),
            Field::Bytes(len) => FixedBytes::parse(text, len).map(Scalar::Bytes),
        }
    }

    /// Converts a number to this type, or returns what is wrong with it. A float is rounded.
    pub(crate) fn convert(self, number: Scalar) -> Result<Scalar, String> {
        match self {
            Field::Number(of) => of.convert(number),
            Field::I128 => I128.convert(number),
            Field::Bytes(_) => Err(format!("a number (expected {})", self.name())),
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        match self {
            Field::Number(of) => of.integers().is_some(),
            Field::I128 => true,
            Field::Bytes(_) => false,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Field::Number(Type::F32 | Type::F64))
    }
}

const I128: Integers = Integers { name: "i128", least: i128::MIN, greatest: i128::MAX as u128 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_integers_and_bytes_are_fields_too() {
        let least = i128::MIN.to_string();
        assert_eq!(Field::I128.parse(&least), Ok(Scalar::Signed(i128::MIN)));
        assert_eq!(Field::I128.parse("7"), Ok(Scalar::Signed(7)));
        assert!(Field::I128.parse(&u128::MAX.to_string()).unwrap_err().starts_with("out of range"));
        assert_eq!(Field::I128.parse("x"), Err("not an integer (expected i128)".into()));
        assert_eq!(
            Field::Bytes(2).parse("ab").map(|bytes| bytes.to_string()),
            Ok("ab".to_string())
        );
        assert_eq!(Field::Bytes(2).parse(""), Err("missing (expected bytes2)".into()));
        assert!(Field::Bytes(2).convert(Scalar::Unsigned(1)).is_err());
    }
}
