//! Which entries a merge keeps.

use crate::cpu::run::Run;
use crate::key::OrderedKey;
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
    /// Returns what a merge of these runs on top of the older ones keeps.
    pub fn of_merge<B: OrderedKey>(runs: &[Run<B>], older: &[Run<B>]) -> Self {
        // If no run has marks, all entries are new, and remain so.
        let all_new = runs.iter().all(|run| run.marks().is_none());
        if older.is_empty() || all_new { Keep::Live } else { Keep::Stored }
    }

    /// Returns the marks of the entries that are kept.
    #[inline]
    pub fn marks(self) -> MarkSet {
        match self {
            Keep::Live => MarkSet::LIVE,
            Keep::Stored => MarkSet::STORED,
        }
    }
}
