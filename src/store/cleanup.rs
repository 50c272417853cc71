//! Removing stale entries: when the user calls for it, or when there are too many.

use std::sync::Arc;

use super::buffer::MAX_BUFFERED_BATCHES;
use super::deferred::entries_of;
use super::levels::Levels;
use super::settings::CleanupPolicy;
use super::state::{State, Store};
use crate::batch::Updates;
use crate::engine::{Engine, KnownLen};
use crate::error::Error;

/// Whether stale entries must be counted now, or only if enough updates came since the last time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Now,
    IfDue,
}

impl<E: Engine> Store<E> {
    /// Merges everything into one run without stale entries.
    pub fn cleanup(&mut self) -> Result<(), Error> {
        let levels = self.flushed()?;
        self.deferred.abandon();
        if self.must_clean_up_in_place(levels) && self.clean_up_in_place().is_ok() {
            return Ok(());
        }
        let levels = self.flushed()?;
        let cleaned = self.cleaned_up(&levels);
        drop(levels);
        match cleaned {
            Err(Error::OutOfMemory { .. }) => {
                self.clean_up_in_place().map_err(|error| self.explain(error))
            }
            cleaned => {
                self.state_mut().levels = Arc::new(cleaned?);
                Ok(())
            }
        }
    }

    /// Returns whether a cleanup beside the runs would hardly find memory, and one in place might do.
    fn must_clean_up_in_place(&self, levels: Arc<Levels<E::Run>>) -> bool {
        let runs = levels.runs();
        runs.len() > 1
            && self.deferred.may_merge_in_place(&self.engine, runs)
            && !self.deferred.is_affordable(&self.engine, runs)
    }

    fn cleaned_up(&self, levels: &Levels<E::Run>) -> Result<Levels<E::Run>, Error> {
        let mut levels = levels.clone();
        if levels.runs().len() <= 1 {
            return Ok(levels); // The oldest run never holds a stale entry.
        }
        if self.engine.known_len(levels.runs()).exact == Some(0) {
            return Ok(Levels::new(self.batch_size)); // This takes no memory.
        }
        let run = self.merged(&self.engine, &levels).or_else(|error| match &self.reserve {
            Some(reserve) => self.merged(&self.engine.drawing_on(reserve), &levels),
            None => Err(error),
        })?;
        let entries = entries_of(&self.engine, run.as_slice());
        levels.install_alone(run, entries);
        Ok(levels)
    }

    /// Merges every run into one; `None` if nothing is left.
    fn merged(&self, engine: &E, levels: &Levels<E::Run>) -> Result<Option<E::Run>, Error> {
        engine.absorb(&engine.stage(&Updates::none())?, levels.runs(), &[])
    }

    /// Cleans up if the policy says so and there are too many stale entries. Returns the levels afterwards.
    pub(super) fn clean_up_if_stale(&self, count: Count) -> Arc<Levels<E::Run>> {
        let State { levels, uncounted, cleanup_delay, .. } = self.state().clone();
        if self.policy == CleanupPolicy::Manual || (count == Count::IfDue && cleanup_delay > 0) {
            return levels;
        }
        // Counting may have to wait for the device, so it is not done after every batch. It takes no
        // longer than applying the updates since the last count did.
        let usual = self.batch_size.saturating_mul(MAX_BUFFERED_BATCHES) as u64;
        let is_due = uncounted as u64 >= usual.max(self.entries(&levels) / 2);
        let must_count = count == Count::Now || is_due;
        let cleaned = match self.is_too_stale(&levels, must_count) {
            Ok(true) => self.cleaned_up(&levels).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        // The batch is applied: if memory is short, its stale entries stay a while longer. An attempt may
        // have merged everything before it failed, so the next one waits for an eighth as many updates.
        let Ok(cleaned) = cleaned else {
            let delay = (self.entries(&levels) / 8) as usize;
            let mut state = self.state();
            state.cleanup_delay = delay.max(self.batch_size);
            state.wants_cleanup = true;
            return levels;
        };
        if must_count {
            self.state().uncounted = 0;
        }
        if cleaned.is_some() {
            self.state().wants_cleanup = false;
            self.deferred.abandon();
        }
        self.replace_levels(levels, cleaned)
    }

    /// Cleans up, however few entries are stale, unless the policy forbids it or there is no memory for it.
    /// Returns the levels afterwards.
    pub(super) fn clean_up_at_limit(&self, levels: Arc<Levels<E::Run>>) -> Arc<Levels<E::Run>> {
        let live = self.engine.known_len(levels.runs()).exact;
        if self.policy == CleanupPolicy::Manual || live == Some(self.entries(&levels)) {
            return levels;
        }
        let cleaned = self.cleaned_up(&levels).ok();
        self.replace_levels(levels, cleaned)
    }

    /// Returns whether stale entries outnumber live keys by more than a batch; `false` if that is not known
    /// and need not be.
    fn is_too_stale(&self, levels: &Levels<E::Run>, must_count: bool) -> Result<bool, Error> {
        let too_many =
            |live: u64| self.entries(levels) > live.saturating_mul(2) + self.batch_size as u64;
        match self.engine.known_len(levels.runs()) {
            // A lower bound mostly decides.
            KnownLen { at_least, .. } if !too_many(at_least) => Ok(false),
            KnownLen { exact: Some(live), .. } => Ok(too_many(live)),
            _ => Ok(must_count && too_many(self.engine.len(levels.runs())?)),
        }
    }
}
