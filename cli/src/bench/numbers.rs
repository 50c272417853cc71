//! What is inserted and asked for: keys and values made from numbers, so that any answer can be checked
//! without keeping it.

use std::hash::Hash;
use std::ops::Range;

use gpulsm::{Key, Value};
use rayon::prelude::*;

/// Something that serves as key and as value.
pub trait Number:
    Key + Value + bytemuck::Pod + Ord + Hash + Send + Sync + std::fmt::Debug + std::fmt::Display
{
    const MAX: Self;

    /// Its key: distinct numbers have distinct ones, scattered over all there are.
    fn scattered(number: u64) -> Self;

    /// Its lowest bits.
    fn of(number: u64) -> Self;

    fn wide(self) -> u64;

    /// This key and so many further, or the last there is.
    fn plus(self, by: u64) -> Self {
        let sum = self.wide().saturating_add(by);
        Self::of(sum.min(Self::MAX.wide()))
    }
}

impl Number for u32 {
    const MAX: Self = u32::MAX;

    fn scattered(number: u64) -> Self {
        let mut x = number as u32;
        x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
        x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
        x ^ x >> 16
    }

    fn of(number: u64) -> Self {
        number as u32
    }

    fn wide(self) -> u64 {
        self.into()
    }
}

impl Number for u64 {
    const MAX: Self = u64::MAX;

    fn scattered(number: u64) -> Self {
        let mut x = number;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn of(number: u64) -> Self {
        number
    }

    fn wide(self) -> u64 {
        self
    }
}

/// Numbers from here on are never inserted: their keys are not there.
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
    /// In order.
    pub fn counting(range: Range<u64>) -> Self {
        let len = range.end - range.start;
        Numbers { start: range.start, step: 1, modulus: len.max(1), len: len as usize }
    }

    /// `len` of a range, each as often as the others, in an order of no use to anyone.
    pub fn shuffled(range: Range<u64>, len: usize) -> Self {
        let modulus = (range.end - range.start).max(1);
        // Near the golden section of the range, and without a divisor in common with it.
        let mut step = (modulus as f64 * 0.618_033_988_75) as u64 | 1;
        while divisor(step, modulus) != 1 {
            step += 2;
        }
        Numbers { start: range.start, step, modulus, len }
    }

    /// The first so many of them, or all.
    pub fn first(self, len: usize) -> Self {
        Numbers { len: self.len.min(len), ..self }
    }

    pub fn at(&self, index: usize) -> u64 {
        let ahead = u128::from(self.step) * index as u128 % u128::from(self.modulus);
        self.start + ahead as u64
    }

    /// Something made of each, on all cores.
    pub fn map<T: Send>(&self, make: impl Fn(u64) -> T + Sync) -> Vec<T> {
        (0..self.len).into_par_iter().map(|index| make(self.at(index))).collect()
    }
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
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
        assert_eq!(5u32.plus(3), 8);
        assert_eq!((u32::MAX - 1).plus(5), u32::MAX);
        assert_eq!((u64::MAX - 1).plus(5), u64::MAX);
    }
}
