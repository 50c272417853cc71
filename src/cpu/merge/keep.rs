//! Which entries a merge keeps.

use crate::mark::MarkSet;

/// Which entries a merge writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Live entries, without their marks: for the oldest run, or as the answer to a query.
    Live,
    /// Entries that are live or shadow something older, with their marks.
    Stored,
}

impl Keep {
    /// Returns the marks of the entries that are kept.
    #[inline]
    pub fn marks(self) -> MarkSet {
        match self {
            Keep::Live => MarkSet::LIVE,
            Keep::Stored => MarkSet::STORED,
        }
    }
}
