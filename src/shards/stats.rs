//! What the shards have and take together.

use super::store::Shards;
use crate::device::Device;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::stats::{Bytes, DeviceMemory, LevelStats, MemoryStats, QuickStats, Stats};
#[cfg(feature = "testing")]
use crate::store::select_two;

impl<B: OrderedKey> Shards<B> {
    /// Returns the figures of all shards, added up, and those of each.
    pub(super) fn sum_of_stats(&self, device: Device) -> Result<Stats, Error> {
        let shards = self.shards.iter();
        let each = shards.map(|shard| shard.named(shard.store.stats(shard.device)));
        let shards = each.collect::<Result<Vec<Stats>, Error>>()?;
        let sum = |figure: fn(&Stats) -> u64| shards.iter().map(figure).sum();
        let mut bytes = Bytes::default();
        shards.iter().for_each(|shard| bytes += shard.bytes);
        let bytes_shared = self.sum_by_account(shards.iter().map(|shard| shard.bytes_shared));
        let memory = self.common_memory(&shards).map(|(memory, used)| MemoryStats {
            shared: of_memory(&shards).map(|memory| memory.shared).sum(),
            // All shards have the same ones.
            holders: of_memory(&shards).next().map(|memory| memory.holders).unwrap_or_default(),
            is_at_run_limit: of_memory(&shards).any(|memory| memory.is_at_run_limit),
            ..memory.account(bytes, used)
        });
        Ok(Stats {
            device,
            batch_size: self.batch_size,
            entries: sum(|shard| shard.entries),
            live: sum(|shard| shard.live),
            stale: sum(|shard| shard.stale),
            bytes,
            bytes_shared,
            bytes_peak: self.sum_by_account(shards.iter().map(|shard| shard.bytes_peak)),
            memory,
            levels: sum_of_levels(&shards),
            shards,
        })
    }

    /// Adds up the bytes of all levels.
    pub(super) fn sum_of_level_bytes(&self) -> Bytes {
        let mut bytes = Bytes::default();
        self.shards.iter().for_each(|shard| bytes += shard.store.level_bytes());
        bytes
    }

    /// Returns an error that there is no memory with what all shards take of it, if they share it.
    pub(super) fn explain(&self, error: Error) -> Error {
        let account = self.shards[0].account;
        let is_common = self.shards.iter().all(|shard| shard.account == account);
        match (error, self.sum_of_quick_stats()) {
            (Error::OutOfMemory { wanted, free, memory: Some(memory) }, Some(stats))
                if is_common =>
            {
                let MemoryStats { total, free: of_total, idle, .. } = *memory;
                let device_memory = DeviceMemory { total, free: of_total, idle };
                let MemoryStats { runs, filters, rest, others, .. } =
                    device_memory.account(self.sum_of_level_bytes(), stats.bytes_shared);
                let memory = MemoryStats { runs, filters, rest, others, ..*memory };
                Error::OutOfMemory { wanted, free, memory: Some(Box::new(memory)) }
            }
            (error, _) => error,
        }
    }

    /// Returns what is known of the memory limit, or of the device's memory, if it is the same for all shards, and how
    /// many bytes the shards take of it: both as the last shard has found them, because the figures of a shard may apply
    /// what it has buffered.
    fn common_memory(&self, shards: &[Stats]) -> Option<(DeviceMemory, u64)> {
        let last = shards.last()?;
        let MemoryStats { total, free, idle, .. } = last.memory?;
        let is_common = self.shards.iter().all(|shard| shard.account == self.shards[0].account)
            && shards.iter().all(|shard| shard.memory.is_some_and(|memory| memory.total == total));
        is_common.then_some((DeviceMemory { total, free, idle }, last.bytes_shared))
    }

    /// Adds up figures of the shards, of which those with the same memory limit have the same.
    fn sum_by_account(&self, figures: impl Iterator<Item = u64>) -> u64 {
        let mut accounts: Vec<u64> = vec![0; self.shards.len()];
        for (shard, figure) in self.shards.iter().zip(figures) {
            accounts[shard.account] = accounts[shard.account].max(figure);
        }
        accounts.iter().sum()
    }

    pub(super) fn sum_of_quick_stats(&self) -> Option<QuickStats> {
        let shards = self.shards.iter().map(|shard| shard.store.quick_stats());
        let shards = shards.collect::<Option<Vec<_>>>()?;
        let mut runs: Vec<(usize, u64, u64)> = Vec::new();
        for &(level, capacity, entries) in shards.iter().flat_map(|shard| &shard.runs) {
            match runs.iter_mut().find(|run| run.0 == level) {
                Some(run) => *run = (level, run.1 + capacity, run.2 + entries),
                None => runs.push((level, capacity, entries)),
            }
        }
        runs.sort_unstable();
        Some(QuickStats {
            buffered: shards.iter().map(|shard| shard.buffered).sum(),
            max_buffered: shards.iter().map(|shard| shard.max_buffered).sum(),
            live: shards.iter().map(|shard| shard.live).sum(),
            bytes_shared: self.sum_by_account(shards.iter().map(|shard| shard.bytes_shared)),
            runs,
        })
    }

    /// Checks every shard, and that its keys are between its splitters.
    #[cfg(feature = "testing")]
    pub(super) fn validate_all(&self) -> Result<(), String> {
        if !self.splitters.is_sorted() {
            return Err(format!("the splitters {:?} do not ascend", self.splitters));
        }
        for (index, shard) in self.shards.iter().enumerate() {
            shard.store.validate().map_err(|broken| format!("shard {index}: {broken}"))?;
            let keys = self.ends_of(index).map_err(|error| error.to_string())?;
            let is_above = |key: B| index == 0 || self.splitters[index - 1] <= key;
            let is_below = |key: B| self.splitters.get(index).is_none_or(|&next| key < next);
            if !keys.iter().all(|&key| is_above(key) && is_below(key)) {
                return Err(format!("shard {index}: {keys:?} are not between its splitters"));
            }
        }
        Ok(())
    }

    /// Returns the least and the greatest key of a shard, if it has any.
    #[cfg(feature = "testing")]
    fn ends_of(&self, index: usize) -> Result<Vec<B>, Error> {
        let store = &self.shards[index].store;
        let len = store.len()?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let (keys, _) = select_two(&**store, [0, len - 1])?;
        Ok(keys.to_vec())
    }
}

/// Returns what each shard knows of the memory, if anything.
fn of_memory(shards: &[Stats]) -> impl Iterator<Item = MemoryStats> {
    shards.iter().filter_map(|shard| shard.memory)
}

/// Adds up the levels of the same number.
fn sum_of_levels(shards: &[Stats]) -> Vec<LevelStats> {
    let mut levels: Vec<LevelStats> = Vec::new();
    for level in shards.iter().flat_map(|shard| &shard.levels) {
        match levels.iter_mut().find(|sum| sum.level == level.level) {
            Some(sum) => {
                sum.capacity += level.capacity;
                sum.entries += level.entries;
                sum.tombstones += level.tombstones;
                sum.bytes += level.bytes;
            }
            None => levels.push(*level),
        }
    }
    levels.sort_unstable_by_key(|level| level.level);
    levels
}
