//! Counts the bytes of a dictionary, its clones and its snapshots, and keeps them under a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// How many bytes may be used, and are.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Option<u64>,
    used: AtomicU64,
    /// The most that ever were.
    peak: AtomicU64,
    /// Tests only: the allocation counted down to 0 fails. `u64::MAX` stands for never.
    fail_in: AtomicU64,
}

impl Budget {
    pub fn new(limit: Option<u64>) -> Arc<Self> {
        let (used, peak) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Budget { limit, used, peak, fail_in: AtomicU64::new(u64::MAX) })
    }

    /// Makes the allocation after the next `n` fail, once.
    pub fn fail_after(&self, n: u64) {
        self.fail_in.store(n, Ordering::Relaxed);
    }

    /// Bytes in use now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were in use at a time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Bytes that may still be used; `None` where there is no limit.
    pub fn free(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.used()))
    }

    /// Whether so much is free that some may go to what only makes things faster.
    pub fn is_roomy(&self) -> bool {
        self.limit.is_none_or(|limit| self.used() <= limit / 2)
    }

    /// Whether so many bytes may be taken for a while beside all that is used: batches that come in
    /// meanwhile need as much again.
    pub fn is_spare(&self, bytes: u64) -> bool {
        self.free().is_none_or(|free| bytes.saturating_mul(3) <= free)
    }

    /// Whether so many bytes of updates can wait, and be taken in later: that takes several times as
    /// much for a while, beside all that is merged with them.
    pub fn is_vacant_for(&self, bytes: u64) -> bool {
        let vacant = |limit: u64| {
            let used = self.used();
            used <= limit / 4 && bytes.saturating_mul(8) <= limit - used
        };
        self.limit.is_none_or(vacant)
    }

    /// Counts `bytes` as used, or says how much was wanted and how much is free.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved, Error> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Reserved { budget: self.clone(), bytes };
        let free = self.limit.map(|limit| limit.saturating_sub(before));
        if bytes > 0 && (self.fails_now() || free.is_some_and(|free| free < bytes)) {
            return Err(Error::OutOfMemory { wanted: bytes, free });
        }
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(reserved)
    }

    fn fails_now(&self) -> bool {
        let count_down = |n: u64| if n == u64::MAX { None } else { Some(n.wrapping_sub(1)) };
        self.fail_in.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down) == Ok(0)
    }
}

/// Bytes that are counted as used until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reserved {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts only so many bytes from now on, if that is fewer.
    pub fn shrink(&mut self, bytes: u64) {
        let given_back = self.bytes.saturating_sub(bytes);
        self.budget.used.fetch_sub(given_back, Ordering::Relaxed);
        self.bytes -= given_back;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_until_they_are_given_back() {
        let budget = Budget::new(Some(1000));
        let mut first = budget.reserve(800).unwrap();
        let refused = budget.reserve(201).unwrap_err();
        assert_eq!(refused, Error::OutOfMemory { wanted: 201, free: Some(200) });
        first.shrink(300);
        first.shrink(500);
        assert_eq!((first.bytes(), budget.used(), budget.free()), (300, 300, Some(700)));
        drop(first);
        assert_eq!((budget.used(), budget.peak()), (0, 800));
    }

    #[test]
    fn the_chosen_allocation_fails_once() {
        let budget = Budget::new(None);
        budget.fail_after(1);
        let outcomes = [(); 3].map(|()| budget.reserve(1).is_ok());
        assert_eq!(outcomes, [true, false, true]);
    }
}
