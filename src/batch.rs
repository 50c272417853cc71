//! Batches: the updates of one call.
//!
//! One call is one batch, of any length. Within it the last insert of a key wins, and a key both
//! inserted and deleted is deleted.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::error::{Error, check_lengths, try_with_capacity};
use crate::key::{self, Key, OrderedKey};
use crate::value::Value;

/// One batch of inserts and deletes, borrowed from the caller, for
/// [`Dictionary::update`](crate::Dictionary::update).
///
/// A key that is both inserted and deleted is deleted, whatever the order of the calls here; a
/// [`WriteBatch`](crate::WriteBatch) keeps the order of operations instead. Of a key that is inserted
/// several times the last value wins, unless [`duplicates`](Batch::duplicates) says otherwise or the dictionary
/// combines values.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// use gpulsm::{Batch, Dictionary};
///
/// let mut dictionary = Dictionary::<u32, u32>::new();
/// dictionary.insert(&[1, 2, 3], &[10, 20, 30])?;
/// dictionary.update(Batch::new().insert(&[4, 5], &[40, 50]).delete(&[1, 5]))?;
/// assert_eq!(dictionary.to_vecs()?, (vec![2, 3, 4], vec![20, 30, 40]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a batch does nothing until `Dictionary::update` applies it"]
pub struct Batch<'a, K, V> {
    inserts: Vec<(&'a [K], &'a [V])>,
    deletes: Vec<&'a [K]>,
    duplicates: Duplicates,
}

/// Which insert wins if one batch inserts a key several times. A dictionary that combines values
/// ([`Builder::combine`](crate::Builder::combine)) combines all of them, and takes [`Last`](Duplicates::Last) only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Duplicates {
    /// The last.
    #[default]
    Last,
    /// The first. Costs a copy of the batch.
    First,
    /// None: such a batch is an [`Error::DuplicateKey`]. Costs a second sort of the batch.
    Error,
}

impl<K, V> Default for Batch<'_, K, V> {
    fn default() -> Self {
        Batch { inserts: Vec::new(), deletes: Vec::new(), duplicates: Duplicates::default() }
    }
}

impl<'a, K: Key, V: Value> Batch<'a, K, V> {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds inserts of each key with the value at the same index, after those that the batch has.
    pub fn insert(mut self, keys: &'a [K], values: &'a [V]) -> Self {
        self.inserts.push((keys, values));
        self
    }

    /// Adds deletes of these keys to those that the batch has.
    pub fn delete(mut self, keys: &'a [K]) -> Self {
        self.deletes.push(keys);
        self
    }

    /// Sets which insert of a key wins. Default: the last.
    ///
    /// ```
    /// # fn main() -> Result<(), gpulsm::Error> {
    /// use gpulsm::{Batch, Dictionary, Duplicates};
    ///
    /// let mut dictionary = Dictionary::<u32, u32>::new();
    /// let batch = Batch::new().insert(&[7, 8, 7], &[1, 2, 3]);
    /// let error = dictionary.update(batch.clone().duplicates(Duplicates::Error)).unwrap_err();
    /// assert!(error.to_string().contains("keys[0] and keys[2] are both 7"));
    /// dictionary.update(batch.duplicates(Duplicates::First))?;
    /// assert_eq!(dictionary.lookup_one(7)?, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn duplicates(mut self, duplicates: Duplicates) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// Returns whether the batch inserts anything.
    pub(crate) fn has_inserts(&self) -> bool {
        self.inserts.iter().any(|(keys, _)| !keys.is_empty())
    }

    /// Returns which insert of a key wins.
    pub(crate) fn policy(&self) -> Duplicates {
        self.duplicates
    }

    /// Checks the lengths, and returns the batch as columns in which the last insert of a key wins.
    pub(crate) fn columns(&self) -> Result<Columns<'a, K, V>, Error> {
        for (keys, values) in &self.inserts {
            check_lengths(("keys", keys.len()), ("values", values.len()))?;
        }
        let mut keys = concatenated(self.inserts.iter().map(|(keys, _)| *keys))?;
        let mut values = concatenated(self.inserts.iter().map(|(_, values)| *values))?;
        if self.duplicates == Duplicates::First {
            keys.to_mut().reverse();
            values.to_mut().reverse();
        }
        let deletes = concatenated(self.deletes.iter().copied())?;
        Ok(Columns { keys, values, assigned: 0, deletes })
    }
}

/// Returns slices laid end to end; borrowed if there is only one.
fn concatenated<'a, T: Copy>(
    slices: impl ExactSizeIterator<Item = &'a [T]> + Clone,
) -> Result<Cow<'a, [T]>, Error> {
    if slices.len() <= 1 {
        return Ok(Cow::Borrowed(slices.last().unwrap_or_default()));
    }
    let mut all = try_with_capacity(slices.clone().map(<[T]>::len).sum())?;
    slices.for_each(|slice| all.extend_from_slice(slice));
    Ok(Cow::Owned(all))
}

/// A batch as columns, in which the last insert of a key wins, unless values combine, and a delete wins over
/// every insert.
#[derive(Debug)]
pub(crate) struct Columns<'a, K: Clone, V: Clone> {
    pub keys: Cow<'a, [K]>,
    pub values: Cow<'a, [V]>,
    /// How many inserts, at the end, assign their values in a dictionary that combines others.
    pub assigned: usize,
    pub deletes: Cow<'a, [K]>,
}

impl<'a, K: Key, V: Value> Columns<'a, K, V> {
    /// Creates a batch of one list each.
    pub fn new(keys: &'a [K], values: &'a [V], deletes: &'a [K]) -> Result<Self, Error> {
        check_lengths(("keys", keys.len()), ("values", values.len()))?;
        let (keys, values, deletes) =
            (Cow::Borrowed(keys), Cow::Borrowed(values), Cow::Borrowed(deletes));
        Ok(Columns { keys, values, assigned: 0, deletes })
    }

    /// Returns the batch as engines take it.
    pub fn updates(&self) -> Result<Updates<'_, K::Ordered>, Error> {
        Ok(Updates {
            keys: key::encode(&self.keys)?,
            values: bytemuck::cast_slice(&self.values),
            assigned: self.assigned,
            deletes: key::encode(&self.deletes)?,
            order: Order::Any,
        })
    }

    /// Returns the error that names the first key to insert that is there a second time.
    pub fn first_duplicate(&self) -> Error {
        let mut seen = HashMap::new();
        let mut twice = self.keys.iter().enumerate().filter_map(|(second, key)| {
            seen.insert(key.to_ordered(), second).map(|first| (first, second))
        });
        let (first, second) = twice.next().unwrap_or_default();
        let key = self.keys.get(second).map(|key| format!("{key:?}")).unwrap_or_default();
        Error::DuplicateKey { key, first, second }
    }
}

/// A checked batch with its keys encoded: what [`Engine::stage`](crate::engine::Engine::stage)
/// takes.
#[derive(Clone)]
pub struct Updates<'a, B: Clone> {
    /// The keys to insert.
    pub keys: Cow<'a, [B]>,
    /// The bytes of their values.
    pub values: &'a [u8],
    /// How many inserts, at the end, assign their values in a dictionary that combines others. If both kinds
    /// occur, no key is inserted by both.
    pub assigned: usize,
    /// The keys to delete; a delete wins over an insert of the same key.
    pub deletes: Cow<'a, [B]>,
    /// What is known of the keys: whether engines must sort, or search for shadows.
    pub order: Order,
}

/// What is known of the keys of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    #[default]
    Any,
    /// Inserts are strictly ascending, and so are deletes.
    Sorted,
    /// The batch only deletes, its keys are strictly ascending, and all of them are live.
    LiveDeletes,
}

impl Order {
    /// Returns whether the keys need not be sorted.
    pub fn is_sorted(self) -> bool {
        self != Order::Any
    }
}

impl<'a, B: OrderedKey> Updates<'a, B> {
    /// Returns an empty batch.
    pub fn none() -> Self {
        Self::sorted(Cow::Borrowed(&[]), &[])
    }

    /// Returns a batch of inserts whose keys are strictly ascending, with the bytes of their values.
    pub fn sorted(keys: Cow<'a, [B]>, values: &'a [u8]) -> Self {
        let deletes = Cow::Borrowed(&[][..]);
        Updates { keys, values, assigned: 0, deletes, order: Order::Sorted }
    }

    /// Returns a batch of deletes whose keys are strictly ascending and live.
    pub fn live_deletes(deletes: Vec<B>) -> Self {
        Updates { deletes: deletes.into(), order: Order::LiveDeletes, ..Self::none() }
    }

    /// Returns the number of inserts and deletes.
    pub fn len(&self) -> usize {
        self.keys.len() + self.deletes.len()
    }
}
