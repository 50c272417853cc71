//! What a file holds.

use crate::{Field, FixedBytes, Numbers, Scalar, Unit};

/// The rows of a file, and what was noticed when they were read.
#[derive(Clone, Debug)]
pub struct Table {
    /// The keys, as they are in the file: in its order, with duplicates.
    pub keys: Numbers,
    /// The values, as many as keys.
    pub values: Numbers,
    /// How many rows were skipped because the key or the value is missing.
    pub skipped: u64,
    /// What was noticed about the keys.
    pub key_notes: Notes,
    /// What was noticed about the values.
    pub value_notes: Notes,
}

/// What was noticed about the numbers of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// How many numbers lost precision: the float that was stored, written with as many digits as the
    /// file has, is another number.
    pub rounded: u64,
    /// How many numbers are -0, which as a key is 0.
    pub negative_zeros: u64,
    /// How many numbers are NaN, which as a key are all the same.
    pub nans: u64,
    /// What the numbers count, if the file says so.
    pub unit: Option<Unit>,
}

impl Notes {
    pub(crate) fn add(&mut self, number: Scalar, is_rounded: bool) {
        let float = match number {
            Scalar::Single(number) => number.into(),
            Scalar::Double(number) => number,
            _ => return,
        };
        self.rounded += u64::from(is_rounded);
        self.negative_zeros += u64::from(float == 0.0 && float.is_sign_negative());
        self.nans += u64::from(float.is_nan());
    }
}

/// A number of the wanted type, and whether it lost precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub number: Scalar,
    pub is_rounded: bool,
}

impl Cell {
    /// Stands for the value of a key in a set.
    pub const PRESENT: Cell = Cell { number: Scalar::Present, is_rounded: false };

    /// Parses a text. An integer may have a fraction of zeros.
    #[inline]
    pub fn parse(of: Field, text: &str) -> Result<Self, String> {
        let number = of.parse(text).or_else(|error| match without_zeros(of, text) {
            Some(whole) => of.parse(whole),
            None => Err(error),
        })?;
        Ok(Cell { number, is_rounded: number.is_rounded_from_text(text) })
    }

    /// Takes at most `len` bytes, to which zeros are appended.
    pub fn bytes(bytes: &[u8], len: usize) -> Result<Self, String> {
        let bytes = FixedBytes::from_bytes(bytes, len)?;
        Ok(Cell { number: Scalar::Bytes(bytes), is_rounded: false })
    }

    /// Converts a number; a float that is whole is an integer, too.
    #[inline]
    pub fn convert(of: Field, from: Scalar) -> Result<Self, String> {
        let number = of.convert(if of.is_integer() { whole(from) } else { from })?;
        Ok(Cell { number, is_rounded: number.is_rounded_from(from) })
    }
}

/// Returns the text of an integer without its fraction, if that is of zeros only.
fn without_zeros(of: Field, text: &str) -> Option<&str> {
    let (whole, fraction) = text.split_once('.')?;
    let is_zero = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
    (of.is_integer() && is_zero).then_some(whole)
}

/// Returns the integer that a float is, if it is one of a type there is, or else the float.
fn whole(number: Scalar) -> Scalar {
    const ENDS: std::ops::Range<f64> = -170_141_183_460_469_231_731_687_303_715_884_105_728.0
        ..340_282_366_920_938_463_463_374_607_431_768_211_456.0;
    let float = match number {
        Scalar::Single(float) => float.into(),
        Scalar::Double(float) => float,
        _ => return number,
    };
    match float {
        _ if float.fract() != 0.0 || !ENDS.contains(&float) => number,
        0.0.. => Scalar::Unsigned(float as u128),
        _ => Scalar::Signed(float as i128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    #[test]
    fn a_whole_float_is_an_integer() {
        let number = |cell: Result<Cell, String>| cell.map(|cell| cell.number);
        let convert =
            |of: Type, float: f64| number(Cell::convert(of.into(), Scalar::Double(float)));
        assert_eq!(convert(Type::U32, 7.0), Ok(Scalar::Unsigned(7)));
        assert_eq!(convert(Type::U32, -0.0), Ok(Scalar::Unsigned(0)));
        assert_eq!(convert(Type::I32, -7.0), Ok(Scalar::Signed(-7)));
        assert_eq!(convert(Type::I64, -(2f64.powi(63))), Ok(Scalar::Signed(i64::MIN.into())));
        assert_eq!(convert(Type::U64, 2f64.powi(63)), Ok(Scalar::Unsigned(1 << 63)));
        assert!(convert(Type::U64, 2f64.powi(64)).unwrap_err().starts_with("out of range"));
        assert!(convert(Type::U32, -1.0).unwrap_err().starts_with("out of range"));
        for float in [0.5, -0.5, 1e-300, 1e300, -1e300, f64::NAN, f64::INFINITY] {
            assert!(convert(Type::U128, float).unwrap_err().starts_with("not an integer"));
        }
        assert_eq!(convert(Type::F64, 7.0), Ok(Scalar::Double(7.0)));
    }

    #[test]
    fn an_integer_may_be_written_with_a_fraction_of_zeros() {
        let parse = |of: Type, text: &str| Cell::parse(of.into(), text).map(|cell| cell.number);
        assert_eq!(parse(Type::U32, "7.0"), Ok(Scalar::Unsigned(7)));
        assert_eq!(
            parse(Type::I64, "-9007199254740993.000"),
            Ok(Scalar::Signed(-9007199254740993))
        );
        assert!(parse(Type::U32, "4294967296.0").unwrap_err().starts_with("out of range"));
        for text in ["7.5", "7.", ".0", "7.0e1", "7.0.0", "x.0", "-.0"] {
            assert!(parse(Type::U32, text).is_err(), "{text}");
        }
        assert_eq!(parse(Type::F64, "7.0"), Ok(Scalar::Double(7.0)));
    }
}
