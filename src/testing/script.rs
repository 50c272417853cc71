//! Random lists of operations, drawn from bytes.

use std::fmt;

use crate::builder::Builder;
use crate::dictionary::Dictionary;
use crate::key::Key;
use crate::testing::bits::{KeyBits, KeyType, Types, ValueBits};
use crate::testing::elements::rules;
use crate::value::Value;

/// One call, or a few that belong together. Keys and values are bits; for messages, `K` is the
/// key as its type prints it.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // Each is the call of that name.
pub enum Operation<K = KeyBits> {
    Insert(Vec<(K, ValueBits)>),
    Delete(Vec<K>),
    Update(Vec<(K, ValueBits)>, Vec<K>),
    Set(Vec<(K, ValueBits)>),
    /// Changes keys in this order.
    Write(Vec<(K, Change)>),
    DeleteRange(Vec<(K, K)>),
    MergeFrom(Vec<(K, ValueBits)>),
    Rebuild,
    Cleanup,
    Clear,
    Lookup(Vec<K>),
    Count(Vec<(K, K)>),
    Range(Vec<(K, K)>),
    Aggregate(Vec<(K, K)>),
    Nearest(Vec<K>),
    Rank(Vec<K>),
    Select(Vec<u64>),
    Scan,
    Snapshot,
    Clone,
}

/// What a write batch does to one key.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // Each is the call of that name.
pub enum Change {
    Insert(ValueBits),
    Set(ValueBits),
    Delete,
}

impl Operation {
    /// The same operation with its keys as their type writes them, for a message.
    pub(super) fn shown(&self, key: &KeyType) -> Operation<Shown> {
        let one = |bits: KeyBits| Shown(key.show(bits));
        let each = |keys: &[KeyBits]| keys.iter().map(|&bits| one(bits)).collect();
        let pairs = |pairs: &[(KeyBits, ValueBits)]| {
            pairs.iter().map(|&(key, value)| (one(key), value)).collect()
        };
        let ends =
            |ends: &[(KeyBits, KeyBits)]| ends.iter().map(|&(lo, hi)| (one(lo), one(hi))).collect();
        match self {
            Operation::Insert(inserts) => Operation::Insert(pairs(inserts)),
            Operation::Delete(keys) => Operation::Delete(each(keys)),
            Operation::Update(inserts, deletes) => Operation::Update(pairs(inserts), each(deletes)),
            Operation::Set(inserts) => Operation::Set(pairs(inserts)),
            Operation::Write(changes) => {
                Operation::Write(changes.iter().map(|&(key, change)| (one(key), change)).collect())
            }
            Operation::DeleteRange(ranges) => Operation::DeleteRange(ends(ranges)),
            Operation::MergeFrom(inserts) => Operation::MergeFrom(pairs(inserts)),
            Operation::Rebuild => Operation::Rebuild,
            Operation::Cleanup => Operation::Cleanup,
            Operation::Clear => Operation::Clear,
            Operation::Lookup(keys) => Operation::Lookup(each(keys)),
            Operation::Count(ranges) => Operation::Count(ends(ranges)),
            Operation::Range(ranges) => Operation::Range(ends(ranges)),
            Operation::Aggregate(ranges) => Operation::Aggregate(ends(ranges)),
            Operation::Nearest(keys) => Operation::Nearest(each(keys)),
            Operation::Rank(keys) => Operation::Rank(each(keys)),
            Operation::Select(indices) => Operation::Select(indices.clone()),
            Operation::Scan => Operation::Scan,
            Operation::Snapshot => Operation::Snapshot,
            Operation::Clone => Operation::Clone,
        }
    }
}

/// A key as its type writes it.
pub(super) struct Shown(String);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many kinds of operations there were first.
const FIRST_KINDS: u8 = 32;

/// The byte that stands for [`Operation::Set`]; greater ones do, too, up to `AGGREGATE`.
const SET: u8 = 0xd0;

/// The byte that stands for [`Operation::Aggregate`]; greater ones do, too, up to `WRITE`.
const AGGREGATE: u8 = 0xe0;

/// The byte that stands for [`Operation::Write`]; greater ones do, too.
const WRITE: u8 = 0xf0;

/// Returns the least byte that stands for the same kind of operation.
pub(super) fn canonical_kind(byte: u8) -> u8 {
    match byte {
        WRITE.. => WRITE,
        AGGREGATE.. => AGGREGATE,
        SET.. => SET,
        _ => byte % FIRST_KINDS,
    }
}

/// Draws operations from bytes. When the bytes run out it draws zeros.
pub struct Draw<I> {
    bytes: I,
    scale: usize,
}

impl<I: Iterator<Item = u8>> Draw<I> {
    /// Draws from these bytes.
    pub fn new(bytes: impl IntoIterator<IntoIter = I>) -> Self {
        Draw { bytes: bytes.into_iter(), scale: 1 }
    }

    /// Makes lists `scale` times as long, of keys that are spread `scale` times as far.
    pub fn scaled(self, scale: usize) -> Self {
        Draw { scale, ..self }
    }

    /// Draws settings: often a tiny batch size, so that there are many carries; often a small limit of
    /// what one batch merges; and mostly a rule by which values combine, as numbers of any type that fits.
    pub fn settings<K: Key, V: Value>(&mut self) -> Builder<K, V> {
        let byte = usize::from(self.byte());
        let builder =
            Dictionary::builder().batch_size([1, 2, 3, 4, 8, 16, 50, 256, 600, 1024][byte % 10]);
        let builder = match byte / 10 % 4 {
            0 => builder,
            by => builder.max_merge_per_batch([1, 20, 100][by - 1]),
        };
        let rules = rules(size_of::<V>());
        match rules.get(byte * rules.len() / 280) {
            Some(&(rule, element)) => builder.combine_as(rule, element),
            None => builder,
        }
    }

    /// Draws the next operation.
    ///
    /// A byte says which kind it is. A new kind takes over bytes that the corpus, in which every byte is the
    /// least of its kind, does not have: those below `SET` that are not below `FIRST_KINDS`.
    pub fn operation(&mut self, types: &Types) -> Operation {
        let pair = |draw: &mut Self| draw.pair(types);
        let key = |draw: &mut Self| draw.key(&types.key);
        let ends = |draw: &mut Self| (draw.key(&types.key), draw.key(&types.key));
        let byte = canonical_kind(self.byte());
        if byte == AGGREGATE {
            return Operation::Aggregate(self.list(ends));
        }
        if byte == SET {
            return Operation::Set(self.list(pair));
        }
        if byte == WRITE {
            return Operation::Write(self.list(|draw| {
                let (key, value) = pair(draw);
                let change = match draw.byte() {
                    byte if byte % 3 == 0 => Change::Delete,
                    byte if byte < 0xc0 => Change::Insert(value),
                    _ => Change::Set(value),
                };
                (key, change)
            }));
        }
        match byte {
            0..=6 => Operation::Insert(self.list(pair)),
            7..=9 => Operation::Delete(self.list(key)),
            10..=14 => Operation::Update(self.list(pair), self.list(key)),
            15 => Operation::DeleteRange(self.list(ends)),
            16 => Operation::MergeFrom(self.list(pair)),
            17 => Operation::Rebuild,
            18 => Operation::Cleanup,
            19 => Operation::Clear,
            20 | 21 => Operation::Lookup(self.list(key)),
            22 | 23 => Operation::Count(self.list(ends)),
            24 | 25 => Operation::Range(self.list(ends)),
            26 => Operation::Nearest(self.list(key)),
            27 => Operation::Rank(self.list(key)),
            28 => Operation::Select(self.list(|draw| draw.number())),
            29 => Operation::Scan,
            30 => Operation::Snapshot,
            _ => Operation::Clone,
        }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            number => u64::from(number),
        }
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        let len = match self.byte() {
            len @ 0..=239 => usize::from(len) % 12,
            long => usize::from(long - 238) * 20,
        };
        (0..len * self.scale).map(|_| item(self)).collect()
    }

    fn pair(&mut self, types: &Types) -> (KeyBits, ValueBits) {
        (self.key(&types.key), self.value(types.value_width))
    }

    /// Draws two bytes, and repeats them: values take few bytes of a list, and have all of their own.
    fn value(&mut self, width: usize) -> ValueBits {
        let repeated = self.bits(width.min(2)) * (ValueBits::MAX / 0xffff);
        if width == 0 { 0 } else { repeated >> (128 - 8 * width) }
    }

    /// Mostly one of a few keys, so that they meet again; sometimes an end; sometimes any.
    fn key(&mut self, key: &KeyType) -> KeyBits {
        let kind = self.byte();
        match kind {
            0..=199 => self.near(key, key.from_ordered(0), kind),
            200..=219 => self.near(key, key.highest, kind),
            220..=224 => key.lowest,
            225..=229 => key.highest,
            230 => 0,
            _ => self.bits(key.width),
        }
    }

    /// `base`, or one of its neighbours in order.
    fn near(&mut self, key: &KeyType, base: KeyBits, distance: u8) -> KeyBits {
        let base = key.to_ordered(base);
        let is_up = base == 0 || self.byte() & 1 == 0;
        let distance = match (u64::from(distance), self.scale) {
            (near, 1) => near % 40,
            (near, scale) => {
                let far = near << 16 | u64::from(self.byte()) << 8 | u64::from(self.byte());
                far % (40 * scale as u64)
            }
        };
        let moved = if is_up {
            base.wrapping_add(distance.into())
        } else {
            base.wrapping_sub(distance.into())
        };
        key.from_ordered(moved & u128::MAX >> (128 - 8 * key.width))
    }

    /// Draws this many bytes, as an integer.
    fn bits(&mut self, bytes: usize) -> u128 {
        (0..bytes).fold(0, |bits, at| bits | u128::from(self.byte()) << (8 * at))
    }
}

impl Draw<Random> {
    /// Draws without end from a pseudo-random sequence.
    pub fn random(seed: u64) -> Self {
        Draw { bytes: Random::new(seed), scale: 1 }
    }
}

/// An endless pseudo-random sequence of bytes (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Iterator for Random {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        Some((self.number() >> 56) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_shown_with_keys_of_their_type() {
        let shown = Operation::Delete(vec![u128::from((-3i32).cast_unsigned())]);
        assert_eq!(format!("{:?}", shown.shown(&KeyType::of::<i32>())), "Delete([-3])");
    }
}
