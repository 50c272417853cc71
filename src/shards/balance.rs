//! When shards are compared with each other.

/// After this many updates, or a sixteenth as many as a shard has keys, shards are compared again.
const MAX_UPDATES_UNCHECKED: u64 = 1 << 12;

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
}

impl Balance {
    /// Notes that shards must be compared after the next update.
    pub fn has_changed_much(&mut self) {
        self.unchecked = u64::MAX / 2;
    }

    /// Returns whether shards must be compared now.
    pub fn is_due(&self, batch_size: usize, shards: usize) -> bool {
        let usual = (batch_size as u64).min(MAX_UPDATES_UNCHECKED);
        let usual = usual.max(self.total / (16 * shards as u64));
        self.is_moving || self.unchecked >= usual
    }
}
