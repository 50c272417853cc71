//! Distances between keys, for as-of queries.

use std::fmt::Debug;

use super::{Encoding, Key, ScalarKey};

/// A key that as-of queries can be asked for: one whose last part is a number.
///
/// A number by itself is such a key, and so is a tuple that ends with one: `(u32, i64)`, of a symbol and a time.
/// Two keys belong together if all of their other parts are equal.
pub trait AsOfKey: Key {
    /// How far apart two keys are: unsigned for integers, so that it is exact at the ends of a type; of floats,
    /// their difference.
    type Distance: Copy + PartialOrd + Debug + Send + Sync + Into<Distance>;

    /// The last part.
    #[doc(hidden)]
    const ON: On;

    /// Returns how far apart the last parts are; NaN from one infinity to the same.
    fn distance(self, other: Self) -> Self::Distance;
}

/// The last part of keys, in the low bits of the integers that they sort by.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct On {
    /// What its bits mean; those of floats are 32 or 64.
    pub encoding: Encoding,
    pub bits: u32,
}

/// How far apart the last parts of two keys are. Those of one type of keys are of one kind.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Distance {
    Integer(u128),
    Single(f32),
    Double(f64),
}

impl On {
    /// Returns whether two keys are equal in all other parts, and neither ends with NaN.
    #[inline]
    pub fn belong_together(self, key: u128, other: u128) -> bool {
        let other_parts = u128::MAX.checked_shl(self.bits).unwrap_or(0);
        (key ^ other) & other_parts == 0
            && (self.encoding != Encoding::Float || !self.is_nan(key) && !self.is_nan(other))
    }

    /// Returns how far apart the last parts of two keys are.
    #[inline]
    pub fn distance(self, key: u128, other: u128) -> Distance {
        let (on, other) = (self.part(key), self.part(other));
        match (self.encoding, self.bits) {
            // Signed numbers are mapped to unsigned ones that are as far apart.
            (Encoding::Unsigned | Encoding::Signed, _) => Distance::Integer(on.abs_diff(other)),
            (Encoding::Float, 32) => {
                let number = |ordered: u128| f32::from_ordered(ordered as u32);
                Distance::Single(number(on).distance(number(other)))
            }
            (Encoding::Float, _) => {
                let number = |ordered: u128| f64::from_ordered(ordered as u64);
                Distance::Double(number(on).distance(number(other)))
            }
        }
    }

    /// Returns whether a key ends with NaN, if it ends with a float: those come after infinity.
    fn is_nan(self, key: u128) -> bool {
        let infinity = match self.bits {
            32 => f32::INFINITY.to_ordered().into(),
            _ => f64::INFINITY.to_ordered().into(),
        };
        self.part(key) > infinity
    }

    #[inline]
    fn part(self, key: u128) -> u128 {
        key & (u128::MAX >> (u128::BITS - self.bits))
    }
}

macro_rules! distances {
    ($($type:ty => $kind:ident),*) => {
        $(impl From<$type> for Distance {
            fn from(distance: $type) -> Self {
                Distance::$kind(distance.into())
            }
        })*
    };
}

distances!(u32 => Integer, u64 => Integer, u128 => Integer, f32 => Single, f64 => Double);

macro_rules! integers {
    ($($type:ty => $distance:ty),*) => {
        $(impl AsOfKey for $type {
            type Distance = $distance;
            const ON: On = On { encoding: <$type>::ENCODING, bits: <$type as Key>::BITS };

            fn distance(self, other: Self) -> $distance {
                self.abs_diff(other)
            }
        })*
    };
}

macro_rules! floats {
    ($($type:ty),*) => {
        $(impl AsOfKey for $type {
            type Distance = $type;
            const ON: On = On { encoding: <$type>::ENCODING, bits: <$type as Key>::BITS };

            fn distance(self, other: Self) -> $type {
                (self - other).abs()
            }
        })*
    };
}

integers!(u32 => u32, u64 => u64, u128 => u128, i32 => u32, i64 => u64, i128 => u128);
floats!(f32, f64);

macro_rules! tuples {
    ($(($($By:ident),+), $on:tt;)*) => {
        $(impl<$($By: Key,)+ On: AsOfKey> AsOfKey for ($($By,)+ On)
        where
            Self: Key,
        {
            type Distance = On::Distance;
            const ON: self::On = On::ON;

            fn distance(self, other: Self) -> On::Distance {
                self.$on.distance(other.$on)
            }
        })*
    };
}

tuples! {
    (A), 1;
    (A, B), 2;
    (A, B, C), 3;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::OrderedKey;

    #[test]
    fn distances_do_not_overflow() {
        assert_eq!(i64::MIN.distance(i64::MAX), u64::MAX);
        assert_eq!(0u32.distance(u32::MAX), u32::MAX);
        assert_eq!((-1.5f32).distance(1.0), 2.5);
        assert!(f64::INFINITY.distance(f64::INFINITY).is_nan());
    }

    /// Checks that keys have the distance that their integers have, unless that is NaN.
    fn check<K: AsOfKey>(keys: &[K]) {
        for (&key, &other) in keys.iter().flat_map(|key| keys.iter().map(move |other| (key, other)))
        {
            let (a, b) = (key.to_ordered().widen(), other.to_ordered().widen());
            let (known, distance): (Distance, _) =
                (key.distance(other).into(), K::ON.distance(a, b));
            let are_nan = [known, distance].iter().all(|one| one.partial_cmp(one).is_none());
            assert!(known == distance || are_nan, "{key:?} {other:?}");
        }
    }

    #[test]
    fn integers_are_as_far_apart_as_the_keys() {
        check(&[i64::MIN, -1, 0, 5, i64::MAX]);
        check(&[0u32, 7, u32::MAX]);
        check(&[i128::MIN, -1, 0, i128::MAX]);
        check(&[f32::NEG_INFINITY, -1.5, -0.0, 0.0, 0.1, f32::MAX, f32::INFINITY, f32::NAN]);
        check(&[(1u32, f64::NEG_INFINITY), (2, -0.1), (1, 0.0), (1, 1e300), (1, f64::NAN)]);
        check(&[(1u32, [7u8], -5i32), (2, [8], i32::MAX), (1, [0], 9)]);
    }

    #[test]
    fn keys_belong_together_if_all_parts_but_the_last_are_equal() {
        fn belong<K: AsOfKey>(key: K, other: K) -> bool {
            K::ON.belong_together(key.to_ordered().widen(), other.to_ordered().widen())
        }
        assert!(belong((1u32, 5i64), (1, -9)));
        assert!(!belong((1u32, 5i64), (2, 5)));
        assert!(belong((-0.0f32, 5u32), (0.0, 6)));
        assert!(!belong((1u32, f32::NAN), (1, 0.0)) && !belong((1u32, 1.0f64), (1, f64::NAN)));
        assert!(belong((1u32, f32::INFINITY), (1, f32::NEG_INFINITY)));
        assert!(!belong((1u32, 2u32, 3i32), (1, 3, 3)));
        assert!(belong(0u128, u128::MAX) && belong(i32::MIN, i32::MAX));
    }
}
