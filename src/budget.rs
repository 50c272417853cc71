//! Counts the bytes of a dictionary, its clones and its snapshots, and keeps them under a limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::error::Error;
use crate::stats::DeviceMemory;

/// Counts the bytes in use, under an optional limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Option<u64>,
    /// How many stores that do not share runs take their memory from it: the shards of one dictionary.
    stores: u64,
    /// If there is a limit: the bytes that are allocated, about to be allocated, or set aside.
    /// Never more than the limit.
    reserved: AtomicU64,
    /// The bytes that are allocated.
    used: AtomicU64,
    /// The most bytes that were ever allocated at a time.
    peak: AtomicU64,
    /// For tests: how many allocations succeed before one fails; `u64::MAX` if none fails.
    fail_in: AtomicU64,
}

impl Budget {
    fn new(limit: Option<u64>, stores: u64) -> Arc<Self> {
        let [reserved, used, peak] = [(); 3].map(|()| AtomicU64::new(0));
        let fail_in = AtomicU64::new(u64::MAX);
        Arc::new(Budget { limit, stores, reserved, used, peak, fail_in })
    }

    /// Returns how many bytes of the limit each store may count on.
    pub fn limit_per_store(&self) -> Option<u64> {
        self.limit.map(|limit| limit / self.stores)
    }

    /// Makes the allocation after the next `n` fail, once.
    #[cfg(feature = "testing")]
    pub fn fail_after(&self, n: u64) {
        self.fail_in.store(n, Ordering::Relaxed);
    }

    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the most bytes that were in use at a time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Returns the bytes that may still be reserved; `None` if there is no limit.
    pub fn free(&self) -> Option<u64> {
        self.limit.map(|limit| limit - self.reserved())
    }

    /// Returns what becomes of the bytes of the limit. What is set aside and not in use is idle.
    pub fn memory(&self) -> Option<DeviceMemory> {
        let (total, free) = (self.limit?, self.free()?);
        Some(DeviceMemory { total, free, idle: total - free - self.used().min(total - free) })
    }

    fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Returns whether a filter may be built: whether at least half of the limit is free.
    pub fn allows_filter(&self) -> bool {
        self.limit.is_none_or(|limit| self.reserved() <= limit / 2)
    }

    /// Returns whether a merge of `bytes` may be deferred: its output takes as many again, and the
    /// batches that are applied before it is finished need memory, too.
    pub fn allows_deferred_merge(&self, bytes: u64) -> bool {
        self.free().is_none_or(|free| bytes.saturating_mul(3) <= free)
    }

    /// Reserves `bytes`, or returns an error with the number of bytes wanted and free. A failed
    /// request never affects others, not even temporarily.
    fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let Some(limit) = self.limit else { return Ok(()) };
        let within_limit = |reserved: u64| reserved.checked_add(bytes).filter(|&sum| sum <= limit);
        match self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within_limit) {
            Ok(_) => Ok(()),
            Err(reserved) => Err(Error::OutOfMemory {
                wanted: bytes,
                free: Some(limit - reserved),
                memory: None,
            }),
        }
    }

    fn release(&self, bytes: u64) {
        if self.limit.is_some() {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Counts an allocation; returns whether it is the one that a test wants to fail.
    fn fails_now(&self) -> bool {
        let count_down = |n: u64| if n == u64::MAX { None } else { Some(n.wrapping_sub(1)) };
        self.fail_in.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down) == Ok(0)
    }
}

/// Bytes of a budget that are set aside for one purpose, until this is dropped.
#[derive(Debug)]
pub(crate) struct Allowance {
    budget: Arc<Budget>,
    left: AtomicU64,
    /// What allocations have taken, and will return.
    lent: AtomicU64,
}

impl Allowance {
    /// Creates an allowance of 0 bytes.
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let [left, lent] = [(); 2].map(|()| AtomicU64::new(0));
        Arc::new(Allowance { budget: budget.clone(), left, lent })
    }

    /// Sets aside `bytes` in all, unless that is more than half of what is free; returns whether it
    /// did. Without a limit, it does nothing and returns `true`.
    pub fn grow_to(&self, bytes: u64) -> bool {
        let Some(free) = self.budget.free() else { return true };
        let left = self.left.load(Ordering::Relaxed);
        let more = bytes.saturating_sub(left);
        let grows = bytes <= free.saturating_add(left) / 2 && self.budget.reserve(more).is_ok();
        if grows {
            self.left.fetch_add(more, Ordering::Relaxed);
        }
        grows
    }

    /// Sets aside what lacks of `bytes`, or as much of it as is free. What allocations will return does not lack.
    pub fn refill(&self, bytes: u64) {
        let has = self.left().saturating_add(self.lent.load(Ordering::Relaxed));
        let more = bytes.saturating_sub(has).min(self.budget.free().unwrap_or(0));
        if more > 0 && self.budget.reserve(more).is_ok() {
            self.left.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Returns the bytes that are set aside and not in use.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes up to `bytes` out of the allowance, and returns how many.
    fn take(&self, bytes: u64) -> u64 {
        let rest = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        let taken = before.unwrap_or_default().min(bytes);
        self.lent.fetch_add(taken, Ordering::Relaxed);
        taken
    }

    /// Puts back what an allocation took.
    fn put_back(&self, bytes: u64) {
        self.lent.fetch_sub(bytes, Ordering::Relaxed);
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.budget.release(*self.left.get_mut());
    }
}

/// Where the bytes of allocations are counted: in a budget, after an allowance is used up.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    allowance: Weak<Allowance>,
}

impl Account {
    #[cfg(test)]
    pub fn new(limit: Option<u64>) -> Self {
        Self::of_stores(limit, 1)
    }

    /// Creates an account of one store or of several, the shards of a dictionary.
    pub fn of_stores(limit: Option<u64>, stores: usize) -> Self {
        Account { budget: Budget::new(limit, stores as u64), allowance: Weak::new() }
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the bytes that allocations may still take, those of the allowance included; `None` if there is no limit.
    pub fn available(&self) -> Option<u64> {
        let drawn_first = self.allowance.upgrade().map_or(0, |allowance| allowance.left());
        Some(self.budget.free()?.saturating_add(drawn_first))
    }

    /// Returns an account of the same budget that draws on the allowance first.
    pub fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        Account { budget: self.budget.clone(), allowance: Arc::downgrade(allowance) }
    }

    /// Returns an error if a test wants this step to fail: one that maps bytes which are counted already.
    #[cfg(feature = "cuda")]
    pub fn before_mapping(&self, wanted: u64) -> Result<(), Error> {
        match wanted > 0 && self.budget.fails_now() {
            true => Err(Error::OutOfMemory { wanted, free: self.budget.free(), memory: None }),
            false => Ok(()),
        }
    }

    /// Calls `allocate`, and counts `bytes` as used until the returned [`Reserved`] is dropped. A
    /// failed allocation is not counted.
    pub fn allocate<T>(
        &self,
        bytes: u64,
        allocate: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Reserved), Error> {
        if bytes > 0 && self.budget.fails_now() {
            return Err(Error::OutOfMemory {
                wanted: bytes,
                free: self.budget.free(),
                memory: None,
            });
        }
        let drawn = self.allowance.upgrade().map_or(0, |allowance| allowance.take(bytes));
        let mut reserved = Reserved { account: self.clone(), bytes: drawn, drawn, used: 0 };
        self.budget.reserve(bytes - drawn).map_err(|error| match error {
            Error::OutOfMemory { free, .. } => {
                Error::OutOfMemory { wanted: bytes, free, memory: None }
            }
            other => other,
        })?;
        reserved.bytes = bytes;
        let allocated = allocate()?;
        reserved.used = bytes;
        let used = self.budget.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.budget.peak.fetch_max(used, Ordering::Relaxed);
        Ok((allocated, reserved))
    }

    /// Calls `allocate`, and counts nothing: what it allocates is counted later, by bytes of other reservations.
    pub fn allocate_uncounted<T>(
        &self,
        allocate: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Reserved), Error> {
        if self.budget.fails_now() {
            return Err(Error::OutOfMemory { wanted: 1, free: self.budget.free(), memory: None });
        }
        Ok((allocate()?, Reserved { account: self.clone(), bytes: 0, drawn: 0, used: 0 }))
    }
}

/// Bytes that are counted as used until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    account: Account,
    bytes: u64,
    /// How many of them came from the account's allowance, and return to it while it exists.
    drawn: u64,
    /// 0 until the allocation has succeeded, then equal to `bytes`.
    used: u64,
}

impl Reserved {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves `bytes`, or all there are, to another reservation of the same budget. They are counted all the time, so
    /// that nobody else can take them. What came from an allowance goes last, and returns there only from a
    /// reservation that draws on the same one.
    pub fn give(&mut self, bytes: u64, to: &mut Reserved) {
        let given = bytes.min(self.bytes);
        let drawn = given.saturating_sub(self.bytes - self.drawn);
        self.bytes -= given;
        self.used -= given;
        self.drawn -= drawn;
        to.bytes += given;
        to.used += given;
        if Weak::ptr_eq(&self.account.allowance, &to.account.allowance) {
            to.drawn += drawn;
        } else if let Some(allowance) = self.account.allowance.upgrade() {
            allowance.lent.fetch_sub(drawn, Ordering::Relaxed);
        }
    }

    /// Releases all but `bytes`; does nothing if there are fewer.
    pub fn shrink(&mut self, bytes: u64) {
        let budget = &self.account.budget;
        let released = self.bytes.saturating_sub(bytes);
        budget.used.fetch_sub(self.used.saturating_sub(bytes), Ordering::Relaxed);
        self.used = self.used.min(bytes);
        let drawn = self.drawn.min(released);
        match self.account.allowance.upgrade() {
            Some(allowance) => {
                allowance.put_back(drawn);
                budget.release(released - drawn);
            }
            None => budget.release(released),
        }
        self.drawn -= drawn;
        self.bytes -= released;
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

    fn reserve(account: &Account, bytes: u64) -> Result<Reserved, Error> {
        account.allocate(bytes, || Ok(())).map(|((), reserved)| reserved)
    }

    fn refused(wanted: u64, free: u64) -> Error {
        Error::OutOfMemory { wanted, free: Some(free), memory: None }
    }

    #[test]
    fn bytes_are_counted_until_they_are_released() {
        let account = Account::new(Some(1000));
        let budget = account.budget();
        let mut first = reserve(&account, 800).unwrap();
        assert_eq!(reserve(&account, 201).unwrap_err(), refused(201, 200));
        first.shrink(300);
        first.shrink(500);
        assert_eq!((first.bytes(), budget.used(), budget.free()), (300, 300, Some(700)));
        drop(first);
        assert_eq!((budget.used(), budget.peak()), (0, 800));
    }

    #[test]
    fn the_chosen_allocation_fails_once() {
        let account = Account::new(None);
        account.budget().fail_after(1);
        let outcomes = [(); 3].map(|()| reserve(&account, 1).is_ok());
        assert_eq!(outcomes, [true, false, true]);
    }

    #[test]
    fn a_failed_request_never_affects_others() {
        let account = Account::new(Some(1000));
        std::thread::scope(|scope| {
            let refused =
                scope.spawn(|| (0..200_000).filter(|_| reserve(&account, 5000).is_err()).count());
            for _ in 0..200_000 {
                reserve(&account, 10).expect("room for ten bytes");
            }
            assert_eq!(refused.join().unwrap(), 200_000);
        });
        assert_eq!(account.budget().free(), Some(1000));
    }

    #[test]
    fn a_failed_allocation_is_not_counted() {
        let account = Account::new(None);
        drop(reserve(&account, 10).unwrap());
        let failed = Error::OutOfMemory { wanted: 1 << 50, free: None, memory: None };
        let outcome = account.allocate(1 << 50, || Err::<(), _>(failed.clone()));
        assert_eq!(outcome.unwrap_err(), failed);
        assert_eq!((account.budget().used(), account.budget().peak()), (0, 10));
    }

    #[test]
    fn bytes_that_change_hands_are_counted_all_the_time() {
        let account = Account::new(Some(1000));
        let allowance = Allowance::new(account.budget());
        assert!(allowance.grow_to(300));
        let mut from = reserve(&account.drawing_on(&allowance), 500).unwrap();
        let ((), mut to) = account.allocate_uncounted(|| Ok(())).unwrap();
        from.give(100, &mut to);
        assert_eq!((from.bytes(), to.bytes(), allowance.left()), (400, 100, 0));
        assert_eq!((account.budget().used(), account.budget().free()), (500, Some(500)));
        // Of the rest, 300 bytes are the allowance's, which has lost 200 of them…
        from.give(300, &mut to);
        drop(from);
        assert_eq!((allowance.left(), account.budget().free()), (100, Some(500)));
        // …until it is filled again, as far as there is memory.
        let other = reserve(&account, 400).unwrap();
        allowance.refill(300);
        assert_eq!((allowance.left(), account.budget().free()), (200, Some(0)));
        drop((to, other));
        allowance.refill(300);
        assert_eq!((allowance.left(), account.budget().free()), (300, Some(700)));
        let lent = reserve(&account.drawing_on(&allowance), 300).unwrap();
        allowance.refill(300);
        assert_eq!(account.budget().free(), Some(700), "what will return does not lack");
        drop(lent);
        assert_eq!(account.budget().peak(), 800);
    }

    #[test]
    fn bytes_that_are_set_aside_are_kept_for_their_purpose() {
        let account = Account::new(Some(1000));
        let allowance = Allowance::new(account.budget());
        assert!(!allowance.grow_to(501), "more than half of what is free");
        assert!(allowance.grow_to(400) && allowance.grow_to(500));
        assert_eq!(reserve(&account, 501).unwrap_err(), refused(501, 500));
        let other = reserve(&account, 500).unwrap();
        let purpose = account.drawing_on(&allowance);
        // After a failure, or an early release, the bytes are available to the next attempt.
        assert_eq!(reserve(&purpose, 501).unwrap_err(), refused(501, 0));
        let mut first = reserve(&purpose, 450).unwrap();
        first.shrink(200);
        let second = reserve(&purpose, 300).unwrap();
        drop(allowance);
        drop((first, second));
        assert_eq!((account.budget().used(), account.budget().free()), (500, Some(500)));
        drop(other);
        assert_eq!(account.budget().free(), Some(1000));
    }
}
