//! Keys and values as bits, for code that is compiled once for all types.

use std::slice;

use bytemuck::Pod;

use crate::key::{Key, OrderedKey};
use crate::value::Value;

/// The bits of a key, zero-extended: those of its memory if it is plain, otherwise of the integer it sorts by.
pub type KeyBits = u128;

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

/// Returns the bits of a key.
pub(super) fn key_bits<K: Key>(mut key: K) -> KeyBits {
    match K::lend(slice::from_mut(&mut key)) {
        Some(&mut [memory]) => memory.widen(),
        _ => key.to_ordered().widen(),
    }
}

/// Returns the key that has these bits.
pub(super) fn key_of_bits<K: Key>(bits: KeyBits) -> K {
    let mut key = K::LOWEST;
    match K::lend(slice::from_mut(&mut key)) {
        Some([memory]) => *memory = OrderedKey::narrow(bits),
        _ => key = K::from_ordered(OrderedKey::narrow(bits)),
    }
    key
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
    to_ordered: fn(KeyBits) -> u128,
    from_ordered: fn(u128) -> KeyBits,
    show: fn(KeyBits) -> String,
}

impl KeyType {
    /// Describes the type `K`.
    pub fn of<K: Key>() -> Self {
        KeyType {
            width: (K::BITS / 8) as usize,
            lowest: key_bits(K::LOWEST),
            highest: key_bits(K::HIGHEST),
            to_ordered: |key| key_of_bits::<K>(key).to_ordered().widen(),
            from_ordered: |ordered| key_bits(K::from_ordered(OrderedKey::narrow(ordered))),
            show: |key| format!("{:?}", key_of_bits::<K>(key)),
        }
    }

    /// Returns the integer that the key sorts by.
    pub fn to_ordered(&self, key: KeyBits) -> u128 {
        (self.to_ordered)(key)
    }

    /// Returns the key that sorts by this integer.
    pub fn from_ordered(&self, ordered: u128) -> KeyBits {
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
        let minus_five = key_bits(-5i32);
        assert_eq!(key_type.to_ordered(minus_five), (-5i32).to_ordered().into());
        assert_eq!(key_type.from_ordered(key_type.to_ordered(minus_five)), minus_five);
        assert_eq!(key_type.show(minus_five), "-5");
        assert!(key_type.to_ordered(key_type.lowest) < key_type.to_ordered(key_type.highest));
    }
}
