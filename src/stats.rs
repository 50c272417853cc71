//! What a dictionary holds, level by level.

use std::fmt;

use crate::device::{Bytes, Device, Engine};
use crate::error::Error;
use crate::levels::Levels;
use crate::store::Store;

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
    /// Keys that are there: the dictionary's length.
    pub live: u64,
    /// Entries that are not needed for any answer: what a cleanup would remove.
    pub stale: u64,
    /// Bytes that the levels take.
    pub bytes: Bytes,
    /// Bytes that the dictionary, its clones and its snapshots take together.
    pub bytes_shared: u64,
    /// The most bytes that they took at a time, with the space that taking in batches works in.
    pub bytes_peak: u64,
    /// Every level that holds a run, the newest first.
    pub levels: Vec<LevelStats>,
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

impl Stats {
    pub(crate) fn of<E: Engine>(device: Device, store: &Store<E>) -> Result<Self, Error> {
        let held = store.settled_and_tidied()?;
        let live = store.engine.len(held.runs())?;
        let ladder = held.ladder();
        let mut bytes = Bytes::default();
        let mut levels = Vec::new();
        for (level, run) in held.placed() {
            let run = store.engine.run_stats(run)?;
            bytes += run.bytes;
            if run.entries == 0 {
                continue; // Gone with the next batch.
            }
            levels.push(LevelStats {
                level,
                capacity: ladder.capacity(level) as u64,
                entries: run.entries,
                tombstones: run.tombstones,
                bytes: run.bytes,
            });
        }
        let entries = levels.iter().map(|level| level.entries).sum();
        Ok(Stats {
            device,
            batch_size: ladder.batch_size(),
            entries,
            live,
            stale: entries - live,
            bytes,
            bytes_shared: store.engine.budget().used(),
            bytes_peak: store.engine.budget().peak(),
            levels,
        })
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_counts(f, self.live, self.stale, self.device)?;
        write!(f, ", {} bytes", grouped(self.bytes.total()))?;
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
pub struct Glance {
    /// Buffered updates.
    pub waiting: usize,
    /// Keys that are there, if that is known now.
    pub live: Option<u64>,
    /// Bytes that the dictionary, its clones and its snapshots take together.
    pub bytes_shared: u64,
    /// Of every run its level, that level's capacity, and at most how many entries it has; newest first.
    pub runs: Vec<(usize, u64, u64)>,
}

impl Glance {
    pub(crate) fn of<E: Engine>(engine: &E, levels: &Levels<E::Run>, waiting: usize) -> Self {
        let run = |(level, run)| {
            (level, levels.ladder().capacity(level) as u64, engine.bound(run) as u64)
        };
        Glance {
            waiting,
            live: engine.len_if_known(levels.runs()).filter(|_| waiting == 0),
            bytes_shared: engine.budget().used(),
            runs: levels.placed().map(run).filter(|&(_, _, entries)| entries > 0).collect(),
        }
    }

    /// At most how many entries there are.
    pub(crate) fn entries(&self) -> u64 {
        self.runs.iter().map(|&(_, _, entries)| entries).sum()
    }

    /// Writes a small picture of the levels.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, device: Device) -> fmt::Result {
        let entries = self.entries();
        match self.live {
            Some(live) => write_counts(f, live, entries.saturating_sub(live), device)?,
            None => write!(f, "up to {} entries on {device}, not counted yet", grouped(entries))?,
        }
        if self.waiting > 0 {
            write!(f, ", and {} buffered updates", grouped(self.waiting as u64))?;
        }
        write!(f, ", {} bytes", grouped(self.bytes_shared))?;
        self.runs
            .iter()
            .try_for_each(|&(level, capacity, entries)| write_level(f, level, entries, capacity))
    }
}

fn write_counts(f: &mut fmt::Formatter<'_>, live: u64, stale: u64, device: Device) -> fmt::Result {
    let plural = |count: u64, one, many| if count == 1 { one } else { many };
    let (keys, entries) = (plural(live, "key", "keys"), plural(stale, "entry", "entries"));
    write!(f, "{} {keys} on {device}, {} stale {entries}", grouped(live), grouped(stale))
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
