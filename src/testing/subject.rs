//! A dictionary under test. Keys and values are passed as bits, so that whatever checks dictionaries
//! is compiled once, and not for every pair of types.

use crate::aggregate::Fold;
use crate::batch::Batch;
use crate::combine::Combiner;
use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::key::Key;
use crate::stats::Stats;
use crate::store::CleanupPolicy;
use crate::testing::bits::{KeyBits, Types, ValueBits, bits, key_bits, key_of_bits, of_bits};
use crate::testing::script::Change;
use crate::value::Value;
use crate::write_batch::WriteBatch;

/// The bits of a key and of its value.
pub(super) type Pair = (KeyBits, ValueBits);
type Answer<T> = Result<T, Error>;

/// What is asked of a [`Dictionary`].
pub(super) trait Queries {
    fn len(&self) -> Answer<u64>;
    fn stats(&self) -> Answer<Stats>;
    fn policy(&self) -> CleanupPolicy;
    fn validate(&self) -> Result<(), String>;
    fn lookup(&self, keys: &[KeyBits]) -> Answer<Vec<Option<ValueBits>>>;
    fn contains(&self, keys: &[KeyBits]) -> Answer<Vec<bool>>;
    fn count(&self, lo: &[KeyBits], hi: &[KeyBits]) -> Answer<Vec<u64>>;
    fn count_half_open(&self, lo: KeyBits, hi: KeyBits) -> Answer<u64>;
    fn range(&self, lo: &[KeyBits], hi: &[KeyBits]) -> Answer<Vec<Vec<Pair>>>;
    /// Returns the bits of each element of the answers, one answer after another, and the counts.
    fn aggregate(&self, lo: &[KeyBits], hi: &[KeyBits], fold: Fold)
    -> Answer<(Vec<u64>, Vec<u64>)>;
    fn successor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>>;
    fn predecessor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>>;
    fn strict_successor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>>;
    fn strict_predecessor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>>;
    fn rank(&self, keys: &[KeyBits]) -> Answer<Vec<u64>>;
    fn select(&self, indices: &[u64]) -> Answer<Vec<Option<Pair>>>;
    fn first_and_last(&self) -> Answer<[Option<Pair>; 2]>;
    fn iterated(&self) -> Vec<Pair>;
    fn iterated_backwards(&self) -> Vec<Pair>;
    fn all(&self) -> Answer<Vec<Pair>>;
}

/// What is done to a [`Dictionary`].
pub(super) trait Subject {
    fn types(&self) -> Types;
    fn combiner(&self) -> Option<Combiner>;
    fn now(&self) -> &dyn Queries;
    fn snapshot(&self) -> Box<dyn Queries>;
    fn fork(&self) -> Box<dyn Subject>;
    fn insert(&mut self, pairs: &[Pair]) -> Answer<()>;
    fn delete(&mut self, keys: &[KeyBits]) -> Answer<()>;
    fn update(&mut self, pairs: &[Pair], deletes: &[KeyBits]) -> Answer<()>;
    fn set(&mut self, pairs: &[Pair]) -> Answer<()>;
    fn write(&mut self, changes: &[(KeyBits, Change)]) -> Answer<()>;
    fn delete_range(&mut self, lo: &[KeyBits], hi: &[KeyBits]) -> Answer<()>;
    fn merge_from(&mut self, pairs: &[Pair]) -> Answer<()>;
    /// Replaces the dictionary with one built from its sorted pairs, and merges in one built from them
    /// shuffled: every value is combined with itself. A dictionary in files stays there, and merges in its own
    /// pairs.
    fn rebuild(&mut self) -> Answer<()>;
    fn cleanup(&mut self) -> Answer<()>;
    fn clear(&mut self) -> Answer<()>;
    fn checkpoint(&mut self) -> Answer<()>;
    fn sync(&self) -> Answer<()>;
    fn close(self: Box<Self>) -> Answer<()>;
}

impl<K: Key, V: Value> Queries for Dictionary<K, V> {
    fn len(&self) -> Answer<u64> {
        self.len()
    }

    fn stats(&self) -> Answer<Stats> {
        self.stats()
    }

    fn policy(&self) -> CleanupPolicy {
        self.cleanup_policy()
    }

    fn validate(&self) -> Result<(), String> {
        self.validate()
    }

    fn lookup(&self, keys: &[KeyBits]) -> Answer<Vec<Option<ValueBits>>> {
        let mut values = Vec::new();
        for value in self.lookup(&typed_keys(keys))? {
            values.push(value.as_ref().map(bits));
        }
        Ok(values)
    }

    fn contains(&self, keys: &[KeyBits]) -> Answer<Vec<bool>> {
        self.contains(&typed_keys(keys))
    }

    fn count(&self, lo: &[KeyBits], hi: &[KeyBits]) -> Answer<Vec<u64>> {
        self.count((&typed_keys(lo), &typed_keys(hi)))
    }

    fn count_half_open(&self, lo: KeyBits, hi: KeyBits) -> Answer<u64> {
        self.count_one(key_of_bits::<K>(lo)..key_of_bits(hi))
    }

    fn range(&self, lo: &[KeyBits], hi: &[KeyBits]) -> Answer<Vec<Vec<Pair>>> {
        let ranges = self.range((&typed_keys(lo), &typed_keys(hi)))?;
        let mut answers = Vec::new();
        for index in 0..ranges.len() {
            answers.push(bits_of_pairs(ranges.get(index)));
        }
        Ok(answers)
    }

    fn aggregate(
        &self,
        lo: &[KeyBits],
        hi: &[KeyBits],
        fold: Fold,
    ) -> Answer<(Vec<u64>, Vec<u64>)> {
        let width = fold.answer_width(size_of::<V>());
        // Engines overwrite whatever is in the buffers, also where a range is empty.
        let (mut answers, mut counts) = (vec![0xaa; lo.len() * width], vec![u64::MAX; lo.len()]);
        let ranges = (&typed_keys::<K>(lo), &typed_keys::<K>(hi));
        self.aggregate_bytes_into(ranges, fold, &mut answers, &mut counts)?;
        let elements = answers.chunks_exact(width / (size_of::<V>() / fold.element.width));
        Ok((elements.map(bits_of_bytes).collect(), counts))
    }

    fn successor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>> {
        self.successor(&typed_keys(keys)).map(bits_of_each)
    }

    fn predecessor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>> {
        self.predecessor(&typed_keys(keys)).map(bits_of_each)
    }

    fn strict_successor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>> {
        self.strict_successor(&typed_keys(keys)).map(bits_of_each)
    }

    fn strict_predecessor(&self, keys: &[KeyBits]) -> Answer<Vec<Option<Pair>>> {
        self.strict_predecessor(&typed_keys(keys)).map(bits_of_each)
    }

    fn rank(&self, keys: &[KeyBits]) -> Answer<Vec<u64>> {
        self.rank(&typed_keys(keys))
    }

    fn select(&self, indices: &[u64]) -> Answer<Vec<Option<Pair>>> {
        self.select(indices).map(bits_of_each)
    }

    fn first_and_last(&self) -> Answer<[Option<Pair>; 2]> {
        Ok([self.first()?.map(bits_of_pair), self.last()?.map(bits_of_pair)])
    }

    fn iterated(&self) -> Vec<Pair> {
        bits_of_all(&mut self.iter())
    }

    fn iterated_backwards(&self) -> Vec<Pair> {
        bits_of_all(&mut self.iter().rev())
    }

    fn all(&self) -> Answer<Vec<Pair>> {
        let (keys, values) = self.to_vecs()?;
        Ok(bits_of_pairs((&keys, &values)))
    }
}

impl<K: Key, V: Value> Subject for Dictionary<K, V> {
    fn types(&self) -> Types {
        Types::of::<K, V>()
    }

    fn combiner(&self) -> Option<Combiner> {
        self.store.any().combiner()
    }

    fn now(&self) -> &dyn Queries {
        self
    }

    fn snapshot(&self) -> Box<dyn Queries> {
        // As a dictionary, so that queries are compiled for one type. Nobody updates it.
        Box::new(self.snapshot().thaw())
    }

    fn fork(&self) -> Box<dyn Subject> {
        Box::new(self.clone())
    }

    fn insert(&mut self, pairs: &[Pair]) -> Answer<()> {
        let (keys, values) = typed_pairs(pairs);
        self.insert(&keys, &values)
    }

    fn delete(&mut self, keys: &[KeyBits]) -> Answer<()> {
        self.delete(&typed_keys(keys))
    }

    fn update(&mut self, pairs: &[Pair], deletes: &[KeyBits]) -> Answer<()> {
        let (keys, values) = typed_pairs(pairs);
        self.update(Batch::new().insert(&keys, &values).delete(&typed_keys(deletes)))
    }

    fn set(&mut self, pairs: &[Pair]) -> Answer<()> {
        let (keys, values) = typed_pairs(pairs);
        self.set(&keys, &values)
    }

    fn write(&mut self, changes: &[(KeyBits, Change)]) -> Answer<()> {
        let mut batch = WriteBatch::new();
        for &(key, change) in changes {
            let key = key_of_bits(key);
            match change {
                Change::Insert(value) => batch.insert(key, of_bits(value)),
                Change::Set(value) => batch.set(key, of_bits(value)),
                Change::Delete => batch.delete(key),
            }
        }
        self.write(&batch)
    }

    fn delete_range(&mut self, lo: &[KeyBits], hi: &[KeyBits]) -> Answer<()> {
        self.delete_range((&typed_keys(lo), &typed_keys(hi)))
    }

    fn merge_from(&mut self, pairs: &[Pair]) -> Answer<()> {
        let (keys, values) = typed_pairs(pairs);
        // On the best device, which may differ from this dictionary's.
        let mut other = Dictionary::new();
        other.insert(&keys, &values)?;
        self.merge_from(&other.snapshot())
    }

    fn rebuild(&mut self) -> Answer<()> {
        if self.path().is_some() {
            return self.merge_from(&self.snapshot());
        }
        let (keys, values) = self.to_vecs()?;
        let settings = || {
            let builder = Dictionary::builder()
                .batch_size(self.batch_size())
                .device(self.device())
                .cleanup_policy(self.cleanup_policy());
            match self.store.any().combiner() {
                Some(combiner) => builder.combine_as(combiner.rule(), combiner.element()),
                None => builder,
            }
        };
        let (mut shuffled_keys, mut shuffled_values) = (Vec::new(), Vec::new());
        for index in shuffled(keys.len()) {
            shuffled_keys.push(keys[index]);
            shuffled_values.push(values[index]);
        }
        let other = settings().bulk_build(&shuffled_keys, &shuffled_values)?;
        let rebuilt = settings().from_sorted(&keys, &values)?;
        *self = rebuilt;
        self.merge_from(&other.snapshot())
    }

    fn cleanup(&mut self) -> Answer<()> {
        self.cleanup()
    }

    fn clear(&mut self) -> Answer<()> {
        self.clear()
    }

    fn checkpoint(&mut self) -> Answer<()> {
        self.checkpoint()
    }

    fn sync(&self) -> Answer<()> {
        self.sync()
    }

    fn close(mut self: Box<Self>) -> Answer<()> {
        (*self).close()
    }
}

/// Returns the indices below `len` in a shuffled order.
fn shuffled(len: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|&index| index.wrapping_mul(0x9e37_79b1) % 1009);
    order
}

// Plain loops, here and above: this is compiled for every pair of types, and iterator chains take longer
// to compile.

fn typed_keys<K: Key>(keys: &[KeyBits]) -> Vec<K> {
    let mut typed = Vec::with_capacity(keys.len());
    for &key in keys {
        typed.push(key_of_bits(key));
    }
    typed
}

fn typed_pairs<K: Key, V: Value>(pairs: &[Pair]) -> (Vec<K>, Vec<V>) {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for &(key, value) in pairs {
        keys.push(key_of_bits(key));
        values.push(of_bits(value));
    }
    (keys, values)
}

/// Returns the bits of a number of at most 8 bytes.
fn bits_of_bytes(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

fn bits_of_pair<K: Key, V: Value>((key, value): (K, V)) -> Pair {
    (key_bits(key), bits(&value))
}

fn bits_of_each<K: Key, V: Value>(pairs: Vec<Option<(K, V)>>) -> Vec<Option<Pair>> {
    let mut bits = Vec::with_capacity(pairs.len());
    for pair in pairs {
        bits.push(pair.map(bits_of_pair));
    }
    bits
}

fn bits_of_all<K: Key, V: Value>(pairs: &mut dyn Iterator<Item = (K, V)>) -> Vec<Pair> {
    let mut bits = Vec::new();
    for pair in pairs {
        bits.push(bits_of_pair(pair));
    }
    bits
}

fn bits_of_pairs<K: Key, V: Value>((keys, values): (&[K], &[V])) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(keys.len());
    for index in 0..keys.len() {
        pairs.push(bits_of_pair((keys[index], values[index])));
    }
    pairs
}
