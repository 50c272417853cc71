//! The parts of keys: numbers and bytes, and the integers that they sort by.

use std::fmt;
use std::str::FromStr;

use gpulsm::Key as _;
use gpulsm_tables::{Field, FixedBytes, Scalar, Type};

/// A type that a key, or a part of one, can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    U32,
    U64,
    U128,
    I32,
    I64,
    I128,
    F32,
    F64,
    /// As many bytes, from 1 to 16, compared from the first on.
    Bytes(u8),
}

impl Part {
    /// All types of numbers.
    pub const NUMBERS: [Part; 8] =
        [Part::U32, Part::U64, Part::U128, Part::I32, Part::I64, Part::I128, Part::F32, Part::F64];

    /// Returns how many bits the integer has that the part sorts by.
    pub fn bits(self) -> u32 {
        match self {
            Part::U32 | Part::I32 | Part::F32 => 32,
            Part::U64 | Part::I64 | Part::F64 => 64,
            Part::U128 | Part::I128 => 128,
            Part::Bytes(len) => 8 * u32::from(len),
        }
    }

    pub fn is_number(self) -> bool {
        !matches!(self, Part::Bytes(_))
    }

    /// Returns how such a part is written.
    pub fn field(self) -> Field {
        match self {
            Part::U32 => Type::U32.into(),
            Part::U64 => Type::U64.into(),
            Part::U128 => Type::U128.into(),
            Part::I32 => Type::I32.into(),
            Part::I64 => Type::I64.into(),
            Part::F32 => Type::F32.into(),
            Part::F64 => Type::F64.into(),
            Part::I128 => Field::I128,
            Part::Bytes(len) => Field::Bytes(len.into()),
        }
    }

    /// Returns the integers that the first and the last part in order sort by.
    pub(super) fn ends(self) -> (u128, u128) {
        match self {
            Part::F32 => (f32::LOWEST.to_ordered().into(), f32::HIGHEST.to_ordered().into()),
            Part::F64 => (f64::LOWEST.to_ordered().into(), f64::HIGHEST.to_ordered().into()),
            _ => (0, u128::MAX >> (u128::BITS - self.bits())),
        }
    }

    /// Returns the integer that a part sorts by. The scalar must have this very type.
    pub fn encode(self, part: Scalar) -> u128 {
        match (self, part) {
            (Part::U32 | Part::U64 | Part::U128, Scalar::Unsigned(part)) => part,
            (Part::I32, Scalar::Signed(part)) => (part as i32).to_ordered().into(),
            (Part::I64, Scalar::Signed(part)) => (part as i64).to_ordered().into(),
            (Part::I128, Scalar::Signed(part)) => part.to_ordered(),
            (Part::F32, Scalar::Single(part)) => part.to_ordered().into(),
            (Part::F64, Scalar::Double(part)) => part.to_ordered().into(),
            (Part::Bytes(_), Scalar::Bytes(bytes)) => {
                bytes.as_slice().iter().fold(0, |packed, &byte| packed << 8 | u128::from(byte))
            }
            _ => unreachable!("`Field` gives parts their own variant"),
        }
    }

    /// Returns the part that sorts by an integer.
    pub fn decode(self, ordered: u128) -> Scalar {
        match self {
            Part::U32 | Part::U64 | Part::U128 => Scalar::Unsigned(ordered),
            Part::I32 => Scalar::Signed(i32::from_ordered(ordered as u32).into()),
            Part::I64 => Scalar::Signed(i64::from_ordered(ordered as u64).into()),
            Part::I128 => Scalar::Signed(i128::from_ordered(ordered)),
            Part::F32 => Scalar::Single(f32::from_ordered(ordered as u32)),
            Part::F64 => Scalar::Double(f64::from_ordered(ordered as u64)),
            Part::Bytes(len) => {
                let bytes = ordered.to_be_bytes();
                Scalar::Bytes(FixedBytes::new(&bytes[bytes.len() - usize::from(len)..]))
            }
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field().name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some(number) = Part::NUMBERS.into_iter().find(|number| number.to_string() == name) {
            return Ok(number);
        }
        let len = name.strip_prefix("bytes").and_then(|len| len.parse().ok());
        match len.filter(|len| (1..=16).contains(len)) {
            Some(len) => Ok(Part::Bytes(len)),
            None => Err(format!("no type of keys is named `{name}`")),
        }
    }
}
