//! Applies operations to a dictionary and to the model side by side, and compares.
//!
//! The tests, the fuzzer and the program's `verify` all check dictionaries with this.

use std::fmt;

use crate::batch::Batch;
use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::key::Key;
use crate::snapshot::Snapshot;
use crate::store::CleanupPolicy;
use crate::testing::model::Model;
use crate::testing::script::{Draw, Operation};
use crate::value::Value;

/// How a dictionary and the model came to differ.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// Which operation of the list it was, counted from 0.
    pub index: usize,
    /// The operation.
    pub operation: String,
    /// What differed.
    pub what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} ({}): {}", self.index, self.operation, self.what)
    }
}

impl std::error::Error for Mismatch {}

/// Applies every operation to `dictionary`, which is empty, and to the model. Checks the invariants of the
/// structure after each change, the answers of each query, and at the end everything, the snapshots and
/// clones made on the way included. Then does all of it once more without a query between changes, so that
/// they are buffered.
pub fn check<K: Key, V: Value + fmt::Debug>(
    dictionary: Dictionary<K, V>,
    operations: impl IntoIterator<Item = Operation<K, V>>,
) -> Result<(), Mismatch> {
    let operations: Vec<_> = operations.into_iter().collect();
    check_once(dictionary.clone(), &operations, Validate::AfterChanges)?;
    check_once(dictionary, &operations, Validate::AtTheEnd).map_err(|mismatch| Mismatch {
        what: format!("with buffering: {}", mismatch.what),
        ..mismatch
    })
}

/// When the invariants of the structure are checked.
#[derive(Clone, Copy, PartialEq)]
enum Validate {
    AfterChanges,
    AtTheEnd,
}

fn check_once<K: Key, V: Value + fmt::Debug>(
    dictionary: Dictionary<K, V>,
    operations: &[Operation<K, V>],
    validate: Validate,
) -> Result<(), Mismatch> {
    let mut pair = Pair { dictionary, model: Model::default(), changes: 0 };
    let mut snapshots: Vec<(Snapshot<K, V>, Model<K, V>)> = Vec::new();
    let mut clones: Vec<Pair<K, V>> = Vec::new();
    let mut count = 0;
    for (index, operation) in operations.iter().enumerate() {
        count = index + 1;
        match operation {
            Operation::Snapshot => {
                snapshots.push((pair.dictionary.snapshot(), pair.model.clone()));
                Ok(())
            }
            Operation::Clone => {
                clones.push(pair.clone());
                Ok(())
            }
            other => pair.step(other, validate),
        }
        .map_err(|what| Mismatch { index, operation: format!("{operation:?}"), what })?;
    }
    let at_end = |what, part: &str| Mismatch { index: count, operation: part.into(), what };
    compare(&pair.dictionary, &pair.model).map_err(|what| at_end(what, "at the end"))?;
    for clone in &mut clones {
        // A change to a clone must change nothing else: the snapshots are compared last.
        let first = clone.model.iter().map(|(key, _)| key).next().unwrap_or(K::LOWEST);
        compare(&clone.dictionary, &clone.model)
            .and_then(|()| {
                let change = Operation::Update(vec![(K::HIGHEST, V::zeroed())], vec![first]);
                clone.step(&change, Validate::AfterChanges)
            })
            .and_then(|()| compare(&clone.dictionary, &clone.model))
            .map_err(|what| at_end(what, "a clone at the end"))?;
    }
    for (snapshot, model) in &snapshots {
        compare(snapshot, model).map_err(|what| at_end(what, "a snapshot at the end"))?;
    }
    compare(&pair.dictionary, &pair.model).map_err(|what| at_end(what, "after the clones changed"))
}

/// Checks a list of operations drawn from `bytes`, on key and value types that they choose too.
pub fn check_bytes(bytes: &[u8]) -> Result<(), Mismatch> {
    fn on<K: Key, V: Value + fmt::Debug>(bytes: &[u8]) -> Result<(), Mismatch> {
        let mut bytes = bytes.iter().copied().peekable();
        let dictionary = Draw::new(bytes.next()).settings::<K, V>().build();
        let operations = std::iter::from_fn(|| {
            bytes.peek()?;
            Some(Draw::new(&mut bytes).operation())
        });
        check(dictionary.expect("the best device can be used"), operations)
    }
    match bytes {
        [] => Ok(()),
        [types, rest @ ..] => match types % 6 {
            0 => on::<u32, u32>(rest),
            1 => on::<u64, ()>(rest),
            2 => on::<i32, [u64; 2]>(rest),
            3 => on::<i64, u64>(rest),
            4 => on::<f32, f32>(rest),
            _ => on::<f64, f64>(rest),
        },
    }
}

/// A dictionary and what it means.
#[derive(Clone)]
struct Pair<K: Key, V: Value> {
    dictionary: Dictionary<K, V>,
    model: Model<K, V>,
    /// How many operations changed them.
    changes: usize,
}

impl<K: Key, V: Value> Pair<K, V> {
    /// Applies one operation to both; the error says what differs.
    fn step(&mut self, operation: &Operation<K, V>, validate: Validate) -> Result<(), String> {
        if !self.change(operation).map_err(|error| error.to_string())? {
            return self.query(operation);
        }
        if validate == Validate::AtTheEnd {
            return Ok(());
        }
        self.dictionary.validate()?;
        let len = self.dictionary.len().map_err(|error| error.to_string())?;
        same("length", &len, &self.model.len())?;
        self.changes += 1;
        // Not every time: it finishes deferred merges.
        if self.changes.is_multiple_of(8) { self.check_size() } else { Ok(()) }
    }

    /// Applies the operation if it is one that changes the dictionary; returns whether it is.
    fn change(&mut self, operation: &Operation<K, V>) -> Result<bool, Error> {
        let Pair { dictionary, model, .. } = self;
        match operation {
            Operation::Insert(pairs) => {
                let (keys, values) = unzip(pairs);
                dictionary.insert(&keys, &values)?;
                model.update(pairs, &[]);
            }
            Operation::Delete(keys) => {
                dictionary.delete(keys)?;
                model.update(&[], keys);
            }
            Operation::Update(pairs, deletes) => {
                let (keys, values) = unzip(pairs);
                dictionary.update(Batch::inserting(&keys, &values).deleting(deletes))?;
                model.update(pairs, deletes);
            }
            Operation::DeleteRange(ranges) => {
                let (lo, hi) = unzip(ranges);
                dictionary.delete_range(&lo, &hi)?;
                ranges.iter().for_each(|&(lo, hi)| model.delete_range(lo, hi));
            }
            Operation::MergeFrom(pairs) => {
                dictionary.merge_from(&pairs.iter().copied().collect::<Dictionary<K, V>>())?;
                model.update(pairs, &[]);
            }
            Operation::Rebuild => {
                let (keys, values) = dictionary.to_vecs()?;
                let settings = || {
                    Dictionary::builder()
                        .batch_size(dictionary.batch_size())
                        .device(dictionary.device())
                        .cleanup(dictionary.cleanup_policy())
                };
                let mut shuffled: Vec<usize> = (0..keys.len()).collect();
                shuffled.sort_by_key(|&index| index.wrapping_mul(0x9e37_79b1) % 1009);
                let picked: Vec<(K, V)> =
                    shuffled.iter().map(|&index| (keys[index], values[index])).collect();
                let (shuffled_keys, shuffled_values) = unzip(&picked);
                let built = settings().bulk_build(&shuffled_keys, &shuffled_values)?;
                *dictionary = settings().from_sorted(&keys, &values)?;
                dictionary.merge_from(&built)?;
            }
            Operation::Cleanup => dictionary.cleanup()?,
            Operation::Clear => {
                dictionary.clear();
                model.clear();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A dictionary that cleans itself holds at most 2·len + b entries.
    fn check_size(&self) -> Result<(), String> {
        let stats = self.dictionary.stats().map_err(|error| error.to_string())?;
        let most = 2 * stats.live + stats.batch_size as u64;
        if self.dictionary.cleanup_policy() == CleanupPolicy::Automatic && stats.entries > most {
            return Err(format!("{} entries where {most} are allowed", stats.entries));
        }
        same("length", &stats.live, &(self.model.len() as u64))
    }

    fn query(&self, operation: &Operation<K, V>) -> Result<(), String> {
        let Pair { dictionary, model, .. } = self;
        match operation {
            Operation::Lookup(keys) => check_lookups(dictionary, model, keys),
            Operation::Count(ranges) => check_counts(dictionary, model, ranges),
            Operation::Range(ranges) => check_ranges(dictionary, model, ranges),
            Operation::Nearest(keys) => check_nearest(dictionary, model, keys),
            Operation::Rank(keys) => {
                let expected: Vec<u64> = keys.iter().map(|&key| model.rank(key)).collect();
                same("ranks", &answered(dictionary.rank(keys))?, &expected)
            }
            Operation::Select(indices) => {
                let expected = indices.iter().map(|&index| model.select(index));
                same_pairs("selected", answered(dictionary.select(indices))?, expected)
            }
            Operation::Scan => compare(dictionary, model),
            Operation::Insert(_)
            | Operation::Delete(_)
            | Operation::Update(..)
            | Operation::DeleteRange(_)
            | Operation::MergeFrom(_)
            | Operation::Rebuild
            | Operation::Cleanup
            | Operation::Clear
            | Operation::Snapshot
            | Operation::Clone => unreachable!("not a query"),
        }
    }
}

fn check_lookups<K: Key, V: Value>(
    snapshot: &Snapshot<K, V>,
    model: &Model<K, V>,
    keys: &[K],
) -> Result<(), String> {
    let expected: Vec<Option<V>> = keys.iter().map(|&key| model.lookup(key)).collect();
    let values = answered(snapshot.lookup(keys))?;
    same("values", &bytes_of_each(&values), &bytes_of_each(&expected))?;
    let found: Vec<bool> = expected.iter().map(Option::is_some).collect();
    same("keys contained", &answered(snapshot.contains(keys))?, &found)
}

fn check_counts<K: Key, V: Value>(
    snapshot: &Snapshot<K, V>,
    model: &Model<K, V>,
    ranges: &[(K, K)],
) -> Result<(), String> {
    let (lo, hi) = unzip(ranges);
    let expected: Vec<u64> = ranges.iter().map(|&(lo, hi)| model.count(lo, hi)).collect();
    same("counts", &answered(snapshot.count(&lo, &hi))?, &expected)?;
    for (&(lo, hi), count) in ranges.iter().zip(expected) {
        let last = u64::from(count > 0 && model.lookup(hi).is_some());
        same("half-open count", &answered(snapshot.count_in(lo..hi))?, &(count - last))?;
    }
    Ok(())
}

fn check_ranges<K: Key, V: Value>(
    snapshot: &Snapshot<K, V>,
    model: &Model<K, V>,
    ranges: &[(K, K)],
) -> Result<(), String> {
    let (lo, hi) = unzip(ranges);
    let answers = answered(snapshot.range(&lo, &hi))?;
    same("number of ranges", &answers.len(), &ranges.len())?;
    for (&(lo, hi), (keys, values)) in ranges.iter().zip(answers.iter()) {
        let got = keys.iter().copied().zip(values.iter().copied()).map(Some).collect();
        same_pairs("range", got, model.range(lo, hi).map(Some))?;
    }
    Ok(())
}

fn check_nearest<K: Key, V: Value>(
    snapshot: &Snapshot<K, V>,
    model: &Model<K, V>,
    keys: &[K],
) -> Result<(), String> {
    let expected = keys.iter().map(|&key| model.successor(key));
    same_pairs("successors", answered(snapshot.successor(keys))?, expected)?;
    let expected = keys.iter().map(|&key| model.predecessor(key));
    same_pairs("predecessors", answered(snapshot.predecessor(keys))?, expected)
}

/// Compares the whole of a dictionary by every query.
fn compare<K: Key, V: Value>(snapshot: &Snapshot<K, V>, model: &Model<K, V>) -> Result<(), String> {
    snapshot.validate()?;
    same("length", &answered(snapshot.len())?, &model.len())?;
    let ends = [answered(snapshot.first())?, answered(snapshot.last())?];
    same_pairs("ends", ends.to_vec(), [model.iter().next(), model.iter().next_back()])?;
    same_pairs("iteration", snapshot.iter().map(Some).collect(), model.iter().map(Some))?;
    let backwards = snapshot.iter().rev().map(Some).collect();
    same_pairs("iteration backwards", backwards, model.iter().rev().map(Some))?;
    let (keys, values) = answered(snapshot.to_vecs())?;
    let all = keys.iter().copied().zip(values).map(Some).collect();
    same_pairs("pairs", all, model.iter().map(Some))?;
    check_lookups(snapshot, model, &keys)?;
    let ranks: Vec<u64> = (0..keys.len() as u64).collect();
    same("ranks", &answered(snapshot.rank(&keys))?, &ranks)?;
    same_pairs("selected", answered(snapshot.select(&ranks))?, model.iter().map(Some))
}

fn answered<T>(answer: Result<T, Error>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}

fn same<T: PartialEq + fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    Err(format!("{what}: got {got:?}, expected {expected:?}"))
}

/// Compares pairs by their keys' order and their values' bytes, so that NaN equals NaN.
fn same_pairs<K: Key, V: Value>(
    what: &str,
    got: Vec<Option<(K, V)>>,
    expected: impl IntoIterator<Item = Option<(K, V)>>,
) -> Result<(), String> {
    let plain = |pair: Option<(K, V)>| {
        pair.map(|(key, value)| {
            (bytemuck::bytes_of(&key).to_vec(), bytemuck::bytes_of(&value).to_vec())
        })
    };
    let got: Vec<_> = got.into_iter().map(plain).collect();
    same(what, &got, &expected.into_iter().map(plain).collect())
}

fn bytes_of_each<V: Value>(values: &[Option<V>]) -> Vec<Option<Vec<u8>>> {
    values.iter().map(|value| value.map(|value| bytemuck::bytes_of(&value).to_vec())).collect()
}

fn unzip<A: Copy, B: Copy>(pairs: &[(A, B)]) -> (Vec<A>, Vec<B>) {
    pairs.iter().copied().unzip()
}
