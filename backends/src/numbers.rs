//! Keys and values made from numbers, so that any answer can be checked without storing it.

use std::fmt::{self, Display};
use std::hash::Hash;
use std::ops::Range;

use clap::ValueEnum;

use crate::dictionary::ColumnKey;
use crate::parallel::generate;
use crate::types::Element;

/// A type of keys that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MeasuredKey {
    U32,
    U64,
    U128,
    /// Two parts: on a CPU tuples, which the dictionary packs; in a GPU's memory they are packed already
    #[value(name = "u32,u32")]
    U32Pair,
}

impl MeasuredKey {
    /// Returns the width of the numbers that stand for such keys.
    pub fn numbers(self) -> Width {
        if self == MeasuredKey::U32 { Width::U32 } else { Width::U64 }
    }
}

impl Display for MeasuredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MeasuredKey::U32 => "u32",
            MeasuredKey::U64 => "u64",
            MeasuredKey::U128 => "u128",
            MeasuredKey::U32Pair => "u32,u32",
        })
    }
}

/// The width of values, or of the numbers that stand for keys.
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

    pub fn bits(self) -> u32 {
        64 - self.max().leading_zeros()
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

/// An element of an array, made from a number.
pub trait Numbered: Copy + Default + Send + Sync + 'static {
    /// Returns what stands for a number: its low bits, or more bits that sort as it does.
    fn of_number(number: u64) -> Self;

    /// Returns the number that this stands for.
    fn number(self) -> u64;
}

/// A type of the keys that a backend stores.
pub trait BenchKey: Numbered + ColumnKey + Ord + Hash {
    /// The type that holds a value `V` next to such a key in a record. It fills what would be padding anyway,
    /// so that fewer record types are compiled.
    type ValueBeside<V: BenchValue>: BenchValue;

    /// Returns a byte of the integer that the key sorts by, the lowest being number 0.
    #[inline]
    fn byte(self, index: usize) -> u8 {
        (self.number() >> (8 * index)) as u8
    }
}

/// A type of the values that a backend stores.
pub trait BenchValue: Numbered + Element + gpulsm::Number<Sum = u64> {}

impl Numbered for u32 {
    #[inline]
    fn of_number(number: u64) -> Self {
        number as u32
    }

    #[inline]
    fn number(self) -> u64 {
        self.into()
    }
}

impl Numbered for u64 {
    #[inline]
    fn of_number(number: u64) -> Self {
        number
    }

    #[inline]
    fn number(self) -> u64 {
        self
    }
}

/// The upper half is the number, the lower half depends on it: keys are spread over all bits.
impl Numbered for u128 {
    #[inline]
    fn of_number(number: u64) -> Self {
        u128::from(number) << 64 | u128::from(Width::U64.scatter(number ^ 0x9e37_79b9_7f4a_7c15))
    }

    #[inline]
    fn number(self) -> u64 {
        (self >> 64) as u64
    }
}

/// The first part is the upper half of the number.
impl Numbered for (u32, u32) {
    #[inline]
    fn of_number(number: u64) -> Self {
        ((number >> 32) as u32, number as u32)
    }

    #[inline]
    fn number(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.1)
    }
}

impl BenchKey for u32 {
    type ValueBeside<V: BenchValue> = V;
}

impl BenchKey for u64 {
    type ValueBeside<V: BenchValue> = u64;
}

impl BenchKey for u128 {
    type ValueBeside<V: BenchValue> = u64;

    #[inline]
    fn byte(self, index: usize) -> u8 {
        (self >> (8 * index)) as u8
    }
}

impl BenchKey for (u32, u32) {
    type ValueBeside<V: BenchValue> = V;
}

impl BenchValue for u32 {}
impl BenchValue for u64 {}

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
    fn keys_sort_as_their_numbers_and_give_them_back() {
        fn check<K: BenchKey>() {
            let mut numbers: Vec<u64> =
                (1..1000).map(|number| Width::U64.scatter(number)).chain([0, u64::MAX]).collect();
            numbers.sort_unstable();
            let keys: Vec<K> = numbers.iter().map(|&number| K::of_number(number)).collect();
            assert!(keys.is_sorted_by(|a, b| a < b));
            assert!(keys.iter().map(|key| key.number()).eq(numbers));
            for key in keys {
                let ordered = gpulsm::OrderedKey::widen(key.to_ordered());
                let bytes = (0..size_of::<K>()).map(|index| key.byte(index));
                assert!(bytes.eq(ordered.to_le_bytes().into_iter().take(size_of::<K>())));
            }
        }
        check::<u64>();
        check::<u128>();
        check::<(u32, u32)>();
        let bits = (0..100u64).fold((0, u128::MAX), |(any, all), number| {
            let key = u128::of_number(Width::U64.scatter(number));
            (any | key, all & key)
        });
        assert_eq!(bits, (u128::MAX, 0), "every bit is used");
    }

    #[test]
    fn keys_that_would_pass_the_end_stop_there() {
        assert_eq!(Width::U32.saturating_add(5, 3), 8);
        assert_eq!(Width::U32.saturating_add(Width::U32.max() - 1, 5), u64::from(u32::MAX));
        assert_eq!(Width::U64.saturating_add(u64::MAX - 1, 5), u64::MAX);
    }
}
