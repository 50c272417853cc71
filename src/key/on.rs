//! Distances between keys, for as-of queries.

use std::fmt::Debug;

use super::Key;

/// A key that as-of queries can be asked for: one whose last part is a number.
///
/// A number by itself is such a key, and so is a tuple that ends with one: `(u32, i64)`, of a symbol and a time.
/// Two keys belong together if all of their other parts are equal.
pub trait AsOfKey: Key {
    /// How far apart two keys are: unsigned for integers, so that it is exact at the ends of a type; of floats,
    /// their difference.
    type Distance: Copy + PartialOrd + Debug + Send + Sync;

    /// Returns whether the keys belong together, and neither ends with NaN.
    #[doc(hidden)]
    fn belongs_with(self, other: Self) -> bool;

    /// Returns how far apart the last parts are; NaN from one infinity to the same.
    fn distance(self, other: Self) -> Self::Distance;
}

macro_rules! integers {
    ($($type:ty => $distance:ty),*) => {
        $(impl AsOfKey for $type {
            type Distance = $distance;

            fn belongs_with(self, _: Self) -> bool {
                true
            }

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

            fn belongs_with(self, other: Self) -> bool {
                !self.is_nan() && !other.is_nan()
            }

            fn distance(self, other: Self) -> $type {
                (self - other).abs()
            }
        })*
    };
}

integers!(u32 => u32, u64 => u64, u128 => u128, i32 => u32, i64 => u64, i128 => u128);
floats!(f32, f64);

macro_rules! tuples {
    ($(($($By:ident $by:tt),+), $on:tt;)*) => {
        $(impl<$($By: Key,)+ On: AsOfKey> AsOfKey for ($($By,)+ On)
        where
            Self: Key,
        {
            type Distance = On::Distance;

            fn belongs_with(self, other: Self) -> bool {
                $(self.$by.to_ordered() == other.$by.to_ordered() &&)+ self.$on.belongs_with(other.$on)
            }

            fn distance(self, other: Self) -> On::Distance {
                self.$on.distance(other.$on)
            }
        })*
    };
}

tuples! {
    (A 0), 1;
    (A 0, B 1), 2;
    (A 0, B 1, C 2), 3;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_do_not_overflow() {
        assert_eq!(i64::MIN.distance(i64::MAX), u64::MAX);
        assert_eq!(0u32.distance(u32::MAX), u32::MAX);
        assert_eq!((-1.5f32).distance(1.0), 2.5);
        assert!(f64::INFINITY.distance(f64::INFINITY).is_nan());
    }

    #[test]
    fn keys_belong_together_if_all_parts_but_the_last_are_equal() {
        assert!((1u32, 5i64).belongs_with((1, -9)));
        assert!(!(1u32, 5i64).belongs_with((2, 5)));
        assert!((-0.0f32, 5u32).belongs_with((0.0, 6)));
        assert!(!(1u32, f32::NAN).belongs_with((1, 0.0)));
        assert!(!(1u32, 2u32, 3i32).belongs_with((1, 3, 3)));
    }
}
