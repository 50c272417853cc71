//! Answers to a batch of ranges.

use crate::key::Key;
use crate::value::Value;

/// The pairs of several ranges, laid end to end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges<K, V> {
    /// Answer i lies from `offsets[i]` to `offsets[i + 1]`.
    pub offsets: Vec<usize>,
    /// The keys of all answers, each answer in key order.
    pub keys: Vec<K>,
    /// Their values.
    pub values: Vec<V>,
}

impl<K: Key, V: Value> Ranges<K, V> {
    /// How many answers there are: one for each range asked for.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether no range was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys and values of answer `index`.
    ///
    /// # Panics
    ///
    /// If there are not that many answers.
    pub fn get(&self, index: usize) -> (&[K], &[V]) {
        assert!(index < self.len(), "there are {} answers, and none is number {index}", self.len());
        let answer = self.offsets[index]..self.offsets[index + 1];
        (&self.keys[answer.clone()], &self.values[answer])
    }

    /// Every answer in turn.
    pub fn iter(&self) -> impl Iterator<Item = (&[K], &[V])> {
        (0..self.len()).map(|index| self.get(index))
    }
}
