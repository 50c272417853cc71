//! An owned batch that keeps the order of its operations.

use std::borrow::Cow;

use crate::batch::Columns;
use crate::combine::Combiner;
use crate::error::{Error, try_with_capacity};
use crate::key::Key;
use crate::value::Value;

/// An owned list of inserts and deletes, in which the last operation on a key wins; applied as one batch by
/// [`Dictionary::write`](crate::Dictionary::write). In a dictionary that combines values
/// ([`Builder::combine`](crate::Builder::combine)), an insert combines with what the operations before it left.
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
    operations: Vec<(K, Update<V>)>,
}

/// What happens to one key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Update<V> {
    Insert(V),
    Set(V),
    Delete,
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
        self.operations.push((key, Update::Insert(value)));
    }

    /// Adds an assignment: the value replaces what the key has, whatever the rule of the dictionary. If values
    /// replace each other anyway, this is an insert.
    pub fn set(&mut self, key: K, value: V) {
        self.operations.push((key, Update::Set(value)));
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: K) {
        self.operations.push((key, Update::Delete));
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

    /// Returns what the operations on each key amount to, as columns.
    pub(crate) fn columns(
        &self,
        combiner: Option<Combiner>,
    ) -> Result<Columns<'static, K, V>, Error> {
        let mut order = try_with_capacity(self.len())?;
        order.extend(self.operations.iter().zip(0..).map(|((key, _), at)| (key.to_ordered(), at)));
        order.sort_unstable();
        let (mut keys, mut values, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut set_keys, mut set_values) = (Vec::new(), Vec::new());
        for of_key in order.chunk_by(|(key, _), (next, _): &(_, usize)| key == next) {
            let updates = of_key.iter().map(|&(_, at)| self.operations[at].1);
            let (key, _) = self.operations[of_key[0].1];
            match updates.reduce(|before, next| next.after(before, combiner)) {
                Some(Update::Insert(value)) => {
                    keys.push(key);
                    values.push(value);
                }
                Some(Update::Set(value)) => {
                    set_keys.push(key);
                    set_values.push(value);
                }
                Some(Update::Delete) | None => deletes.push(key),
            }
        }
        let assigned = if combiner.is_some() { set_keys.len() } else { 0 };
        keys.append(&mut set_keys);
        values.append(&mut set_values);
        let (keys, values) = (Cow::Owned(keys), Cow::Owned(values));
        Ok(Columns { keys, values, assigned, deletes: Cow::Owned(deletes) })
    }
}

impl<V: Value> Update<V> {
    /// Returns what this update amounts to after another one of the same key.
    fn after(self, before: Self, combiner: Option<Combiner>) -> Self {
        match (self, before, combiner) {
            (Update::Insert(value), Update::Insert(older), Some(combiner)) => {
                Update::Insert(combiner.combine(older, value))
            }
            (Update::Insert(value), Update::Set(older), Some(combiner)) => {
                Update::Set(combiner.combine(older, value))
            }
            (Update::Insert(value), Update::Delete, Some(_)) => Update::Set(value),
            _ => self,
        }
    }
}

/// Adds inserts.
impl<K: Key, V: Value> Extend<(K, V)> for WriteBatch<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        self.operations.extend(pairs.into_iter().map(|(key, value)| (key, Update::Insert(value))));
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
