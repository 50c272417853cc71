//! The types of keys and values that the command line offers, and how their numbers are stored.

mod column;
mod key;
mod part;

use clap::ValueEnum;
use gpulsm::Combine;
use gpulsm::private::{Element as Number, Encoding};

pub use column::{Column, Element};
pub use gpulsm_tables::{Field, Scalar, Type};
pub use key::{End, Key, KeyType, MOST_PARTS};
pub use part::Part;

/// A type that values can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueType {
    /// No values: a set
    None,
    U32,
    U64,
    I32,
    I64,
    F32,
    F64,
    U128,
}

/// What an insert does to a key that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// The new value replaces the old one
    Replace,
    /// Values are added; integers wrap around
    Add,
    /// The least value stays
    Min,
    /// The greatest value stays
    Max,
    /// The bits that either value has
    Or,
    /// The bits that both values have
    And,
    /// The bits in which the values differ
    Xor,
}

impl From<Rule> for Combine {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Replace => Combine::Replace,
            Rule::Add => Combine::Add,
            Rule::Min => Combine::Min,
            Rule::Max => Combine::Max,
            Rule::Or => Combine::Or,
            Rule::And => Combine::And,
            Rule::Xor => Combine::Xor,
        }
    }
}

/// The types of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    pub key: KeyType,
    pub value: ValueType,
}

impl From<ValueType> for Type {
    fn from(value: ValueType) -> Self {
        match value {
            ValueType::None => Type::None,
            ValueType::U32 => Type::U32,
            ValueType::U64 => Type::U64,
            ValueType::I32 => Type::I32,
            ValueType::I64 => Type::I64,
            ValueType::F32 => Type::F32,
            ValueType::F64 => Type::F64,
            ValueType::U128 => Type::U128,
        }
    }
}

impl ValueType {
    /// Returns an empty column for values of this type.
    pub fn column(self) -> Column {
        Column::with_width(self.width())
    }

    /// Returns the width of a value, in bytes.
    pub fn width(self) -> usize {
        match self {
            ValueType::None => 0,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::U128 => 16,
        }
    }

    /// Returns whether values of this type are added up and compared.
    pub fn is_number(self) -> bool {
        !matches!(self, ValueType::None | ValueType::U128)
    }

    /// Returns the type of number that values are.
    pub fn element(self) -> Number {
        let encoding = match self {
            ValueType::None | ValueType::U128 | ValueType::U32 | ValueType::U64 => {
                Encoding::Unsigned
            }
            ValueType::I32 | ValueType::I64 => Encoding::Signed,
            ValueType::F32 | ValueType::F64 => Encoding::Float,
        };
        Number { width: self.width(), encoding }
    }

    /// Returns the type of sums of such values.
    pub fn sum(self) -> Self {
        match self {
            ValueType::I32 | ValueType::I64 => ValueType::I64,
            ValueType::F32 | ValueType::F64 => ValueType::F64,
            _ => ValueType::U64,
        }
    }

    /// Returns the bits of a value. The scalar must have this very type.
    pub fn encode(self, value: Scalar) -> u128 {
        match value {
            Scalar::Unsigned(value) => value,
            // Columns keep the low bits, of which the sign is one.
            Scalar::Signed(value) => value as u128,
            Scalar::Single(value) => value.to_bits().into(),
            Scalar::Double(value) => value.to_bits().into(),
            Scalar::Present => 0,
            Scalar::Bytes(_) => unreachable!("`Type` gives values their own variant"),
        }
    }

    /// Returns the value that has these bits.
    pub fn decode(self, bits: u128) -> Scalar {
        match self {
            ValueType::U32 | ValueType::U64 | ValueType::U128 => Scalar::Unsigned(bits),
            ValueType::I32 => Scalar::Signed((bits as i32).into()),
            ValueType::I64 => Scalar::Signed((bits as i64).into()),
            ValueType::F32 => Scalar::Single(f32::from_bits(bits as u32)),
            ValueType::F64 => Scalar::Double(f64::from_bits(bits as u64)),
            ValueType::None => Scalar::Present,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_their_bits() {
        let check = |of: ValueType, value: Scalar| {
            let mut column = of.column();
            column.push(of.encode(value));
            assert_eq!(of.decode(column.get(0)), value, "{of:?}");
        };
        check(ValueType::I32, Scalar::Signed(-7));
        check(ValueType::F32, Scalar::Single(-0.5));
        check(ValueType::I64, Scalar::Signed(i64::MIN.into()));
        check(ValueType::F64, Scalar::Double(1e300));
        check(ValueType::U128, Scalar::Unsigned(u128::MAX));
        check(ValueType::None, Scalar::Present);
    }
}
