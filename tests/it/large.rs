//! What only large dictionaries, many queries or long ranges reach: against an ordered map.

use std::collections::BTreeMap;

use gpulsm::testing::script::Random;
use gpulsm::{Batch, CleanupPolicy, Device, Dictionary};

use crate::each_device;

/// Several levels of many entries, with a stretch of keys that were all deleted again and one that was
/// replaced many times, and what they should hold.
fn levels(device: Device) -> (Dictionary<u32, u64>, BTreeMap<u32, u64>) {
    let mut d = Dictionary::builder()
        .device(device)
        .batch_size(1 << 13)
        .cleanup_policy(CleanupPolicy::Manual)
        .build()
        .unwrap();
    let mut map = BTreeMap::new();
    let mut random = Random::new(11);
    for round in 0..15u64 {
        let mut key = |most: u64| (random.number() % most) as u32;
        let keys: Vec<u32> = (0..9_000)
            .map(|i| match i % 3 {
                0 => 1_000_000 + key(5_000),
                1 => key(1 << 32),
                _ => 2_000_000_000 + key(100_000),
            })
            .collect();
        let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 8 | round).collect();
        let deletes: Vec<u32> = match round {
            13 => (2_000_000_000..2_000_100_000).collect(),
            14 => vec![u32::MAX, 0],
            _ => keys.iter().copied().filter(|key| key % 7 == 0).collect(),
        };
        d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
        d.flush().unwrap();
        map.extend(keys.into_iter().zip(values));
        for key in &deletes {
            map.remove(key);
        }
    }
    d.insert(&[0, u32::MAX], &[5, 6]).unwrap();
    map.extend([(0, 5), (u32::MAX, 6)]);
    d.validate().unwrap();
    assert!(d.stats().unwrap().levels.len() >= 3);
    (d, map)
}

#[track_caller]
fn check_ranges(d: &Dictionary<u32, u64>, map: &BTreeMap<u32, u64>, ranges: &[(u32, u32)]) {
    let (lo, hi): (Vec<u32>, Vec<u32>) = ranges.iter().copied().unzip();
    let listed = d.range((&lo, &hi)).unwrap();
    for (i, &(lo, hi)) in ranges.iter().enumerate() {
        let expected: Vec<(u32, u64)> = match lo <= hi {
            true => map.range(lo..=hi).map(|(key, value)| (*key, *value)).collect(),
            false => Vec::new(),
        };
        let (keys, values) = listed.get(i);
        assert!(keys.iter().copied().zip(values.iter().copied()).eq(expected), "{lo}..={hi}");
    }
}

each_device! {
    fn long_ranges_have_every_pair(device) {
        let (mut d, map) = levels(device);
        let all = (0, u32::MAX);
        check_ranges(&d, &map, &[all]);
        check_ranges(&d, &map, &[(0, 1 << 31), (5, 4), (1 << 31, u32::MAX), (7, u32::MAX - 1), all]);
        // Nothing but stale entries; stale ones and a few more; many of one key.
        let stale = (2_000_000_000, 2_000_099_999);
        check_ranges(&d, &map, &[stale, (1_999_000_000, 2_001_000_000), (999_999, 1_005_001)]);
        // Some hundred pairs each, side by side and over each other.
        let tenth = u32::MAX / 300;
        let ranges: Vec<(u32, u32)> =
            (0..299).map(|i| (i * tenth, i * tenth + tenth / 3 * (i % 7))).collect();
        check_ranges(&d, &map, &ranges);
        d.cleanup().unwrap();
        check_ranges(&d, &map, &ranges);
        check_ranges(&d, &map, &[all, stale, (1 << 30, 3 << 30)]);
    }

    fn short_ranges_and_one_long_one(device) {
        let (mut d, map) = levels(device);
        let mut random = Random::new(3);
        let mut ranges: Vec<(u32, u32)> = (0..20_000)
            .map(|_| {
                let lo = random.number() as u32;
                (lo, lo.saturating_add((random.number() % 200_000) as u32))
            })
            .collect();
        ranges[777] = (0, u32::MAX);
        check_ranges(&d, &map, &ranges);
        d.cleanup().unwrap();
        check_ranges(&d, &map, &ranges);
    }

    fn many_queries_at_once(device) {
        let (mut d, map) = levels(device);
        let mut random = Random::new(5);
        let mut keys: Vec<u32> = (0..300_000)
            .map(|i| match i % 3 {
                0 => random.number() as u32,
                1 => 2_000_000_000 + random.number() as u32 % 100_001,
                _ => 1_000_000 + random.number() as u32 % 6_000,
            })
            .collect();
        keys.extend([0, 1, u32::MAX - 1, u32::MAX]);
        let sorted: Vec<(u32, u64)> = map.iter().map(|(key, value)| (*key, *value)).collect();
        let less = |key: u32| sorted.partition_point(|&(other, _)| other < key);
        for _ in 0..2 {
            let found = d.lookup(&keys).unwrap();
            assert!(keys.iter().zip(found).all(|(key, value)| map.get(key).copied() == value));
            let ranks = d.rank(&keys).unwrap();
            assert!(keys.iter().zip(&ranks).all(|(&key, &rank)| less(key) as u64 == rank));
            let hi: Vec<u32> = keys.iter().map(|key| key.wrapping_add(70_000)).collect();
            let up_to = |key: u32| less(key) + usize::from(map.contains_key(&key));
            let counts = d.count((&keys, &hi)).unwrap();
            for ((&lo, &hi), &count) in keys.iter().zip(&hi).zip(&counts) {
                let expected = if lo <= hi { up_to(hi) - less(lo) } else { 0 };
                assert_eq!(count, expected as u64, "{lo}..={hi}");
            }
            let next = d.successor(&keys).unwrap();
            let last = d.predecessor(&keys).unwrap();
            for (i, &key) in keys.iter().enumerate() {
                assert_eq!(next[i], sorted.get(less(key)).copied(), "after {key}");
                let before = up_to(key).checked_sub(1).map(|place| sorted[place]);
                assert_eq!(last[i], before, "before {key}");
            }
            d.cleanup().unwrap();
        }
    }
}

each_device! {
    fn batches_about_as_long_as_are_sorted_in_tiles(device) {
        let mut d = Dictionary::<u32, u32>::builder()
            .device(device)
            .batch_size(1 << 17)
            .cleanup_policy(CleanupPolicy::Manual)
            .build()
            .unwrap();
        let mut map = BTreeMap::new();
        let mut random = Random::new(17);
        // Until one is carried with more than a million entries.
        for round in 0..18 {
            let len = (1 << 17) + round % 3 - 1;
            let keys: Vec<u32> = (0..len).map(|_| (random.number() as u32) << 11).collect();
            let values: Vec<u32> = keys.iter().map(|key| key ^ round).collect();
            let deletes = if round % 4 == 3 { &keys[..1 << 14] } else { &[] };
            d.update(Batch::new().insert(&keys, &values).delete(deletes)).unwrap();
            d.flush().unwrap();
            map.extend(keys.iter().copied().zip(values));
            for key in deletes {
                map.remove(key);
            }
            if round % 5 != 2 {
                assert_eq!(d.count((&[0], &[u32::MAX])).unwrap(), [map.len() as u64]);
            }
        }
        d.validate().unwrap();
        let (keys, values): (Vec<u32>, Vec<u32>) = map.into_iter().unzip();
        let listed = d.range((&[0], &[u32::MAX])).unwrap();
        assert!(listed.get(0) == (&keys[..], &values[..]));
    }
}

each_device! {
    fn many_ranges_of_a_dictionary_with_little_memory_left(device) {
        let mut d = Dictionary::<u32, u32>::builder()
            .device(device)
            .batch_size(4096)
            .memory_limit(700_000)
            .build()
            .unwrap();
        let keys: Vec<u32> = (0..12_288).map(|number| number * 1_021 % 12_289 * 5).collect();
        for batch in keys.chunks(4096) {
            d.insert(batch, batch).unwrap();
            d.flush().unwrap();
        }
        let lo: Vec<u32> = (0..40_000).collect();
        for wide in [9, 2_000] {
            let hi: Vec<u32> = lo.iter().map(|lo| lo + wide).collect();
            let listed = d.range((&lo, &hi)).unwrap();
            for (i, lo) in lo.iter().enumerate() {
                let expected = (lo.next_multiple_of(5)..=lo + wide).step_by(5);
                assert!(listed.get(i).0.iter().copied().eq(expected), "{lo}");
            }
        }
        d.validate().unwrap();
    }
}
