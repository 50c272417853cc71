//! Filters: they come with use, cost no answer, and never stand in the way.

use std::collections::BTreeMap;

use gpulsm::{Batch, CleanupPolicy, Device, Dictionary};

use crate::each_device;

/// Several full levels with replacements and tombstones among them, and what they should hold.
fn levels(device: Device) -> (Dictionary<u32, u64>, BTreeMap<u32, u64>) {
    let mut d = Dictionary::builder()
        .device(device)
        .batch_size(512)
        .cleanup_policy(CleanupPolicy::Manual)
        .build()
        .unwrap();
    let mut map = BTreeMap::new();
    for round in 0..15u64 {
        let keys: Vec<u32> = (0..400).map(|i| (i * 7919 + round as u32 * 131) % 5000 * 3).collect();
        let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 8 | round).collect();
        let deletes: Vec<u32> =
            (0..100).map(|i| (i * 31 + round as u32 * 977) % 5000 * 3).collect();
        d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
        d.flush().unwrap();
        map.extend(keys.into_iter().zip(values));
        map.retain(|key, _| !deletes.contains(key));
    }
    (d, map)
}

#[track_caller]
fn check(d: &Dictionary<u32, u64>, map: &BTreeMap<u32, u64>) {
    let keys: Vec<u32> = (0..15_001).collect();
    let expected: Vec<Option<u64>> = keys.iter().map(|key| map.get(key).copied()).collect();
    assert!(d.lookup(&keys).unwrap() == expected);
    let found: Vec<bool> = expected.iter().map(Option::is_some).collect();
    assert!(d.contains(&keys).unwrap() == found);
    d.validate().unwrap();
}

each_device! {
    fn lookups_in_vain_bring_filters_and_answers_stay(device) {
        let (mut d, mut map) = levels(device);
        assert!(d.stats().unwrap().levels.len() >= 4);
        assert_eq!(d.stats().unwrap().bytes.filters, 0);
        // The CPU makes them soon, a GPU when it was asked some hundred thousand times.
        for _ in 0..20 {
            check(&d, &map);
        }
        let stats = d.stats().unwrap();
        assert!(stats.bytes.filters > 0 && stats.bytes.filters <= 2 * stats.entries, "{stats:?}");
        let before = d.snapshot();
        d.insert(&[1, 2, 15_000], &[10, 20, 30]).unwrap();
        d.delete(&[0, 3]).unwrap();
        map.extend([(1, 10), (2, 20), (15_000, 30)]);
        map.retain(|key, _| ![0, 3].contains(key));
        check(&d, &map);
        assert_eq!(before.lookup(&[1, 2]).unwrap(), [None, None]);
        d.cleanup().unwrap();
        check(&d, &map);
    }
}

each_device! {
    fn counts_between_batches_bring_filters_to_a_gpu_and_stay_right(device) {
        let mut d = Dictionary::<u32, u32>::builder()
            .device(device)
            .batch_size(20_000)
            .cleanup_policy(CleanupPolicy::Manual)
            .build()
            .unwrap();
        let mut map = BTreeMap::new();
        for round in 0..7u32 {
            // A third of the keys are there already, and some of them go.
            let keys: Vec<u32> =
                (0..20_000).map(|i| (i * 7919 + round * 13_001) % 60_013 * 71_000).collect();
            let values: Vec<u32> = keys.iter().map(|key| key ^ round).collect();
            let deletes: Vec<u32> = keys.iter().step_by(7).copied().filter(|_| round > 4).collect();
            d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
            map.extend(keys.iter().copied().zip(values));
            for key in &deletes {
                map.remove(key);
            }
            let (lo, hi) = ([0, 1 << 20, 3 << 30], [u32::MAX, 1 << 31, u32::MAX]);
            let expected = lo.iter().zip(hi).map(|(&lo, hi)| map.range(lo..=hi).count() as u64);
            assert!(d.count((&lo, &hi)).unwrap().into_iter().eq(expected), "round {round}");
            d.validate().unwrap();
        }
        let stats = d.stats().unwrap();
        assert!(stats.levels.len() >= 2 && stats.bytes.filters <= 2 * stats.entries, "{stats:?}");
        assert_eq!(stats.bytes.filters > 0, device.is_cuda(), "{stats:?}");
        let keys: Vec<u32> = (0..60_013).map(|number| number * 71_000).collect();
        let expected: Vec<Option<u32>> = keys.iter().map(|key| map.get(key).copied()).collect();
        assert!(d.lookup(&keys).unwrap() == expected);
    }
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_filter_made_by_a_merge_is_read_on_another_stream() {
    let device = Device::cuda(0).unwrap();
    let stream = gpulsm::cuda::Stream::new(device).unwrap();
    let mut d = Dictionary::<u32, u32>::builder()
        .device(device)
        .batch_size(1 << 15)
        .cleanup_policy(CleanupPolicy::Manual)
        .build()
        .unwrap();
    for round in 0..14 {
        let keys: Vec<u32> = (0..1 << 15).map(|i| i * 16 + round).collect();
        d.insert(&keys, &keys).unwrap();
        let snapshot = d.snapshot().on_stream(&stream).unwrap();
        assert!(d.count((&[0], &[u32::MAX])).unwrap() == [u64::from(round + 1) << 15]);
        let asked: Vec<u32> = (0..1 << 19).step_by(3).collect();
        let expected = asked.iter().map(|&key| (key % 16 <= round).then_some(key));
        assert!(snapshot.lookup(&asked).unwrap().into_iter().eq(expected), "round {round}");
    }
    assert!(d.stats().unwrap().bytes.filters > 0);
}

#[test]
fn keys_that_are_there_need_no_filter() {
    let keys: Vec<u32> = (0..10_000).collect();
    let d = Dictionary::<u32, ()>::builder()
        .device(Device::cpu())
        .from_sorted(&keys, &vec![(); keys.len()])
        .unwrap();
    for _ in 0..5 {
        assert!(d.contains(&keys).unwrap().into_iter().all(|found| found));
    }
    assert_eq!(d.stats().unwrap().bytes.filters, 0);
}

#[test]
fn a_dictionary_short_of_memory_has_no_filters() {
    let keys: Vec<u32> = (0..10_000).map(|key| key * 2).collect();
    let misses: Vec<u32> = keys.iter().map(|key| key + 1).collect();
    let roomy = Dictionary::<u32, u32>::builder().device(Device::cpu()).memory_limit(10 << 20);
    let tight = Dictionary::<u32, u32>::builder().device(Device::cpu()).memory_limit(196_000);
    for (settings, filters) in [(roomy, true), (tight, false)] {
        let d = settings.from_sorted(&keys, &keys).unwrap();
        for _ in 0..5 {
            assert!(d.contains(&misses).unwrap().into_iter().all(|found| !found));
        }
        assert_eq!(d.stats().unwrap().bytes.filters > 0, filters);
    }
}
