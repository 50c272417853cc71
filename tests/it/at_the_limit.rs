//! Dictionaries that are full: what was accepted can be cleaned up, and read from files under the same limit.

use std::collections::BTreeMap;
use std::fmt::Debug;

use gpulsm::{Device, Dictionary, Durability, Error, Key, Value};

use crate::files::Scratch;

/// Returns a dictionary of as many shards under a memory limit.
fn limited(shards: usize, limit: u64) -> Dictionary<u64, u64> {
    let devices = vec![Device::cpu(); shards];
    Dictionary::builder().devices(&devices).memory_limit(limit).build().unwrap()
}

/// Returns whether there was memory for an update.
fn fits(outcome: Result<(), Error>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(Error::OutOfMemory { .. } | Error::UpdatesRefused { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Inserts ascending keys in batches until there is no room for another one; returns how many.
fn fill(d: &mut Dictionary<u64, u64>, batch: u64) -> u64 {
    let mut len = 0;
    loop {
        let keys: Vec<u64> = (len..len + batch).collect();
        if !fits(d.insert(&keys, &keys)) {
            return len;
        }
        len += batch;
    }
}

/// Cleans up, and then inserts, which must work once some keys are deleted.
fn expect_usable(d: &mut Dictionary<u64, u64>, what: &str) {
    d.validate().unwrap();
    d.cleanup().unwrap_or_else(|error| panic!("{what}: {error}"));
    d.insert(&[u64::MAX], &[1]).unwrap_or_else(|error| panic!("{what}: {error}"));
    d.validate().unwrap();
}

#[test]
fn a_cleanup_works_after_deletes_of_any_length() {
    for limit in [300_000, 400_000, 1_000_000] {
        for batch in [100, 3_000] {
            let mut d = limited(1, limit);
            let len = fill(&mut d, batch);
            let (mut at, mut count) = (0, len * 3 / 10);
            while count > 0 && at < len / 2 {
                let keys: Vec<u64> = (at..at + count).collect();
                match fits(d.delete(&keys)) {
                    true => at += count,
                    false => count /= 2,
                }
            }
            assert!(at > 0, "{limit} bytes, batches of {batch}: no key could be deleted");
            expect_usable(&mut d, &format!("{limit} bytes, batches of {batch}, {at} deletes"));
            assert_eq!(d.len(), Ok(len - at + 1));
        }
    }
}

#[test]
fn a_cleanup_works_in_shards_that_share_a_limit() {
    for shards in [2, 3, 7] {
        for limit in [1_000_000, 4_000_000] {
            let mut d = limited(shards, limit);
            let len = fill(&mut d, 3_000);
            d.cleanup().unwrap_or_else(|error| panic!("{shards} shards, {limit} bytes: {error}"));
            let mut at = 0;
            while at < len / 2 && fits(d.delete(&(at..at + 50).collect::<Vec<_>>())) {
                at += 50;
            }
            expect_usable(&mut d, &format!("{shards} shards, {limit} bytes, {at} deletes"));
        }
    }
}

#[test]
fn a_cleanup_works_once_a_snapshot_is_dropped() {
    for limit in [300_000, 1_000_000, 2_000_000] {
        let mut d = limited(1, limit);
        let len = fill(&mut d, 200);
        let snapshot = d.snapshot();
        let mut at = 0;
        while at < len && fits(d.delete(&(at..at + 200).collect::<Vec<_>>())) {
            at += 200;
        }
        assert_eq!(snapshot.len(), Ok(len));
        drop(snapshot);
        // Deletes go on, and make room.
        while at < len / 2 {
            d.delete(&(at..at + 200).collect::<Vec<_>>()).unwrap();
            at += 200;
        }
        expect_usable(&mut d, &format!("{limit} bytes, {at} deletes"));
    }
}

#[test]
fn what_fits_a_limit_is_read_under_the_same_limit() {
    for shards in [1, 3] {
        for limit in [300_000u64, 1_000_000, 4_000_000] {
            let scratch = Scratch::new("limit");
            let (folder, file) = (scratch.path("folder"), scratch.path("file"));
            let builder = || {
                let devices = vec![Device::cpu(); shards];
                let builder = Dictionary::<u64, u64>::builder().devices(&devices);
                builder.memory_limit(limit).durability(Durability::Os)
            };
            let mut d = builder().open(&folder).unwrap();
            let len = fill(&mut d, 100);
            d.checkpoint().unwrap();
            d.save(&file).unwrap();
            d.close().unwrap();
            drop(d);
            let what = format!("{shards} shards, {limit} bytes, {len} pairs");
            let opened = builder().open(&folder).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(opened.len(), Ok(len));
            drop(opened);
            let loaded = builder().load(&file).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(loaded.len(), Ok(len));
            loaded.validate().unwrap();
        }
    }
}

#[test]
fn errors_of_shards_blame_no_snapshot_that_does_not_exist() {
    let mut d = limited(3, 4_000_000);
    let len = fill(&mut d, 1_000);
    let keys: Vec<u64> = (len..len + 1_000).collect();
    let refused = d.insert(&keys, &keys).unwrap_err();
    let text = refused.to_string();
    let Error::OutOfMemory { memory: Some(memory), .. } = refused else { panic!("{text}") };
    assert!(!text.contains("snapshot") && text.contains("`cleanup`"), "{text}");
    assert!(memory.runs > memory.total / 2, "{text}");
}

#[test]
fn ascending_keys_in_long_calls_are_spread_over_shards() {
    let mut d = limited(4, 1 << 30);
    for call in 0..16u64 {
        let keys: Vec<u64> = (call * 50_000..(call + 1) * 50_000).collect();
        d.insert(&keys, &keys).unwrap();
        d.validate().unwrap();
        let lens: Vec<u64> = d.stats().unwrap().shards.iter().map(|shard| shard.live).collect();
        let mean = lens.iter().sum::<u64>() / 4;
        assert!(lens.iter().all(|&len| len * 10 <= mean * 16 + 160), "call {call}: {lens:?}");
    }
}

/// A stream of numbers that look random (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Inserts and replaces random keys until there was no room a few times; returns what must be there.
fn fill_at_random(d: &mut Dictionary<u64, u64>, batch: usize) -> BTreeMap<u64, u64> {
    let (mut model, mut state, mut refused) = (BTreeMap::new(), 7, 0);
    while refused < 5 {
        let keys: Vec<u64> = (0..batch).map(|_| random(&mut state) >> 40).collect();
        let values: Vec<u64> = (0..batch).map(|_| random(&mut state)).collect();
        match fits(d.insert(&keys, &values)) {
            true => model.extend(keys.into_iter().zip(values)),
            false => refused += 1,
        }
    }
    model
}

/// Updates a dictionary that lives in a folder at random, also when it is full, and opens it again.
fn check_opening<K: Key + Ord + Debug, V: Value + PartialEq + Debug>(
    (limit, batch, log_limit): (u64, usize, u64),
    shards: usize,
    key: impl Fn(u64) -> K,
    value: impl Fn(u64) -> V,
) -> Result<(), String> {
    let scratch = Scratch::new("under");
    let folder = scratch.path("folder");
    let builder = || {
        let devices = vec![Device::cpu(); shards];
        let builder = Dictionary::<K, V>::builder().devices(&devices).memory_limit(limit);
        builder.durability(Durability::Os).log_limit(log_limit)
    };
    let mut d = builder().open(&folder).unwrap();
    let (mut model, mut state, mut refused) = (BTreeMap::new(), limit + batch as u64, 0);
    for _ in 0..(limit as usize / batch).min(3000) {
        let keys: Vec<K> = (0..batch).map(|_| key(random(&mut state) >> 40)).collect();
        let choice = random(&mut state) % 8;
        let fitted = match choice {
            0 if refused > 0 => fits(d.delete(&keys)),
            1 if refused > 0 => {
                let some: Vec<K> = model.range(keys[0]..).take(batch).map(|pair| *pair.0).collect();
                let fitted = fits(d.delete(&some));
                if fitted {
                    some.iter().for_each(|key| {
                        model.remove(key);
                    });
                }
                fitted
            }
            2 => fits(d.insert_one(keys[0], value(1))),
            _ => {
                let values: Vec<V> = keys.iter().map(|_| value(random(&mut state))).collect();
                let fitted = fits(d.insert(&keys, &values));
                if fitted {
                    model.extend(keys.iter().copied().zip(values));
                }
                fitted
            }
        };
        match (fitted, choice) {
            (true, 0) if refused > 0 => keys.iter().for_each(|key| {
                model.remove(key);
            }),
            (true, 2) => drop(model.insert(keys[0], value(1))),
            (fitted, _) => refused += usize::from(!fitted),
        }
        if refused > 40 {
            break;
        }
    }
    drop(d);
    for _ in 0..3 {
        let what =
            format!("{limit} bytes, batches of {batch}, log of {log_limit}, {shards} shards");
        let opened = builder().open(&folder).map_err(|error| format!("{what}: {error}"))?;
        let (keys, values) = opened.to_vecs().map_err(|error| format!("{what}: {error}"))?;
        assert!(keys.iter().eq(model.keys()) && values.iter().eq(model.values()), "{what}");
        opened.validate().unwrap();
    }
    Ok(())
}

#[test]
fn what_was_written_under_a_limit_is_opened_under_it() {
    let mut failures = Vec::new();
    let mut random_state = 1;
    for limit in [3_000u64, 20_000, 100_000, 300_000, 1_000_000, 4_000_000] {
        for part in [4000, 400, 100, 40, 15] {
            let batch = (limit as usize / 16 / part).max(1);
            if limit as usize / batch > 3000 && limit > 100_000 {
                continue; // Slow.
            }
            // One of the kinds for each size: all of them take minutes.
            for log_limit in [1 << 12, limit, 1 << 40] {
                let size = (limit, batch, log_limit);
                failures.extend(match random(&mut random_state) % 4 {
                    0 => check_opening::<u64, u64>(size, 1, |key| key, |value| value).err(),
                    1 => check_opening::<u64, u64>(size, 3, |key| key, |value| value).err(),
                    2 => check_opening::<u32, ()>(size, 1, |key| key as u32, |_| ()).err(),
                    _ => {
                        check_opening::<u128, u32>(size, 1, u128::from, |value| value as u32).err()
                    }
                });
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

/// Fills a dictionary and does something to it; returns what was refused, if anything.
fn refused_when_full(
    (limit, batch): (u64, usize),
    what: &str,
    job: impl Fn(&mut Dictionary<u64, u64>, &mut BTreeMap<u64, u64>) -> Result<(), Error>,
) -> Option<String> {
    let mut d = limited(1, limit);
    let mut model = fill_at_random(&mut d, batch);
    if let Err(error) = job(&mut d, &mut model) {
        return Some(format!(
            "{limit} bytes, batches of {batch}, {} pairs, {what}: {error}",
            model.len()
        ));
    }
    d.validate().unwrap();
    let (keys, values) = d.to_vecs().unwrap();
    assert!(keys.iter().eq(model.keys()) && values.iter().eq(model.values()), "{what}");
    None
}

#[test]
fn a_full_dictionary_accepts_what_it_must() {
    let mut failures = Vec::new();
    for limit in [2_000u64, 5_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 4_000_000] {
        for batch in [1, 10, 300] {
            if batch * 2000 < limit as usize / 200 {
                continue; // Slow.
            }
            let size = (limit, batch);
            failures.extend(refused_when_full(size, "cleanup", |d, _| d.cleanup()));
            failures.extend(refused_when_full(size, "a delete", |d, model| {
                let key = *model.keys().next().unwrap_or(&0);
                model.remove(&key);
                d.delete(&[key])
            }));
            failures.extend(refused_when_full(size, "deletes one by one", |d, model| {
                let keys: Vec<u64> = model.keys().copied().collect();
                model.clear();
                keys.iter().take(2000).try_for_each(|key| d.delete(&[*key]))?;
                d.delete_range_one(..)
            }));
            for step in [1, 2] {
                failures.extend(refused_when_full(size, "many deletes", |d, model| {
                    let keys: Vec<u64> = model.keys().copied().step_by(step).collect();
                    keys.iter().for_each(|key| {
                        model.remove(key);
                    });
                    d.delete(&keys)
                }));
            }
            for (lo, hi) in [
                (0, 1 << 23),
                (1 << 23, u64::MAX),
                (0, (1 << 24) / 10 * 9),
                (1 << 20, (1 << 20) + (1 << 24) / 10),
            ] {
                failures.extend(refused_when_full(size, "a range delete", |d, model| {
                    model.retain(|key, _| !(lo..=hi).contains(key));
                    d.delete_range_one(lo..=hi)
                }));
            }
            failures.extend(refused_when_full(size, "clear", |d, model| {
                model.clear();
                d.clear()
            }));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
