//! Keys and values made from numbers, so that any answer can be checked without storing it.

use std::fmt::{self, Display};
use std::ops::Range;

use clap::ValueEnum;
use gpulsm::OrderedKey;

use crate::parallel::generate;
use crate::types::Element;

/// The width of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Width {
    U32,
    U64,
}

impl Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Width::U32 { "u32" } else { "u64" })
    }
}

impl Width {
    /// Returns the greatest number of this width.
    #[inline]
    pub fn max(self) -> u64 {
        match self {
            Width::U32 => u32::MAX.into(),
            Width::U64 => u64::MAX,
        }
    }

    /// Returns the low bits of a number.
    #[inline]
    pub fn truncate(self, number: u64) -> u64 {
        number & self.max()
    }

    /// Returns the key of a number: distinct numbers have distinct keys, scattered over all there are.
    #[inline]
    pub fn scatter(self, number: u64) -> u64 {
        match self {
            Width::U32 => {
                let mut x = number as u32;
                x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
                x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
                (x ^ x >> 16).into()
            }
            Width::U64 => {
                let mut x = number;
                x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                x ^ x >> 31
            }
        }
    }

    /// Adds to a key, up to the greatest one.
    pub fn saturating_add(self, key: u64, by: u64) -> u64 {
        key.saturating_add(by).min(self.max())
    }
}

/// A type of the keys and values that a backend stores.
pub trait Number: OrderedKey + Element + gpulsm::Number<Sum = u64> {
    /// The type that holds a value `V` next to such a key in a record. It fills what would be padding anyway,
    /// so that fewer record types are compiled.
    type ValueBeside<V: Number>: Number;

    /// Returns the low bits of a number.
    #[inline]
    fn truncate(number: u64) -> Self {
        Self::narrow(number.into())
    }

    /// Returns the number itself, which has at most 64 bits.
    #[inline]
    fn extend(self) -> u64 {
        self.widen() as u64
    }
}

impl Number for u32 {
    type ValueBeside<V: Number> = V;
}

impl Number for u64 {
    type ValueBeside<V: Number> = u64;
}

/// Numbers from here on are never inserted: lookups of their keys find nothing.
pub const MISSING: u64 = 1 << 30;

/// A sequence of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    start: u64,
    step: u64,
    modulus: u64,
    pub len: usize,
}

impl Numbers {
    /// Returns the numbers of a range in order.
    pub fn counting(range: Range<u64>) -> Self {
        let len = range.end - range.start;
        Numbers { start: range.start, step: 1, modulus: len.max(1), len: len as usize }
    }

    /// Returns `len` numbers of a range in a scattered order, each as often as the others.
    pub fn shuffled(range: Range<u64>, len: usize) -> Self {
        let modulus = (range.end - range.start).max(1);
        // Near the golden section of the range, and coprime to its length.
        let mut step = (modulus as f64 * 0.618_033_988_75) as u64 | 1;
        while gcd(step, modulus) != 1 {
            step += 2;
        }
        Numbers { start: range.start, step, modulus, len }
    }

    /// Returns the first `len` of them, or all.
    pub fn first(self, len: usize) -> Self {
        Numbers { len: self.len.min(len), ..self }
    }

    #[inline]
    pub fn at(&self, index: usize) -> u64 {
        let ahead = u128::from(self.step) * index as u128 % u128::from(self.modulus);
        self.start + ahead as u64
    }

    /// Maps each number, on all cores.
    pub fn map<T: Default + Clone + Send>(&self, make: &(dyn Fn(u64) -> T + Sync)) -> Vec<T> {
        generate(self.len, &|index| make(self.at(index)))
    }
}

/// Returns the greatest common divisor.
fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_numbers_are_all_numbers() {
        for len in [1, 2, 3, 96, 1000, 1 << 12] {
            let numbers = Numbers::shuffled(7..7 + len, len as usize);
            let mut seen: Vec<u64> = (0..numbers.len).map(|index| numbers.at(index)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(7..7 + len));
        }
    }

    #[test]
    fn keys_that_would_pass_the_end_stop_there() {
        assert_eq!(Width::U32.saturating_add(5, 3), 8);
        assert_eq!(Width::U32.saturating_add(Width::U32.max() - 1, 5), u64::from(u32::MAX));
        assert_eq!(Width::U64.saturating_add(u64::MAX - 1, 5), u64::MAX);
    }
}
