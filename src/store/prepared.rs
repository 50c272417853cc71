//! A batch between everything that can fail and its commit.

use std::any::Any;
use std::ops::Range;

use super::levels::Levels;
use crate::engine::Counts;

/// What is left to do of a batch after everything that can fail.
pub(crate) enum Prepared<R> {
    /// Nothing.
    Nothing,
    /// Everything is to be deleted.
    Clear,
    /// It is in the write buffer, and could be removed from it.
    Buffered(Counts),
    /// The entries at these positions of the only run are to be removed, with the memory that the engine set aside for
    /// it.
    Removal { positions: Vec<Range<u64>>, memory: Box<dyn Any + Send> },
    /// The levels with the batch, how many updates it has, and how many entries were merged.
    Levels { levels: Levels<R>, updates: usize, merged: usize },
}
