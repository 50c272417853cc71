//! What a store can tell of itself.

use std::sync::{Arc, TryLockError};

use super::cleanup::Count;
use super::deferred::MAX_RUNS_TO_DEFER;
use super::levels::Levels;
use super::state::Store;
use crate::device::Device;
use crate::engine::{Engine, WriteBuffer};
use crate::error::Error;
use crate::stats::{Bytes, LevelStats, MemoryStats, QuickStats, Stats};

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
        drop(at_rest);
        let entries = levels.iter().map(|level| level.entries).sum();
        Ok(Stats {
            device,
            batch_size: self.batch_size,
            entries,
            live,
            stale: entries - live,
            bytes,
            bytes_shared: self.engine.budget().used(),
            bytes_peak: self.engine.budget().peak(),
            memory: self.memory(bytes),
            levels,
            shards: Vec::new(),
        })
    }

    /// Adds to an error that there is no memory what takes it.
    pub(super) fn explain(&self, error: Error) -> Error {
        let Error::OutOfMemory { wanted, free: Some(free), memory: None } = error else {
            return error;
        };
        let memory = self.memory(self.level_bytes()).map(Box::new);
        Error::OutOfMemory { wanted, free: Some(free), memory }
    }

    /// Returns the bytes that the levels take.
    pub fn level_bytes(&self) -> Bytes {
        let levels = self.state().levels.clone();
        let mut bytes = Bytes::default();
        levels.runs().iter().for_each(|run| bytes += self.engine.run_bytes(run));
        bytes
    }

    /// Returns where the memory is, of which the levels take `bytes`, and who else holds them.
    fn memory(&self, bytes: Bytes) -> Option<MemoryStats> {
        let memory = self.engine.memory()?.account(bytes, self.engine.budget().used());
        Some(MemoryStats {
            shared: self.shared_bytes(),
            holders: self.hold.others(),
            is_at_run_limit: self.state().levels.runs().len() >= MAX_RUNS_TO_DEFER,
            ..memory
        })
    }

    /// Returns how many bytes of the levels others hold, too.
    fn shared_bytes(&self) -> u64 {
        let is_merging = self.deferred.is_under_way();
        let state = self.state();
        let are_shared = Arc::strong_count(&state.levels) > 1;
        // The merge that is under way holds them as well, and belongs to the store.
        let merging = state.levels.unmerged().filter(|_| is_merging).unwrap_or_default();
        let runs = state.levels.runs().iter().enumerate();
        let shared =
            runs.filter(|(at, run)| are_shared || !merging.contains(at) && E::is_shared(run));
        shared.map(|(_, run)| self.engine.run_bytes(run).total()).sum()
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
            max_buffered: self.max_buffered_beside(self.entries(levels)),
            live: self.engine.known_len(levels.runs()).exact.filter(|_| buffered == 0),
            bytes_shared: self.engine.budget().used(),
            runs: runs.filter(|&(_, _, entries)| entries > 0).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Order, Updates};
    use crate::cpu::{Cpu, CpuEngine};
    use crate::holders::HolderKind;
    use crate::store::levels::Carry;
    use crate::store::{AnyStore, Settings};

    #[test]
    fn the_error_at_the_limit_of_runs_names_the_holder() {
        let settings = Settings { batch_size: 64, ..Settings::default() };
        let engine = CpuEngine::<u32>::new(Cpu::new(Some(1 << 24), Some(1)).unwrap(), 0);
        let mut store = Store::new(engine.clone(), &settings);
        let keys: Vec<u32> = (0..64).collect();
        let updates = Updates {
            keys: (&keys).into(),
            values: &[],
            assigned: 0,
            deletes: (&[]).into(),
            order: Order::Any,
        };
        store.apply(&updates).unwrap();
        let mut levels = Levels::clone(&store.flushed().unwrap());
        let refused = || Error::OutOfMemory { wanted: 1, free: Some(0), memory: None };
        let text = store.explain(refused()).to_string();
        assert!(!text.contains("shared with") && !text.contains("no more runs"), "{text}");
        while levels.runs().len() < MAX_RUNS_TO_DEFER {
            let run = levels.runs()[0].clone();
            levels.gather(&Carry { runs: levels.runs().len(), level: 9 }, Some(run));
        }
        store.state_mut().levels = Arc::new(levels);
        let mut snapshot = store.clone();
        snapshot.hold_as(HolderKind::Snapshot);
        let text = store.explain(refused()).to_string();
        let named = "shared with 1 snapshot; no more runs can wait to be merged: drop the snapshot";
        assert!(text.contains(named), "{text}");
    }
}
