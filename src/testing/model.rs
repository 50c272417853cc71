//! The meaning of a dictionary, over a `BTreeMap`: slow, plain and right.
//!
//! Every test, the fuzzer and the program's `verify` compare each device's answers with this.

use std::collections::BTreeMap;

use crate::key::Key;
use crate::value::Value;

/// What a [`Dictionary`](crate::Dictionary) means.
#[derive(Clone, Debug)]
pub struct Model<K: Key, V> {
    pairs: BTreeMap<K::Ordered, V>,
}

impl<K: Key, V: Value> Default for Model<K, V> {
    fn default() -> Self {
        Model { pairs: BTreeMap::new() }
    }
}

impl<K: Key, V: Value> Model<K, V> {
    /// One batch: the last insert of a key wins, and a key also deleted is deleted.
    pub fn update(&mut self, inserts: &[(K, V)], deletes: &[K]) {
        self.pairs.extend(inserts.iter().map(|&(key, value)| (key.to_ordered(), value)));
        for key in deletes {
            self.pairs.remove(&key.to_ordered());
        }
    }

    /// One batch, in which `combine` combines each value with the one that its key has, and a key also deleted
    /// is deleted.
    pub fn combine(&mut self, inserts: &[(K, V)], deletes: &[K], combine: impl Fn(V, V) -> V) {
        for &(key, newer) in inserts {
            let value = self.pairs.entry(key.to_ordered());
            value.and_modify(|value| *value = combine(*value, newer)).or_insert(newer);
        }
        self.update(&[], deletes);
    }

    /// Every key in a closed range is gone.
    pub fn delete_range(&mut self, lo: K, hi: K) {
        self.pairs.retain(|&key, _| key < lo.to_ordered() || key > hi.to_ordered());
    }

    /// Everything is gone.
    pub fn clear(&mut self) {
        self.pairs.clear();
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The value of a key.
    pub fn lookup(&self, key: K) -> Option<V> {
        self.pairs.get(&key.to_ordered()).copied()
    }

    /// The pairs of a closed range, in key order.
    pub fn range(&self, lo: K, hi: K) -> impl DoubleEndedIterator<Item = (K, V)> {
        let (lo, hi) = (lo.to_ordered(), hi.to_ordered());
        // `BTreeMap::range` panics on an inverted range; here it is empty.
        let range = (lo <= hi).then(|| self.pairs.range(lo..=hi));
        range.into_iter().flatten().map(|(&key, &value)| (K::from_ordered(key), value))
    }

    /// How many keys are in a closed range.
    pub fn count(&self, lo: K, hi: K) -> u64 {
        self.range(lo, hi).count() as u64
    }

    /// The nearest pair whose key is not less.
    pub fn successor(&self, key: K) -> Option<(K, V)> {
        self.range(key, K::HIGHEST).next()
    }

    /// The nearest pair whose key is not greater.
    pub fn predecessor(&self, key: K) -> Option<(K, V)> {
        self.range(K::LOWEST, key).next_back()
    }

    /// The nearest pair whose key is greater.
    pub fn strict_successor(&self, key: K) -> Option<(K, V)> {
        self.range(key, K::HIGHEST).find(|(other, _)| other.to_ordered() != key.to_ordered())
    }

    /// The nearest pair whose key is less.
    pub fn strict_predecessor(&self, key: K) -> Option<(K, V)> {
        self.range(K::LOWEST, key).rfind(|(other, _)| other.to_ordered() != key.to_ordered())
    }

    /// How many keys are less.
    pub fn rank(&self, key: K) -> u64 {
        self.pairs.range(..key.to_ordered()).count() as u64
    }

    /// The pair at a place in key order, counted from 0.
    pub fn select(&self, index: u64) -> Option<(K, V)> {
        self.iter().nth(usize::try_from(index).ok()?)
    }

    /// Every pair, in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, V)> {
        self.range(K::LOWEST, K::HIGHEST)
    }
}
