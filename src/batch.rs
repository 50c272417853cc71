//! A batch: what one call changes.
//!
//! One call is one batch, of any length. Within it the last insert of a key wins, and a key both
//! inserted and deleted is deleted.

use crate::error::{Error, check_lengths};
use crate::key::{self, Key};
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
    /// A batch that inserts each key with the value at the same index.
    pub fn inserting(keys: &'a [K], values: &'a [V]) -> Self {
        Batch { keys, values, deletes: &[] }
    }

    /// The same batch, deleting these keys instead of any it deleted before.
    #[must_use]
    pub fn deleting(self, deletes: &'a [K]) -> Self {
        Batch { deletes, ..self }
    }

    /// The batch as engines take it, once its lengths are found to agree.
    pub(crate) fn check(&self) -> Result<Updates<'a, K::Ordered, V>, Error> {
        check_lengths(("keys", self.keys.len()), ("values", self.values.len()))?;
        Ok(Updates {
            keys: key::encode(self.keys)?,
            values: Cow::Borrowed(self.values),
            deletes: key::encode(self.deletes)?,
            order: Order::Any,
        })
    }
}

/// A checked batch with its keys mapped: what [`Engine::absorb`](crate::device::Engine::absorb) takes.
#[derive(Clone)]
pub(crate) struct Updates<'a, B: Clone, V: Clone> {
    /// Keys to insert…
    pub keys: Cow<'a, [B]>,
    /// …and their values.
    pub values: Cow<'a, [V]>,
    /// Keys to delete; they win over inserts of the same key.
    pub deletes: Cow<'a, [B]>,
    /// Whether engines must sort.
    pub order: Order,
}

/// What is known of the order of a batch's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing.
    Any,
    /// Inserts are strictly ascending, and so are deletes.
    Sorted,
}

impl<'a, B: Key<Ordered = B>, V: Value> Updates<'a, B, V> {
    /// A batch that changes nothing.
    pub fn none() -> Self {
        Self::sorted(Vec::new(), Vec::new())
    }

    /// Inserts whose keys are strictly ascending.
    pub fn sorted(keys: impl Into<Cow<'a, [B]>>, values: impl Into<Cow<'a, [V]>>) -> Self {
        let deletes = Cow::Borrowed(&[][..]);
        Updates { keys: keys.into(), values: values.into(), deletes, order: Order::Sorted }
    }

    /// Deletes whose keys are strictly ascending.
    pub fn sorted_deletes(deletes: Vec<B>) -> Self {
        Updates { deletes: deletes.into(), ..Self::none() }
    }

    /// How many inserts and deletes there are.
    pub fn len(&self) -> usize {
        self.keys.len() + self.deletes.len()
    }
}
