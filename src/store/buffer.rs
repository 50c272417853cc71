//! The write buffer: batches that nobody has queried yet, applied together.
//!
//! A batch that arrives when there was no query since the one before need not be sorted and merged by
//! itself. It is appended to a buffer, and all buffered batches are applied as one when a query arrives
//! or the buffer is full. A caller who queries after every batch never has anything buffered.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::levels::Levels;
use super::prepared::Prepared;
use super::state::{Buffered, State, Store};
use crate::budget::Allowance;
use crate::engine::{DeviceBatch, Engine, WriteBuffer};
use crate::error::Error;

/// The updates of this many batches may always be buffered…
pub(crate) const MAX_BUFFERED_BATCHES: usize = 16;

/// …and more if they are at most this part of all entries; but never more than
/// [`Engine::MAX_BUFFERED`].
const MAX_BUFFERED_PART: u64 = 4;

impl<E: Engine> Store<E> {
    /// Applies the buffered batches and returns every level: what a query searches.
    pub fn flushed(&self) -> Result<Arc<Levels<E::Run>>, Error> {
        self.queried.store(true, Ordering::Relaxed);
        self.apply_buffered()
    }

    /// Applies the buffered batches. Answers stay the same, also after an error.
    pub(super) fn apply_buffered(&self) -> Result<Arc<Levels<E::Run>>, Error> {
        let state = self.state();
        if state.buffered.is_none() {
            return Ok(state.levels.clone());
        }
        drop(state);
        // One thread at a time: the memory that was set aside suffices for one.
        let _flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let State { levels, buffered, .. } = self.state().clone();
        let Some(Buffered { buffer, allowance }) = buffered else {
            return Ok(levels); // Another thread was faster.
        };
        let mut applied = Levels::clone(&levels);
        drop(levels);
        let engine = self.engine.drawing_on(&allowance);
        let merged = self.install(&engine, &mut applied, &buffer.batch())?;
        let mut state = self.state();
        (state.levels, state.buffered) = (Arc::new(applied), None);
        state.count_updates(buffer.len());
        drop((state, allowance));
        Ok(self.after_batch(buffer.len(), merged))
    }

    /// Prepares a batch whose data is yet to be written, if it is to be buffered: there is room in the buffer for it.
    #[cfg(feature = "cuda")]
    pub fn try_reserve(&mut self, batch: &E::Batch<'_>) -> Result<Option<Prepared<E::Run>>, Error> {
        let was_queried = *self.queried.get_mut();
        if was_queried && self.state_mut().buffered.is_none() {
            return Ok(None);
        }
        self.shrink_levels();
        let is_buffered = self.try_buffer(batch)?;
        Ok(is_buffered.then(|| Prepared::Buffered(batch.counts())))
    }

    /// Returns what `read` does of the buffer, unless that is empty.
    #[cfg(feature = "cuda")]
    pub fn read_buffer<T>(&self, read: impl FnOnce(&E::Buffer) -> T) -> Option<T> {
        self.state().buffered.as_ref().map(|buffered| read(&buffered.buffer))
    }

    /// Appends a batch to the buffer, if that is better than applying it now; returns whether it did.
    pub(super) fn try_buffer(&mut self, batch: &E::Batch<'_>) -> Result<bool, Error> {
        let was_queried = std::mem::replace(self.queried.get_mut(), false);
        let max = self.max_buffered();
        let state = self.state_mut();
        let len = state.buffered.as_ref().map_or(0, |buffered| buffered.buffer.len());
        let is_first_after_query = was_queried && len == 0;
        if is_first_after_query
            || batch.len() > max / 2
            || batch.order().is_sorted()
            || !E::Buffer::default().accepts(batch)
        {
            return Ok(false);
        }
        let fits = state.buffered.as_ref().is_none_or(|Buffered { buffer, .. }| {
            len + batch.len() <= max && buffer.accepts(batch)
        });
        // A buffer that a clone has too must stay as it is.
        let is_shared = |buffered: &mut Buffered<E>| Arc::get_mut(&mut buffered.buffer).is_none();
        if !fits || state.buffered.as_mut().is_some_and(is_shared) {
            self.apply_buffered()?;
        }
        Ok(self.append(batch))
    }

    /// Appends a batch to the buffer, if there is memory for that and for applying it later; returns
    /// whether it did.
    fn append(&mut self, batch: &E::Batch<'_>) -> bool {
        let engine = &self.engine;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Buffered { mut buffer, allowance } = state.buffered.take().unwrap_or_else(|| {
            Buffered { buffer: Arc::default(), allowance: Allowance::new(engine.budget()) }
        });
        let to_apply = engine.bytes_to_apply(buffer.len() + batch.len(), state.levels.runs());
        let unshared = Arc::get_mut(&mut buffer).expect("no clone has this buffer");
        let is_appended = allowance.grow_to(to_apply) && unshared.append(engine, batch).is_ok();
        state.buffered = (buffer.len() > 0).then_some(Buffered { buffer, allowance });
        is_appended
    }

    /// Undoes a batch that was prepared and not installed.
    pub fn undo(&mut self, prepared: Prepared<E::Run>) {
        let Prepared::Buffered(last) = prepared else { return };
        let state = self.state_mut();
        let buffered = state.buffered.as_mut().expect("the batch is buffered");
        let buffer = Arc::get_mut(&mut buffered.buffer).expect("no clone has this buffer");
        buffer.remove_last(last);
        if buffer.len() == 0 {
            state.buffered = None;
        }
    }

    /// Returns the most updates that may be buffered now.
    fn max_buffered(&self) -> usize {
        self.max_buffered_beside(self.entries(&self.state().levels))
    }

    /// Returns the most updates that may be buffered beside this many entries.
    pub(super) fn max_buffered_beside(&self, entries: u64) -> usize {
        let usual = self.batch_size.saturating_mul(MAX_BUFFERED_BATCHES);
        usual
            .max((entries / MAX_BUFFERED_PART) as usize)
            .min(E::MAX_BUFFERED)
            .min(self.max_buffered)
    }
}
