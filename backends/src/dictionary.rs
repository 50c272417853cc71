//! Dictionaries whose types are chosen at run time. Keys are passed as the integers they sort by and
//! values as bits, so that everything above this file is compiled once, whatever the types.

use std::any::Any;
use std::borrow::Cow;
use std::path::Path;

use gpulsm::private::{AsOf, Fold, HolderKind, Replayed};
use gpulsm::{
    Batch, Builder, Combine, Devices, Dictionary, Error, Key, OrderedKey, Stats, WriteBatch,
};

use crate::stored::{Origin, stored_types};
use crate::types::{Column, Element, Types, ValueType};

/// A pair: the integer that the key sorts by, and the bits of the value.
pub type Pair = (u128, u128);

/// A [`Dictionary`] of any types. Columns must have the widths of its keys and values.
pub trait AnyDictionary: Any + Send + Sync {
    fn update(&mut self, inserts: (&Column, &Column), deletes: &Column) -> Result<(), Error>;
    /// Gives keys these values, whatever the rule of the dictionary, and deletes others.
    fn set(&mut self, pairs: (&Column, &Column), deletes: &Column) -> Result<(), Error>;
    fn delete_range(&mut self, lo: u128, hi: u128) -> Result<(), Error>;
    /// Makes changes in their order, as one batch.
    fn write(&mut self, changes: &[Change]) -> Result<(), Error>;
    fn cleanup(&mut self) -> Result<(), Error>;
    fn clear(&mut self) -> Result<(), Error>;
    /// Applies the batches that are still buffered.
    fn flush(&self) -> Result<(), Error>;
    /// Does the same, and waits until the device has done all that was begun.
    fn synchronize(&self) -> Result<(), Error>;

    /// Returns the folder that the dictionary lives in, if it does.
    fn path(&self) -> Option<&Path>;
    /// Returns what was replayed from the logs of that folder when it was opened.
    fn replayed(&self) -> Option<Replayed>;
    fn checkpoint(&mut self) -> Result<(), Error>;
    fn sync(&self) -> Result<(), Error>;
    fn close(&mut self) -> Result<(), Error>;
    /// Writes all pairs into one file.
    fn save(&self, path: &Path, progress: Progress<'_>) -> Result<(), Error>;

    /// Returns what an insert does to a key that is already there.
    fn combine(&self) -> Combine;
    fn len(&self) -> Result<usize, Error>;
    fn stats(&self) -> Result<Stats, Error>;
    fn lookup(&self, keys: &Column) -> Result<Vec<Option<u128>>, Error>;
    fn count(&self, lo: &Column, hi: &Column) -> Result<Vec<u64>, Error>;
    /// Returns the bits of what the values of each range are combined to; `None` where it has no key.
    fn aggregate(&self, lo: &Column, hi: &Column, fold: Fold) -> Result<Vec<Option<u64>>, Error>;
    fn range(&self, lo: u128, hi: u128) -> Result<(Column, Column), Error>;
    fn contains(&self, keys: &Column) -> Result<Vec<bool>, Error>;
    fn successor(&self, keys: &Column) -> Result<Vec<Option<Pair>>, Error>;
    fn predecessor(&self, keys: &Column) -> Result<Vec<Option<Pair>>, Error>;
    /// Returns the pair that answers each question of an as-of query.
    fn asof(&self, questions: &Column, asof: AsOf) -> Result<Vec<Option<Pair>>, Error>;
    fn first(&self) -> Result<Option<Pair>, Error>;
    fn last(&self) -> Result<Option<Pair>, Error>;
    fn select(&self, indices: &[u64]) -> Result<Vec<Option<Pair>>, Error>;
    fn rank(&self, keys: &Column) -> Result<Vec<u64>, Error>;
    /// Returns all keys and all values, in key order.
    fn columns(&self) -> Result<(Column, Column), Error>;

    /// Returns a dictionary of its own that shares what this one holds.
    fn fork(&self) -> Box<dyn AnyDictionary>;
    /// Returns a copy that shares memory and is never changed.
    fn frozen(&self) -> Box<dyn AnyDictionary>;
    /// Returns a snapshot, which keeps the present runs alive.
    fn snapshot(&self) -> Box<dyn Any>;
}

/// One change of several: keys are the integers they sort by.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Insert(Pair),
    Delete(u128),
    /// Deletes every key between these, both included.
    DeleteRange(u128, u128),
}

/// Is told how many bytes are done, of how many, now and then.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How a dictionary is set up.
#[derive(Clone)]
pub struct Settings {
    pub types: Types,
    pub combine: Combine,
    pub devices: Devices,
    /// Default: that of the files, or of the library.
    pub batch_size: Option<usize>,
    /// At most how many bytes it takes. Default: no limit.
    pub memory_limit: Option<u64>,
}

/// Makes an empty dictionary in memory.
pub fn open(settings: Settings) -> Result<Box<dyn AnyDictionary>, Error> {
    open_at(settings, &Origin::Nothing, &mut |_, _| ())
}

/// Opens a dictionary.
pub fn open_at(
    settings: Settings,
    origin: &Origin,
    progress: Progress<'_>,
) -> Result<Box<dyn AnyDictionary>, Error> {
    let value = settings.types.value;
    match settings.types.key.width() {
        4 => with_key::<u32>(value)(settings, origin, progress),
        8 => with_key::<u64>(value)(settings, origin, progress),
        _ => with_key::<u128>(value)(settings, origin, progress),
    }
}

/// A function that opens a dictionary of some types.
type Open = fn(Settings, &Origin, Progress<'_>) -> Result<Box<dyn AnyDictionary>, Error>;

fn with_key<K: ColumnKey>(value: ValueType) -> Open {
    match value {
        ValueType::None => build::<K, ()>,
        ValueType::U32 | ValueType::I32 | ValueType::F32 => build::<K, u32>,
        ValueType::U64 | ValueType::I64 | ValueType::F64 => build::<K, u64>,
        ValueType::U128 => build::<K, u128>,
    }
}

fn build<K: ColumnKey, V: Element>(
    settings: Settings,
    origin: &Origin,
    progress: Progress<'_>,
) -> Result<Box<dyn AnyDictionary>, Error> {
    let Settings { types, combine, devices, batch_size, memory_limit } = settings;
    let mut builder: Builder<K, V> = Dictionary::builder().devices(&devices);
    if let Some(batch_size) = batch_size {
        builder = builder.batch_size(batch_size);
    }
    if let Some(bytes) = memory_limit {
        builder = builder.memory_limit(bytes);
    }
    builder = builder.combine_as(combine, types.value.element()).stored_as(stored_types(types));
    let dictionary = match origin {
        Origin::Nothing => builder.build()?,
        Origin::File(path) => builder.load_with(path, progress)?,
        Origin::Folder { path, durability, log_limit } => {
            builder = builder.durability(*durability);
            if let Some(bytes) = log_limit {
                builder = builder.log_limit(*bytes);
            }
            builder.open_with(path, progress)?
        }
    };
    Ok(Box::new(dictionary))
}

/// A type of keys, of which columns hold the integers that they sort by.
pub trait ColumnKey: Key {
    /// Returns the keys of a column.
    fn keys(column: &Column) -> Cow<'_, [Self]>;

    fn column(keys: Vec<Self>) -> Column;
}

macro_rules! column_keys {
    ($($key:ty),*) => {
        $(impl ColumnKey for $key {
            fn keys(column: &Column) -> Cow<'_, [Self]> {
                Cow::Borrowed(Element::slice(column))
            }

            fn column(keys: Vec<Self>) -> Column {
                Element::column(keys)
            }
        })*
    };
}

column_keys!(u32, u64, u128);

/// What `bench` measures of keys of several parts.
impl ColumnKey for (u32, u32) {
    fn keys(column: &Column) -> Cow<'_, [Self]> {
        u64::slice(column).iter().map(|&packed| Key::from_ordered(packed)).collect()
    }

    fn column(keys: Vec<Self>) -> Column {
        Element::column(keys.into_iter().map(Key::to_ordered).collect())
    }
}

fn key<K: Key>(bits: u128) -> K {
    K::from_ordered(OrderedKey::narrow(bits))
}

fn bits<K: Key, V: Element>((key, value): (K, V)) -> Pair {
    (key.to_ordered().widen(), value.bits())
}

fn all_bits<K: Key, V: Element>(pairs: Vec<Option<(K, V)>>) -> Vec<Option<Pair>> {
    pairs.into_iter().map(|pair| pair.map(bits)).collect()
}

impl<K: ColumnKey, V: Element> AnyDictionary for Dictionary<K, V> {
    fn update(
        &mut self,
        (keys, values): (&Column, &Column),
        deletes: &Column,
    ) -> Result<(), Error> {
        let (keys, deletes) = (K::keys(keys), K::keys(deletes));
        self.update(Batch::new().insert(&keys, V::slice(values)).delete(&deletes))
    }

    fn set(&mut self, (keys, values): (&Column, &Column), deletes: &Column) -> Result<(), Error> {
        self.set_and_delete(&K::keys(keys), V::slice(values), &K::keys(deletes))
    }

    fn delete_range(&mut self, lo: u128, hi: u128) -> Result<(), Error> {
        self.delete_range_one((key::<K>(lo), key::<K>(hi)))
    }

    fn write(&mut self, changes: &[Change]) -> Result<(), Error> {
        let mut batch = WriteBatch::with_capacity(changes.len());
        for &change in changes {
            match change {
                Change::Insert((of, value)) => batch.insert(key(of), V::from_bits(value)),
                Change::Delete(of) => batch.delete(key(of)),
                Change::DeleteRange(lo, hi) => batch.delete_range((key::<K>(lo), key::<K>(hi))),
            }
        }
        self.write(&batch)
    }

    fn cleanup(&mut self) -> Result<(), Error> {
        self.cleanup()
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.clear()
    }

    fn flush(&self) -> Result<(), Error> {
        self.flush()
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.synchronize()
    }

    fn path(&self) -> Option<&Path> {
        self.path()
    }

    fn replayed(&self) -> Option<Replayed> {
        self.replayed()
    }

    fn checkpoint(&mut self) -> Result<(), Error> {
        self.checkpoint()
    }

    fn sync(&self) -> Result<(), Error> {
        self.sync()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.close()
    }

    fn save(&self, path: &Path, progress: Progress<'_>) -> Result<(), Error> {
        self.snapshot().save_with(path, progress)
    }

    fn combine(&self) -> Combine {
        self.combine()
    }

    fn len(&self) -> Result<usize, Error> {
        Ok(self.len()? as usize)
    }

    fn stats(&self) -> Result<Stats, Error> {
        self.stats()
    }

    fn lookup(&self, keys: &Column) -> Result<Vec<Option<u128>>, Error> {
        let values = self.lookup(&K::keys(keys))?;
        Ok(values.into_iter().map(|value| value.map(V::bits)).collect())
    }

    fn count(&self, lo: &Column, hi: &Column) -> Result<Vec<u64>, Error> {
        self.count((&*K::keys(lo), &*K::keys(hi)))
    }

    fn aggregate(&self, lo: &Column, hi: &Column, fold: Fold) -> Result<Vec<Option<u64>>, Error> {
        let width = fold.answer_width(size_of::<V>());
        let (mut answers, mut counts) = (vec![0; lo.len() * width], vec![0; lo.len()]);
        let (lo, hi) = (K::keys(lo), K::keys(hi));
        self.aggregate_bytes_into((&*lo, &*hi), fold, &mut answers, &mut counts)?;
        let bits = answers.chunks_exact(width).map(|bytes| match *bytes {
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => u64::from_ne_bytes(bytes.try_into().expect("a number has 4 or 8 bytes")),
        });
        Ok(bits.zip(counts).map(|(bits, count)| (count > 0).then_some(bits)).collect())
    }

    fn range(&self, lo: u128, hi: u128) -> Result<(Column, Column), Error> {
        let pairs = self.range(&[(key::<K>(lo), key::<K>(hi))])?;
        Ok((K::column(pairs.keys), V::column(pairs.values)))
    }

    fn contains(&self, keys: &Column) -> Result<Vec<bool>, Error> {
        self.contains(&K::keys(keys))
    }

    fn successor(&self, keys: &Column) -> Result<Vec<Option<Pair>>, Error> {
        Ok(all_bits(self.successor(&K::keys(keys))?))
    }

    fn predecessor(&self, keys: &Column) -> Result<Vec<Option<Pair>>, Error> {
        Ok(all_bits(self.predecessor(&K::keys(keys))?))
    }

    fn asof(&self, questions: &Column, asof: AsOf) -> Result<Vec<Option<Pair>>, Error> {
        Ok(all_bits(self.asof_as(&K::keys(questions), asof)?))
    }

    fn first(&self) -> Result<Option<Pair>, Error> {
        Ok(self.first()?.map(bits))
    }

    fn last(&self) -> Result<Option<Pair>, Error> {
        Ok(self.last()?.map(bits))
    }

    fn select(&self, indices: &[u64]) -> Result<Vec<Option<Pair>>, Error> {
        Ok(all_bits(self.select(indices)?))
    }

    fn rank(&self, keys: &Column) -> Result<Vec<u64>, Error> {
        self.rank(&K::keys(keys))
    }

    fn columns(&self) -> Result<(Column, Column), Error> {
        let (keys, values) = self.to_vecs()?;
        Ok((K::column(keys), V::column(values)))
    }

    fn fork(&self) -> Box<dyn AnyDictionary> {
        Box::new(self.clone())
    }

    fn frozen(&self) -> Box<dyn AnyDictionary> {
        Box::new(self.clone_as(HolderKind::Snapshot))
    }

    fn snapshot(&self) -> Box<dyn Any> {
        Box::new(self.snapshot())
    }
}
