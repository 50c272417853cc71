//! The types of keys and values, chosen on the command line, and single keys and values of them.

use std::fmt;

use clap::ValueEnum;
use gpulsm::{Key, Value};
use serde::{Serialize, Serializer};

/// What a key or a value is, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    U32,
    U64,
    U128,
    I32,
    I64,
    F32,
    F64,
    /// A set has no values.
    None,
}

/// Types that keys can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyType {
    U32,
    U64,
    I32,
    I64,
    F32,
    F64,
}

/// Types that values can have.
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

/// Does something with the types that stand for a [`KeyType`] and a [`ValueType`]. Of a value only
/// the width matters to a dictionary: it is kept as unsigned bits ([`Bits`]).
macro_rules! with_types {
    ($key:expr, $value:expr, $K:ident, $V:ident => $body:expr) => {{
        macro_rules! with_value {
            () => {
                match $value {
                    ValueType::None => {
                        type $V = ();
                        $body
                    }
                    ValueType::U32 | ValueType::I32 | ValueType::F32 => {
                        type $V = u32;
                        $body
                    }
                    ValueType::U64 | ValueType::I64 | ValueType::F64 => {
                        type $V = u64;
                        $body
                    }
                    ValueType::U128 => {
                        type $V = u128;
                        $body
                    }
                }
            };
        }
        macro_rules! with_key {
            ($type:ty) => {{
                type $K = $type;
                with_value!()
            }};
        }
        match $key {
            KeyType::U32 => with_key!(u32),
            KeyType::U64 => with_key!(u64),
            KeyType::I32 => with_key!(i32),
            KeyType::I64 => with_key!(i64),
            KeyType::F32 => with_key!(f32),
            KeyType::F64 => with_key!(f64),
        }
    }};
}
pub(crate) use with_types;

/// One key or value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Unsigned(u128),
    Signed(i64),
    Single(f32),
    Double(f64),
    /// What stands for the value of a key in a set.
    There,
}

impl Type {
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

    /// The least and the greatest whole number of the type; `None` for floats.
    fn whole(self) -> Option<(i128, u128)> {
        match self {
            Type::U32 => Some((0, u32::MAX.into())),
            Type::U64 => Some((0, u64::MAX.into())),
            Type::U128 => Some((0, u128::MAX)),
            Type::I32 => Some((i32::MIN.into(), i32::MAX as u128)),
            Type::I64 => Some((i64::MIN.into(), i64::MAX as u128)),
            Type::F32 | Type::F64 | Type::None => None,
        }
    }

    /// Reads one of this type, or says what is wrong with the text.
    pub fn parse(self, text: &str) -> Result<Scalar, String> {
        if text.is_empty() {
            return Err(format!("missing ({} is wanted)", self.name()));
        }
        if self.whole().is_some() {
            if let Ok(number) = text.parse::<u128>() {
                return self.convert(Scalar::Unsigned(number));
            }
            if let Ok(number) = text.parse::<i64>() {
                return self.convert(Scalar::Signed(number));
            }
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            return Err(if is_number { self.out_of_range() } else { self.expected() });
        }
        let number = match self {
            Type::F32 => text.parse().map(Scalar::Single),
            _ => text.parse().map(Scalar::Double),
        };
        let number = number.map_err(|_| self.expected())?;
        let names_infinity = text.to_ascii_lowercase().contains("inf");
        if number.is_infinite() && !names_infinity {
            return Err(self.out_of_range());
        }
        Ok(number)
    }

    /// The same number as one of this type, or what is wrong with it.
    pub fn convert(self, number: Scalar) -> Result<Scalar, String> {
        if let Some((least, greatest)) = self.whole() {
            let fits = match number {
                Scalar::Unsigned(number) => number <= greatest,
                Scalar::Signed(number) => {
                    i128::from(number) >= least && (number < 0 || number as u128 <= greatest)
                }
                _ => return Err(self.expected()),
            };
            if !fits {
                return Err(self.out_of_range());
            }
            return Ok(match (self, number) {
                (Type::I32 | Type::I64, Scalar::Unsigned(number)) => Scalar::Signed(number as i64),
                (Type::U32 | Type::U64 | Type::U128, Scalar::Signed(number)) => {
                    Scalar::Unsigned(number as u128)
                }
                _ => number,
            });
        }
        let double = match number {
            Scalar::Unsigned(number) => number as f64,
            Scalar::Signed(number) => number as f64,
            Scalar::Single(number) => number.into(),
            Scalar::Double(number) => number,
            Scalar::There => return Err(self.expected()),
        };
        let rounded = if self == Type::F32 { f64::from(double as f32) } else { double };
        if rounded.is_infinite() && double.is_finite() {
            return Err(self.out_of_range());
        }
        // A float is rounded, as everywhere; a whole number is meant to the last digit.
        let is_same = match number {
            Scalar::Unsigned(number) => rounded as u128 == number,
            Scalar::Signed(number) => rounded as i128 == number.into(),
            _ => true,
        };
        match self {
            _ if !is_same => Err(format!("a whole number that {} has no room for", self.name())),
            Type::F32 => Ok(Scalar::Single(rounded as f32)),
            _ => Ok(Scalar::Double(double)),
        }
    }

    fn expected(self) -> String {
        match self.whole() {
            Some(_) => format!("not a whole number ({} is wanted)", self.name()),
            None => format!("not a number ({} is wanted)", self.name()),
        }
    }

    fn out_of_range(self) -> String {
        match self.whole() {
            Some((least, greatest)) => {
                format!("out of range: {} goes from {least} to {greatest}", self.name())
            }
            None => format!("out of range: too large for {}", self.name()),
        }
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
            Scalar::There => "true".fmt(f),
        }
    }
}

/// As JSON; floats that it has no number for are texts.
impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Scalar::Unsigned(number) => match u64::try_from(number) {
                Ok(number) => serializer.serialize_u64(number),
                Err(_) => serializer.serialize_u128(number),
            },
            Scalar::Signed(number) => serializer.serialize_i64(number),
            Scalar::Single(number) if number.is_finite() => serializer.serialize_f32(number),
            Scalar::Double(number) if number.is_finite() => serializer.serialize_f64(number),
            Scalar::Single(_) | Scalar::Double(_) => serializer.collect_str(self),
            Scalar::There => serializer.serialize_bool(true),
        }
    }
}

/// A type of key that the program can read and show.
pub trait ShellKey: Key {
    /// The key that a scalar of this very type is.
    fn from_scalar(scalar: Scalar) -> Self;

    fn scalar(self) -> Scalar;
}

macro_rules! shell_key {
    ($type:ty, $variant:ident, $wide:ty) => {
        impl ShellKey for $type {
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::$variant(number) => number as $type,
                    _ => unreachable!("`Type` gives keys their own variant"),
                }
            }

            fn scalar(self) -> Scalar {
                Scalar::$variant(self as $wide)
            }
        }
    };
}

shell_key!(u32, Unsigned, u128);
shell_key!(u64, Unsigned, u128);
shell_key!(i32, Signed, i64);
shell_key!(i64, Signed, i64);
shell_key!(f32, Single, f32);
shell_key!(f64, Double, f64);

/// The bits of a value: all that a dictionary knows of it.
pub trait Bits: Value {
    fn from_scalar(scalar: Scalar) -> Self;

    /// The value of type `of` that has these bits.
    fn scalar(self, of: Type) -> Scalar;
}

macro_rules! bits {
    ($type:ty) => {
        impl Bits for $type {
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::Unsigned(number) => number as $type,
                    Scalar::Signed(number) => number as $type,
                    Scalar::Single(number) => number.to_bits() as $type,
                    Scalar::Double(number) => number.to_bits() as $type,
                    Scalar::There => 0,
                }
            }

            fn scalar(self, of: Type) -> Scalar {
                match of {
                    Type::U32 | Type::U64 | Type::U128 => Scalar::Unsigned(self as u128),
                    Type::I32 => Scalar::Signed((self as i32).into()),
                    Type::I64 => Scalar::Signed(self as i64),
                    Type::F32 => Scalar::Single(f32::from_bits(self as u32)),
                    Type::F64 => Scalar::Double(f64::from_bits(self as u64)),
                    Type::None => Scalar::There,
                }
            }
        }
    };
}

bits!(u32);
bits!(u64);
bits!(u128);

impl Bits for () {
    fn from_scalar(_: Scalar) -> Self {}

    fn scalar(self, _: Type) -> Scalar {
        Scalar::There
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_ranges() {
        assert_eq!(Type::U32.parse("4294967295"), Ok(Scalar::Unsigned(u32::MAX.into())));
        assert_eq!(Type::I32.parse("-2147483648"), Ok(Scalar::Signed(i32::MIN.into())));
        assert_eq!(Type::I64.parse("9223372036854775807"), Ok(Scalar::Signed(i64::MAX)));
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
            assert!(of.parse(text).unwrap_err().starts_with("not a "), "{text}");
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
        assert!(Type::F64.convert(Scalar::Signed((1 << 53) + 1)).is_err());
        assert!(Type::F32.convert(Scalar::Unsigned((1 << 24) + 1)).is_err());
    }

    #[test]
    fn values_come_back_from_their_bits() {
        fn check<V: Bits>(of: Type, scalar: Scalar) {
            assert_eq!(V::from_scalar(scalar).scalar(of), scalar, "{of:?}");
        }
        check::<u32>(Type::I32, Scalar::Signed(-7));
        check::<u32>(Type::F32, Scalar::Single(-0.5));
        check::<u64>(Type::I64, Scalar::Signed(i64::MIN));
        check::<u64>(Type::F64, Scalar::Double(1e300));
        check::<u128>(Type::U128, Scalar::Unsigned(u128::MAX));
        check::<()>(Type::None, Scalar::There);
    }

    #[test]
    fn json_has_no_number_for_some_floats() {
        let json = |scalar: Scalar| serde_json::to_string(&scalar).unwrap();
        assert_eq!(json(Scalar::Single(0.1)), "0.1");
        assert_eq!(json(Scalar::Double(f64::NAN)), "\"NaN\"");
        assert_eq!(json(Scalar::Single(f32::NEG_INFINITY)), "\"-inf\"");
        assert_eq!(json(Scalar::Unsigned(u128::MAX)), u128::MAX.to_string());
        assert_eq!(json(Scalar::There), "true");
    }
}
