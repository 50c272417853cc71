//! The dictionary: everything that changes it. What it answers is in `queries/`.

use crate::aggregate::{Aggregate, Number};
use crate::batch::{Batch, Columns, Duplicates, Updates};
use crate::builder::Builder;
use crate::change::{self, Change};
use crate::combine::{Combine, Combiner};
use crate::device::{Device, Devices};
use crate::durable::journal::Journal;
use crate::error::{Error, try_zeroed};
use crate::holders::HolderKind;
use crate::iter::{Iter, TryIter};
use crate::key::{self, AsOfKey, Key};
use crate::queries::impl_queries;
use crate::query::{AsOf, Direction, KeyColumns, Query, Side};
use crate::ranges::{KeyRange, RangeBatch, RangeEnds, Ranges};
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::store::CleanupPolicy;
use crate::typed::{self, PairQuery, TypedStore};
use crate::value::Value;
use crate::write_batch::WriteBatch;

/// A dynamic, ordered dictionary that is updated and queried in batches.
///
/// One call is one batch, of any length, and is applied as a whole or not at all: after an error the
/// dictionary is as it was. Later batches win over earlier ones. Within one batch the last insert of a key
/// wins ([`Duplicates`] sets another rule), and a key that is both inserted and deleted is deleted
/// ([`WriteBatch`] keeps the order of operations instead).
///
/// Successive batches with no query in between may be buffered and applied together, which is many times
/// faster for short ones. The next query applies them first; if there is no memory for that, it is this
/// query that fails, and again nothing is lost. [`flush`](Self::flush) applies them at once.
///
/// Cloning a dictionary copies nothing: clones share what they have in common, and each can be updated.
///
/// A dictionary is in memory, unless it was [opened](Builder::open) in a folder: then every update is written to
/// a log there, and it can be opened again after a crash. Its clones are in memory only.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// let mut dictionary = gpulsm::Dictionary::<u32, f32>::new();
/// dictionary.insert(&[30, 10, 20], &[3.0, 1.0, 2.0])?;
/// dictionary.delete(&[10])?;
/// assert_eq!(dictionary.lookup(&[10, 20])?, [None, Some(2.0)]);
/// assert_eq!(dictionary.count_one(..25)?, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Batch and single forms
///
/// A method with a plain name takes a batch. With `_one` it takes a single key, position or range.
///
/// | `BTreeMap` | one | a batch |
/// | --- | --- | --- |
/// | `insert` | [`insert_one`](Self::insert_one) | [`insert`](Self::insert) |
/// | `remove` | [`delete_one`](Self::delete_one) | [`delete`](Self::delete) |
/// | `get` | [`lookup_one`](Self::lookup_one) | [`lookup`](Self::lookup) |
/// | `contains_key` | [`contains_one`](Self::contains_one) | [`contains`](Self::contains) |
/// | `range` | [`iter_range`](Self::iter_range), [`range_one`](Self::range_one) | [`range`](Self::range) |
/// | `range(…).count()` | [`count_one`](Self::count_one) | [`count`](Self::count) |
/// | `range(…).map(…).sum()` | [`aggregate_one`](Self::aggregate_one) | [`aggregate`](Self::aggregate) |
///
/// # Costs
///
/// With n pairs, batch size b and a call of m operations: there are at most log2(n / b) + 1 levels from b
/// up, and below them a few of short batches.
///
/// | call | work |
/// | --- | --- |
/// | [`insert`](Self::insert), [`delete`](Self::delete), [`update`](Self::update), [`write`](Self::write) | sorts m, and merges each pair log2(n / b) times in its life |
/// | [`delete_range`](Self::delete_range) | counts, then lists the keys to delete, then deletes them as one batch that needs no sort: less than a `delete` of as many keys |
/// | [`lookup`](Self::lookup), [`contains`](Self::contains) | one search per level until the key is found; filters skip most levels |
/// | [`count`](Self::count), [`rank`](Self::rank), [`successor`](Self::successor), [`select`](Self::select) | two searches per level, however wide the range; `select` several |
/// | [`range`](Self::range), [`to_vecs`](Self::to_vecs) | a count, then merges the pairs of all levels |
/// | [`aggregate`](Self::aggregate) | as `range`, but nothing is written except the answers |
/// | [`merge_from`](Self::merge_from) | lists all pairs of the other, then one batch that needs no sort |
/// | [`cleanup`](Self::cleanup) | merges everything into one run |
/// | [`snapshot`](Self::snapshot), `clone`, [`len`](Self::len), [`clear`](Self::clear) | nothing to speak of |
pub struct Dictionary<K: Key, V: Value> {
    pub(crate) store: TypedStore<K, V>,
    /// The files that it lives in, if any. Clones and snapshots are in memory only.
    pub(crate) journal: Option<Journal>,
}

impl_queries!(Dictionary);

/// # Construction
impl<K: Key, V: Value> Dictionary<K, V> {
    /// Creates an empty dictionary on [`Device::best`], with default settings.
    ///
    /// # Panics
    ///
    /// If the best device exists but can't be used; [`Builder::build`] returns that as an error.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a builder, to set anything but the defaults.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Creates a dictionary of these pairs, at the cost of one sort. Of equal keys the last wins.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::bulk_build`].
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let d = gpulsm::Dictionary::bulk_build(&[3u32, 1, 2], &[30u32, 10, 20])?;
    /// assert_eq!(d.to_vecs()?.1, [10, 20, 30]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_build(keys: &[K], values: &[V]) -> Result<Self, Error> {
        Self::builder().bulk_build(keys, values)
    }

    /// Creates a dictionary of these pairs, whose keys are strictly ascending, without sorting.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::from_sorted`].
    pub fn from_sorted(keys: &[K], values: &[V]) -> Result<Self, Error> {
        Self::builder().from_sorted(keys, values)
    }

    /// Creates a dictionary of the iterator's pairs. Of equal keys the last wins.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::bulk_build`].
    pub fn try_from_iter(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, Error> {
        let mut dictionary = Self::builder().build()?;
        dictionary.try_extend(pairs)?;
        Ok(dictionary)
    }
}

/// # Updates
///
/// After an error the dictionary is as it was.
impl<K: Key, V: Value> Dictionary<K, V> {
    /// Inserts each key with the value at the same index, replacing the value it had. Of equal keys the
    /// last wins. In a dictionary that combines values ([`Builder::combine`]), the values of equal keys, and
    /// the one that the key had, are combined.
    ///
    /// # Errors
    ///
    /// [`LengthMismatch`](Error::LengthMismatch) if there is not one value for each key;
    /// [`OutOfMemory`](Error::OutOfMemory).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let mut d = gpulsm::Dictionary::<u32, u32>::new();
    /// d.insert(&[2, 1, 2], &[20, 10, 21])?;
    /// assert_eq!(d.to_vecs()?, (vec![1, 2], vec![10, 21]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(&mut self, keys: &[K], values: &[V]) -> Result<(), Error> {
        self.apply(&Change::Batch(&Columns::new(keys, values, &[])?.updates()?))
    }

    /// Inserts one key, replacing the value it had or combining with it.
    ///
    /// On the CPU a stream of such calls is buffered and costs little; a query in between applies what is
    /// buffered, so that inserts that alternate with lookups take much longer. On a GPU a call of one pair costs as much
    /// as one of thousands. Collect pairs in a [`WriteBatch`] where you can.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    pub fn insert_one(&mut self, key: K, value: V) -> Result<(), Error> {
        self.insert(&[key], &[value])
    }

    /// Gives each key the value at the same index, whatever value it had and whatever the rule of the
    /// dictionary ([`Builder::combine`]). Of equal keys the last wins. If values replace each other anyway, this
    /// is [`insert`](Self::insert).
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Combine, Dictionary};
    ///
    /// let mut best = Dictionary::<u32, f32>::builder().combine(Combine::Max).build()?;
    /// best.insert(&[1, 1, 2], &[0.5, 0.25, 1.0])?;
    /// best.set(&[1], &[0.125])?;
    /// assert_eq!(best.to_vecs()?.1, [0.125, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&mut self, keys: &[K], values: &[V]) -> Result<(), Error> {
        self.set_and_delete(keys, values, &[])
    }

    /// Gives keys values and deletes others, as one batch. A key in both is deleted.
    #[doc(hidden)]
    pub fn set_and_delete(&mut self, keys: &[K], values: &[V], deletes: &[K]) -> Result<(), Error> {
        let mut columns = Columns::new(keys, values, deletes)?;
        if self.combine() != Combine::Replace {
            columns.assigned = keys.len();
        }
        self.apply(&Change::Batch(&columns.updates()?))
    }

    /// Gives one key a value, whatever value it had and whatever the rule of the dictionary.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    pub fn set_one(&mut self, key: K, value: V) -> Result<(), Error> {
        self.set(&[key], &[value])
    }

    /// Deletes each key; absent keys are ignored.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](Error::OutOfMemory). At the memory limit, deletes of up to b keys are still possible:
    /// see [`Builder::memory_limit`].
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let mut d: gpulsm::Dictionary<u32, u32> = (0..10).map(|i| (i, i)).collect();
    /// d.delete(&[3, 99])?;
    /// assert_eq!(d.len()?, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&mut self, keys: &[K]) -> Result<(), Error> {
        self.apply(&Change::Batch(&Columns::<K, V>::new(&[], &[], keys)?.updates()?))
    }

    /// Deletes one key and returns the value it had, or `None` if it is absent. Costs a lookup and a call of
    /// [`delete`](Self::delete).
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Self::delete).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let mut d: gpulsm::Dictionary<u32, u32> = [(1, 10)].into_iter().collect();
    /// assert_eq!((d.delete_one(1)?, d.delete_one(1)?), (Some(10), None));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "remove")]
    pub fn delete_one(&mut self, key: K) -> Result<Option<V>, Error> {
        let value = self.lookup_one(key)?;
        if value.is_some() {
            self.delete(&[key])?;
        }
        Ok(value)
    }

    /// Deletes every key of each range. They are counted and listed on the device first; since they come sorted, that
    /// costs less than deleting as many keys by [`delete`](Self::delete).
    ///
    /// # Errors
    ///
    /// [`LengthMismatch`](Error::LengthMismatch) if two columns differ in length; those of
    /// [`delete`](Self::delete).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let mut d: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i)).collect();
    /// d.delete_range(&[10..20, 50..60])?;
    /// assert_eq!(d.len()?, 80);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range(&mut self, ranges: impl RangeBatch<K>) -> Result<(), Error> {
        self.apply(&Change::DeleteRanges(&ranges.encode()?))
    }

    /// Deletes every key of one range.
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Self::delete).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let mut d: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i)).collect();
    /// let cutoff = 0;
    /// d.delete_range_one(..cutoff)?; // Deletes nothing: the end is excluded.
    /// assert_eq!(d.len()?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range_one(&mut self, range: impl KeyRange<K>) -> Result<(), Error> {
        self.apply(&Change::DeleteRanges(&RangeEnds::of(&range)))
    }

    /// Applies one batch of inserts and deletes, in which a delete wins over an insert of the same key.
    ///
    /// # Errors
    ///
    /// [`LengthMismatch`](Error::LengthMismatch) if there is not one value for each key to insert;
    /// [`DuplicateKey`](Error::DuplicateKey) if the batch allows none;
    /// [`DuplicatesCombine`](Error::DuplicatesCombine) if it says which insert wins, but the dictionary combines
    /// values; [`OutOfMemory`](Error::OutOfMemory).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Batch, Dictionary};
    ///
    /// let mut d: Dictionary<u32, u32> = (0..10).map(|i| (i, i)).collect();
    /// d.update(Batch::new().insert(&[10, 11], &[0, 0]).delete(&[0, 11]))?;
    /// assert_eq!(d.contains(&[0, 10, 11])?, [false, true, false]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&mut self, batch: Batch<'_, K, V>) -> Result<(), Error> {
        let rule = self.combine();
        let decides = batch.policy() != Duplicates::Last && batch.has_inserts();
        if decides && rule != Combine::Replace {
            return Err(Error::DuplicatesCombine { rule: rule.name() });
        }
        let columns = batch.columns()?;
        let updates = columns.updates()?;
        if batch.policy() == Duplicates::Error {
            let inserts = Updates { deletes: (&[]).into(), ..updates.clone() };
            if self.store.any().count_distinct(&inserts)? < inserts.keys.len() as u64 {
                return Err(columns.first_duplicate());
            }
        }
        self.apply(&Change::Batch(&updates))
    }

    /// Applies a batch of inserts and deletes in their order: the last operation on a key wins or, in a
    /// dictionary that combines values, combines with those before it.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](Error::OutOfMemory).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Dictionary, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.delete(7);
    /// batch.insert(7, 70);
    /// let mut d = Dictionary::<u32, u32>::new();
    /// d.write(&batch)?;
    /// assert_eq!(d.lookup_one(7)?, Some(70));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&mut self, batch: &WriteBatch<K, V>) -> Result<(), Error> {
        let combiner = self.store.any().combiner();
        let deleted = batch.deleted_ranges();
        if batch.only_deletes_ranges() {
            return self.apply(&Change::DeleteRanges(&deleted));
        }
        let live = match deleted.len() {
            0 => Vec::new(),
            _ => self.store.range(&change::union(&deleted.lo, &deleted.hi))?.keys,
        };
        let columns = batch.columns(combiner, &live, &self.store.any().workers()?)?;
        self.apply(&Change::Batch(&columns.updates()?))
    }

    /// Inserts every pair of another dictionary's snapshot, as one batch: its values win, or combine with
    /// those of this dictionary by this dictionary's rule.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](Error::OutOfMemory), of either device, or of the host, which all pairs pass through unless
    /// both dictionaries are on one GPU and this one lives in memory.
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let mut d: gpulsm::Dictionary<u32, u32> = [(1, 1), (2, 2)].into_iter().collect();
    /// let other: gpulsm::Dictionary<u32, u32> = [(2, 20), (3, 30)].into_iter().collect();
    /// d.merge_from(&other.snapshot())?;
    /// assert_eq!(d.to_vecs()?.1, [1, 20, 30]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge_from(&mut self, other: &Snapshot<K, V>) -> Result<(), Error> {
        #[cfg(feature = "cuda")]
        if self.journal.is_none()
            && crate::cuda::insert_all(self.store.any_mut(), other.store.any())?
        {
            return Ok(());
        }
        let (keys, values) = other.to_vecs()?;
        let values = bytemuck::cast_slice(&values);
        self.apply(&Change::Batch(&Updates::sorted(key::encode(&keys)?, values)))
    }

    /// Inserts the iterator's pairs as one batch, as [`insert`](Self::insert) does.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert).
    pub fn try_extend(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<(), Error> {
        let (keys, values): (Vec<K>, Vec<V>) = pairs.into_iter().unzip();
        self.insert(&keys, &values)
    }

    /// Deletes the pair with the least key and returns it, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Self::delete).
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let mut d: gpulsm::Dictionary<u32, u32> = [(2, 20), (1, 10), (3, 30)].into_iter().collect();
    /// assert_eq!((d.pop_first()?, d.pop_last()?, d.len()?), (Some((1, 10)), Some((3, 30)), 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pop_first(&mut self) -> Result<Option<(K, V)>, Error> {
        let pair = self.first()?;
        self.pop(pair)
    }

    /// Deletes the pair with the greatest key and returns it, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Self::delete).
    pub fn pop_last(&mut self) -> Result<Option<(K, V)>, Error> {
        let pair = self.last()?;
        self.pop(pair)
    }

    fn pop(&mut self, pair: Option<(K, V)>) -> Result<Option<(K, V)>, Error> {
        if let Some((key, _)) = pair {
            self.delete(&[key])?;
        }
        Ok(pair)
    }

    /// Removes every stale entry and merges everything into one run, the fastest to query. No answer
    /// changes. By default the dictionary does this itself when it pays ([`CleanupPolicy`]).
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](Error::OutOfMemory): the new run needs room beside the old ones, if others hold these, and a
    /// little otherwise.
    pub fn cleanup(&mut self) -> Result<(), Error> {
        let store = self.store.any_mut();
        match &mut self.journal {
            Some(journal) => journal.with_memory(store, &|store| store.cleanup()),
            None => store.cleanup(),
        }
    }

    /// Deletes everything and frees its memory, unless snapshots or clones hold it.
    ///
    /// # Errors
    ///
    /// Only in a dictionary that lives in files, if its log can't be written.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.apply(&Change::Clear)
    }

    /// Applies a change as a whole or not at all.
    fn apply(&mut self, change: &Change<'_, K::Ordered>) -> Result<(), Error> {
        match &mut self.journal {
            Some(journal) => journal.update(self.store.any_mut(), change),
            None => change.apply(self.store.any_mut()),
        }
    }

    /// Returns the dictionary as it is now, frozen: it can be queried from other threads while this one is
    /// updated. Applies buffered batches; otherwise nothing is copied.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K, V> {
        Snapshot { store: self.store.share_as(HolderKind::Snapshot) }
    }

    /// Returns a clone that counts as another kind of holder: a snapshot of other languages is a dictionary, too.
    #[doc(hidden)]
    #[must_use]
    pub fn clone_as(&self, kind: HolderKind) -> Self {
        Dictionary { store: self.store.share_as(kind), journal: None }
    }

    /// Returns updates from data in the GPU's memory. If the dictionary lives in files that have a log, they wait for
    /// a copy of the data in the host's memory, which the log takes.
    ///
    /// # Errors
    ///
    /// [`NotOnCuda`](Error::NotOnCuda) if the dictionary is on the CPU.
    #[cfg(feature = "cuda")]
    pub fn resident_mut(&mut self) -> Result<crate::cuda::ResidentMut<'_, K, V>, Error>
    where
        K: crate::ScalarKey,
    {
        crate::cuda::ResidentMut::new(self.store.any_mut(), self.journal.as_mut())
    }

    /// Makes the allocation after the next `n` fail, once.
    #[cfg(feature = "testing")]
    pub fn fail_allocation_after(&self, n: u64) {
        self.store.any().fail_after(n);
    }

    /// Returns how many merges were done in the memory of the runs that they merged.
    #[cfg(feature = "testing")]
    pub fn merges_in_place(&self) -> u64 {
        self.store.any().merges_in_place()
    }
}

impl<K: Key, V: Value> Snapshot<K, V> {
    /// Returns a dictionary with these pairs that can be updated. It shares memory with the snapshot,
    /// which stays as it is.
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// let snapshot = [(1u32, 10u32)].into_iter().collect::<gpulsm::Dictionary<_, _>>().snapshot();
    /// let mut dictionary = snapshot.thaw();
    /// dictionary.insert(&[2], &[20])?;
    /// assert_eq!((dictionary.len()?, snapshot.len()?), (2, 1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn thaw(&self) -> Dictionary<K, V> {
        Dictionary { store: self.store.share_as(HolderKind::Dictionary), journal: None }
    }
}

impl<K: Key, V: Value> Clone for Dictionary<K, V> {
    /// Returns a dictionary that shares memory with this one and can be updated on its own. Applies buffered
    /// batches; otherwise nothing is copied.
    fn clone(&self) -> Self {
        self.clone_as(HolderKind::Dictionary)
    }
}

impl<K: Key, V: Value> Drop for Dictionary<K, V> {
    /// Closes the files that it lives in.
    fn drop(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.release(self.store.any());
        }
    }
}

impl<K: Key, V: Value> Default for Dictionary<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// Inserts all pairs as one batch.
///
/// # Panics
///
/// If there is no memory for them; [`Dictionary::try_extend`] returns that as an error.
impl<K: Key, V: Value> Extend<(K, V)> for Dictionary<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        self.try_extend(pairs).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Builds a dictionary on the best device.
///
/// # Panics
///
/// If there is no memory for it; [`Dictionary::try_from_iter`] returns that as an error.
impl<K: Key, V: Value> FromIterator<(K, V)> for Dictionary<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self::try_from_iter(pairs).unwrap_or_else(|error| panic!("{error}"))
    }
}
