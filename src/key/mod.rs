//! Which types can be keys, and how each is mapped to an unsigned integer that sorts the same way.
//!
//! The map is applied at the edge of the dictionary: engines see `u32`, `u64` and `u128` only.

mod bytes;
mod layout;
mod on;
mod parts;

use std::borrow::Cow;
use std::fmt::Debug;
use std::hash::Hash;

use bytemuck::{Pod, Zeroable};

use crate::error::{Error, try_with_capacity, try_zeroed};

#[doc(hidden)]
pub use self::layout::{Layout, PackedKey, Part};
pub use self::on::AsOfKey;
#[doc(hidden)]
pub use self::on::{Distance, On};

/// A type of key.
///
/// - Numbers: `u32`, `u64`, `u128`, `i32`, `i64`, `i128`, `f32`, `f64`. Integers have their usual order. Floats
///   are ordered by value; −0 is stored as +0, and every NaN is one and the same NaN, which comes after +∞.
/// - Bytes: `[u8; N]` for N up to 16, compared from the first byte on.
/// - Tuples of two to four keys, of at most 16 bytes in all, compared from the first part on: `(u32, i64)`.
/// - Wrappers and structs of keys that the macro [`key!`](crate::key) made keys.
///
/// Every value of the type is a legal key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key of a gpulsm dictionary",
    note = "keys are `u32`, `u64`, `u128`, `i32`, `i64`, `i128`, `f32`, `f64`, `[u8; N]` up to 16 bytes, and tuples of two to four keys; convert narrower integers",
    note = "for a wrapper, `#[repr(transparent)] struct Id(u64)`, write `gpulsm::key!(Id(u64));`",
    note = "for a struct, `struct Edge {{ from: u32, to: u32 }}`, write `gpulsm::key!(Edge {{ from: u32, to: u32 }});`"
)]
pub trait Key:
    private::Sealed + Copy + Zeroable + Debug + Send + Sync + PartialOrd + 'static
{
    /// The unsigned integer that engines sort by.
    type Ordered: OrderedKey;

    /// How many of the low bits of that integer the type uses.
    const BITS: u32;

    /// The first key in order: the smallest integer, or −∞.
    const LOWEST: Self;

    /// The last key in order: the largest integer, or NaN.
    const HIGHEST: Self;

    /// Returns the integer that sorts as this key does.
    fn to_ordered(self) -> Self::Ordered;

    /// Returns the key that [`to_ordered`](Key::to_ordered) maps to this integer.
    fn from_ordered(ordered: Self::Ordered) -> Self;

    /// Adds the numbers and bytes that the type consists of, the most significant one first.
    #[doc(hidden)]
    fn add_parts(parts: &mut Vec<Part>);

    /// Returns the keys themselves, if they are the integers that engines sort by.
    #[doc(hidden)]
    fn as_ordered(keys: &[Self]) -> Option<&[Self::Ordered]> {
        let _ = keys;
        None
    }

    /// Returns the memory of these keys as that of integers, if they are plain data of the same width.
    #[doc(hidden)]
    fn lend(keys: &mut [Self]) -> Option<&mut [Self::Ordered]> {
        let _ = keys;
        None
    }
}

/// A key that is a single number, or a wrapper of one: what arrays in a GPU's memory can hold.
pub trait ScalarKey: Key + Pod {
    /// What the bits mean, to a GPU that maps keys of its own memory.
    #[doc(hidden)]
    const ENCODING: Encoding;
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

/// An integer that engines sort by: `u32`, `u64` or `u128`.
pub trait OrderedKey: ScalarKey + Key<Ordered = Self> + Ord + Hash + Default {
    /// Returns the key after this one, unless it is the largest.
    fn next(self) -> Option<Self>;

    /// Returns the key before this one, unless it is 0.
    fn previous(self) -> Option<Self>;

    /// Returns this key as a `u128`.
    fn widen(self) -> u128;

    /// Returns the low bits of a `u128`.
    fn narrow(wide: u128) -> Self;

    /// Returns how far this key is above a lower one, without that many of the low bits.
    #[doc(hidden)]
    fn steps_above(self, lower: Self, bits: u32) -> usize;

    /// Returns 64 bits that depend on all bits of the key; different for different keys of at most 8 bytes.
    #[doc(hidden)]
    fn digest(self) -> u64;
}

/// A key that begins with one or more parts, `P`: all keys with the same first parts are a range.
///
/// Implemented for tuples: `(A, B, C)` begins with `A` and with `(A, B)`. So does a struct of three keys by
/// [`key!`](crate::key).
pub trait Prefix<P>: Key {
    /// Returns the first key in order that begins with these parts.
    fn first_with(prefix: P) -> Self;

    /// Returns the last key in order that begins with these parts.
    fn last_with(prefix: P) -> Self;
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
/// Or makes a struct of two to four keys a key, which is compared from the first field on that the macro names, and
/// begins with its first fields as a tuple does with its first parts ([`Prefix`]):
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Zeroable)]
/// struct Edge {
///     from: u32,
///     to: u32,
/// }
///
/// gpulsm::key!(Edge { from: u32, to: u32 });
///
/// # fn main() -> Result<(), gpulsm::Error> {
/// let mut graph = gpulsm::Dictionary::<Edge, ()>::new();
/// graph.insert(&[Edge { from: 2, to: 1 }, Edge { from: 1, to: 9 }], &[(), ()])?;
/// assert_eq!(graph.first()?.map(|(edge, ())| edge.to), Some(9));
/// assert_eq!(graph.count(&[gpulsm::prefix(2), gpulsm::prefix(3)])?, [1, 0]);
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
            const BITS: u32 = <$Inner as $crate::Key>::BITS;
            const LOWEST: Self = $Wrapper(<$Inner as $crate::Key>::LOWEST);
            const HIGHEST: Self = $Wrapper(<$Inner as $crate::Key>::HIGHEST);

            #[inline]
            fn to_ordered(self) -> Self::Ordered {
                $crate::Key::to_ordered(self.0)
            }

            #[inline]
            fn from_ordered(ordered: Self::Ordered) -> Self {
                $Wrapper(<$Inner as $crate::Key>::from_ordered(ordered))
            }

            fn add_parts(parts: &mut ::std::vec::Vec<$crate::private::Part>) {
                <$Inner as $crate::Key>::add_parts(parts);
            }

            fn lend(keys: &mut [Self]) -> Option<&mut [Self::Ordered]> {
                $crate::private::lend(keys)
            }
        }

        impl $crate::ScalarKey for $Wrapper {
            const ENCODING: $crate::private::Encoding = <$Inner as $crate::ScalarKey>::ENCODING;
        }
    };
    ($Struct:ident { $($field:ident: $Part:ty),+ $(,)? }) => {
        impl $crate::private::Sealed for $Struct {}

        impl $crate::Key for $Struct {
            type Ordered = <($($Part,)+) as $crate::Key>::Ordered;
            const BITS: u32 = <($($Part,)+) as $crate::Key>::BITS;
            const LOWEST: Self = $Struct { $($field: <$Part as $crate::Key>::LOWEST),+ };
            const HIGHEST: Self = $Struct { $($field: <$Part as $crate::Key>::HIGHEST),+ };

            #[inline]
            fn to_ordered(self) -> Self::Ordered {
                $crate::Key::to_ordered(($(self.$field,)+))
            }

            #[inline]
            fn from_ordered(ordered: Self::Ordered) -> Self {
                let ($($field,)+) = <($($Part,)+) as $crate::Key>::from_ordered(ordered);
                $Struct { $($field),+ }
            }

            fn add_parts(parts: &mut ::std::vec::Vec<$crate::private::Part>) {
                <($($Part,)+) as $crate::Key>::add_parts(parts);
            }
        }

        impl<Parts> $crate::Prefix<Parts> for $Struct
        where
            ($($Part,)+): $crate::Prefix<Parts>,
        {
            fn first_with(prefix: Parts) -> Self {
                let ($($field,)+) = <($($Part,)+) as $crate::Prefix<Parts>>::first_with(prefix);
                $Struct { $($field),+ }
            }

            fn last_with(prefix: Parts) -> Self {
                let ($($field,)+) = <($($Part,)+) as $crate::Prefix<Parts>>::last_with(prefix);
                $Struct { $($field),+ }
            }
        }
    };
}

macro_rules! unsigned_key {
    ($type:ty, $digest:expr) => {
        impl private::Sealed for $type {}

        impl Key for $type {
            type Ordered = $type;
            const BITS: u32 = <$type>::BITS;
            const LOWEST: Self = <$type>::MIN;
            const HIGHEST: Self = <$type>::MAX;

            #[inline]
            fn to_ordered(self) -> $type {
                self
            }

            #[inline]
            fn from_ordered(ordered: $type) -> Self {
                ordered
            }

            fn add_parts(parts: &mut Vec<Part>) {
                parts.push(Part::of_number::<Self>());
            }

            fn as_ordered(keys: &[Self]) -> Option<&[Self]> {
                Some(keys)
            }

            fn lend(keys: &mut [Self]) -> Option<&mut [Self]> {
                Some(keys)
            }
        }

        impl ScalarKey for $type {
            const ENCODING: Encoding = Encoding::Unsigned;
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
            fn widen(self) -> u128 {
                u128::from(self)
            }

            #[inline]
            fn narrow(wide: u128) -> Self {
                wide as $type
            }

            #[inline]
            fn steps_above(self, lower: Self, bits: u32) -> usize {
                ((self - lower) >> bits) as usize
            }

            #[inline]
            fn digest(self) -> u64 {
                $digest(self)
            }
        }
    };
}

macro_rules! signed_key {
    ($type:ty, $ordered:ty) => {
        impl private::Sealed for $type {}

        impl Key for $type {
            type Ordered = $ordered;
            const BITS: u32 = <$type>::BITS;
            const LOWEST: Self = <$type>::MIN;
            const HIGHEST: Self = <$type>::MAX;

            #[inline]
            fn to_ordered(self) -> $ordered {
                // Flipping the sign bit puts the negative half below the positive one.
                self.cast_unsigned() ^ (1 << (<$ordered>::BITS - 1))
            }

            #[inline]
            fn from_ordered(ordered: $ordered) -> Self {
                (ordered ^ (1 << (<$ordered>::BITS - 1))).cast_signed()
            }

            fn add_parts(parts: &mut Vec<Part>) {
                parts.push(Part::of_number::<Self>());
            }

            fn lend(keys: &mut [Self]) -> Option<&mut [$ordered]> {
                lend(keys)
            }
        }

        impl ScalarKey for $type {
            const ENCODING: Encoding = Encoding::Signed;
        }
    };
}

macro_rules! float_key {
    ($type:ty, $ordered:ty) => {
        impl private::Sealed for $type {}

        impl Key for $type {
            type Ordered = $ordered;
            const BITS: u32 = <$ordered>::BITS;
            const LOWEST: Self = <$type>::NEG_INFINITY;
            const HIGHEST: Self = <$type>::NAN;

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

            fn add_parts(parts: &mut Vec<Part>) {
                parts.push(Part::of_number::<Self>());
            }

            fn lend(keys: &mut [Self]) -> Option<&mut [$ordered]> {
                lend(keys)
            }
        }

        impl ScalarKey for $type {
            const ENCODING: Encoding = Encoding::Float;
        }
    };
}

unsigned_key!(u32, u64::from);
unsigned_key!(u64, u64::from);
// The upper half is multiplied, so that keys with equal sums of their halves differ.
unsigned_key!(u128, |key: u128| key as u64
    ^ ((key >> 64) as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
signed_key!(i32, u32);
signed_key!(i64, u64);
signed_key!(i128, u128);
float_key!(f32, u32);
float_key!(f64, u64);

/// Returns a caller's keys as engines take them: borrowed where the map is the identity, otherwise mapped.
pub(crate) fn encode<K: Key>(keys: &[K]) -> Result<Cow<'_, [K::Ordered]>, Error> {
    if let Some(ordered) = K::as_ordered(keys) {
        return Ok(Cow::Borrowed(ordered));
    }
    let mut ordered = try_with_capacity(keys.len())?;
    ordered.extend(keys.iter().map(|key| key.to_ordered()));
    Ok(Cow::Owned(ordered))
}

/// Has an engine fill a caller's key buffer with integers, and turns the first of them, as many as it returns,
/// into keys.
pub(crate) fn fill<K: Key>(
    keys: &mut [K],
    write: impl FnOnce(&mut [K::Ordered]) -> Result<usize, Error>,
) -> Result<usize, Error> {
    if let Some(ordered) = K::lend(keys) {
        let written = write(ordered)?;
        if K::as_ordered(&[]).is_none() {
            keys[..written].iter_mut().for_each(decode);
        }
        return Ok(written);
    }
    let mut ordered = try_zeroed(keys.len())?;
    let written = write(&mut ordered)?;
    for (key, &ordered) in keys.iter_mut().zip(&ordered[..written]) {
        *key = K::from_ordered(ordered);
    }
    Ok(written)
}

/// Turns an integer that was written to the memory of a key into the key.
fn decode<K: Key>(key: &mut K) {
    if let Some(&mut [ordered]) = K::lend(std::slice::from_mut(key)) {
        *key = K::from_ordered(ordered);
    }
}

/// Casts the memory of plain keys to that of integers of the same width.
#[doc(hidden)]
pub fn lend<K: Key + Pod>(keys: &mut [K]) -> Option<&mut [K::Ordered]> {
    Some(bytemuck::cast_slice_mut(keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each list is in key order without repeats.
    pub(super) fn check_order<K: Key>(keys: &[K]) {
        for pair in keys.windows(2) {
            assert!(pair[0].to_ordered() < pair[1].to_ordered(), "{pair:?}");
        }
        for key in keys {
            let ordered = key.to_ordered();
            assert_eq!(K::from_ordered(ordered).to_ordered(), ordered, "{key:?}");
        }
    }

    /// Checks the same of a list from the first key there is to the last.
    fn check_all_order<K: Key>(keys: &[K]) {
        check_order(keys);
        assert_eq!(keys[0].to_ordered(), K::LOWEST.to_ordered());
        assert_eq!(keys[keys.len() - 1].to_ordered(), K::HIGHEST.to_ordered());
    }

    #[test]
    fn maps_preserve_order_from_the_lowest_to_the_highest() {
        check_all_order(&[0u32, 1, 1 << 31, u32::MAX]);
        check_all_order(&[0u64, 1, 1 << 63, u64::MAX]);
        check_all_order(&[i32::MIN, -1, 0, 1, i32::MAX]);
        check_all_order(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check_all_order(&[0u128, 1, 1 << 64, u128::MAX]);
        check_all_order(&[i128::MIN, -1, 0, 1, i128::MAX]);
        check_all_order(&[
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
        check_all_order(&[
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

    #[test]
    fn a_struct_has_the_prefixes_of_the_tuple_of_its_fields() {
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Zeroable)]
        struct Reading {
            at: i64,
            station: u32,
            sensor: [u8; 2],
        }
        crate::key!(Reading { station: u32, sensor: [u8; 2], at: i64 });
        let first: Reading = Prefix::first_with(7);
        assert_eq!(first, Reading { station: 7, sensor: [0; 2], at: i64::MIN });
        let last: Reading = Prefix::last_with((7, *b"ab"));
        assert_eq!(last, Reading { station: 7, sensor: *b"ab", at: i64::MAX });
    }
}
