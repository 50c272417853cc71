//! Columns of numbers.

use crate::{Scalar, Type};

/// The keys or the values of a table, in the order of its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// The values of a set: only their number is known.
    None(usize),
    /// Of [`Type::U32`].
    U32(Vec<u32>),
    /// Of [`Type::U64`].
    U64(Vec<u64>),
    /// Of [`Type::U128`].
    U128(Vec<u128>),
    /// Of [`Type::I32`].
    I32(Vec<i32>),
    /// Of [`Type::I64`].
    I64(Vec<i64>),
    /// Of [`Type::F32`].
    F32(Vec<f32>),
    /// Of [`Type::F64`].
    F64(Vec<f64>),
}

impl Numbers {
    /// Makes an empty column for numbers of a type.
    pub fn new(of: Type) -> Self {
        match of {
            Type::None => Numbers::None(0),
            Type::U32 => Numbers::U32(Vec::new()),
            Type::U64 => Numbers::U64(Vec::new()),
            Type::U128 => Numbers::U128(Vec::new()),
            Type::I32 => Numbers::I32(Vec::new()),
            Type::I64 => Numbers::I64(Vec::new()),
            Type::F32 => Numbers::F32(Vec::new()),
            Type::F64 => Numbers::F64(Vec::new()),
        }
    }

    /// Returns the type of the numbers.
    pub fn of(&self) -> Type {
        match self {
            Numbers::None(_) => Type::None,
            Numbers::U32(_) => Type::U32,
            Numbers::U64(_) => Type::U64,
            Numbers::U128(_) => Type::U128,
            Numbers::I32(_) => Type::I32,
            Numbers::I64(_) => Type::I64,
            Numbers::F32(_) => Type::F32,
            Numbers::F64(_) => Type::F64,
        }
    }

    /// Returns how many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Numbers::None(len) => *len,
            Numbers::U32(numbers) => numbers.len(),
            Numbers::U64(numbers) => numbers.len(),
            Numbers::U128(numbers) => numbers.len(),
            Numbers::I32(numbers) => numbers.len(),
            Numbers::I64(numbers) => numbers.len(),
            Numbers::F32(numbers) => numbers.len(),
            Numbers::F64(numbers) => numbers.len(),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of a row.
    ///
    /// # Panics
    ///
    /// Panics if there is no such row.
    pub fn get(&self, row: usize) -> Scalar {
        match self {
            Numbers::None(len) => {
                assert!(row < *len, "row {row} of {len}");
                Scalar::Present
            }
            Numbers::U32(numbers) => Scalar::Unsigned(numbers[row].into()),
            Numbers::U64(numbers) => Scalar::Unsigned(numbers[row].into()),
            Numbers::U128(numbers) => Scalar::Unsigned(numbers[row]),
            Numbers::I32(numbers) => Scalar::Signed(numbers[row].into()),
            Numbers::I64(numbers) => Scalar::Signed(numbers[row].into()),
            Numbers::F32(numbers) => Scalar::Single(numbers[row]),
            Numbers::F64(numbers) => Scalar::Double(numbers[row]),
        }
    }

    /// Appends a number, which must have been parsed as, or converted to, this type.
    ///
    /// # Panics
    ///
    /// Panics if it is of another type.
    #[inline]
    pub fn push(&mut self, number: Scalar) {
        match (self, number) {
            (Numbers::None(len), _) => *len += 1,
            (Numbers::U32(numbers), Scalar::Unsigned(number)) => numbers.push(number as u32),
            (Numbers::U64(numbers), Scalar::Unsigned(number)) => numbers.push(number as u64),
            (Numbers::U128(numbers), Scalar::Unsigned(number)) => numbers.push(number),
            (Numbers::I32(numbers), Scalar::Signed(number)) => numbers.push(number as i32),
            (Numbers::I64(numbers), Scalar::Signed(number)) => numbers.push(number as i64),
            (Numbers::F32(numbers), Scalar::Single(number)) => numbers.push(number),
            (Numbers::F64(numbers), Scalar::Double(number)) => numbers.push(number),
            _ => unreachable!("`Type` gives numbers their own variant"),
        }
    }
}
