//! The invariants of runs and levels, checked against each other.

use std::collections::BTreeSet;

use super::cleanup::Count;
use super::levels::Levels;
use super::state::Store;
use crate::engine::Engine;
use crate::mark::Mark;

impl<E: Engine> Store<E> {
    /// Checks every invariant of runs and levels; the error says which one is broken and where.
    pub fn validate(&self) -> Result<(), String> {
        self.flushed().map_err(|error| error.to_string())?;
        let levels = self.clean_up_if_stale(Count::Now);
        // The length first: a device may find out only now what it needs to know for that.
        let len = self.engine.len(levels.runs()).map_err(|error| error.to_string())?;
        self.validate_places(&levels)?;
        // Oldest first, so that what was live before each run is known when its shadows are checked.
        let mut live = BTreeSet::new();
        let mut is_oldest = true;
        for (level, run) in levels.placed().rev() {
            let at = |what: String| format!("level {level}: {what}");
            let entries = self.engine.checked_entries(run).map_err(at)?;
            if self.engine.bound(run) == 0 {
                continue; // It goes with the next batch.
            }
            validate_entries(&entries, levels.capacities().capacity(level), &live).map_err(at)?;
            if self.engine.combiner().is_none()
                && entries.iter().any(|&(_, mark)| mark == Mark::RESTART)
            {
                return Err(at("a restart where values replace each other".into()));
            }
            if is_oldest && entries.iter().any(|&(_, mark)| mark != Mark::NEW) {
                return Err(at("the oldest run has a stale entry".into()));
            }
            is_oldest = false;
            for (key, mark) in entries {
                if mark.is_live() {
                    live.insert(key)
                } else {
                    live.remove(&key)
                };
            }
        }
        if len != live.len() as u64 {
            return Err(format!("the length says {len} but {} keys are live", live.len()));
        }
        Ok(())
    }

    /// Checks that levels are in order and within their capacities.
    fn validate_places(&self, levels: &Levels<E::Run>) -> Result<(), String> {
        let places: Vec<usize> = levels.placed().map(|(level, _)| level).collect();
        if !places.is_sorted() {
            return Err(format!("levels out of order: {places:?}"));
        }
        for &level in &places {
            let in_level = levels.placed().filter(|&(place, _)| place == level);
            let entries: usize = in_level.map(|(_, run)| self.engine.bound(run)).sum();
            let capacity = levels.capacities().capacity(level);
            if entries > capacity {
                return Err(format!("level {level}: {entries} entries where {capacity} may be"));
            }
        }
        Ok(())
    }
}

/// Checks that one run is sorted, fits its level, and has the right marks over the `live` older keys.
fn validate_entries<B: Ord + std::fmt::Debug>(
    entries: &[(B, Mark)],
    capacity: usize,
    live: &BTreeSet<B>,
) -> Result<(), String> {
    if entries.is_empty() || entries.len() > capacity {
        return Err(format!("{} entries where 1 to {capacity} may be", entries.len()));
    }
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("key {:?} is followed by {:?}", pair[0].0, pair[1].0));
    }
    for (key, mark) in entries {
        if mark.is_shadow() != live.contains(key) {
            let shadow = mark.is_shadow();
            return Err(format!("key {key:?} has shadow {shadow}, older runs disagree"));
        }
        if *mark == Mark::VOID {
            return Err(format!("key {key:?} has a tombstone that hides nothing"));
        }
    }
    Ok(())
}
