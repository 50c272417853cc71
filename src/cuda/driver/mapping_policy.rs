//! Which runs have mapped memory, and in what blocks.

use crate::budget::Budget;

/// Bytes of a block: mapping one takes about 50 µs, whatever its size, and a merge in place needs a few more than its
/// sources have.
const BLOCK_BYTES: u64 = 64 << 20;

/// Runs that take at least this part of the memory, and as many bytes, are mapped; shorter ones, too, when a good deal of
/// the memory is in use, so that little of what is merged in place is not.
const MAPPED_PART: u64 = 32;
const MIN_MAPPED_BYTES: u64 = 512 << 20;
const MUCH_USED_PART: u64 = 4;

/// Which runs are mapped, and in what blocks.
#[derive(Clone, Copy)]
pub(crate) struct MappingPolicy {
    /// The GPU's memory.
    total: u64,
    /// For tests: from this many bytes on, every run is mapped.
    from_bytes: Option<u64>,
    pub block_bytes: u64,
}

impl MappingPolicy {
    /// Returns the policy for a GPU with this much memory. Tests may choose another one: blocks must be multiples of
    /// 2 MiB.
    pub fn new(total: u64) -> Self {
        #[cfg(feature = "testing")]
        if let Some(bytes) =
            std::env::var("GPULSM_MAPPED_FROM").ok().and_then(|text| text.parse().ok())
        {
            return MappingPolicy { total, from_bytes: Some(bytes), block_bytes: 2 << 20 };
        }
        MappingPolicy { total, from_bytes: None, block_bytes: BLOCK_BYTES }
    }

    /// Returns how many bytes the GPU has.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether a run of this many bytes is mapped.
    pub fn maps(&self, bytes: u64, budget: &Budget) -> bool {
        if let Some(from) = self.from_bytes {
            return bytes >= from;
        }
        let memory = budget.limit().map_or(self.total, |limit| limit.min(self.total));
        bytes >= MIN_MAPPED_BYTES
            && (bytes >= memory / MAPPED_PART || budget.used() >= memory / MUCH_USED_PART)
    }
}
