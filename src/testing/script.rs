//! Lists of operations, drawn from bytes, done to a dictionary and to the model side by side.
//!
//! The tests, the fuzzer and the program's `verify` all check dictionaries with these.

use std::fmt;

use crate::batch::Batch;
use crate::builder::Builder;
use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::key::Key;
use crate::snapshot::Snapshot;
use crate::store::CleanupPolicy;
use crate::testing::model::Model;
use crate::value::Value;

/// One call, or a few that belong together.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // Each is the call of that name.
pub enum Operation<K, V> {
    Insert(Vec<(K, V)>),
    Delete(Vec<K>),
    Update(Vec<(K, V)>, Vec<K>),
    DeleteRange(Vec<(K, K)>),
    MergeFrom(Vec<(K, V)>),
    Rebuild,
    Cleanup,
    Clear,
    Lookup(Vec<K>),
    Count(Vec<(K, K)>),
    Range(Vec<(K, K)>),
    Nearest(Vec<K>),
    Rank(Vec<K>),
    Select(Vec<u64>),
    Scan,
    Snapshot,
    Clone,
}

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

/// Draws operations from bytes. When the bytes run out it draws zeros.
pub struct Draw<I> {
    bytes: I,
    scale: usize,
}

impl<I: Iterator<Item = u8>> Draw<I> {
    /// Draws from these bytes.
    pub fn new(bytes: impl IntoIterator<IntoIter = I>) -> Self {
        Draw { bytes: bytes.into_iter(), scale: 1 }
    }

    /// Makes lists `scale` times as long, of keys that are spread `scale` times as far.
    pub fn scaled(self, scale: usize) -> Self {
        Draw { scale, ..self }
    }

    /// Settings: often a tiny batch size, so that carries are many, and often few entries that are
    /// merged at once.
    pub fn settings<K: Key, V: Value>(&mut self) -> Builder<K, V> {
        let byte = usize::from(self.byte());
        let builder =
            Dictionary::builder().batch_size([1, 2, 3, 4, 8, 16, 50, 256, 600, 1024][byte % 10]);
        match byte / 10 % 4 {
            0 => builder,
            by => builder.merged_at_once([0, 20, 100][by - 1]),
        }
    }

    /// The next operation.
    pub fn operation<K: Key, V: Value>(&mut self) -> Operation<K, V> {
        match self.byte() % 32 {
            0..=6 => Operation::Insert(self.list(Self::pair)),
            7..=9 => Operation::Delete(self.list(Self::key)),
            10..=14 => Operation::Update(self.list(Self::pair), self.list(Self::key)),
            15 => Operation::DeleteRange(self.list(Self::keys)),
            16 => Operation::MergeFrom(self.list(Self::pair)),
            17 => Operation::Rebuild,
            18 => Operation::Cleanup,
            19 => Operation::Clear,
            20 | 21 => Operation::Lookup(self.list(Self::key)),
            22 | 23 => Operation::Count(self.list(Self::keys)),
            24 | 25 => Operation::Range(self.list(Self::keys)),
            26 => Operation::Nearest(self.list(Self::key)),
            27 => Operation::Rank(self.list(Self::key)),
            28 => Operation::Select(self.list(|draw| draw.number())),
            29 => Operation::Scan,
            30 => Operation::Snapshot,
            _ => Operation::Clone,
        }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            number => u64::from(number),
        }
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        let len = match self.byte() {
            len @ 0..=239 => usize::from(len) % 12,
            long => usize::from(long - 238) * 20,
        };
        (0..len * self.scale).map(|_| item(self)).collect()
    }

    fn pair<K: Key, V: Value>(&mut self) -> (K, V) {
        (self.key(), self.plain(2))
    }

    fn keys<K: Key>(&mut self) -> (K, K) {
        (self.key(), self.key())
    }

    /// Mostly one of a few keys, so that they meet again; sometimes an end; sometimes any.
    fn key<K: Key>(&mut self) -> K {
        let kind = self.byte();
        match kind {
            0..=199 => {
                K::from_ordered(self.near(K::from_ordered(bytemuck::Zeroable::zeroed()), kind))
            }
            200..=219 => K::from_ordered(self.near(K::HIGHEST, kind)),
            220..=224 => K::LOWEST,
            225..=229 => K::HIGHEST,
            230 => self.plain(0),
            _ => self.plain(size_of::<K>()),
        }
    }

    /// The integer of `base`, or one of its neighbours.
    fn near<K: Key>(&mut self, base: K, distance: u8) -> K::Ordered {
        let mut ordered: K::Ordered = base.to_ordered();
        let mut bytes = [0; 8];
        let width = size_of::<K::Ordered>();
        bytes[..width].copy_from_slice(bytemuck::bytes_of(&ordered));
        let base = u64::from_le_bytes(bytes);
        let is_up = base == 0 || self.byte() & 1 == 0;
        let distance = match (u64::from(distance), self.scale) {
            (near, 1) => near % 40,
            (near, scale) => {
                let far = near << 16 | u64::from(self.byte()) << 8 | u64::from(self.byte());
                far % (40 * scale as u64)
            }
        };
        let moved = if is_up { base.wrapping_add(distance) } else { base.wrapping_sub(distance) };
        bytemuck::bytes_of_mut(&mut ordered).copy_from_slice(&moved.to_le_bytes()[..width]);
        ordered
    }

    /// Any plain data, of which at most `drawn` bytes are not 0.
    fn plain<T: bytemuck::Pod>(&mut self, drawn: usize) -> T {
        let mut plain = T::zeroed();
        let bytes = bytemuck::bytes_of_mut(&mut plain);
        bytes.iter_mut().take(drawn).for_each(|byte| *byte = self.byte());
        plain
    }
}

impl Draw<Random> {
    /// Draws without end from a pseudo-random sequence.
    pub fn random(seed: u64) -> Self {
        Draw { bytes: Random::new(seed), scale: 1 }
    }
}

/// An endless pseudo-random sequence of bytes (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Iterator for Random {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        Some((self.number() >> 56) as u8)
    }
}

/// Does every operation to `dictionary`, which is empty, and to the model, and compares: after each
/// change the rules of the structure, at each query the answers, at the end everything, the
/// snapshots and clones taken on the way included. And all of it once more with nothing asked between
/// changes, so that these wait for each other.
pub fn check<K: Key, V: Value + fmt::Debug>(
    dictionary: Dictionary<K, V>,
    operations: impl IntoIterator<Item = Operation<K, V>>,
) -> Result<(), Mismatch> {
    let operations: Vec<_> = operations.into_iter().collect();
    check_once(dictionary.clone(), &operations, Validate::AfterChanges)?;
    check_once(dictionary, &operations, Validate::AtTheEnd)
        .map_err(|mismatch| Mismatch { what: format!("in haste: {}", mismatch.what), ..mismatch })
}

/// When the rules of the structure are checked.
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
        // What is done to a clone is no one else's business: the snapshots are compared last.
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
    /// Does one operation to both; the text says what differs.
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
        // Not every time: merges that were put off are done for it.
        if self.changes.is_multiple_of(8) { self.check_size() } else { Ok(()) }
    }

    /// Does the operation if it is one that changes the dictionary.
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
            _ => compare(dictionary, model),
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

/// Compares everything that can be asked about the whole of a dictionary.
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
