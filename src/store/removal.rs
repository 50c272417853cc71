//! Deleting without memory for tombstones: everything is cleaned up, and entries are removed from the run that is left.
//!
//! An update is accepted only if a cleanup has room after it. So, whatever a dictionary has accepted, keys can be
//! deleted, unless somebody else holds its runs.

use std::any::Any;
use std::ops::Range;

use super::prepared::Prepared;
use super::state::Store;
use crate::engine::Engine;
use crate::error::{Error, try_zeroed};
use crate::query::Query;
use crate::ranges::RangeEnds;

/// The positions of this many ranges are queried at a time.
const RANGES_AT_ONCE: usize = 1 << 10;

impl<E: Engine> Store<E> {
    /// Does everything that can fail of deleting every key of these ranges, which are in ascending order and do not
    /// meet. Answers stay the same.
    pub(super) fn prepare_removal(
        &mut self,
        ranges: &RangeEnds<'_, E::Key>,
    ) -> Result<Prepared<E::Run>, Error> {
        self.cleanup()?;
        let len = self.engine.len(self.state().levels.runs())?;
        let positions = self.positions(ranges)?;
        match &positions[..] {
            [] => return Ok(Prepared::Nothing),
            [all] if *all == (0..len) => return Ok(Prepared::Clear),
            _ => {}
        }
        let engine = self.engine_with_reserve();
        let held = Error::OutOfMemory {
            wanted: engine.merge_bytes(self.state().levels.runs()),
            free: engine.available_bytes(),
            memory: None,
        };
        let levels = self.unshared_levels().ok_or_else(|| held.clone())?;
        let [run] = levels.runs_mut() else { return Err(held) };
        Ok(Prepared::Removal { positions, memory: engine.memory_for_removal(run)? })
    }

    /// Removes entries from the only run.
    pub(super) fn remove(&mut self, positions: &[Range<u64>], memory: Box<dyn Any + Send>) {
        let engine = self.engine.clone();
        let levels = self.unshared_levels().expect("nobody else held them before");
        let [run] = levels.runs_mut() else { unreachable!("there was one run before") };
        // An error is one of the device, which every later call reports.
        engine.remove_entries(run, positions, memory).ok();
        let run = run.clone();
        let entries = engine.bound(&run);
        levels.install_alone(Some(run), entries);
        let removed: u64 = positions.iter().map(|range| range.end - range.start).sum();
        self.state_mut().count_updates(removed as usize);
        self.refill_reserves();
    }

    /// Returns where the keys of these ranges are among all keys, without empty ranges. Those that follow each other are
    /// united.
    fn positions(&self, ranges: &RangeEnds<'_, E::Key>) -> Result<Vec<Range<u64>>, Error> {
        let engine = self.engine_for_queries();
        let levels = self.state().levels.clone();
        let mut positions: Vec<Range<u64>> = Vec::new();
        let chunks = ranges.lo.chunks(RANGES_AT_ONCE).zip(ranges.hi.chunks(RANGES_AT_ONCE));
        for (lo, hi) in chunks {
            let (mut starts, mut counts) = (try_zeroed(lo.len())?, try_zeroed(lo.len())?);
            engine.answer(levels.runs(), Query::Rank { keys: lo, ranks: &mut starts })?;
            engine.answer(levels.runs(), Query::Count { lo, hi, counts: &mut counts })?;
            for (start, count) in starts.into_iter().zip(counts).filter(|pair| pair.1 > 0) {
                match positions.last_mut() {
                    Some(last) if last.end == start => last.end += count,
                    _ => positions.push(start..start + count),
                }
            }
        }
        Ok(positions)
    }
}
