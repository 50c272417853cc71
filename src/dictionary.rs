//! The dictionary: everything that changes it. What it answers is in [`Snapshot`].

use std::fmt;
use std::ops::Deref;

use crate::batch::{Batch, Updates};
use crate::builder::Builder;
use crate::error::{Error, check_lengths, try_zeroed};
use crate::iter::Iter;
use crate::key::{self, Key, OrderedKey};
use crate::query::Query;
use crate::snapshot::Snapshot;
use crate::store::AnyStore;
use crate::value::Value;

/// A dynamic, ordered dictionary, changed and asked in batches.
///
/// A call happens whole or not at all: after an error the dictionary is as it was. One call is one
/// batch, of any length. Later batches win over earlier ones; within one batch the last insert of a
/// key wins, and a key that is both inserted and deleted is deleted.
///
/// Batches that come one after another, with nothing asked between them, may wait and be taken in
/// together: that is many times faster for short ones. The next query takes them in first, and it is that
/// query which fails if there is no memory for it, again without any loss. [`settle`](Snapshot::settle)
/// takes them in at once.
///
/// A dictionary answers every query that its [`Snapshot`] does, which it dereferences to. Cloning
/// one costs next to nothing: the clones share what they have in common.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// let mut dictionary = gpulsm::Dictionary::<u32, f32>::new();
/// dictionary.insert(&[30, 10, 20], &[3.0, 1.0, 2.0])?;
/// dictionary.delete(&[10])?;
/// assert_eq!(dictionary.lookup(&[10, 20])?, [None, Some(2.0)]);
/// assert_eq!(dictionary.count(&[0], &[25])?, [1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Dictionary<K: Key, V: Value> {
    now: Snapshot<K, V>,
}

impl<K: Key, V: Value> Dictionary<K, V> {
    /// An empty dictionary on the best device, with the usual settings.
    ///
    /// # Panics
    ///
    /// If the best device, though there, can't be used; [`Builder::build`] returns that as an error.
    pub fn new() -> Self {
        Self::builder().build().expect("the best device can be used")
    }

    /// Settings to make a dictionary with.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// A dictionary of these pairs, at the speed of one sort. Of equal keys the last one wins.
    pub fn bulk_build(keys: &[K], values: &[V]) -> Result<Self, Error> {
        Self::builder().bulk_build(keys, values)
    }

    /// A dictionary of these pairs, whose keys are strictly ascending, without any sorting.
    pub fn from_sorted(keys: &[K], values: &[V]) -> Result<Self, Error> {
        Self::builder().from_sorted(keys, values)
    }

    pub(crate) fn from_snapshot(now: Snapshot<K, V>) -> Self {
        Dictionary { now }
    }

    /// Inserts each key with its value, replacing what it had. Of equal keys the last one wins.
    pub fn insert(&mut self, keys: &[K], values: &[V]) -> Result<(), Error> {
        self.now.store_mut().apply(&Batch::inserting(keys, values).check()?)
    }

    /// Deletes each key; one that isn't there is no error.
    pub fn delete(&mut self, keys: &[K]) -> Result<(), Error> {
        self.now.store_mut().apply(&Batch::<K, V>::inserting(&[], &[]).deleting(keys).check()?)
    }

    /// Deletes every key k with `lo[i]` ≤ k ≤ `hi[i]`, for each i.
    pub fn delete_range(&mut self, lo: &[K], hi: &[K]) -> Result<(), Error> {
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        delete_ranges(self.now.store_mut(), &key::encode(lo)?, &key::encode(hi)?)
    }

    /// Takes in one mixed batch of inserts and deletes.
    pub fn update(&mut self, batch: Batch<'_, K, V>) -> Result<(), Error> {
        self.apply(&batch.check()?)
    }

    /// Takes in everything of another dictionary, or snapshot, as one batch: its pairs win.
    pub fn merge_from(&mut self, other: &Snapshot<K, V>) -> Result<(), Error> {
        let (keys, values) = other.to_vecs()?;
        self.apply(&Updates::sorted(key::encode(&keys)?, &values))
    }

    pub(crate) fn apply(&mut self, updates: &Updates<'_, K::Ordered>) -> Result<(), Error> {
        self.now.store_mut().apply(updates)
    }

    /// Inserts one key, replacing what it had. A batch of many costs far less than many of one.
    pub fn set(&mut self, key: K, value: V) -> Result<(), Error> {
        self.insert(&[key], &[value])
    }

    /// Deletes one key; if it isn't there, nothing happens.
    pub fn remove(&mut self, key: K) -> Result<(), Error> {
        self.delete(&[key])
    }

    /// Removes every stale entry and leaves one run. No answer changes.
    pub fn cleanup(&mut self) -> Result<(), Error> {
        self.now.store_mut().cleanup()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.now.store_mut().clear();
    }

    /// The dictionary as it is now, frozen: it can be read from other threads while this one goes
    /// on taking updates. Costs next to nothing, once what waits is taken in.
    pub fn snapshot(&self) -> Snapshot<K, V> {
        self.now.clone()
    }

    /// On a GPU: updates from data in its memory.
    #[cfg(feature = "cuda")]
    pub fn resident_mut(&mut self) -> Result<crate::cuda::ResidentMut<'_, K, V>, Error> {
        crate::cuda::ResidentMut::new(self.now.store_mut())
    }

    /// Makes the allocation after the next `n` fail, once.
    #[cfg(feature = "testing")]
    pub fn fail_allocation_after(&self, n: u64) {
        self.now.store().fail_after(n);
    }
}

/// Deletes every key of these ranges; compiled for the integers that keys sort by.
fn delete_ranges<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    lo: &[B],
    hi: &[B],
) -> Result<(), Error> {
    let (lo, hi) = union(lo, hi);
    let mut offsets = try_zeroed(lo.len() + 1)?;
    store.answer(Query::RangeOffsets { lo: &lo, hi: &hi, offsets: &mut offsets })?;
    let doomed = offsets[lo.len()];
    if doomed as u64 == store.len()? {
        store.clear();
        return Ok(());
    }
    let mut keys = try_zeroed(doomed)?;
    let (lo, hi, offsets) = (&lo, &hi, &mut offsets);
    store.answer(Query::Range { lo, hi, offsets, keys: &mut keys, values: None })?;
    store.apply(&Updates::sorted_deletes(keys))
}

/// The union of closed ranges as ranges in ascending order that do not touch each other.
fn union<B: OrderedKey>(lo: &[B], hi: &[B]) -> (Vec<B>, Vec<B>) {
    let mut ranges: Vec<(B, B)> = lo.iter().copied().zip(hi.iter().copied()).collect();
    ranges.retain(|(lo, hi)| lo <= hi);
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let meet = next.0 <= last.1;
        last.1 = if meet { last.1.max(next.1) } else { last.1 };
        meet
    });
    ranges.into_iter().unzip()
}

impl<K: Key, V: Value> Default for Dictionary<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V: Value> Deref for Dictionary<K, V> {
    type Target = Snapshot<K, V>;

    fn deref(&self) -> &Snapshot<K, V> {
        &self.now
    }
}

/// Inserts all pairs as one batch.
///
/// # Panics
///
/// If there is no memory for them; [`Dictionary::insert`] returns that as an error.
impl<K: Key, V: Value> Extend<(K, V)> for Dictionary<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        let (keys, values): (Vec<K>, Vec<V>) = pairs.into_iter().unzip();
        self.insert(&keys, &values).expect("room for the pairs");
    }
}

/// Builds a dictionary on the best device.
///
/// # Panics
///
/// If there is no memory for it; [`Dictionary::bulk_build`] returns that as an error.
impl<K: Key, V: Value> FromIterator<(K, V)> for Dictionary<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut dictionary = Self::new();
        dictionary.extend(pairs);
        dictionary
    }
}

impl<K: Key, V: Value> IntoIterator for &Dictionary<K, V> {
    type Item = (K, V);
    type IntoIter = Iter<K, V>;

    fn into_iter(self) -> Iter<K, V> {
        self.iter()
    }
}

impl<K: Key, V: Value> fmt::Debug for Dictionary<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now.describe("Dictionary", f)
    }
}

/// Writes a small picture of the levels, as far as they are known: nothing is done or waited for.
/// [`stats`](Snapshot::stats) has every figure.
impl<K: Key, V: Value> fmt::Display for Dictionary<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_to_delete_are_united_before_anything_is_gathered() {
        let lo = [5u32, 0, 9, 20, 21, 30];
        let hi = [7, 4, 3, 25, 22, u32::MAX];
        assert_eq!(union(&lo, &hi), (vec![0, 5, 20, 30], vec![4, 7, 25, u32::MAX]));
    }
}
