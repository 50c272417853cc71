//! Dictionaries on several devices: the same answers, whatever the splitters, and all of a batch or none.

use std::collections::BTreeMap;
use std::process::Command;

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Combine, Device, Dictionary, Error, MAX_SHARDS};

/// Runs tests of these names in a process in which every dictionary has this many shards.
fn run(shards: usize, tests: &[&str]) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(tests).args(["--skip", "::cuda"]);
    // These look at runs, at memory to the byte, or at what one thread does.
    for of_one_store in [
        "successor_over_a_million_tombstones",
        "becomes_a_run_of_tombstones",
        "leave_no_tombstone",
        "shards::",
    ] {
        process.args(["--skip", of_one_store]);
    }
    let output = process.env("GPULSM_SHARDS", shards.to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains(" 0 passed"), "{shards} shards: {text}");
}

#[test]
fn lists_of_operations_are_answered_by_one_shard() {
    run(1, &["model::u64_u64", "model::u32_set"]);
}

#[test]
fn lists_of_operations_are_answered_by_two_shards() {
    run(2, &["model::", "corpus::", "edges::", "regressions::replayed"]);
}

#[test]
fn lists_of_operations_are_answered_by_three_shards() {
    run(3, &["model::", "combine::", "wide::", "asof::"]);
}

#[test]
fn lists_of_operations_are_answered_by_seven_shards() {
    run(7, &["model::", "aggregates::", "range_deletes::", "batches::", "parity::"]);
}

#[test]
fn files_are_those_of_one_device() {
    run(3, &["golden::", "files_types::", "files::large"]);
}

fn on(shards: usize) -> gpulsm::Builder<u64, u32> {
    Dictionary::<u64, u32>::builder().devices(&vec![Device::cpu(); shards]).threads(1)
}

/// How many keys each shard has.
fn lens(d: &Dictionary<u64, u32>) -> Vec<u64> {
    d.stats().unwrap().shards.iter().map(|shard| shard.live).collect()
}

/// Checks that no shard is much longer than the others.
#[track_caller]
fn assert_balanced(d: &Dictionary<u64, u32>) {
    let (lens, len) = (lens(d), d.len().unwrap());
    let most = *lens.iter().max().unwrap();
    assert!(most <= len / lens.len() as u64 * 3 / 2 + 20, "{lens:?}");
}

/// Checks all pairs, and queries around all splitters that there may be.
#[track_caller]
fn assert_means(d: &Dictionary<u64, u32>, map: &BTreeMap<u64, u32>) {
    d.validate().unwrap();
    assert_eq!(d.len(), Ok(map.len() as u64));
    assert!(d.iter().eq(map.iter().map(|(&key, &value)| (key, value))));
    let keys: Vec<u64> =
        map.keys().flat_map(|&key| [key.saturating_sub(1), key, key + 1]).collect();
    let expected: Vec<_> = keys.iter().map(|key| map.get(key).copied()).collect();
    assert_eq!(d.lookup(&keys).unwrap(), expected);
    let next = |&key: &u64| map.range(key..).next().map(|(&key, &value)| (key, value));
    assert_eq!(d.successor(&keys).unwrap(), keys.iter().map(next).collect::<Vec<_>>());
    let last = |&key: &u64| map.range(..=key).next_back().map(|(&key, &value)| (key, value));
    assert_eq!(d.predecessor(&keys).unwrap(), keys.iter().map(last).collect::<Vec<_>>());
    let order: BTreeMap<u64, u64> = map.keys().zip(0..).map(|(&key, at)| (key, at)).collect();
    let rank = |key: &u64| order.range(key..).next().map_or(map.len() as u64, |(_, &at)| at);
    assert_eq!(d.rank(&keys).unwrap(), keys.iter().map(rank).collect::<Vec<_>>());
    let positions: Vec<u64> = (0..map.len() as u64 + 2).collect();
    let pairs: Vec<_> = map.iter().map(|(&key, &value)| Some((key, value))).collect();
    assert_eq!(d.select(&positions).unwrap(), [&pairs[..], &[None, None]].concat());
}

/// Ascending keys all go to the last shard, which must give most of them away; descending ones to the first.
#[test]
fn shards_that_drift_apart_are_rebalanced() {
    for shards in [2, 3, 7] {
        for is_ascending in [true, false] {
            let mut d = on(shards).batch_size(100).build().unwrap();
            let mut map = BTreeMap::new();
            for batch in 0..200u64 {
                let place = if is_ascending { batch } else { 1000 - batch };
                let keys: Vec<u64> = (0..97).map(|at| (place * 97 + at) * 5).collect();
                let values: Vec<u32> = keys.iter().map(|&key| key as u32).collect();
                d.insert(&keys, &values).unwrap();
                d.validate().unwrap();
                map.extend(keys.into_iter().zip(values));
                if batch > 20 && batch % 10 == 0 {
                    assert_balanced(&d);
                }
            }
            assert_balanced(&d);
            assert_means(&d, &map);
            // Of what is left after a range delete, most are in few shards.
            let snapshot = d.snapshot();
            let (lo, hi) = (*map.keys().nth(100).unwrap(), *map.keys().nth(15_000).unwrap());
            d.delete_range_one(lo..=hi).unwrap();
            for _ in 0..60 {
                d.delete(&[1]).unwrap();
                d.insert(&[0], &[0]).unwrap();
            }
            map.insert(0, 0);
            let rest: BTreeMap<u64, u32> = map
                .iter()
                .filter(|(key, _)| !(lo..=hi).contains(key))
                .map(|(k, v)| (*k, *v))
                .collect();
            assert_balanced(&d);
            assert_means(&d, &rest);
            assert_eq!(snapshot.len(), Ok(200 * 97));
        }
    }
}

#[test]
fn one_key_many_keys_and_no_keys_are_fine_in_any_number_of_shards() {
    for shards in [2, 3, 7, MAX_SHARDS] {
        let mut d = on(shards).batch_size(16).build().unwrap();
        assert_means(&d, &BTreeMap::new());
        d.insert(&[5, 5, 5], &[1, 2, 3]).unwrap();
        assert_means(&d, &BTreeMap::from([(5, 3)]));
        d.delete_range_one(..).unwrap();
        assert_means(&d, &BTreeMap::new());
        // Bad splitters: those of three keys beside each other.
        d.insert(&[7, 8, 9], &[7, 8, 9]).unwrap();
        let far: Vec<u64> = (0..600).map(|at| at * 1000).collect();
        d.insert(&far, &vec![1; 600]).unwrap();
        let mut map: BTreeMap<u64, u32> = far.iter().map(|&key| (key, 1)).collect();
        map.extend([(7, 7), (8, 8), (9, 9)]);
        assert_means(&d, &map);
        d.clear().unwrap();
        assert_means(&d, &BTreeMap::new());
        d.insert(&[u64::MAX, 0], &[1, 2]).unwrap();
        assert_eq!(d.first().unwrap(), Some((0, 2)));
        assert_eq!(d.last().unwrap(), Some((u64::MAX, 1)));
    }
}

/// Batches that fill write buffers, and more queries at once than a thread takes at a time, in any order.
#[test]
fn many_queries_follow_many_batches() {
    for shards in [2, 3, 7, 17] {
        let mut d = on(shards).batch_size(4096).build().unwrap();
        let (mut map, mut random) = (BTreeMap::new(), Random::new(shards as u64));
        for batch in 0..40 {
            let keys: Vec<u64> = (0..9000).map(|_| random.number() % (1 << 16) * 3).collect();
            let values: Vec<u32> = keys.iter().map(|&key| key as u32 + batch).collect();
            d.insert(&keys, &values).unwrap();
            map.extend(keys.into_iter().zip(values));
        }
        let mut keys: Vec<u64> = map.keys().flat_map(|&key| [key, key + 1]).collect();
        for index in (1..keys.len()).rev() {
            keys.swap(index, random.number() as usize % (index + 1));
        }
        let expected: Vec<_> = keys.iter().map(|key| map.get(key).copied()).collect();
        assert_eq!(d.lookup(&keys).unwrap(), expected);
        let found: Vec<bool> = expected.iter().map(Option::is_some).collect();
        assert_eq!(d.contains(&keys).unwrap(), found);
        assert_means(&d, &map);
    }
}

/// Ranks are answered by chunks on the threads that all share, counts by each shard on another thread that waits for
/// those. Once the former waited for the latter, too, and all for each other.
#[test]
fn threads_that_ask_at_the_same_time_do_not_wait_for_each_other() {
    let mut d = Dictionary::<u64, u32>::builder().devices(&[Device::cpu(); 4]).build().unwrap();
    let keys: Vec<u64> = (0..100_000).map(|at| at * 7 % 100_003).collect();
    d.insert(&keys, &vec![0; keys.len()]).unwrap();
    let (ends, len) = (keys.iter().map(|key| key + 9).collect::<Vec<u64>>(), d.len().unwrap());
    let ranks = d.rank(&keys).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..60).for_each(|_| assert_eq!(d.rank(&keys).unwrap(), ranks)));
            scope.spawn(|| {
                for _ in 0..60 {
                    let counts = d.count((&keys[..], &ends[..])).unwrap();
                    assert!(counts.iter().all(|&count| count <= 10 && count <= len));
                }
            });
        }
    });
}

/// A fault in one shard undoes the batch in all.
#[test]
fn a_batch_happens_on_all_shards_or_on_none() {
    for (shards, batch_size) in [(2, 16), (3, 64), (7, 50)] {
        let (mut struck, mut silent) = (0, 0);
        for fault in 0.. {
            let mut d = on(shards).batch_size(batch_size).build().unwrap();
            let mut model = Model::default();
            let mut hit = false;
            d.fail_allocation_after(fault);
            for round in 0..12u64 {
                let keys: Vec<u64> = (0..60).map(|at| (at * 7919 + round * 31) % 997).collect();
                let values: Vec<u32> = keys.iter().map(|&key| (key * 10 + round) as u32).collect();
                let deletes: Vec<u64> = (0..10).map(|at| (at * 131 + round) % 997).collect();
                let deletes = if round % 3 == 1 { &deletes[..] } else { &[] };
                let batch = || Batch::new().insert(&keys, &values).delete(deletes);
                if d.update(batch()).is_err() {
                    assert!(!hit, "the fault strikes once");
                    hit = true;
                    d.fail_allocation_after(u64::MAX);
                    d.validate().unwrap();
                    assert!(d.iter().eq(model.iter()), "fault {fault}");
                    d.update(batch()).unwrap();
                }
                let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
                model.update(&pairs, deletes);
            }
            d.fail_allocation_after(u64::MAX);
            d.validate().unwrap();
            assert!(d.iter().eq(model.iter()), "fault {fault}");
            struck += usize::from(hit);
            silent = if hit { 0 } else { silent + 1 };
            if silent > 60 {
                break; // Past the last allocation.
            }
        }
        assert!(struck > 8, "only {struck} batches failed");
    }
}

#[test]
fn a_memory_limit_is_that_of_all_shards_together() {
    let limit = 8 << 20;
    let fill = |mut d: Dictionary<u64, u32>| {
        let mut random = Random::new(5);
        for batch in 0.. {
            let keys: Vec<u64> = (0..4000).map(|_| random.number()).collect();
            if let Err(error) = d.insert(&keys, &vec![batch; 4000]) {
                assert!(matches!(error, Error::OutOfMemory { memory: Some(_), .. }), "{error}");
                assert!(error.to_string().contains(" on cpu; of "), "{error}");
                d.validate().unwrap();
                let stats = d.stats().unwrap();
                return (d.len().unwrap() * 12, stats.bytes_shared, stats.bytes_peak);
            }
        }
        unreachable!()
    };
    let (together, bytes, peak) = fill(on(4).batch_size(4000).memory_limit(limit).build().unwrap());
    assert!(peak <= limit && bytes <= limit && together > limit / 4, "{together} {bytes} {peak}");
    // All four shards are on the same device.
    let builder = on(4).batch_size(4000).memory_limit_per_device(limit);
    let (each, ..) = fill(builder.build().unwrap());
    assert_eq!(each, together);
}

#[test]
fn lists_of_devices_are_checked() {
    for given in [0, MAX_SHARDS + 1] {
        let error = on(given).build().unwrap_err();
        assert_eq!(error, Error::Devices { given });
        assert!(error.to_string().contains("from 1 to 256"), "{error}");
    }
    let d = on(3).build().unwrap();
    assert_eq!((&d.devices()[..], d.device()), (&[Device::cpu(); 3][..], Device::cpu()));
    assert!(d.to_string().contains("on cpu,cpu,cpu"), "{d}");
    let text = d.stats().unwrap().to_string();
    assert!(text.contains("shard  2"), "{text}");
}

#[test]
fn clones_and_merges_of_sharded_dictionaries_are_their_own() {
    let mut d = on(3).combine(Combine::Add).batch_size(64).build().unwrap();
    let keys: Vec<u64> = (0..1000).map(|at| at * 37 % 1009).collect();
    d.insert(&keys, &vec![1; 1000]).unwrap();
    let mut other = d.clone();
    other.insert(&keys, &vec![1; 1000]).unwrap();
    d.merge_from(&other.snapshot()).unwrap();
    assert_eq!(d.lookup(&[37, 0]).unwrap(), [Some(3), Some(3)]);
    assert_eq!(other.lookup_one(37), Ok(Some(2)));
    let mut alone = Dictionary::<u64, u32>::builder().combine(Combine::Add).build().unwrap();
    alone.merge_from(&d.snapshot()).unwrap();
    assert!(alone.iter().eq(d.iter()));
    d.validate().unwrap();
}
