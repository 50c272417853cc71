//! Applies operations to a dictionary and to the model side by side, and compares.
//!
//! The tests, the fuzzer and the program's `verify` all check dictionaries with this.

use std::fmt;

use crate::builder::Builder;
use crate::combine::Combiner;
use crate::device::Device;
use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::key::Key;
use crate::store::CleanupPolicy;
use crate::testing::aggregates::{aggregate, folds};
use crate::testing::bits::{KeyBits, KeyType, Types, ValueBits};
use crate::testing::home::Home;
use crate::testing::model::Model;
use crate::testing::rules::{combined, exact};
use crate::testing::script::{Change, Operation};
use crate::testing::subject::{Pair, Queries, Subject};
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
pub fn check<K: Key, V: Value>(
    dictionary: Dictionary<K, V>,
    operations: &[Operation],
) -> Result<(), Mismatch> {
    check_subject(Box::new(dictionary), operations)
}

/// Does the same with a dictionary that has these settings and lives in files: now and then it is checkpointed,
/// closed or crashed, and opened again, on this device or the CPU and with other settings, as the seed chooses.
/// Then it must be what it was.
pub fn check_in_files<K: Key, V: Value>(
    builder: Builder<K, V>,
    device: Device,
    operations: &[Operation],
    seed: u64,
) -> Result<(), Mismatch> {
    let (home, dictionary) = Home::create(builder, device, seed).map_err(|error| Mismatch {
        index: 0,
        operation: "creating it".into(),
        what: error.to_string(),
    })?;
    let validate = if seed.is_multiple_of(2) { Validate::AfterChanges } else { Validate::AtTheEnd };
    check_once(dictionary, Some(home), operations, validate)
}

/// [`check`], compiled once for all types.
pub(super) fn check_subject(
    dictionary: Box<dyn Subject>,
    operations: &[Operation],
) -> Result<(), Mismatch> {
    check_once(dictionary.fork(), None, operations, Validate::AfterChanges)?;
    check_once(dictionary, None, operations, Validate::AtTheEnd).map_err(|mismatch| Mismatch {
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

fn check_once(
    dictionary: Box<dyn Subject>,
    home: Option<Home>,
    operations: &[Operation],
    validate: Validate,
) -> Result<(), Mismatch> {
    let types = dictionary.types();
    let key = types.key;
    let combiner = dictionary.combiner();
    let operations = &exact(operations, combiner);
    let meaning = Meaning::new(types, combiner);
    let mut checked = Checked { dictionary, home, meaning, changes: 0 };
    let mut snapshots: Vec<(Box<dyn Queries>, Meaning)> = Vec::new();
    let mut clones: Vec<Checked> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        match operation {
            Operation::Snapshot => {
                snapshots.push((checked.dictionary.snapshot(), checked.meaning.clone()));
                Ok(())
            }
            Operation::Clone => {
                clones.push(checked.fork());
                Ok(())
            }
            other => checked.step(other, validate),
        }
        .map_err(|what| Mismatch {
            index,
            operation: format!("{:?}", operation.shown(&key)),
            what,
        })?;
    }
    let at_end =
        |what, part: &str| Mismatch { index: operations.len(), operation: part.into(), what };
    checked.compare().map_err(|what| at_end(what, "at the end"))?;
    for clone in &mut clones {
        // A change to a clone must change nothing else: the snapshots are compared last.
        let first = clone.meaning.pairs().first().map_or(key.lowest, |&(first, _)| first);
        let change = Operation::Update(vec![(key.highest, 0)], vec![first]);
        clone
            .compare()
            .and_then(|()| clone.step(&change, Validate::AfterChanges))
            .and_then(|()| clone.compare())
            .map_err(|what| at_end(what, "a clone at the end"))?;
    }
    for (snapshot, meaning) in &snapshots {
        compare(&**snapshot, meaning).map_err(|what| at_end(what, "a snapshot at the end"))?;
    }
    checked.compare().map_err(|what| at_end(what, "after the clones changed"))
}

/// Compares all answers of a dictionary with those of a model that holds `pairs`; the error says what differs.
pub fn compare_with<K: Key, V: Value>(
    dictionary: &Dictionary<K, V>,
    pairs: &[(KeyBits, ValueBits)],
) -> Result<(), String> {
    let mut meaning = Meaning::new(Types::of::<K, V>(), None);
    meaning.update(pairs, &[]);
    compare(dictionary, &meaning)
}

/// What a dictionary should contain: the model, keyed by the integers that keys sort by.
#[derive(Clone)]
struct Meaning {
    key: KeyType,
    value_width: usize,
    combiner: Option<Combiner>,
    model: Model<u128, ValueBits>,
}

impl Meaning {
    fn new(types: Types, combiner: Option<Combiner>) -> Self {
        let Types { key, value_width } = types;
        Meaning { key, value_width, combiner, model: Model::default() }
    }

    /// One batch, whose inserts replace values or combine with them.
    fn update(&mut self, inserts: &[Pair], deletes: &[KeyBits]) {
        let (inserts, deletes) = (self.ordered_pairs(inserts), self.ordered(deletes));
        match self.combiner {
            Some(combiner) => {
                let combine = |older, newer| combined(combiner, older, newer);
                self.model.combine(&inserts, &deletes, combine);
            }
            None => self.model.update(&inserts, &deletes),
        }
    }

    /// One batch, whose inserts replace values whatever the rule.
    fn set(&mut self, inserts: &[Pair]) {
        let inserts = self.ordered_pairs(inserts);
        self.model.update(&inserts, &[]);
    }

    /// Inserts every pair of a dictionary that replaced values as these were inserted.
    fn merge_from(&mut self, pairs: &[Pair]) {
        let mut other = Meaning { combiner: None, model: Model::default(), ..*self };
        other.update(pairs, &[]);
        self.update(&other.pairs(), &[]);
    }

    fn ordered_pairs(&self, pairs: &[Pair]) -> Vec<(u128, ValueBits)> {
        pairs.iter().map(|&(key, value)| (self.key.to_ordered(key), value)).collect()
    }

    fn ordered(&self, keys: &[KeyBits]) -> Vec<u128> {
        keys.iter().map(|&key| self.key.to_ordered(key)).collect()
    }

    fn ordered_ends(&self, ranges: &[(KeyBits, KeyBits)]) -> Vec<(u128, u128)> {
        ranges.iter().map(|&(lo, hi)| (self.key.to_ordered(lo), self.key.to_ordered(hi))).collect()
    }

    /// Turns the key of the model's pair back.
    fn pair(&self, (ordered, value): (u128, ValueBits)) -> Pair {
        (self.key.from_ordered(ordered), value)
    }

    /// Every pair, in key order.
    fn pairs(&self) -> Vec<Pair> {
        self.model.iter().map(|pair| self.pair(pair)).collect()
    }
}

/// A dictionary and what it means.
struct Checked {
    dictionary: Box<dyn Subject>,
    /// The files that it lives in, if any.
    home: Option<Home>,
    meaning: Meaning,
    /// How many operations changed them.
    changes: usize,
}

impl Checked {
    fn fork(&self) -> Self {
        let (dictionary, meaning) = (self.dictionary.fork(), self.meaning.clone());
        Checked { dictionary, home: None, meaning, changes: self.changes }
    }

    fn compare(&self) -> Result<(), String> {
        compare(self.dictionary.now(), &self.meaning)
    }

    /// Applies one operation to both; the error says what differs.
    fn step(&mut self, operation: &Operation, validate: Validate) -> Result<(), String> {
        if !self.change(operation).map_err(|error| error.to_string())? {
            return query(self.dictionary.now(), &self.meaning, operation);
        }
        self.disturb()?;
        if validate == Validate::AtTheEnd {
            return Ok(());
        }
        let now = self.dictionary.now();
        now.validate()?;
        same("length", &answered(now.len())?, &(self.meaning.model.len() as u64))?;
        self.changes += 1;
        // Not every time: it finishes deferred merges.
        if self.changes.is_multiple_of(8) { self.check_size() } else { Ok(()) }
    }

    /// Lets something happen to the files, and compares everything if the dictionary was opened again.
    fn disturb(&mut self) -> Result<(), String> {
        let Some(home) = &mut self.home else { return Ok(()) };
        let was_opened = home.disturb(&mut self.dictionary).map_err(|error| error.to_string())?;
        if was_opened {
            self.compare().map_err(|what| format!("opened again: {what}"))?;
        }
        Ok(())
    }

    /// Applies the operation if it is one that changes the dictionary; returns whether it is.
    fn change(&mut self, operation: &Operation) -> Result<bool, Error> {
        let Checked { dictionary, meaning, .. } = self;
        match operation {
            Operation::Insert(pairs) => {
                dictionary.insert(pairs)?;
                meaning.update(pairs, &[]);
            }
            Operation::Delete(keys) => {
                dictionary.delete(keys)?;
                meaning.update(&[], keys);
            }
            Operation::Update(pairs, deletes) => {
                dictionary.update(pairs, deletes)?;
                meaning.update(pairs, deletes);
            }
            Operation::Set(pairs) => {
                dictionary.set(pairs)?;
                meaning.set(pairs);
            }
            Operation::Write(changes) => {
                dictionary.write(changes)?;
                for &(key, change) in changes {
                    match change {
                        Change::Insert(value) => meaning.update(&[(key, value)], &[]),
                        Change::Set(value) => meaning.set(&[(key, value)]),
                        Change::Delete => meaning.update(&[], &[key]),
                    }
                }
            }
            Operation::DeleteRange(ranges) => {
                let (lo, hi) = unzip(ranges);
                dictionary.delete_range(&lo, &hi)?;
                for (lo, hi) in meaning.ordered_ends(ranges) {
                    meaning.model.delete_range(lo, hi);
                }
            }
            Operation::MergeFrom(pairs) => {
                dictionary.merge_from(pairs)?;
                meaning.merge_from(pairs);
            }
            Operation::Rebuild => {
                dictionary.rebuild()?;
                meaning.update(&meaning.pairs(), &[]);
            }
            Operation::Cleanup => dictionary.cleanup()?,
            Operation::Clear => {
                dictionary.clear()?;
                meaning.model.clear();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A dictionary that cleans itself holds at most 2·len + b entries, or one more for each shard if those are more than b.
    fn check_size(&self) -> Result<(), String> {
        let now = self.dictionary.now();
        let stats = answered(now.stats())?;
        let most = 2 * stats.live + stats.batch_size.max(stats.shards.len()) as u64;
        if now.policy() == CleanupPolicy::Automatic && stats.entries > most {
            return Err(format!("{} entries where {most} are allowed", stats.entries));
        }
        same("length", &stats.live, &(self.meaning.model.len() as u64))
    }
}

fn query(dictionary: &dyn Queries, meaning: &Meaning, operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::Lookup(keys) => check_lookups(dictionary, meaning, keys),
        Operation::Count(ranges) => check_counts(dictionary, meaning, ranges),
        Operation::Range(ranges) => check_ranges(dictionary, meaning, ranges),
        Operation::Aggregate(ranges) => check_aggregates(dictionary, meaning, ranges),
        Operation::Nearest(keys) => check_nearest(dictionary, meaning, keys),
        Operation::Rank(keys) => {
            let ordered = meaning.ordered(keys);
            let expected: Vec<u64> = ordered.iter().map(|&key| meaning.model.rank(key)).collect();
            same("ranks", &answered(dictionary.rank(keys))?, &expected)
        }
        Operation::Select(indices) => {
            let select = |&index: &u64| meaning.model.select(index).map(|pair| meaning.pair(pair));
            let expected: Vec<_> = indices.iter().map(select).collect();
            same_pairs("selected", &meaning.key, &answered(dictionary.select(indices))?, &expected)
        }
        Operation::Scan => compare(dictionary, meaning),
        Operation::Insert(_)
        | Operation::Delete(_)
        | Operation::Update(..)
        | Operation::Set(_)
        | Operation::Write(_)
        | Operation::DeleteRange(_)
        | Operation::MergeFrom(_)
        | Operation::Rebuild
        | Operation::Cleanup
        | Operation::Clear
        | Operation::Snapshot
        | Operation::Clone => unreachable!("not a query"),
    }
}

fn check_lookups(
    snapshot: &dyn Queries,
    meaning: &Meaning,
    keys: &[KeyBits],
) -> Result<(), String> {
    let ordered = meaning.ordered(keys);
    let expected: Vec<_> = ordered.iter().map(|&key| meaning.model.lookup(key)).collect();
    same("values", &answered(snapshot.lookup(keys))?, &expected)?;
    let found: Vec<bool> = expected.iter().map(Option::is_some).collect();
    same("keys contained", &answered(snapshot.contains(keys))?, &found)
}

fn check_counts(
    snapshot: &dyn Queries,
    meaning: &Meaning,
    ranges: &[(KeyBits, KeyBits)],
) -> Result<(), String> {
    let ordered = meaning.ordered_ends(ranges);
    let expected: Vec<u64> = ordered.iter().map(|&(lo, hi)| meaning.model.count(lo, hi)).collect();
    let (lo, hi) = unzip(ranges);
    same("counts", &answered(snapshot.count(&lo, &hi))?, &expected)?;
    for ((&(lo, hi), (_, last)), count) in ranges.iter().zip(ordered).zip(expected) {
        let last = u64::from(count > 0 && meaning.model.lookup(last).is_some());
        let got = answered(snapshot.count_half_open(lo, hi))?;
        same("half-open count", &got, &(count - last))?;
    }
    Ok(())
}

fn check_ranges(
    snapshot: &dyn Queries,
    meaning: &Meaning,
    ranges: &[(KeyBits, KeyBits)],
) -> Result<(), String> {
    let (lo, hi) = unzip(ranges);
    let answers = answered(snapshot.range(&lo, &hi))?;
    same("number of ranges", &answers.len(), &ranges.len())?;
    for ((lo, hi), got) in meaning.ordered_ends(ranges).into_iter().zip(answers) {
        let expected: Vec<_> = meaning.model.range(lo, hi).map(|pair| meaning.pair(pair)).collect();
        same_pairs("range", &meaning.key, &some(got), &some(expected))?;
    }
    Ok(())
}

/// Compares the sums, minima and maxima of values read as every type of number that fits.
fn check_aggregates(
    snapshot: &dyn Queries,
    meaning: &Meaning,
    ranges: &[(KeyBits, KeyBits)],
) -> Result<(), String> {
    let (lo, hi) = unzip(ranges);
    let values_of = |&(lo, hi): &(u128, u128)| -> Vec<ValueBits> {
        meaning.model.range(lo, hi).map(|(_, value)| value).collect()
    };
    let values: Vec<_> = meaning.ordered_ends(ranges).iter().map(values_of).collect();
    let expected_counts: Vec<u64> = values.iter().map(|values| values.len() as u64).collect();
    for fold in folds(meaning.value_width) {
        let (answers, counts) = answered(snapshot.aggregate(&lo, &hi, fold))?;
        same("counts of aggregates", &counts, &expected_counts)?;
        let elements = meaning.value_width / fold.element.width;
        for ((got, values), range) in answers.chunks(elements).zip(&values).zip(ranges) {
            let expected = aggregate(fold, meaning.value_width, values);
            if !expected.iter().zip(got).all(|(expected, &got)| expected.matches(got)) {
                let range = [range.0, range.1].map(|end| meaning.key.show(end)).join(" to ");
                return Err(format!("{fold:?} of {range}: got {got:x?}, expected {expected:x?}"));
            }
        }
    }
    Ok(())
}

fn check_nearest(
    snapshot: &dyn Queries,
    meaning: &Meaning,
    keys: &[KeyBits],
) -> Result<(), String> {
    let Meaning { key, model, .. } = meaning;
    let pair = |pair: Option<_>| pair.map(|pair| meaning.pair(pair));
    let ordered = meaning.ordered(keys);
    let each = |nearest: &dyn Fn(u128) -> Option<(u128, ValueBits)>| -> Vec<_> {
        ordered.iter().map(|&key| pair(nearest(key))).collect()
    };
    let successors = answered(snapshot.successor(keys))?;
    same_pairs("successors", key, &successors, &each(&|key| model.successor(key)))?;
    let predecessors = answered(snapshot.predecessor(keys))?;
    same_pairs("predecessors", key, &predecessors, &each(&|key| model.predecessor(key)))?;
    let strict = answered(snapshot.strict_successor(keys))?;
    same_pairs("strict successors", key, &strict, &each(&|key| model.strict_successor(key)))?;
    let strict = answered(snapshot.strict_predecessor(keys))?;
    same_pairs("strict predecessors", key, &strict, &each(&|key| model.strict_predecessor(key)))
}

/// Compares the whole of a dictionary by every query.
fn compare(snapshot: &dyn Queries, meaning: &Meaning) -> Result<(), String> {
    let key = &meaning.key;
    let mut pairs = some(meaning.pairs());
    snapshot.validate()?;
    same("length", &answered(snapshot.len())?, &(pairs.len() as u64))?;
    let ends = [pairs.first().copied().flatten(), pairs.last().copied().flatten()];
    same_pairs("ends", key, &answered(snapshot.first_and_last())?, &ends)?;
    same_pairs("iteration", key, &some(snapshot.iterated()), &pairs)?;
    let all = answered(snapshot.all())?;
    let keys: Vec<KeyBits> = all.iter().map(|&(key, _)| key).collect();
    same_pairs("pairs", key, &some(all), &pairs)?;
    check_lookups(snapshot, meaning, &keys)?;
    check_aggregates(snapshot, meaning, &[(key.lowest, key.highest)])?;
    let ranks: Vec<u64> = (0..keys.len() as u64).collect();
    same("ranks", &answered(snapshot.rank(&keys))?, &ranks)?;
    same_pairs("selected", key, &answered(snapshot.select(&ranks))?, &pairs)?;
    pairs.reverse();
    same_pairs("iteration backwards", key, &some(snapshot.iterated_backwards()), &pairs)
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

/// Compares pairs by their bits, so that NaN equals NaN. The message names the first pair that differs.
fn same_pairs(
    what: &str,
    key: &KeyType,
    got: &[Option<Pair>],
    expected: &[Option<Pair>],
) -> Result<(), String> {
    same(&format!("pairs of {what}"), &got.len(), &expected.len())?;
    let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) else { return Ok(()) };
    let show = |pair: Option<Pair>| match pair {
        None => "nothing".to_owned(),
        Some((bits, value)) => format!("{} → {value}", key.show(bits)),
    };
    Err(format!("{what}, at index {at}: got {}, expected {}", show(got[at]), show(expected[at])))
}

fn some(pairs: Vec<Pair>) -> Vec<Option<Pair>> {
    pairs.into_iter().map(Some).collect()
}

fn unzip(ranges: &[(KeyBits, KeyBits)]) -> (Vec<KeyBits>, Vec<KeyBits>) {
    ranges.iter().copied().unzip()
}
