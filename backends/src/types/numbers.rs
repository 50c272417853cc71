//! Numbers of tables as a dictionary stores them, and back.

use bytemuck::cast_vec;
use gpulsm::Key;
use gpulsm_tables::Numbers;

use super::{Column, KeyType, ValueType};

impl KeyType {
    /// Returns the integers that keys sort by. The keys must have this very type.
    pub fn ordered(self, keys: Numbers) -> Column {
        fn ordered<K: Key>(keys: Vec<K>) -> Vec<K::Ordered> {
            keys.into_iter().map(K::to_ordered).collect()
        }
        match keys {
            Numbers::U32(keys) => Column::U32(keys),
            Numbers::I32(keys) => Column::U32(ordered(keys)),
            Numbers::F32(keys) => Column::U32(ordered(keys)),
            Numbers::U64(keys) => Column::U64(keys),
            Numbers::I64(keys) => Column::U64(ordered(keys)),
            Numbers::F64(keys) => Column::U64(ordered(keys)),
            Numbers::U128(_) | Numbers::None(_) => unreachable!("no key has such a type"),
        }
    }

    /// Returns the keys that sort by integers.
    pub fn numbers(self, ordered: Column) -> Numbers {
        fn keys<K: Key>(ordered: Vec<K::Ordered>) -> Vec<K> {
            ordered.into_iter().map(K::from_ordered).collect()
        }
        match (self, ordered) {
            (KeyType::U32, Column::U32(ordered)) => Numbers::U32(ordered),
            (KeyType::I32, Column::U32(ordered)) => Numbers::I32(keys(ordered)),
            (KeyType::F32, Column::U32(ordered)) => Numbers::F32(keys(ordered)),
            (KeyType::U64, Column::U64(ordered)) => Numbers::U64(ordered),
            (KeyType::I64, Column::U64(ordered)) => Numbers::I64(keys(ordered)),
            (KeyType::F64, Column::U64(ordered)) => Numbers::F64(keys(ordered)),
            _ => unreachable!("a dictionary and its columns have the same types"),
        }
    }
}

impl ValueType {
    /// Returns the bits of values. The values must have this very type.
    pub fn bits(self, values: Numbers) -> Column {
        match values {
            Numbers::None(len) => Column::Empty(vec![(); len]),
            Numbers::U32(values) => Column::U32(values),
            Numbers::I32(values) => Column::U32(cast_vec(values)),
            Numbers::F32(values) => Column::U32(cast_vec(values)),
            Numbers::U64(values) => Column::U64(values),
            Numbers::I64(values) => Column::U64(cast_vec(values)),
            Numbers::F64(values) => Column::U64(cast_vec(values)),
            Numbers::U128(values) => Column::U128(values),
        }
    }

    /// Returns the values that have these bits.
    pub fn numbers(self, bits: Column) -> Numbers {
        match (self, bits) {
            (ValueType::None, Column::Empty(units)) => Numbers::None(units.len()),
            (ValueType::U32, Column::U32(bits)) => Numbers::U32(bits),
            (ValueType::I32, Column::U32(bits)) => Numbers::I32(cast_vec(bits)),
            (ValueType::F32, Column::U32(bits)) => Numbers::F32(cast_vec(bits)),
            (ValueType::U64, Column::U64(bits)) => Numbers::U64(bits),
            (ValueType::I64, Column::U64(bits)) => Numbers::I64(cast_vec(bits)),
            (ValueType::F64, Column::U64(bits)) => Numbers::F64(cast_vec(bits)),
            (ValueType::U128, Column::U128(bits)) => Numbers::U128(bits),
            _ => unreachable!("a dictionary and its columns have the same types"),
        }
    }
}
