//! What an insert does to a key that is already there: the rule of a dictionary, and how two values combine.

use crate::aggregate::Element;
use crate::error::Error;
use crate::key::{Encoding, Key, ScalarKey};
use crate::value::Value;

/// What an insert does to a key that is already there; set by [`Builder::combine`](crate::Builder::combine).
///
/// Under every rule but [`Replace`](Combine::Replace), an insert combines its value with the one that the key
/// has, and several inserts of a key in one batch combine with each other. An absent key gets the value as it
/// is. After a delete, the next insert starts afresh. [`Dictionary::set`](crate::Dictionary::set) replaces a
/// value under every rule.
///
/// Values of several numbers combine element by element. Results do not depend on the order in which values
/// are combined, except for sums of floats, whose last digits do: they may change when the dictionary merges
/// runs, without any update. (Where some of the values add up to more than the type holds, so does an infinity.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Combine {
    /// The new value replaces the old one.
    #[default]
    Replace,
    /// Adds values. Integers wrap around.
    Add,
    /// Keeps the least value. As among keys, −0 is +0, and NaN comes after +∞. (A value that nothing was combined
    /// with stays as it is.)
    Min,
    /// Keeps the greatest value. As among keys, −0 is +0, and NaN comes after +∞. (A value that nothing was combined
    /// with stays as it is.)
    Max,
    /// The bits that either value has. Integers only.
    Or,
    /// The bits that both values have. Integers only.
    And,
    /// The bits in which the values differ. Integers only.
    Xor,
}

impl Combine {
    /// Returns the rule's name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Combine::Replace => "replace",
            Combine::Add => "add",
            Combine::Min => "min",
            Combine::Max => "max",
            Combine::Or => "or",
            Combine::And => "and",
            Combine::Xor => "xor",
        }
    }
}

impl std::fmt::Display for Combine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// How an engine, which knows values as bytes, combines two of them. The rule is never
/// [`Combine::Replace`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combiner {
    rule: Combine,
    element: Element,
}

impl Combiner {
    /// Returns how values of `value_width` bytes, made of such elements, are combined; `None` if they replace
    /// each other.
    pub fn new(rule: Combine, element: Element, value_width: usize) -> Result<Option<Self>, Error> {
        let is_bitwise = matches!(rule, Combine::Or | Combine::And | Combine::Xor);
        let reason = if !element.fits(value_width) {
            "they are not made of numbers of 4 or 8 bytes"
        } else if is_bitwise && element.encoding == Encoding::Float {
            "floats have no bitwise operations; use `add`, `min` or `max`"
        } else {
            return Ok((rule != Combine::Replace).then_some(Combiner { rule, element }));
        };
        match rule {
            Combine::Replace => Ok(None),
            _ => Err(Error::CannotCombine { rule: rule.name(), reason }),
        }
    }

    /// Returns the rule.
    pub fn rule(self) -> Combine {
        self.rule
    }

    /// Returns the type of the numbers that values are made of.
    pub fn element(self) -> Element {
        self.element
    }

    /// Combines an older value with a newer one. For many values, [`function`](Combiner::function) is faster.
    pub(crate) fn combine<V: Value>(self, older: V, newer: V) -> V {
        let mut combined = newer;
        self.combine_bytes(bytemuck::bytes_of(&older), bytemuck::bytes_of_mut(&mut combined));
        combined
    }

    /// Combines the bytes of an older value into those of a newer one; compiled once for all types.
    fn combine_bytes(self, older: &[u8], newer: &mut [u8]) {
        match newer.len() {
            4 => self.combine_arrays::<4>(older, newer),
            8 => self.combine_arrays::<8>(older, newer),
            16 => self.combine_arrays::<16>(older, newer),
            _ => unreachable!("`Combiner::new` lets no other width through"),
        }
    }

    fn combine_arrays<const N: usize>(self, older: &[u8], newer: &mut [u8])
    where
        [u8; N]: Value,
    {
        let [older, previous]: [[u8; N]; 2] = [older, newer].map(bytemuck::pod_read_unaligned);
        newer.copy_from_slice(&self.function()(older, previous));
    }

    /// Returns the function that combines an older value with a newer one.
    pub(crate) fn function<V: Value>(self) -> CombineFn<V> {
        let Element { width, encoding } = self.element;
        match (encoding, width) {
            (Encoding::Unsigned, 4) => integers!(u32, self.rule),
            (Encoding::Unsigned, _) => integers!(u64, self.rule),
            (Encoding::Signed, 4) => integers!(i32, self.rule),
            (Encoding::Signed, _) => integers!(i64, self.rule),
            (Encoding::Float, 4) => floats!(f32, self.rule),
            (Encoding::Float, _) => floats!(f64, self.rule),
        }
    }
}

/// Combines an older value with a newer one.
pub(crate) type CombineFn<V> = fn(V, V) -> V;

/// Selects the function of a rule for values made of integers.
macro_rules! integers {
    ($T:ty, $rule:expr) => {
        match $rule {
            Combine::Add => |a, b| each::<V, $T>(a, b, |a, b| a.wrapping_add(b)),
            Combine::Or => |a, b| each::<V, $T>(a, b, |a, b| a | b),
            Combine::And => |a, b| each::<V, $T>(a, b, |a, b| a & b),
            Combine::Xor => |a, b| each::<V, $T>(a, b, |a, b| a ^ b),
            Combine::Min => |a, b| each::<V, $T>(a, b, least),
            Combine::Max => |a, b| each::<V, $T>(a, b, greatest),
            Combine::Replace => unreachable!("a combiner combines"),
        }
    };
}

/// Selects the function of a rule for values made of floats.
macro_rules! floats {
    ($T:ty, $rule:expr) => {
        match $rule {
            Combine::Add => |a, b| each::<V, $T>(a, b, |a, b| a + b),
            Combine::Min => |a, b| each::<V, $T>(a, b, least),
            Combine::Max => |a, b| each::<V, $T>(a, b, greatest),
            _ => unreachable!("checked by `Combiner::new`"),
        }
    };
}

use {floats, integers};

/// Combines two values element by element.
#[inline(always)]
fn each<V: Value, T: ScalarKey>(older: V, newer: V, combine: impl Fn(T, T) -> T) -> V {
    let mut combined = newer;
    let (older, newer) = (bytemuck::bytes_of(&older), bytemuck::bytes_of_mut(&mut combined));
    for element in 0..size_of::<V>() / size_of::<T>() {
        let bytes = element * size_of::<T>()..(element + 1) * size_of::<T>();
        let (older, newer) = (&older[bytes.clone()], &mut newer[bytes]);
        let (a, b) = (bytemuck::pod_read_unaligned(older), bytemuck::pod_read_unaligned(newer));
        newer.copy_from_slice(bytemuck::bytes_of(&combine(a, b)));
    }
    combined
}

#[inline(always)]
fn least<T: Key>(a: T, b: T) -> T {
    T::from_ordered(a.to_ordered().min(b.to_ordered()))
}

#[inline(always)]
fn greatest<T: Key>(a: T, b: T) -> T {
    T::from_ordered(a.to_ordered().max(b.to_ordered()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Number;

    fn combined<V: Number>(rule: Combine, older: V, newer: V) -> V {
        let combiner = Combiner::new(rule, V::ELEMENT, size_of::<V>()).unwrap().unwrap();
        combiner.function::<V>()(older, newer)
    }

    #[test]
    fn values_combine_element_by_element() {
        assert_eq!(combined(Combine::Add, u32::MAX, 2), 1);
        assert_eq!(combined(Combine::Add, [1.5f32, 2.0], [0.5, -2.0]), [2.0, 0.0]);
        assert_eq!(combined(Combine::Min, [-1i32, 7, 0, 3], [1, -7, 0, 2]), [-1, -7, 0, 2]);
        assert_eq!(combined(Combine::Min, -1i64, 1), -1);
        assert_eq!(combined(Combine::Min, u64::MAX, 1), 1);
        assert_eq!(combined(Combine::Max, [u32::MAX, 1], [1, 2]), [u32::MAX, 2]);
        assert_eq!(combined(Combine::Or, 0b0101u64, 0b0011), 0b0111);
        assert_eq!(combined(Combine::And, 0b0101i32, 0b0011), 0b0001);
        assert_eq!(combined(Combine::Xor, [0b0101u32; 4], [0b0011; 4]), [0b0110; 4]);
    }

    #[test]
    fn floats_are_ordered_as_keys_are() {
        assert_eq!(combined(Combine::Min, -0.0f64, -0.0).to_bits(), 0.0f64.to_bits());
        assert_eq!(combined(Combine::Min, f32::NAN, f32::INFINITY), f32::INFINITY);
        assert!(combined(Combine::Max, f32::INFINITY, -f32::NAN).is_nan());
        assert_eq!(combined(Combine::Max, [-1.0f64, -2.0], [-2.0, -1.0]), [-1.0, -1.0]);
    }

    #[test]
    fn what_cannot_combine_says_so() {
        let error =
            |rule, element, width| Combiner::new(rule, element, width).unwrap_err().to_string();
        let float = f32::ELEMENT;
        assert!(error(Combine::Or, float, 4).contains("floats have no bitwise operations"));
        assert!(error(Combine::Add, u64::ELEMENT, 4).contains("not made of numbers"));
        assert!(error(Combine::Add, float, 0).contains("not made of numbers"));
        assert_eq!(Combiner::new(Combine::Replace, u64::ELEMENT, 4), Ok(None));
    }
}
