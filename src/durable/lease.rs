//! What a checkpoint in the background is written of: a snapshot that can be taken away from it.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::contents::{PairSource, Read};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::store::AnyStore;

/// A snapshot that is lent to a checkpoint, until all of it was read or its memory is needed. It is locked only while a
/// part is read, not while that is written: whoever takes it away never waits for the storage.
pub(super) struct Lease<B: OrderedKey>(Mutex<Option<Box<dyn AnyStore<B>>>>);

impl<B: OrderedKey> Lease<B> {
    pub fn new(snapshot: Box<dyn AnyStore<B>>) -> Self {
        Lease(Mutex::new(Some(snapshot)))
    }

    fn snapshot(&self) -> MutexGuard<'_, Option<Box<dyn AnyStore<B>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: OrderedKey> PairSource<B> for Lease<B> {
    fn read(&self, read: &mut Read<'_, B>) -> Result<bool, Error> {
        self.snapshot().as_deref().map_or(Ok(false), |snapshot| read(snapshot).map(|()| true))
    }

    fn all_is_read(&self) {
        self.end();
    }
}

/// A lease of a snapshot with any keys.
pub(super) trait AnyLease: Send + Sync {
    /// Takes the snapshot away; returns whether it was still there.
    fn end(&self) -> bool;

    /// Returns whether the snapshot is still there, without waiting for who reads it.
    fn is_held(&self) -> bool;
}

impl<B: OrderedKey> AnyLease for Lease<B> {
    fn end(&self) -> bool {
        self.snapshot().take().is_some()
    }

    fn is_held(&self) -> bool {
        match self.0.try_lock() {
            Ok(snapshot) => snapshot.is_some(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_some(),
            Err(TryLockError::WouldBlock) => true,
        }
    }
}
