//! What a dictionary holds, level by level: figures and how they are shown.

use std::fmt;

use crate::device::{Device, Devices};
use crate::holders::Holders;

/// What a dictionary holds and takes. Shown as text, it is a small picture of the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Where the dictionary lives.
    pub device: Device,
    /// The batch size b.
    pub batch_size: usize,
    /// Entries in all levels, live or stale.
    pub entries: u64,
    /// Keys that are present: the dictionary's length.
    pub live: u64,
    /// Entries beyond one for each key: what a cleanup would remove or, where values combine, merge into others.
    pub stale: u64,
    /// Bytes that the levels take.
    pub bytes: Bytes,
    /// Bytes that the dictionary, its clones and its snapshots take together.
    pub bytes_shared: u64,
    /// The most bytes that they took at a time, with the working space of batches and queries.
    pub bytes_peak: u64,
    /// Where the memory of the GPU is, or of the memory limit; `None` if neither is known.
    pub memory: Option<MemoryStats>,
    /// Every level that holds a run, the newest first. Of several shards, the levels are added up.
    pub levels: Vec<LevelStats>,
    /// The shards, in the order of their keys, if there are several.
    pub shards: Vec<Stats>,
}

impl Stats {
    /// Returns the device of each shard.
    #[must_use]
    pub fn devices(&self) -> Devices {
        match self.shards.is_empty() {
            true => self.device.into(),
            false => self.shards.iter().map(|shard| shard.device).collect(),
        }
    }
}

/// Where the bytes of a GPU's memory are, or, on a CPU, those of the memory limit. The parts up to `others` add up to the
/// total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Which of several devices it is about.
    pub device: Option<Device>,
    /// All bytes.
    pub total: u64,
    /// Those that nobody has.
    pub free: u64,
    /// Those of the levels, without filters.
    pub runs: u64,
    /// Those of the levels' filters.
    pub filters: u64,
    /// Other bytes of the dictionary: snapshots and clones of what it held before, buffered batches, and working
    /// space.
    pub rest: u64,
    /// Those that the dictionary's pool of memory keeps for the next allocation.
    pub idle: u64,
    /// Those of others: answers, other dictionaries, other programs, and the driver.
    pub others: u64,
    /// Those of the levels, filters included, that others hold too: they can't be merged in the memory that they have.
    pub shared: u64,
    /// Who may hold them.
    pub holders: Holders,
    /// Whether there are as many runs as may wait to be merged.
    pub is_at_run_limit: bool,
}

impl MemoryStats {
    /// Returns whether somebody is known to hold runs of the levels, too.
    pub(crate) fn is_held(&self) -> bool {
        self.shared > 0 && !self.holders.is_empty()
    }
}

/// What a device knows of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceMemory {
    pub total: u64,
    pub free: u64,
    pub idle: u64,
}

impl DeviceMemory {
    /// Accounts for all bytes, of which the levels take `bytes`, and the dictionary `used`.
    pub fn account(self, bytes: Bytes, used: u64) -> MemoryStats {
        let DeviceMemory { total, free, idle } = self;
        let runs = bytes.total() - bytes.filters;
        MemoryStats {
            device: None,
            total,
            free,
            runs,
            filters: bytes.filters,
            rest: used.saturating_sub(bytes.total()),
            idle,
            others: total.saturating_sub(free + idle + used.max(bytes.total())),
            ..MemoryStats::default()
        }
    }
}

/// What one level holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// Which level it is, counted from 0.
    pub level: usize,
    /// The most entries it may hold.
    pub capacity: u64,
    /// Its entries, live or stale.
    pub entries: u64,
    /// How many of them are tombstones.
    pub tombstones: u64,
    /// Bytes that it takes.
    pub bytes: Bytes,
}

/// What one run holds and takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunStats {
    pub entries: u64,
    pub tombstones: u64,
    pub bytes: Bytes,
}

/// Bytes taken, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bytes {
    /// Sorted keys.
    pub keys: u64,
    /// Values.
    pub values: u64,
    /// Marks: which entries are live, which replace or delete an older one, and running counts.
    pub marks: u64,
    /// Fences: the sampled keys that searches start from.
    pub fences: u64,
    /// Filters, which are built when lookups need them; no answer depends on them.
    pub filters: u64,
}

impl Bytes {
    /// Returns the sum of all parts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.keys + self.values + self.marks + self.fences + self.filters
    }
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.values += other.values;
        self.marks += other.marks;
        self.fences += other.fences;
        self.filters += other.filters;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_counts(f, self.live, self.stale, &self.devices())?;
        write!(f, ", {} bytes", grouped(self.bytes.total()))?;
        for (index, shard) in self.shards.iter().enumerate() {
            write!(f, "\nshard {index:>2}  {}  ", bar(shard.live, self.live.max(1)))?;
            write!(f, "{:>13} keys on {}", grouped(shard.live), shard.device)?;
        }
        for LevelStats { level, entries, capacity, tombstones, .. } in &self.levels {
            write_level(f, *level, *entries, *capacity)?;
            if *tombstones > 0 {
                write!(f, ", {} tombstones", grouped(*tombstones))?;
            }
        }
        Ok(())
    }
}

/// What can be told of a dictionary at once, without doing or waiting for anything: what `Debug` and
/// `Display` show. Never an error.
#[derive(Debug)]
pub struct QuickStats {
    /// Buffered updates.
    pub buffered: usize,
    /// The most updates that may be buffered.
    pub max_buffered: usize,
    /// Keys that are there, if that is known now.
    pub live: Option<u64>,
    /// Bytes that the dictionary, its clones and its snapshots take together.
    pub bytes_shared: u64,
    /// Of every run its level, that level's capacity, and at most how many entries it has; newest first.
    pub runs: Vec<(usize, u64, u64)>,
}

impl QuickStats {
    /// At most how many entries there are.
    pub(crate) fn entries(&self) -> u64 {
        self.runs.iter().map(|&(_, _, entries)| entries).sum()
    }

    /// Writes a small picture of the levels.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, devices: &Devices) -> fmt::Result {
        let entries = self.entries();
        match self.live {
            Some(live) => write_counts(f, live, entries.saturating_sub(live), devices)?,
            None => write!(f, "up to {} entries on {devices}, not counted yet", grouped(entries))?,
        }
        if self.buffered > 0 {
            write!(f, ", and {} buffered updates", grouped(self.buffered as u64))?;
        }
        write!(f, ", {} bytes", grouped(self.bytes_shared))?;
        self.runs
            .iter()
            .try_for_each(|&(level, capacity, entries)| write_level(f, level, entries, capacity))
    }
}

fn write_counts(
    f: &mut fmt::Formatter<'_>,
    live: u64,
    stale: u64,
    devices: &Devices,
) -> fmt::Result {
    let plural = |count: u64, one, many| if count == 1 { one } else { many };
    let (keys, entries) = (plural(live, "key", "keys"), plural(stale, "entry", "entries"));
    write!(f, "{} {keys} on {devices}, {} stale {entries}", grouped(live), grouped(stale))
}

fn write_level(
    f: &mut fmt::Formatter<'_>,
    level: usize,
    entries: u64,
    capacity: u64,
) -> fmt::Result {
    write!(f, "\nlevel {level:>2}  {}", bar(entries, capacity))?;
    write!(f, "  {:>13} of {}", grouped(entries), grouped(capacity))
}

/// A bar of 24 characters, filled in proportion; anything at all shows.
fn bar(entries: u64, capacity: u64) -> String {
    const WIDTH: u128 = 24;
    let filled = (u128::from(entries) * WIDTH).div_ceil(u128::from(capacity)) as usize;
    format!("{:░<24}", "█".repeat(filled))
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_bars_filled() {
        let numbers = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(bar(1, 1 << 40).matches('█').count(), 1);
        assert_eq!(bar(24, 24).matches('█').count(), 24);
        assert_eq!(bar(3, 6).chars().count(), 24);
    }
}
