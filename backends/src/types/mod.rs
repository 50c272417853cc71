//! The types of keys and values that the command line offers, and how their numbers are stored.

mod column;
mod numbers;

use clap::ValueEnum;
use gpulsm::private::{Element as Number, Encoding};
use gpulsm::{Combine, Key};

pub use column::{Column, Element};
pub use gpulsm_tables::{Scalar, Type};

/// A type that keys can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyType {
    U32,
    U64,
    I32,
    I64,
    F32,
    F64,
}

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

impl From<KeyType> for Type {
    fn from(key: KeyType) -> Self {
        match key {
            KeyType::U32 => Type::U32,
            KeyType::U64 => Type::U64,
            KeyType::I32 => Type::I32,
            KeyType::I64 => Type::I64,
            KeyType::F32 => Type::F32,
            KeyType::F64 => Type::F64,
        }
    }
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

impl KeyType {
    /// Returns an empty column for keys of this type.
    pub fn column(self) -> Column {
        Column::new(self.into())
    }

    /// Returns the integer that a key sorts by. The scalar must have this very type.
    pub fn encode(self, key: Scalar) -> u128 {
        match (self, key) {
            (KeyType::U32 | KeyType::U64, Scalar::Unsigned(key)) => key,
            (KeyType::I32, Scalar::Signed(key)) => (key as i32).to_ordered().into(),
            (KeyType::I64, Scalar::Signed(key)) => key.to_ordered().into(),
            (KeyType::F32, Scalar::Single(key)) => key.to_ordered().into(),
            (KeyType::F64, Scalar::Double(key)) => key.to_ordered().into(),
            _ => unreachable!("`Type` gives keys their own variant"),
        }
    }

    /// Returns the key that sorts by an integer.
    pub fn decode(self, ordered: u128) -> Scalar {
        match self {
            KeyType::U32 | KeyType::U64 => Scalar::Unsigned(ordered),
            KeyType::I32 => Scalar::Signed(i32::from_ordered(ordered as u32).into()),
            KeyType::I64 => Scalar::Signed(i64::from_ordered(ordered as u64)),
            KeyType::F32 => Scalar::Single(f32::from_ordered(ordered as u32)),
            KeyType::F64 => Scalar::Double(f64::from_ordered(ordered as u64)),
        }
    }
}

impl ValueType {
    /// Returns an empty column for values of this type.
    pub fn column(self) -> Column {
        Column::new(self.into())
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
        }
    }

    /// Returns the value that has these bits.
    pub fn decode(self, bits: u128) -> Scalar {
        match self {
            ValueType::U32 | ValueType::U64 | ValueType::U128 => Scalar::Unsigned(bits),
            ValueType::I32 => Scalar::Signed((bits as i32).into()),
            ValueType::I64 => Scalar::Signed(bits as i64),
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
    fn keys_sort_by_their_integers_and_come_back_from_them() {
        let check = |of: KeyType, keys: &[Scalar]| {
            let mut column = of.column();
            keys.iter().for_each(|&key| column.push(of.encode(key)));
            assert!(column.iter().is_sorted_by(|a, b| a < b), "{of:?}");
            assert!(column.iter().map(|bits| of.decode(bits)).eq(keys.iter().copied()), "{of:?}");
        };
        check(KeyType::U32, &[0, 7, u32::MAX.into()].map(Scalar::Unsigned));
        check(KeyType::U64, &[0, 7, u64::MAX.into()].map(Scalar::Unsigned));
        check(KeyType::I32, &[i32::MIN.into(), -7, 0, i32::MAX.into()].map(Scalar::Signed));
        check(KeyType::I64, &[i64::MIN, -7, 0, i64::MAX].map(Scalar::Signed));
        check(KeyType::F32, &[f32::NEG_INFINITY, -0.5, 0.0, 1e30].map(Scalar::Single));
        check(KeyType::F64, &[f64::NEG_INFINITY, -0.5, 0.0, 1e300].map(Scalar::Double));
    }

    #[test]
    fn values_come_back_from_their_bits() {
        let check = |of: ValueType, value: Scalar| {
            let mut column = of.column();
            column.push(of.encode(value));
            assert_eq!(of.decode(column.get(0)), value, "{of:?}");
        };
        check(ValueType::I32, Scalar::Signed(-7));
        check(ValueType::F32, Scalar::Single(-0.5));
        check(ValueType::I64, Scalar::Signed(i64::MIN));
        check(ValueType::F64, Scalar::Double(1e300));
        check(ValueType::U128, Scalar::Unsigned(u128::MAX));
        check(ValueType::None, Scalar::Present);
    }
}
