//! Batches: the updates of one call.
//!
//! One call is one batch, of any length. Within it the last insert of a key wins, and a key both
//! inserted and deleted is deleted.

use crate::error::{Error, check_lengths};
use crate::key::{self, Key, OrderedKey};
use crate::value::Value;
use std::borrow::Cow;

/// One mixed batch of inserts and deletes, borrowed from the caller.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// use gpulsm::{Batch, Dictionary};
///
/// let mut dictionary = Dictionary::<u32, u32>::new();
/// dictionary.insert(&[1, 2, 3], &[10, 20, 30])?;
/// dictionary.update(Batch::inserting(&[4, 5], &[40, 50]).deleting(&[1, 5]))?;
/// assert_eq!(dictionary.to_vecs()?, (vec![2, 3, 4], vec![20, 30, 40]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, K, V> {
    keys: &'a [K],
    values: &'a [V],
    deletes: &'a [K],
}

impl<'a, K: Key, V: Value> Batch<'a, K, V> {
    /// Creates a batch that inserts each key with the value at the same index.
    pub fn inserting(keys: &'a [K], values: &'a [V]) -> Self {
        Batch { keys, values, deletes: &[] }
    }

    /// Returns the same batch, deleting these keys instead of any it deleted before.
    #[must_use]
    pub fn deleting(self, deletes: &'a [K]) -> Self {
        Batch { deletes, ..self }
    }

    /// Checks the lengths, and returns the batch as engines take it.
    pub(crate) fn check(&self) -> Result<Updates<'a, K::Ordered>, Error> {
        check_lengths(("keys", self.keys.len()), ("values", self.values.len()))?;
        Ok(Updates {
            keys: key::encode(self.keys)?,
            values: bytemuck::cast_slice(self.values),
            deletes: key::encode(self.deletes)?,
            order: Order::Any,
        })
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
    /// The keys to delete; a delete wins over an insert of the same key.
    pub deletes: Cow<'a, [B]>,
    /// What is known of the order of the keys: whether engines must sort.
    pub order: Order,
}

/// What is known of the order of a batch's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    #[default]
    Any,
    /// Inserts are strictly ascending, and so are deletes.
    Sorted,
}

impl<'a, B: OrderedKey> Updates<'a, B> {
    /// Returns an empty batch.
    pub fn none() -> Self {
        Self::sorted::<()>(Cow::Borrowed(&[]), &[])
    }

    /// Returns a batch of inserts whose keys are strictly ascending.
    pub fn sorted<V: Value>(keys: Cow<'a, [B]>, values: &'a [V]) -> Self {
        let values = bytemuck::cast_slice(values);
        Updates { keys, values, deletes: Cow::Borrowed(&[]), order: Order::Sorted }
    }

    /// Returns a batch of deletes whose keys are strictly ascending.
    pub fn sorted_deletes(deletes: Vec<B>) -> Self {
        Updates { deletes: deletes.into(), ..Self::none() }
    }

    /// Returns the number of inserts and deletes.
    pub fn len(&self) -> usize {
        self.keys.len() + self.deletes.len()
    }
}
