//! What a file holds.

use crate::{Numbers, ReadOptions, Scalar, Type, Unit};

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
    fn add(&mut self, number: Scalar, is_rounded: bool) {
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

    /// Parses a text.
    #[inline]
    pub fn parse(of: Type, text: &str) -> Result<Self, String> {
        let number = of.parse(text)?;
        Ok(Cell { number, is_rounded: number.is_rounded_from_text(text) })
    }

    /// Converts a number.
    #[inline]
    pub fn convert(of: Type, from: Scalar) -> Result<Self, String> {
        let number = of.convert(from)?;
        Ok(Cell { number, is_rounded: number.is_rounded_from(from) })
    }
}

impl Table {
    pub(crate) fn new(options: &ReadOptions) -> Self {
        Table {
            keys: Numbers::new(options.key),
            values: Numbers::new(options.value),
            skipped: 0,
            key_notes: Notes::default(),
            value_notes: Notes::default(),
        }
    }

    /// Appends a row, or skips it if a part of it is missing.
    #[inline]
    pub(crate) fn push(&mut self, key: Option<Cell>, value: Option<Cell>) {
        let (Some(key), Some(value)) = (key, value) else {
            self.skipped += 1;
            return;
        };
        self.keys.push(key.number);
        self.values.push(value.number);
        self.key_notes.add(key.number, key.is_rounded);
        self.value_notes.add(value.number, value.is_rounded);
    }
}
