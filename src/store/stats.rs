//! What a store can tell of itself.

use std::sync::{Arc, TryLockError};

use super::cleanup::Count;
use super::levels::Levels;
use super::state::Store;
use crate::device::Device;
use crate::engine::{Engine, WriteBuffer};
use crate::error::Error;
use crate::stats::{Bytes, LevelStats, QuickStats, Stats};

impl<E: Engine> Store<E> {
    /// Returns every figure, once the store is at rest.
    pub fn stats(&self, device: Device) -> Result<Stats, Error> {
        let at_rest = self.at_rest()?;
        let live = self.engine.len(at_rest.runs())?;
        let mut bytes = Bytes::default();
        let mut levels = Vec::new();
        for (level, run) in at_rest.placed() {
            let run = self.engine.run_stats(run)?;
            bytes += run.bytes;
            if run.entries == 0 {
                continue; // It goes with the next batch.
            }
            levels.push(LevelStats {
                level,
                capacity: at_rest.capacities().capacity(level) as u64,
                entries: run.entries,
                tombstones: run.tombstones,
                bytes: run.bytes,
            });
        }
        let entries = levels.iter().map(|level| level.entries).sum();
        let used = self.engine.budget().used();
        Ok(Stats {
            device,
            batch_size: self.batch_size,
            entries,
            live,
            stale: entries - live,
            bytes,
            bytes_shared: used,
            bytes_peak: self.engine.budget().peak(),
            memory: self.engine.memory().map(|memory| memory.account(bytes, used)),
            levels,
            shards: Vec::new(),
        })
    }

    /// Adds to an error that there is no memory what takes it.
    pub(super) fn explain(&self, error: Error) -> Error {
        let Error::OutOfMemory { wanted, free: Some(free), memory: None } = error else {
            return error;
        };
        let levels = self.state().levels.clone();
        let mut bytes = Bytes::default();
        levels.runs().iter().for_each(|run| bytes += self.engine.run_bytes(run));
        let used = self.engine.budget().used();
        let memory = self.engine.memory().map(|memory| Box::new(memory.account(bytes, used)));
        Error::OutOfMemory { wanted, free: Some(free), memory }
    }

    /// Returns the levels at rest: nothing buffered, cleaned up as the policy says, every deferred merge
    /// done, and every run in no more memory than it needs.
    pub(super) fn at_rest(&self) -> Result<Arc<Levels<E::Run>>, Error> {
        self.flushed()?;
        let levels = self.clean_up_if_stale(Count::Now);
        let merged = self.deferred.finish(&self.engine, &levels);
        let levels = self.replace_levels(levels, merged);
        self.engine.len(levels.runs())?; // Then it is known how much memory each run needs.
        let shrunk = self.shrunk(&levels);
        Ok(self.replace_levels(levels, shrunk))
    }

    /// Returns what can be told without waiting for anything; `None` while another thread changes the store.
    pub fn quick_stats(&self) -> Option<QuickStats> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let buffered = state.buffered.as_ref().map_or(0, |buffered| buffered.buffer.len());
        let levels = &state.levels;
        let capacity = |level| levels.capacities().capacity(level) as u64;
        let bound = |run| self.engine.bound(run) as u64;
        let runs = levels.placed().map(|(level, run)| (level, capacity(level), bound(run)));
        Some(QuickStats {
            buffered,
            live: self.engine.known_len(levels.runs()).exact.filter(|_| buffered == 0),
            bytes_shared: self.engine.budget().used(),
            runs: runs.filter(|&(_, _, entries)| entries > 0).collect(),
        })
    }
}
