//! Columns of keys and values as a dictionary stores them: plain integers of one width.

use gpulsm::Value;

/// Integers of one width: what keys sort by, or the bits of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// The values of a set: only their number is known.
    Empty(Vec<()>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    U128(Vec<u128>),
}

impl Column {
    /// Makes an empty column for numbers of 0, 4, 8 or 16 bytes.
    pub(super) fn with_width(bytes: usize) -> Self {
        match bytes {
            0 => Column::Empty(Vec::new()),
            4 => Column::U32(Vec::new()),
            8 => Column::U64(Vec::new()),
            _ => Column::U128(Vec::new()),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Column::Empty(units) => units.len(),
            Column::U32(numbers) => numbers.len(),
            Column::U64(numbers) => numbers.len(),
            Column::U128(numbers) => numbers.len(),
        }
    }

    /// Appends a number, of which as many low bits are kept as the column is wide.
    #[inline]
    pub fn push(&mut self, bits: u128) {
        match self {
            Column::Empty(units) => units.push(()),
            Column::U32(numbers) => numbers.push(bits as u32),
            Column::U64(numbers) => numbers.push(bits as u64),
            Column::U128(numbers) => numbers.push(bits),
        }
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        match self {
            Column::Empty(units) => units.clear(),
            Column::U32(numbers) => numbers.clear(),
            Column::U64(numbers) => numbers.clear(),
            Column::U128(numbers) => numbers.clear(),
        }
    }

    #[inline]
    pub fn get(&self, index: usize) -> u128 {
        match self {
            Column::Empty(_) => 0,
            Column::U32(numbers) => numbers[index].into(),
            Column::U64(numbers) => numbers[index].into(),
            Column::U128(numbers) => numbers[index],
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u128> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// A number of a column.
pub trait Element: Value {
    /// Returns the numbers of a column that is as wide as this type.
    fn slice(column: &Column) -> &[Self];

    fn column(numbers: Vec<Self>) -> Column;

    fn from_bits(bits: u128) -> Self;

    fn bits(self) -> u128;
}

macro_rules! element {
    ($type:ty, $variant:ident, $from_bits:expr, $bits:expr) => {
        impl Element for $type {
            fn slice(column: &Column) -> &[Self] {
                match column {
                    Column::$variant(numbers) => numbers,
                    _ => unreachable!("a dictionary and its columns have the same types"),
                }
            }

            fn column(numbers: Vec<Self>) -> Column {
                Column::$variant(numbers)
            }

            #[inline]
            fn from_bits(bits: u128) -> Self {
                $from_bits(bits)
            }

            #[inline]
            fn bits(self) -> u128 {
                $bits(self)
            }
        }
    };
}

element!((), Empty, |_| (), |()| 0);
element!(u32, U32, |bits| bits as u32, u128::from);
element!(u64, U64, |bits| bits as u64, u128::from);
element!(u128, U128, |bits| bits, |number| number);
