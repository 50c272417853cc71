//! How a store is set up.

/// When stale entries are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CleanupPolicy {
    /// The dictionary cleans itself when stale entries outnumber live keys by more than a batch:
    /// whoever asks for its `stats` sees at most 2·len + b entries, and there are never more than half
    /// as many again. A cleanup moves no more entries than were updated since the last. (One that finds no memory is put off, not an error.)
    #[default]
    Automatic,
    /// Only [`Dictionary::cleanup`](crate::Dictionary::cleanup) does.
    Manual,
}

/// What a user can set, whatever the device.
#[derive(Clone, Debug)]
pub struct Settings {
    pub batch_size: usize,
    pub policy: CleanupPolicy,
    pub threads: Option<usize>,
    pub memory_limit: Option<u64>,
    pub max_merge_per_batch: Option<usize>,
}

impl Settings {
    /// The batch size b of a dictionary that isn't told another.
    pub const DEFAULT_BATCH_SIZE: usize = 1 << 16;
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            batch_size: Self::DEFAULT_BATCH_SIZE,
            policy: CleanupPolicy::default(),
            threads: None,
            memory_limit: None,
            max_merge_per_batch: None,
        }
    }
}
