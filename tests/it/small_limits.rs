//! Small memory limits: what fits is held, and whatever updates were accepted, queries and cleanups work.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound::{Excluded, Included, Unbounded};

use gpulsm::{Device, Dictionary, Error, Key, Value};

/// A stream of numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A dictionary under a memory limit beside what it should hold.
struct Pair<K: Key, V: Value> {
    dictionary: Dictionary<K, V>,
    model: BTreeMap<K, V>,
    random: Random,
    limit: u64,
}

impl<K: Key + Ord + Debug, V: Value + PartialEq + Debug> Pair<K, V> {
    fn new(limit: u64, threads: usize, seed: u64) -> Self {
        let builder = Dictionary::builder().device(Device::cpu()).threads(threads);
        let dictionary = builder.memory_limit(limit).build().unwrap();
        Pair { dictionary, model: BTreeMap::new(), random: Random(seed), limit }
    }

    /// Returns how many thousandths of the limit the pairs take.
    fn held(&self) -> u64 {
        let pair = size_of::<K>() + size_of::<V>();
        (self.model.len() * pair) as u64 * 1000 / self.limit
    }

    /// Returns some keys, most of which are there.
    fn some_keys(&mut self, len: usize, key: impl Fn(u64) -> K) -> Vec<K> {
        let from = key(self.random.next());
        let near = self.model.range((Included(from), Unbounded)).map(|(&key, _)| key);
        let mut keys: Vec<K> = near.take(len).collect();
        keys.push(from);
        keys
    }

    /// Inserts or deletes about this many keys; returns whether there was memory for it.
    fn update(
        &mut self,
        len: usize,
        key: impl Fn(u64) -> K + Copy,
        value: impl Fn(u64) -> V,
    ) -> bool {
        let outcome = if self.random.below(4) > 0 {
            let numbers: Vec<u64> = (0..len).map(|_| self.random.next()).collect();
            let keys: Vec<K> = numbers.iter().map(|&number| key(number)).collect();
            let values: Vec<V> = numbers.iter().map(|&number| value(number)).collect();
            let outcome = self.dictionary.insert(&keys, &values);
            if outcome.is_ok() {
                self.model.extend(keys.into_iter().zip(values));
            }
            outcome
        } else {
            let keys = self.some_keys(len / 2, key);
            let outcome = self.dictionary.delete(&keys);
            if outcome.is_ok() {
                for key in &keys {
                    self.model.remove(key);
                }
            }
            outcome
        };
        assert!(matches!(outcome, Ok(()) | Err(Error::OutOfMemory { .. })), "{outcome:?}");
        outcome.is_ok()
    }

    /// Checks queries of every kind: none may lack memory.
    fn check(&mut self, key: impl Fn(u64) -> K) {
        let keys = self.some_keys(300, key);
        let (d, model) = (&self.dictionary, &self.model);
        let context = format!("{} of {} bytes", self.held(), self.limit);
        assert_eq!(d.len().expect(&context), model.len() as u64);
        let found: Vec<Option<V>> = keys.iter().map(|key| model.get(key).copied()).collect();
        assert!(d.lookup(&keys).expect(&context) == found);
        let next: Vec<Option<(K, V)>> = keys
            .iter()
            .map(|&key| model.range((Included(key), Unbounded)).next().map(|(&k, &v)| (k, v)))
            .collect();
        assert!(d.successor(&keys).expect(&context) == next);
        let first = keys[0];
        let below = model.range((Unbounded, Excluded(first))).count() as u64;
        assert_eq!(d.rank(&[first]).expect(&context), [below]);
        let at_rank = model.range((Included(first), Unbounded)).next();
        let selected = d.select(&[below]).expect(&context);
        assert!(selected == [at_rank.map(|(&key, &value)| (key, value))]);
        let last = *keys.iter().max().unwrap();
        let ranges: Vec<_> = keys.iter().map(|&key| key..=last).collect();
        let count = |&key: &K| model.range((Included(key), Included(last))).count() as u64;
        let counts: Vec<u64> = keys.iter().map(count).collect();
        assert_eq!(d.count(&ranges[..]).expect(&context), counts);
        d.range(&ranges[..]).expect(&context);
        let (all, values) = d.to_vecs().expect(&context);
        assert!(all.iter().eq(model.keys()) && values.iter().eq(model.values()), "{context}");
    }
}

/// Updates a dictionary at random until it was full for a while. Returns the most thousandths of the limit that pairs
/// took.
fn check_list<K: Key + Ord + Debug, V: Value + PartialEq + Debug>(
    (limit, batch, threads): (u64, usize, usize),
    key: impl Fn(u64) -> K + Copy,
    value: impl Fn(u64) -> V + Copy,
) -> u64 {
    let mut pair = Pair::<K, V>::new(limit, threads, limit + batch as u64);
    let pair_bytes = size_of::<K>() + size_of::<V>();
    let between_checks = (limit as usize / pair_bytes / batch / 12).max(1);
    let (mut most, mut refused) = (0, 0);
    for step in 1.. {
        let len = if pair.random.below(3) == 0 { 1 } else { batch };
        refused += usize::from(!pair.update(len, key, value));
        most = most.max(pair.held());
        if step % between_checks == 0 || refused > 0 && step % between_checks.min(40) == 0 {
            pair.check(key);
            pair.dictionary.validate().unwrap();
        }
        if step % (5 * between_checks) == 0 {
            pair.dictionary.cleanup().unwrap_or_else(|error| panic!("{limit}, {batch}: {error}"));
            assert_eq!(pair.dictionary.stats().unwrap().entries, pair.model.len() as u64);
        }
        if refused > 20 {
            break;
        }
    }
    pair.dictionary.cleanup().unwrap_or_else(|error| panic!("{limit}, {batch}: {error}"));
    pair.check(key);
    assert!(pair.dictionary.stats().unwrap().bytes_peak <= limit);
    most
}

/// Checks dictionaries of several types; returns the least of the most thousandths that they held.
fn check_types(limit: u64, batch: usize, threads: usize) -> u64 {
    let size = (limit, batch, threads);
    let narrow = check_list::<u32, ()>(size, |number| number as u32, |_| ());
    let usual = check_list::<u64, u64>(size, |number| number, |number| !number);
    let wide = check_list::<u128, u128>(size, |number| u128::from(number) << 50, u128::from);
    narrow.min(usual).min(wide)
}

#[test]
fn queries_and_cleanups_find_memory_under_small_limits() {
    for (limit, held) in [(300_000, 600), (1_000_000, 700)] {
        for batch in [1, 30, 200] {
            let most = check_types(limit, batch, 2);
            assert!(most >= held, "{limit} bytes, {batch} at a time: {most} thousandths");
        }
    }
}

#[test]
#[ignore = "takes a minute"]
fn queries_and_cleanups_find_memory_under_medium_limits() {
    for (limit, batch) in [(2_000_000, 700), (8_000_000, 3000)] {
        for threads in [1, 16] {
            let most = check_types(limit, batch, threads);
            assert!(most >= 750, "{limit} bytes, {batch} at a time: {most} thousandths");
        }
    }
}
