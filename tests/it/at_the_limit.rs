//! Dictionaries that are full: what was accepted can be cleaned up, and read from files under the same limit.

use gpulsm::{Device, Dictionary, Durability, Error};

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
        Err(Error::OutOfMemory { .. }) => false,
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
