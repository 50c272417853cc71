//! Keys and values as bits, for code that is compiled once for all types.

use bytemuck::Pod;

use crate::key::{Key, OrderedKey};
use crate::value::Value;

/// The bits of a key, zero-extended.
pub type KeyBits = u64;

/// The bits of a value, zero-extended.
pub type ValueBits = u128;

/// Returns the bits of plain data of at most 16 bytes.
pub(super) fn bits<T: Pod>(data: &T) -> u128 {
    let mut bytes = [0; 16];
    bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(data));
    u128::from_le_bytes(bytes)
}

/// Returns the plain data that has these bits.
pub(super) fn of_bits<T: Pod>(bits: u128) -> T {
    bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<T>()])
}

/// The types of a dictionary.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    /// The type of its keys.
    pub key: KeyType,
    /// The bytes of a value.
    pub value_width: usize,
}

impl Types {
    /// Describes the types `K` and `V`.
    pub fn of<K: Key, V: Value>() -> Self {
        Types { key: KeyType::of::<K>(), value_width: size_of::<V>() }
    }
}

/// A type of keys.
#[derive(Clone, Copy, Debug)]
pub struct KeyType {
    /// The bytes of a key.
    pub width: usize,
    /// The first key in order.
    pub lowest: KeyBits,
    /// The last key in order.
    pub highest: KeyBits,
    to_ordered: fn(KeyBits) -> u64,
    from_ordered: fn(u64) -> KeyBits,
    show: fn(KeyBits) -> String,
}

impl KeyType {
    /// Describes the type `K`.
    pub fn of<K: Key>() -> Self {
        KeyType {
            width: size_of::<K>(),
            lowest: bits(&K::LOWEST) as KeyBits,
            highest: bits(&K::HIGHEST) as KeyBits,
            to_ordered: |key| of_bits::<K>(key.into()).to_ordered().widen(),
            from_ordered: |ordered| bits(&K::from_ordered(of_bits(ordered.into()))) as KeyBits,
            show: |key| format!("{:?}", of_bits::<K>(key.into())),
        }
    }

    /// Returns the integer that the key sorts by.
    pub fn to_ordered(&self, key: KeyBits) -> u64 {
        (self.to_ordered)(key)
    }

    /// Returns the key that sorts by this integer.
    pub fn from_ordered(&self, ordered: u64) -> KeyBits {
        (self.from_ordered)(ordered)
    }

    /// Writes the key as its type does.
    pub fn show(&self, key: KeyBits) -> String {
        (self.show)(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_make_the_same_key_again() {
        for key in [0.0f32, -0.0, 1.5, -2.5e-40, f32::INFINITY] {
            let bits = bits(&key);
            assert_eq!(bits, key.to_bits().into());
            assert_eq!(of_bits::<f32>(bits).to_bits(), key.to_bits());
        }
        assert_eq!(of_bits::<[u32; 2]>(bits(&[7u32, 9])), [7, 9]);
        assert_eq!(bits(&()), 0);
    }

    #[test]
    fn a_key_type_maps_keys_as_the_type_does() {
        let key_type = KeyType::of::<i32>();
        let minus_five = bits(&-5i32) as KeyBits;
        assert_eq!(key_type.to_ordered(minus_five), (-5i32).to_ordered().into());
        assert_eq!(key_type.from_ordered(key_type.to_ordered(minus_five)), minus_five);
        assert_eq!(key_type.show(minus_five), "-5");
        assert!(key_type.to_ordered(key_type.lowest) < key_type.to_ordered(key_type.highest));
    }
}
