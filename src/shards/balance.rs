//! When shards are compared with each other.

use crate::store::MAX_BUFFERED_BATCHES;

/// After this many updates, or a sixteenth as many as a shard has keys, shards are compared again.
const MAX_UPDATES_UNCHECKED: u64 = 64;

/// Keys of shards that have about as many entries are counted after this many times as many updates as there are keys:
/// counting reads all of them.
const UPDATES_PER_KEY: u64 = 4;

/// How much a delete weighs beside an insert.
const DELETE_WEIGHT: u64 = 8;

/// How far the shards may have drifted apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    /// Whether splitters were chosen.
    pub has_splitters: bool,
    /// Updates since the shards were last compared.
    pub unchecked: u64,
    /// How many keys there were then.
    pub total: u64,
    /// Whether pairs are being moved.
    pub is_moving: bool,
    /// Updates since the keys of shards were last counted, which waits for them; deletes, which no other figure tells,
    /// weigh more.
    pub uncounted: u64,
}

impl Balance {
    /// Notes that shards must be compared after the next update.
    pub fn has_changed_much(&mut self) {
        self.unchecked = u64::MAX / 2;
        self.uncounted = u64::MAX / 2;
    }

    /// Notes some updates.
    pub fn note(&mut self, inserts: usize, deletes: usize) {
        let (inserts, deletes) = (inserts as u64, deletes as u64);
        self.unchecked = self.unchecked.saturating_add(inserts + deletes);
        self.uncounted = self.uncounted.saturating_add(inserts + DELETE_WEIGHT * deletes);
    }

    /// Returns whether keys must be counted, even if shards have about as many entries.
    pub fn must_count(&self, batch_size: usize, shards: usize) -> bool {
        // Counting applies what is buffered: no sooner than all write buffers may be full.
        let buffered = (MAX_BUFFERED_BATCHES * shards).saturating_mul(batch_size) as u64;
        let few = self.total.max(buffered).saturating_mul(UPDATES_PER_KEY);
        self.is_moving || self.uncounted >= few
    }

    /// Returns whether shards must be compared now.
    pub fn is_due(&self, batch_size: usize, shards: usize) -> bool {
        let usual = (batch_size as u64).min(MAX_UPDATES_UNCHECKED);
        let usual = usual.max(self.total / (16 * shards as u64));
        self.is_moving || self.unchecked >= usual
    }
}
