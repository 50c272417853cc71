//! An owned batch that keeps the order of its operations.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::batch::Columns;
use crate::combine::Combiner;
use crate::cpu;
use crate::error::{Error, try_with_capacity};
use crate::key::{Key, OrderedKey};
use crate::ranges::{KeyRange, RangeEnds};
use crate::value::Value;
use crate::workers::Workers;

/// An owned list of inserts and deletes, in which the last operation on a key counts; applied as one batch by
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
/// | delete a range of keys, then insert | inserted, and the others deleted | – |
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
#[derive(Clone, Debug, PartialEq)]
pub struct WriteBatch<K: Key, V> {
    operations: Vec<(K, Update<V>)>,
    deleted_ranges: Vec<DeletedRange<K::Ordered>>,
}

impl<K: Key, V> Default for WriteBatch<K, V> {
    fn default() -> Self {
        WriteBatch { operations: Vec::new(), deleted_ranges: Vec::new() }
    }
}

/// A range of keys that is deleted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DeletedRange<B> {
    lo: B,
    hi: B,
    /// How many operations on single keys come before it.
    at: usize,
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
        Self::default()
    }

    /// Creates an empty batch with room for this many operations.
    #[must_use]
    pub fn with_capacity(operations: usize) -> Self {
        WriteBatch { operations: Vec::with_capacity(operations), ..Self::default() }
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

    /// Adds a delete of every key of a range that the dictionary has by then, those that this batch has inserted
    /// included. In a batch with other operations it costs as much as a delete of each of them.
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Dictionary, WriteBatch};
    ///
    /// let mut ticks: Dictionary<u64, u32> = (0..100).map(|at| (at, 1)).collect();
    /// let mut batch = WriteBatch::new();
    /// batch.delete_range(10..90);
    /// batch.insert(50, 2);
    /// ticks.write(&batch)?; // As a whole or not at all.
    /// assert_eq!((ticks.len()?, ticks.lookup_one(50)?), (21, Some(2)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range(&mut self, range: impl KeyRange<K>) {
        let at = self.operations.len();
        self.deleted_ranges.extend(range.ends().map(|(lo, hi)| DeletedRange { lo, hi, at }));
    }

    /// Returns the number of operations; empty ranges are none.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len() + self.deleted_ranges.len()
    }

    /// Returns whether there is no operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all operations and keeps the memory for new ones.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.deleted_ranges.clear();
    }

    /// Returns the ranges that are deleted, in any order.
    pub(crate) fn deleted_ranges(&self) -> RangeEnds<'static, K::Ordered> {
        let (lo, hi): (Vec<_>, Vec<_>) =
            self.deleted_ranges.iter().map(|range| (range.lo, range.hi)).unzip();
        RangeEnds { lo: lo.into(), hi: hi.into() }
    }

    /// Returns whether ranges are deleted, and nothing else happens.
    pub(crate) fn only_deletes_ranges(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns what the operations on each key amount to, as columns. `live` are the keys that the dictionary has in
    /// the ranges that are deleted. The workers share the work, if there is enough.
    pub(crate) fn columns(
        &self,
        combiner: Option<Combiner>,
        live: &[K],
        workers: &Workers,
    ) -> Result<Columns<'static, K, V>, Error> {
        if combiner.is_none() && self.deleted_ranges.is_empty() {
            return self.last_of_each_key(workers);
        }
        // The operations on a key, after what a range does to it: that has the least number.
        let mut order = try_with_capacity(self.operations.len() + live.len())?;
        order.extend(live.iter().map(|key| (key.to_ordered(), None)));
        let operations = self.operations.iter().enumerate();
        order.extend(operations.map(|(at, (key, _))| (key.to_ordered(), Some(at))));
        order.sort_unstable();
        let mut deleted = LastDeletes::new(&self.deleted_ranges);
        let (mut keys, mut values, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut set_keys, mut set_values) = (Vec::new(), Vec::new());
        for of_key in order.chunk_by(|(key, _), (next, _): &(_, Option<usize>)| key == next) {
            let ordered = of_key[0].0;
            let deleted = deleted.at(ordered);
            let later =
                of_key.iter().filter_map(|&(_, at)| at).skip_while(|&at| Some(at) < deleted);
            let updates = later.map(|at| self.operations[at].1);
            let updates = deleted.map(|_| Update::Delete).into_iter().chain(updates);
            let key = match of_key[of_key.len() - 1].1 {
                Some(at) => self.operations[at].0,
                None => K::from_ordered(ordered),
            };
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

    /// Returns the last operation on each key, as columns: nothing else counts if values replace each other and no range
    /// is deleted.
    fn last_of_each_key(&self, workers: &Workers) -> Result<Columns<'static, K, V>, Error> {
        let mut ordered = try_with_capacity(self.operations.len())?;
        ordered.extend(self.operations.iter().map(|(key, _)| key.to_ordered()));
        let mut places = try_with_capacity(ordered.len())?;
        places.extend(0..ordered.len() as u64);
        let last = cpu::sorted_without_duplicates(workers, &ordered, &places)?;
        let parts = last.values().chunks(last.len.div_ceil(workers.parts(last.len)).max(1));
        let parts = workers.map(parts, |places| {
            let (mut keys, mut values, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
            for &place in places {
                match self.operations[place as usize] {
                    (key, Update::Insert(value) | Update::Set(value)) => {
                        keys.push(key);
                        values.push(value);
                    }
                    (key, Update::Delete) => deletes.push(key),
                }
            }
            Ok((keys, values, deletes))
        })?;
        let (mut keys, mut values, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for (mut some_keys, mut some_values, mut some_deletes) in parts {
            keys.append(&mut some_keys);
            values.append(&mut some_values);
            deletes.append(&mut some_deletes);
        }
        let (keys, values) = (Cow::Owned(keys), Cow::Owned(values));
        Ok(Columns { keys, values, assigned: 0, deletes: Cow::Owned(deletes) })
    }
}

/// Says for keys, in ascending order, when they were deleted as parts of ranges for the last time.
struct LastDeletes<B> {
    /// In ascending order of their first keys, the next one last.
    to_come: Vec<DeletedRange<B>>,
    /// Those that have begun: when, and their last keys. The latest is the greatest.
    begun: BinaryHeap<(usize, B)>,
}

impl<B: OrderedKey> LastDeletes<B> {
    fn new(ranges: &[DeletedRange<B>]) -> Self {
        let mut to_come = ranges.to_vec();
        to_come.sort_unstable_by_key(|range| Reverse(range.lo));
        LastDeletes { to_come, begun: BinaryHeap::new() }
    }

    /// Returns how many operations on single keys came before the last delete of this key, which is not less than
    /// the one before it.
    fn at(&mut self, key: B) -> Option<usize> {
        while let Some(range) = self.to_come.pop_if(|range| range.lo <= key) {
            self.begun.push((range.at, range.hi));
        }
        while self.begun.peek().is_some_and(|&(_, hi)| hi < key) {
            self.begun.pop();
        }
        self.begun.peek().map(|&(at, _)| at)
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
