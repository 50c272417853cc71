//! Queries as engines take them.

use std::ops::Range;

use crate::aggregate::Fold;
use crate::key::{Distance, Encoding, On};

/// A batch of queries of one kind, and where their answers go.
pub enum Query<'a, B> {
    /// Whether each key is there and, where wanted, its value; 0 where it is not.
    Lookup { keys: &'a [B], values: Option<&'a mut [u8]>, found: &'a mut [bool] },

    /// How many live keys each closed range has.
    Count { lo: &'a [B], hi: &'a [B], counts: &'a mut [u64] },

    /// How many live keys are less than each key.
    Rank { keys: &'a [B], ranks: &'a mut [u64] },

    /// Where the answer to each range begins when all are laid end to end, and where the last ends.
    RangeOffsets { lo: &'a [B], hi: &'a [B], offsets: &'a mut [u64] },

    /// The same offsets and, if `keys` has room for all of them, the pairs of each range at its own.
    Range {
        lo: &'a [B],
        hi: &'a [B],
        offsets: &'a mut [u64],
        keys: &'a mut [B],
        /// As long as `keys`, where they are wanted.
        values: Option<&'a mut [u8]>,
    },

    /// How many live keys each closed range has, and what their values are combined to: as many bytes as
    /// [`Fold::answer_width`] says, 0 where the range is empty.
    Aggregate { lo: &'a [B], hi: &'a [B], fold: Fold, answers: &'a mut [u8], counts: &'a mut [u64] },

    /// The live pair at each place in key order.
    Select { indices: &'a [u64], pairs: PairsOut<'a, B> },

    /// The live pair nearest to each key, itself included, on one side of it.
    Nearest { side: Side, keys: &'a [B], pairs: PairsOut<'a, B> },

    /// The live pair that answers each question of an as-of query.
    AsOf { asof: AsOf, keys: &'a [B], pairs: PairsOut<'a, B> },

    /// The same, of questions and with answers whose keys are in columns. There are as many as `found` is long.
    AsOfColumns {
        asof: AsOf,
        columns: &'a dyn KeyColumns<B>,
        values: &'a mut [u8],
        found: &'a mut [bool],
    },
}

/// Questions whose keys are in columns, one for each part, and columns for the keys of their answers. Engines read
/// and write a few rows at a time, so that the integers of keys stay in the caches. Several threads do so, each
/// with rows of its own.
pub trait KeyColumns<B>: Sync {
    /// Packs the questions of these rows into as many integers.
    fn pack_questions(&self, rows: &Range<usize>, keys: &mut [B]);

    /// Unpacks the keys that answer the questions of these rows; into zeros, where none was found.
    fn unpack_answers(&self, rows: &Range<usize>, keys: &[B], found: &[bool]);
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

impl<B> PairsOut<'_, B> {
    /// Returns the same places, to be written first by somebody else.
    pub fn reborrow(&mut self) -> PairsOut<'_, B> {
        PairsOut { keys: self.keys, values: self.values, found: self.found }
    }
}

/// Which pairs an as-of query may match, beside the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The last one before.
    Backward,
    /// The first one after.
    Forward,
    /// The nearest of the two; if both are as far away, the one before.
    Nearest,
}

/// What is asked of every question of an as-of query.
#[derive(Clone, Copy, Debug)]
pub struct AsOf {
    /// The last part of keys. All others are those that an answer must agree with its question in.
    pub on: On,
    /// Where an answer may be, beside its question.
    pub direction: Direction,
    /// How far the last part of an answer may be from that of its question; any distance if `None`.
    pub tolerance: Option<Distance>,
    /// Whether a pair with the question's own key is no answer.
    pub is_strict: bool,
}

impl AsOf {
    /// Asks for the nearest pair on one side of keys of this many bits, which are all one part; if `is_strict`,
    /// not for the key's own.
    pub fn beside(side: Side, bits: u32, is_strict: bool) -> Self {
        let direction = match side {
            Side::Successor => Direction::Forward,
            Side::Predecessor => Direction::Backward,
        };
        let on = On { encoding: Encoding::Unsigned, bits };
        AsOf { on, direction, tolerance: None, is_strict }
    }

    /// Returns whether the answer may be on this side of its question.
    #[inline]
    pub fn includes(&self, side: Side) -> bool {
        match side {
            Side::Successor => self.direction != Direction::Backward,
            Side::Predecessor => self.direction != Direction::Forward,
        }
    }

    /// Returns whether the nearest key on one side of a question answers it.
    #[inline]
    pub fn accepts(&self, question: u128, key: u128) -> bool {
        self.on.belong_together(question, key)
            && self.tolerance.is_none_or(|most| self.on.distance(question, key) <= most)
    }

    /// Returns whether, of two keys that answer a question, the one after it is the nearer.
    #[inline]
    pub fn prefers_after(&self, question: u128, before: u128, after: u128) -> bool {
        self.on.distance(question, after) < self.on.distance(question, before)
    }
}
