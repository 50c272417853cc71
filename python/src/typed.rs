//! Dictionaries of every type behind one trait: each call is the library's, on the caller's memory.

use std::any::Any;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use gpulsm::private::{AsOf, Fold, HolderKind};
use gpulsm::{Batch, Dictionary, Error, ScalarKey, Stats, Value, WriteBatch};
use pyo3::FromPyObject;

use crate::packing::QuestionColumns;
use crate::span::{Place, Span};

/// A dictionary whose types only its maker knows. Several threads may query it at the same time; a change has it
/// to itself.
///
/// Of the spans that calls take, `keys`, `lo`, `hi` and `deletes` are of the dictionary's keys, `values`
/// of its values, `answers` of what a [`Fold`] makes of them, `found` of booleans, and the others of 64-bit
/// integers.
pub trait AnyDictionary: Any + Send + Sync {
    /// Inserts and deletes, as one batch.
    fn update(&self, at: &Place, inserts: Pairs, deletes: Span) -> Result<(), Error>;
    /// Gives keys these values, whatever the rule of the dictionary.
    fn set(&self, at: &Place, pairs: Pairs) -> Result<(), Error>;
    fn delete_range(&self, at: &Place, ranges: Ranges) -> Result<(), Error>;
    /// Makes changes on the host in their order, as one batch.
    fn write(&self, changes: &[Change]) -> Result<(), Error>;
    /// Deletes a pair on the host, and writes it there; returns whether it was there.
    fn pop(&self, which: Pop, pair: Pairs) -> Result<bool, Error>;
    /// Gives a key on the host a value, unless it has one, which is written there then; returns whether it has one.
    fn set_default(&self, pair: Pairs) -> Result<bool, Error>;
    fn cleanup(&self) -> Result<(), Error>;
    fn clear(&self) -> Result<(), Error>;

    fn lookup(&self, at: &Place, keys: Span, values: Span, found: Span) -> Result<(), Error>;
    fn contains(&self, at: &Place, keys: Span, found: Span) -> Result<(), Error>;
    fn count(&self, at: &Place, ranges: Ranges, counts: Span) -> Result<(), Error>;
    /// What the values of ranges are combined to, and how many there are. The values must be made of such
    /// elements.
    fn aggregate(
        &self,
        at: &Place,
        fold: Fold,
        ranges: Ranges,
        answers: Span,
        counts: Span,
    ) -> Result<(), Error>;
    fn rank(&self, at: &Place, keys: Span, ranks: Span) -> Result<(), Error>;
    /// Where each range's answer begins, and how many pairs there are in all.
    fn range_offsets(&self, at: &Place, ranges: Ranges, offsets: Span) -> Result<usize, Error>;
    /// The pairs of ranges, where there is room for all of them.
    fn range(&self, at: &Place, ranges: Ranges, offsets: Span, to: Pairs) -> Result<(), Error>;
    /// For each key, or index, at most one pair, and whether there is one.
    fn pairs(
        &self,
        at: &Place,
        which: Which,
        queries: Span,
        to: Pairs,
        found: Span,
    ) -> Result<(), Error>;

    /// The pairs that an as-of query finds for keys on the host whose parts are in columns, with columns for the
    /// parts of answers.
    fn asof_of_columns(
        &self,
        query: &AsOf,
        columns: &QuestionColumns<'_>,
        values: Span,
        found: Span,
    ) -> Result<(), Error>;

    fn len(&self) -> Result<usize, Error>;
    fn stats(&self) -> Result<Stats, Error>;
    /// Returns how many keys there are, if that is known, and a picture of the levels, without doing or
    /// waiting for anything.
    fn summary(&self) -> (Option<usize>, String);
    fn validate(&self) -> Result<(), String>;
    /// Panics with the dictionary locked, as a bug in an update would.
    fn panic(&self, text: &str) -> Result<(), Error>;
    /// Applies the buffered batches.
    fn flush(&self) -> Result<(), Error>;
    fn synchronize(&self) -> Result<(), Error>;
    /// Applies everything of another dictionary as one batch; `None` if that is of other types.
    fn merge_from(&self, other: &dyn Any) -> Option<Result<(), Error>>;
    /// The same pairs in a dictionary of its own, which shares the memory, and what errors call it.
    fn copy(&self, kind: HolderKind) -> Result<Box<dyn AnyDictionary>, Error>;

    fn batch_size(&self) -> usize;
    /// Writes all pairs to a file.
    fn save(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error>;
    /// Writes everything to the folder that it lives in.
    fn checkpoint(&self) -> Result<(), Error>;
    /// Returns once all updates are on stable storage.
    fn sync(&self) -> Result<(), Error>;
    /// Makes everything durable and releases the folder.
    fn close(&self) -> Result<(), Error>;
}

/// Which pair a query wants.
#[derive(Clone, Copy)]
pub enum Which {
    /// The nearest whose key is not less than a key.
    Successor,
    /// The nearest whose key is not greater.
    Predecessor,
    /// The one at a place in the order of keys.
    Select,
    /// The one that answers a question of an as-of query.
    AsOf(AsOf),
}

/// Which pair is deleted.
#[derive(Clone, Copy)]
pub enum Pop {
    /// That of a key.
    Key,
    First,
    Last,
}

/// One change of several, on the host.
#[derive(Clone, Copy)]
pub enum Change {
    Insert(Pairs),
    Set(Pairs),
    Delete(Span),
    DeleteRange(Ranges),
}

/// Keys, and as many values.
#[derive(Clone, Copy, FromPyObject)]
pub struct Pairs(pub Span, pub Span);

impl Pairs {
    /// Calls a function with each pair, of elements on the host that are read once.
    fn each<A: Copy, B: Copy>(self, mut call: impl FnMut(A, B)) -> Result<(), Error> {
        let (first, second) = (self.0.copied()?, self.1.copied()?);
        first.iter().zip(&*second).for_each(|(&first, &second)| call(first, second));
        Ok(())
    }
}

/// First keys of ranges, and as many last ones.
#[derive(Clone, Copy, FromPyObject)]
pub struct Ranges(pub Span, pub Span);

/// A dictionary of these types. The lock ignores poisoning: a call that panics leaves the dictionary as
/// it was.
pub struct Typed<K: ScalarKey, V: Value>(RwLock<Dictionary<K, V>>);

impl<K: ScalarKey, V: Value> Typed<K, V> {
    pub fn new(dictionary: Dictionary<K, V>) -> Self {
        Typed(RwLock::new(dictionary))
    }

    fn read(&self) -> RwLockReadGuard<'_, Dictionary<K, V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Dictionary<K, V>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change, then waits until it is as durable as the dictionary's setting says. The lock is free by
    /// then, so that threads share syncs.
    fn change(
        &self,
        make: impl FnOnce(&mut Dictionary<K, V>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ticket = self.exclusive().commit_later(make)?;
        ticket.wait()
    }
}

/// Returns whether updates read elements of arrays on the host twice, and must find the same: for the log and for
/// memory, or for dividing and applying. (One device in memory copies them to a GPU, or notices a change.)
fn reads_twice<K: ScalarKey, V: Value>(dictionary: &Dictionary<K, V>) -> bool {
    dictionary.path().is_some() || dictionary.devices().len() > 1
}

impl<K: ScalarKey, V: Value> AnyDictionary for Typed<K, V> {
    fn update(&self, at: &Place, inserts: Pairs, deletes: Span) -> Result<(), Error> {
        let Pairs(keys, values) = inserts;
        self.change(|dictionary| match at {
            Place::Host => {
                let twice = reads_twice(dictionary);
                let (keys, values) = (keys.read(twice)?, values.read(twice)?);
                let deletes = deletes.read(twice)?;
                dictionary.update(Batch::new().insert(&keys, &values).delete(&deletes))
            }
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                dictionary.resident_mut()?.update(keys.gpu(on), values.gpu(on), deletes.gpu(on))
            }
        })
    }

    fn set(&self, at: &Place, Pairs(keys, values): Pairs) -> Result<(), Error> {
        self.change(|dictionary| match at {
            Place::Host => {
                let twice = reads_twice(dictionary);
                dictionary.set(&keys.read(twice)?, &values.read(twice)?)
            }
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => dictionary.resident_mut()?.set(keys.gpu(on), values.gpu(on)),
        })
    }

    fn delete_range(&self, at: &Place, Ranges(lo, hi): Ranges) -> Result<(), Error> {
        self.change(|dictionary| match at {
            Place::Host => dictionary.delete_range((&*lo.copied()?, &*hi.copied()?)),
            // The ends of the ranges, which are few, are sorted by the host, and its log takes them.
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                let (lo, hi) = (lo.gpu(on).to_vec()?, hi.gpu(on).to_vec()?);
                dictionary.delete_range((&lo, &hi))
            }
        })
    }

    fn write(&self, changes: &[Change]) -> Result<(), Error> {
        self.change(|dictionary| {
            let mut batch = WriteBatch::new();
            for &change in changes {
                match change {
                    Change::Insert(pairs) => {
                        pairs.each(|key: K, value: V| batch.insert(key, value))?;
                    }
                    Change::Set(pairs) => pairs.each(|key: K, value: V| batch.set(key, value))?,
                    Change::Delete(keys) => {
                        keys.copied()?.iter().for_each(|&key| batch.delete(key));
                    }
                    Change::DeleteRange(Ranges(lo, hi)) => {
                        let ranges = Pairs(lo, hi);
                        ranges.each(|lo: K, hi: K| batch.delete_range((lo, hi)))?;
                    }
                }
            }
            dictionary.write(&batch)
        })
    }

    fn pop(&self, which: Pop, Pairs(key, value): Pairs) -> Result<bool, Error> {
        let mut popped = None;
        self.change(|dictionary| {
            popped = match which {
                Pop::Key => {
                    let key = key.host()[0];
                    dictionary.delete_one(key)?.map(|value| (key, value))
                }
                Pop::First => dictionary.pop_first()?,
                Pop::Last => dictionary.pop_last()?,
            };
            Ok(())
        })?;
        if let Some(pair) = popped {
            (key.host_mut()[0], value.host_mut()[0]) = pair;
        }
        Ok(popped.is_some())
    }

    fn set_default(&self, Pairs(key, value): Pairs) -> Result<bool, Error> {
        let (key, mut found) = (key.host()[0], None);
        self.change(|dictionary| {
            found = dictionary.lookup_one(key)?;
            if found.is_none() { dictionary.insert_one(key, value.host()[0]) } else { Ok(()) }
        })?;
        if let Some(found) = found {
            value.host_mut()[0] = found;
        }
        Ok(found.is_some())
    }

    fn cleanup(&self) -> Result<(), Error> {
        self.exclusive().cleanup()
    }

    fn clear(&self) -> Result<(), Error> {
        self.change(Dictionary::clear)
    }

    fn lookup(&self, at: &Place, keys: Span, values: Span, found: Span) -> Result<(), Error> {
        let dictionary = self.read();
        match at {
            Place::Host => dictionary.lookup_into(keys.host(), values.host_mut(), found.host_mut()),
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                dictionary.resident()?.lookup(keys.gpu(on), values.gpu_mut(on), found.gpu_mut(on))
            }
        }
    }

    fn contains(&self, at: &Place, keys: Span, found: Span) -> Result<(), Error> {
        let dictionary = self.read();
        match at {
            Place::Host => dictionary.contains_into(keys.host(), found.host_mut()),
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => dictionary.resident()?.contains(keys.gpu(on), found.gpu_mut(on)),
        }
    }

    fn count(&self, at: &Place, Ranges(lo, hi): Ranges, counts: Span) -> Result<(), Error> {
        let dictionary = self.read();
        match at {
            Place::Host => dictionary.count_into((lo.host(), hi.host()), counts.host_mut()),
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                dictionary.resident()?.count(lo.gpu(on), hi.gpu(on), counts.gpu_mut(on))
            }
        }
    }

    fn aggregate(
        &self,
        at: &Place,
        fold: Fold,
        Ranges(lo, hi): Ranges,
        answers: Span,
        counts: Span,
    ) -> Result<(), Error> {
        let dictionary = self.read();
        let answers = answers.bytes(fold.answer_width(size_of::<V>()));
        match at {
            Place::Host => {
                let (ranges, answers) = ((lo.host(), hi.host()), answers.host_mut());
                dictionary.aggregate_bytes_into(ranges, fold, answers, counts.host_mut())
            }
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                let (resident, answers) = (dictionary.resident()?, answers.gpu_mut(on));
                let (lo, hi) = (lo.gpu(on), hi.gpu(on));
                resident.aggregate_bytes(lo, hi, fold, answers, counts.gpu_mut(on))
            }
        }
    }

    fn rank(&self, at: &Place, keys: Span, ranks: Span) -> Result<(), Error> {
        let dictionary = self.read();
        match at {
            Place::Host => dictionary.rank_into(keys.host(), ranks.host_mut()),
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => dictionary.resident()?.rank(keys.gpu(on), ranks.gpu_mut(on)),
        }
    }

    fn range_offsets(
        &self,
        at: &Place,
        Ranges(lo, hi): Ranges,
        offsets: Span,
    ) -> Result<usize, Error> {
        let dictionary = self.read();
        match at {
            Place::Host => {
                let offsets = offsets.host_mut();
                let total = dictionary.range_offsets_into((lo.host(), hi.host()), offsets)?;
                Ok(total as usize)
            }
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                let resident = dictionary.resident()?;
                resident.range_offsets(lo.gpu(on), hi.gpu(on), offsets.gpu_mut(on))?;
                let offsets = offsets.gpu::<u64>(on);
                Ok(offsets.slice(offsets.len() - 1..).to_vec()?[0] as usize)
            }
        }
    }

    fn range(
        &self,
        at: &Place,
        Ranges(lo, hi): Ranges,
        offsets: Span,
        Pairs(keys, values): Pairs,
    ) -> Result<(), Error> {
        let dictionary = self.read();
        match at {
            Place::Host => {
                let (offsets, keys, values) =
                    (offsets.host_mut(), keys.host_mut(), values.host_mut());
                dictionary.range_into((lo.host(), hi.host()), offsets, keys, values).map(drop)
            }
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                let (keys, values) = (keys.gpu_mut(on), values.gpu_mut(on));
                let resident = dictionary.resident()?;
                resident.range(lo.gpu(on), hi.gpu(on), offsets.gpu_mut(on), keys, values)
            }
        }
    }

    fn pairs(
        &self,
        at: &Place,
        which: Which,
        queries: Span,
        Pairs(to, values): Pairs,
        found: Span,
    ) -> Result<(), Error> {
        let dictionary = self.read();
        match at {
            Place::Host => {
                let (to, values, found) = (to.host_mut(), values.host_mut(), found.host_mut());
                match which {
                    Which::Successor => {
                        dictionary.successor_into(queries.host(), to, values, found)
                    }
                    Which::Predecessor => {
                        dictionary.predecessor_into(queries.host(), to, values, found)
                    }
                    Which::Select => dictionary.select_into(queries.host(), to, values, found),
                    Which::AsOf(query) => {
                        dictionary.asof_as_into(queries.host(), query, to, values, found)
                    }
                }
            }
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                let (to, values, found) = (to.gpu_mut(on), values.gpu_mut(on), found.gpu_mut(on));
                let resident = dictionary.resident()?;
                match which {
                    Which::Successor => resident.successor(queries.gpu(on), to, values, found),
                    Which::Predecessor => resident.predecessor(queries.gpu(on), to, values, found),
                    Which::Select => resident.select(queries.gpu(on), to, values, found),
                    Which::AsOf(query) => resident.asof(&query, queries.gpu(on), to, values, found),
                }
            }
        }
    }

    fn asof_of_columns(
        &self,
        query: &AsOf,
        columns: &QuestionColumns<'_>,
        values: Span,
        found: Span,
    ) -> Result<(), Error> {
        let (values, found) = (values.host_mut(), found.host_mut());
        self.read().asof_columns_into(columns, *query, values, found)
    }

    fn len(&self) -> Result<usize, Error> {
        Ok(self.read().len()? as usize)
    }

    fn stats(&self) -> Result<Stats, Error> {
        self.read().stats()
    }

    fn summary(&self) -> (Option<usize>, String) {
        let dictionary = match self.0.try_read() {
            Ok(dictionary) => dictionary,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return (None, "a dictionary that another thread is changing".into());
            }
        };
        (dictionary.len_if_known().map(|len| len as usize), dictionary.to_string())
    }

    fn validate(&self) -> Result<(), String> {
        self.read().validate()
    }

    fn panic(&self, text: &str) -> Result<(), Error> {
        let _dictionary = self.exclusive();
        panic!("{text}")
    }

    fn flush(&self) -> Result<(), Error> {
        self.read().flush()
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.read().synchronize()
    }

    fn merge_from(&self, other: &dyn Any) -> Option<Result<(), Error>> {
        // Its lock is given back before ours is taken: two that merge from each other both get on.
        let other = other.downcast_ref::<Self>()?.read().snapshot();
        Some(self.change(|dictionary| dictionary.merge_from(&other)))
    }

    fn copy(&self, kind: HolderKind) -> Result<Box<dyn AnyDictionary>, Error> {
        let dictionary = self.read();
        dictionary.flush()?; // Once, not in each copy.
        Ok(Box::new(Self::new(dictionary.clone_as(kind))))
    }

    fn batch_size(&self) -> usize {
        self.read().batch_size()
    }

    fn save(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        let snapshot = self.read().snapshot();
        snapshot.save_with(path, progress)
    }

    fn checkpoint(&self) -> Result<(), Error> {
        self.exclusive().checkpoint()
    }

    fn sync(&self) -> Result<(), Error> {
        self.read().sync()
    }

    fn close(&self) -> Result<(), Error> {
        self.exclusive().close()
    }
}
