//! Which types can be keys, and how each is mapped to an unsigned integer that sorts the same way.
//!
//! The map is applied at the edge of the dictionary: engines see `u32` and `u64` only.

use std::borrow::Cow;
use std::fmt::Debug;
use std::hash::Hash;

use bytemuck::Pod;

use crate::error::{Error, try_with_capacity};

/// A type of key: `u32`, `u64`, `i32`, `i64`, `f32`, `f64`, or a wrapper of one of them that the macro
/// [`key!`](crate::key) made a key.
///
/// Every value of the type is a legal key. Integers have their usual order. Floats are ordered by
/// value; −0 is stored as +0, and every NaN is one and the same NaN, which comes after +∞.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key of a gpulsm dictionary",
    note = "keys are `u32`, `u64`, `i32`, `i64`, `f32` and `f64`; convert narrower integers",
    note = "for a wrapper, `#[repr(transparent)] struct Id(u64)`, write `gpulsm::key!(Id(u64));`"
)]
pub trait Key: private::Sealed + Pod + Debug + Send + Sync + PartialOrd {
    /// The unsigned integer of the same width that engines sort by.
    type Ordered: OrderedKey;

    /// The first key in order: the smallest integer, or −∞.
    const LOWEST: Self;

    /// The last key in order: the largest integer, or NaN.
    const HIGHEST: Self;

    /// What the bits mean, to a GPU that maps keys of its own memory.
    #[doc(hidden)]
    const ENCODING: Encoding;

    /// Returns the integer that sorts as this key does.
    fn to_ordered(self) -> Self::Ordered;

    /// Returns the key that [`to_ordered`](Key::to_ordered) maps to this integer.
    fn from_ordered(ordered: Self::Ordered) -> Self;
}

/// What the bits of a key mean; the same numbers as in `include/gpulsm/keys.cuh`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Encoding {
    Unsigned,
    Signed,
    Float,
}

/// An integer that engines sort by: `u32` or `u64`.
pub trait OrderedKey: Key<Ordered = Self> + Ord + Hash + Default {
    /// Returns the key after this one, unless it is the largest.
    fn next(self) -> Option<Self>;

    /// Returns the key before this one, unless it is 0.
    fn previous(self) -> Option<Self>;

    /// Returns this key as a `u64`.
    fn widen(self) -> u64;
}

#[doc(hidden)]
pub mod private {
    /// Implemented by [`key!`](crate::key) for wrappers of the width of their key only, which kernels rely on.
    pub trait Sealed {}
}

/// Makes a wrapper of a key a [`Key`], ordered as the wrapped key.
///
/// ```
/// /// The number of an order.
/// #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct OrderId(u64);
///
/// gpulsm::key!(OrderId(u64));
///
/// # fn main() -> Result<(), gpulsm::Error> {
/// let mut totals = gpulsm::Dictionary::<OrderId, f64>::new();
/// totals.insert(&[OrderId(7), OrderId(3)], &[9.5, 1.0])?;
/// assert_eq!(totals.first()?, Some((OrderId(3), 1.0)));
/// # Ok(())
/// # }
/// ```
///
/// The type that it wraps must be a key:
///
/// ```compile_fail
/// # #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Pod, bytemuck::Zeroable)]
/// # #[repr(transparent)]
/// struct Port(u16);
/// gpulsm::key!(Port(u16));
/// ```
#[macro_export]
macro_rules! key {
    ($Wrapper:ident($Inner:ty)) => {
        const _: () = assert!(
            ::core::mem::size_of::<$Wrapper>() == ::core::mem::size_of::<$Inner>(),
            "a wrapper of a key has one field"
        );

        impl $crate::private::Sealed for $Wrapper {}

        impl $crate::Key for $Wrapper {
            type Ordered = <$Inner as $crate::Key>::Ordered;
            const LOWEST: Self = $Wrapper(<$Inner as $crate::Key>::LOWEST);
            const HIGHEST: Self = $Wrapper(<$Inner as $crate::Key>::HIGHEST);
            const ENCODING: $crate::private::Encoding = <$Inner as $crate::Key>::ENCODING;

            #[inline]
            fn to_ordered(self) -> Self::Ordered {
                $crate::Key::to_ordered(self.0)
            }

            #[inline]
            fn from_ordered(ordered: Self::Ordered) -> Self {
                $Wrapper(<$Inner as $crate::Key>::from_ordered(ordered))
            }
        }
    };
}

macro_rules! unsigned_key {
    ($type:ty) => {
        impl private::Sealed for $type {}

        impl Key for $type {
            type Ordered = $type;
            const LOWEST: Self = <$type>::MIN;
            const HIGHEST: Self = <$type>::MAX;
            const ENCODING: Encoding = Encoding::Unsigned;

            #[inline]
            fn to_ordered(self) -> $type {
                self
            }

            #[inline]
            fn from_ordered(ordered: $type) -> Self {
                ordered
            }
        }

        impl OrderedKey for $type {
            #[inline]
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline]
            fn previous(self) -> Option<Self> {
                self.checked_sub(1)
            }

            #[inline]
            fn widen(self) -> u64 {
                u64::from(self)
            }
        }
    };
}

macro_rules! signed_key {
    ($type:ty, $ordered:ty) => {
        impl private::Sealed for $type {}

        impl Key for $type {
            type Ordered = $ordered;
            const LOWEST: Self = <$type>::MIN;
            const HIGHEST: Self = <$type>::MAX;
            const ENCODING: Encoding = Encoding::Signed;

            #[inline]
            fn to_ordered(self) -> $ordered {
                // Flipping the sign bit puts the negative half below the positive one.
                self.cast_unsigned() ^ (1 << (<$ordered>::BITS - 1))
            }

            #[inline]
            fn from_ordered(ordered: $ordered) -> Self {
                (ordered ^ (1 << (<$ordered>::BITS - 1))).cast_signed()
            }
        }
    };
}

macro_rules! float_key {
    ($type:ty, $ordered:ty) => {
        impl private::Sealed for $type {}

        impl Key for $type {
            type Ordered = $ordered;
            const LOWEST: Self = <$type>::NEG_INFINITY;
            const HIGHEST: Self = <$type>::NAN;
            const ENCODING: Encoding = Encoding::Float;

            #[inline]
            fn to_ordered(self) -> $ordered {
                const SIGN: $ordered = 1 << (<$ordered>::BITS - 1);
                const INFINITY: $ordered = <$type>::INFINITY.to_bits();
                // Tests of bits, not arithmetic: in a thread that flushes denormals to zero, even
                // `+ 0.0` would make distinct keys equal.
                let bits = match self.to_bits() {
                    SIGN => 0, // −0
                    bits if bits & !SIGN > INFINITY => <$type>::NAN.to_bits(),
                    bits => bits,
                };
                // Negative floats grow downwards in their bits: flip them all; else only the sign.
                if bits & SIGN == 0 { bits | SIGN } else { !bits }
            }

            #[inline]
            fn from_ordered(ordered: $ordered) -> Self {
                const SIGN: $ordered = 1 << (<$ordered>::BITS - 1);
                let bits = if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN };
                <$type>::from_bits(bits)
            }
        }
    };
}

unsigned_key!(u32);
unsigned_key!(u64);
signed_key!(i32, u32);
signed_key!(i64, u64);
float_key!(f32, u32);
float_key!(f64, u64);

/// Returns a caller's keys as engines take them: borrowed where the map is the identity, otherwise mapped.
pub(crate) fn encode<K: Key>(keys: &[K]) -> Result<Cow<'_, [K::Ordered]>, Error> {
    // The cast succeeds for every key type; it *means* the same only where the types are equal.
    if same_type::<K, K::Ordered>() {
        return Ok(Cow::Borrowed(bytemuck::cast_slice(keys)));
    }
    let mut ordered = try_with_capacity(keys.len())?;
    ordered.extend(keys.iter().map(|key| key.to_ordered()));
    Ok(Cow::Owned(ordered))
}

/// Lends a caller's key buffer to an engine as integers; call [`decode`] when it is filled.
pub(crate) fn lend<K: Key>(keys: &mut [K]) -> &mut [K::Ordered] {
    bytemuck::cast_slice_mut(keys)
}

/// Turns the integers an engine wrote through [`lend`] into keys, in place.
pub(crate) fn decode<K: Key>(keys: &mut [K]) {
    if same_type::<K, K::Ordered>() {
        return;
    }
    for key in keys {
        *key = K::from_ordered(bytemuck::cast(*key));
    }
}

fn same_type<A: 'static, B: 'static>() -> bool {
    std::any::TypeId::of::<A>() == std::any::TypeId::of::<B>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each list is in key order without repeats.
    fn check_order<K: Key>(keys: &[K]) {
        for pair in keys.windows(2) {
            assert!(pair[0].to_ordered() < pair[1].to_ordered(), "{pair:?}");
        }
        for key in keys {
            let ordered = key.to_ordered();
            assert_eq!(K::from_ordered(ordered).to_ordered(), ordered, "{key:?}");
        }
        assert_eq!(keys[0].to_ordered(), K::LOWEST.to_ordered());
        assert_eq!(keys[keys.len() - 1].to_ordered(), K::HIGHEST.to_ordered());
    }

    #[test]
    fn maps_preserve_order_from_the_lowest_to_the_highest() {
        check_order(&[0u32, 1, 1 << 31, u32::MAX]);
        check_order(&[0u64, 1, 1 << 63, u64::MAX]);
        check_order(&[i32::MIN, -1, 0, 1, i32::MAX]);
        check_order(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check_order(&[
            f32::NEG_INFINITY,
            f32::MIN,
            -1.0,
            -f32::from_bits(1),
            0.0,
            f32::from_bits(1),
            1.0,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ]);
        check_order(&[
            f64::NEG_INFINITY,
            f64::MIN,
            -1.0,
            -f64::from_bits(1),
            0.0,
            f64::from_bits(1),
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ]);
    }

    #[test]
    fn zeros_are_one_key_and_nans_are_one_key() {
        assert_eq!((-0.0f32).to_ordered(), 0.0f32.to_ordered());
        assert_eq!((-0.0f64).to_ordered(), 0.0f64.to_ordered());
        assert!(f32::from_ordered((-0.0f32).to_ordered()).is_sign_positive());
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(u32::MAX)] {
            assert_eq!(nan.to_ordered(), f32::NAN.to_ordered());
        }
        for nan in [f64::NAN, -f64::NAN, f64::from_bits(u64::MAX)] {
            assert_eq!(nan.to_ordered(), f64::NAN.to_ordered());
        }
    }
}
