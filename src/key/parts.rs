//! Keys of several parts: tuples, compared from the first part on.
//!
//! The integers of the parts are packed, the first part in the highest bits: `(u32, f32)` is a `u64` to an
//! engine, `(u64, i64)` a `u128`.

use super::{Key, OrderedKey, Part, Prefix, private};

/// The integers of two parts, and the narrowest one that both fit in.
#[doc(hidden)]
pub trait Pack {
    type Packed: OrderedKey;
}

macro_rules! pack {
    ($($first:ty, $second:ty => $packed:ty;)*) => {
        $(impl Pack for ($first, $second) {
            type Packed = $packed;
        })*
    };
}

pack! {
    u32, u32 => u64;
    u32, u64 => u128;
    u32, u128 => u128;
    u64, u32 => u128;
    u64, u64 => u128;
    u64, u128 => u128;
    u128, u32 => u128;
    u128, u64 => u128;
    u128, u128 => u128;
}

/// Makes tuples of keys keys.
macro_rules! tuple_key {
    ($($Part:ident $part:ident),+ => $Packed:ty $(, where $bound:ty)?) => {
        impl<$($Part: Key),+> private::Sealed for ($($Part,)+) {}

        impl<$($Part: Key),+> Key for ($($Part,)+)
        $(where $bound: Pack)?
        {
            type Ordered = $Packed;
            const BITS: u32 = {
                let bits = 0 $(+ $Part::BITS)+;
                assert!(bits <= 128, "the parts of a key have at most 16 bytes in all");
                bits
            };
            const LOWEST: Self = ($($Part::LOWEST,)+);
            const HIGHEST: Self = ($($Part::HIGHEST,)+);

            #[inline]
            fn to_ordered(self) -> Self::Ordered {
                let _checked = const { Self::BITS };
                let ($($part,)+) = self;
                let mut packed = 0u128;
                $(
                    // A part of all 128 bits cannot have another beside it.
                    packed = packed.checked_shl($Part::BITS).unwrap_or(0) | $part.to_ordered().widen();
                )+
                OrderedKey::narrow(packed)
            }

            #[inline]
            fn from_ordered(ordered: Self::Ordered) -> Self {
                let packed = ordered.widen();
                let mut above = Self::BITS;
                $(
                    above -= $Part::BITS;
                    let $part = (packed >> above) & (u128::MAX >> (u128::BITS - $Part::BITS));
                )+
                ($($Part::from_ordered(OrderedKey::narrow($part)),)+)
            }

            fn add_parts(parts: &mut Vec<Part>) {
                $($Part::add_parts(parts);)+
            }
        }
    };
}

tuple_key!(A a, B b => <(A::Ordered, B::Ordered) as Pack>::Packed, where (A::Ordered, B::Ordered));
tuple_key!(A a, B b, C c => u128);
tuple_key!(A a, B b, C c, D d => u128);

macro_rules! prefix {
    ($(($($Given:ident $given:ident),+): $($Rest:ident),+ => $P:ty, $pattern:pat => )*) => {
        $(impl<$($Given: Key,)+ $($Rest: Key),+> Prefix<$P> for ($($Given,)+ $($Rest,)+)
        where
            Self: Key,
        {
            fn first_with($pattern: $P) -> Self {
                ($($given,)+ $($Rest::LOWEST,)+)
            }

            fn last_with($pattern: $P) -> Self {
                ($($given,)+ $($Rest::HIGHEST,)+)
            }
        })*
    };
}

prefix! {
    (A a): B => A, a =>
    (A a): B, C => A, a =>
    (A a, B b): C => (A, B), (a, b) =>
    (A a): B, C, D => A, a =>
    (A a, B b): C, D => (A, B), (a, b) =>
    (A a, B b, C c): D => (A, B, C), (a, b, c) =>
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::check_order;

    #[test]
    fn tuples_are_compared_from_the_first_part_on() {
        check_order(&[(0u32, f32::NAN), (1, f32::NEG_INFINITY), (1, -2.5), (1, 0.0), (2, -1.0)]);
        check_order(&[(-1i64, u64::MAX), (0, 0), (0, 1), (i64::MAX, 0)]);
        check_order(&[
            (1u32, 2i64, *b"ab"),
            (1, 2, *b"b\0"),
            (1, 3, *b"aa"),
            (2, i64::MIN, *b"aa"),
        ]);
        check_order(&[
            (0u32, 0i32, 0u32, -1.0f32),
            (0, 0, 0, 0.0),
            (0, 0, 1, -1.0),
            (0, 1, 0, 0.0),
        ]);
        check_order(&[((1u32, 2u32), 3u64), ((1, 3), 0), ((2, 0), 0)]);
    }

    #[test]
    fn the_narrowest_integer_is_used() {
        assert_eq!(size_of_val(&(1u32, 2i32).to_ordered()), 8);
        assert_eq!((1u32, 2u32).to_ordered(), 1 << 32 | 2);
        assert_eq!((*b"abc", *b"d").to_ordered(), u64::from(u32::from_be_bytes(*b"abcd")));
        assert_eq!((7u64, 9u32).to_ordered(), 7 << 32 | 9);
        assert_eq!(<(u64, u64)>::HIGHEST.to_ordered(), u128::MAX);
    }

    #[test]
    fn a_prefix_has_a_first_and_a_last_key() {
        let first: (u32, i64) = Prefix::first_with(7);
        assert_eq!(first, (7, i64::MIN));
        let (a, b): (u32, f32) = Prefix::last_with(7);
        assert!(a == 7 && b.is_nan());
        let last: (u32, u32, i32) = Prefix::last_with((1, 2));
        assert_eq!(last, (1, 2, i32::MAX));
    }
}
