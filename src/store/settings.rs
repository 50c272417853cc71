//! How a store is set up.

use crate::combine::Combiner;

/// When stale entries are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CleanupPolicy {
    /// The dictionary removes them when they outnumber live keys by more than a batch: `stats` never shows
    /// more than 2 · len + b entries, and there are never more than half as many again. A cleanup moves no
    /// more entries than were updated since the last one. One that finds no memory is postponed, and is no
    /// error.
    #[default]
    Automatic,
    /// Only [`Dictionary::cleanup`](crate::Dictionary::cleanup) removes them.
    Manual,
}

/// What a user can set, whatever the device.
#[derive(Clone, Debug)]
pub struct Settings {
    pub batch_size: usize,
    pub policy: CleanupPolicy,
    pub threads: Option<usize>,
    pub memory_limit: Option<u64>,
    /// Instead of a limit of all devices together.
    pub memory_limit_per_device: Option<u64>,
    pub max_merge_per_batch: Option<usize>,
    /// How the values of equal keys combine; `None` if the newer one wins.
    pub combiner: Option<Combiner>,
}

/// The batch size b of a dictionary for which [`Builder::batch_size`](crate::Builder::batch_size) sets no other.
pub const DEFAULT_BATCH_SIZE: usize = 1 << 16;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            batch_size: DEFAULT_BATCH_SIZE,
            policy: CleanupPolicy::default(),
            threads: None,
            memory_limit: None,
            memory_limit_per_device: None,
            max_merge_per_batch: None,
            combiner: None,
        }
    }
}
