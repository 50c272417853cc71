//! An owned batch that keeps the order of its operations.

use std::borrow::Cow;

use crate::batch::Columns;
use crate::error::{Error, try_with_capacity};
use crate::key::Key;
use crate::value::Value;

/// An owned list of inserts and deletes, in which the last operation on a key wins; applied as one batch by
/// [`Dictionary::write`](crate::Dictionary::write).
///
/// This differs from a [`Batch`](crate::Batch), which borrows columns and follows the paper's rule:
///
/// | operations on one key | `WriteBatch` | `Batch` |
/// | --- | --- | --- |
/// | insert 1, insert 2 | 2 | 2 |
/// | insert, then delete | deleted | deleted |
/// | delete, then insert | inserted | deleted |
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// use gpulsm::{Dictionary, WriteBatch};
///
/// let mut batch = WriteBatch::new();
/// for (key, value) in [(1u32, 10u32), (2, 20), (3, 30)] {
///     batch.insert(key, value);
/// }
/// batch.delete(2);
/// let mut dictionary = Dictionary::new();
/// dictionary.write(&batch)?;
/// assert_eq!(dictionary.to_vecs()?, (vec![1, 3], vec![10, 30]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteBatch<K, V> {
    /// Keys with their values; without one to delete them.
    operations: Vec<(K, Option<V>)>,
}

impl<K: Key, V: Value> WriteBatch<K, V> {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        WriteBatch { operations: Vec::new() }
    }

    /// Creates an empty batch with room for this many operations.
    #[must_use]
    pub fn with_capacity(operations: usize) -> Self {
        WriteBatch { operations: Vec::with_capacity(operations) }
    }

    /// Adds an insert.
    pub fn insert(&mut self, key: K, value: V) {
        self.operations.push((key, Some(value)));
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: K) {
        self.operations.push((key, None));
    }

    /// Returns the number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether there is no operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Removes all operations and keeps the memory for new ones.
    pub fn clear(&mut self) {
        self.operations.clear();
    }

    /// Returns the last operation on each key, as columns.
    pub(crate) fn columns(&self) -> Result<Columns<'static, K, V>, Error> {
        let mut order = try_with_capacity(self.len())?;
        order.extend(self.operations.iter().zip(0..).map(|((key, _), at)| (key.to_ordered(), at)));
        order.sort_unstable();
        let (mut keys, mut values, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for (position, &(key, at)) in order.iter().enumerate() {
            if order.get(position + 1).is_some_and(|&(next, _): &(_, usize)| next == key) {
                continue; // There is a later one.
            }
            match self.operations[at] {
                (key, Some(value)) => {
                    keys.push(key);
                    values.push(value);
                }
                (key, None) => deletes.push(key),
            }
        }
        let (keys, values) = (Cow::Owned(keys), Cow::Owned(values));
        Ok(Columns { keys, values, deletes: Cow::Owned(deletes) })
    }
}

/// Adds inserts.
impl<K: Key, V: Value> Extend<(K, V)> for WriteBatch<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        self.operations.extend(pairs.into_iter().map(|(key, value)| (key, Some(value))));
    }
}

/// Collects inserts.
impl<K: Key, V: Value> FromIterator<(K, V)> for WriteBatch<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut batch = Self::new();
        batch.extend(pairs);
        batch
    }
}
