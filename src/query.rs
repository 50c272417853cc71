//! Queries as engines take them.

use crate::aggregate::Fold;

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
