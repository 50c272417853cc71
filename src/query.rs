//! Queries as engines take them, and the answer to a batch of ranges.

use crate::key::Key;
use crate::value::Value;

/// A batch of queries of one kind, and where their answers go.
pub enum Query<'a, B> {
    /// Whether each key is there and, where wanted, its value; 0 where it is not.
    Lookup { keys: &'a [B], values: Option<&'a mut [u8]>, found: &'a mut [bool] },

    /// How many live keys each closed range has.
    Count { lo: &'a [B], hi: &'a [B], counts: &'a mut [u64] },

    /// How many live keys are less than each key.
    Rank { keys: &'a [B], ranks: &'a mut [u64] },

    /// Where the answer to each range begins when all are laid end to end, and where the last ends.
    RangeOffsets { lo: &'a [B], hi: &'a [B], offsets: &'a mut [usize] },

    /// The same offsets and, if `keys` has room for all of them, the pairs of each range at its own.
    Range {
        lo: &'a [B],
        hi: &'a [B],
        offsets: &'a mut [usize],
        keys: &'a mut [B],
        /// As long as `keys`, where they are wanted.
        values: Option<&'a mut [u8]>,
    },

    /// The live pair at each place in key order.
    Select { indices: &'a [u64], pairs: PairsOut<'a, B> },

    /// The live pair nearest to each key, itself included, on one side of it.
    Nearest { side: Side, keys: &'a [B], pairs: PairsOut<'a, B> },
}

/// Which neighbour [`Query::Nearest`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The least key that is not less.
    Successor,
    /// The greatest key that is not greater.
    Predecessor,
}

/// Where answers of at most one pair per query go; 0 where nothing was found.
pub struct PairsOut<'a, B> {
    pub keys: &'a mut [B],
    pub values: &'a mut [u8],
    pub found: &'a mut [bool],
}

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
