//! Ranges, scans and neighbours across stretches of keys that were deleted.

use std::collections::BTreeMap;
use std::time::Instant;

use gpulsm::testing::script::Random;
use gpulsm::{CleanupPolicy, Device, Dictionary, Key, Value};

use crate::each_device;

/// The dictionary's pairs, as the model has them.
type Pairs = BTreeMap<u32, u32>;

/// Makes a dictionary of 2^`bits` random keys in several runs, and deletes stretches of it, given by where they
/// begin and end in thousandths of the key space, in this many batches; all keys but each `survivors`-th.
fn with_dead(
    device: Device,
    bits: u32,
    stretches: &[(u32, u32)],
    batches: usize,
    survivors: u32,
) -> (Dictionary<u32, u32>, Pairs) {
    let mut d = Dictionary::builder()
        .device(device)
        .batch_size(1 << (bits - 4))
        .cleanup_policy(CleanupPolicy::Manual)
        .build()
        .unwrap();
    let mut random = Random::new(u64::from(bits));
    let mut pairs = Pairs::new();
    // A long run, and shorter ones on top of it.
    for len in [1 << bits, 1 << (bits - 4), 1 << (bits - 5), 1 << (bits - 6)] {
        let keys: Vec<u32> = (0..len).map(|_| random.number() as u32).collect();
        d.insert(&keys, &keys).unwrap();
        d.flush().unwrap();
        pairs.extend(keys.into_iter().map(|key| (key, key)));
    }
    let part = |thousandths: u32| (u64::from(thousandths) * u64::from(u32::MAX) / 1000) as u32;
    let doomed: Vec<u32> = stretches
        .iter()
        .flat_map(|&(from, to)| pairs.range(part(from)..part(to)).map(|(&key, _)| key))
        .filter(|&key| survivors == 0 || key % survivors != 0)
        .collect();
    for batch in 0..batches {
        // Each batch deletes keys from all over: its tombstones lie between those of others.
        let some: Vec<u32> = doomed.iter().copied().skip(batch).step_by(batches).collect();
        d.delete(&some).unwrap();
        d.flush().unwrap();
        pairs.retain(|key, _| some.binary_search(key).is_err());
    }
    (d, pairs)
}

fn check(d: &Dictionary<u32, u32>, pairs: &Pairs, lo: &[u32], hi: &[u32]) {
    let answers = d.range((lo, hi)).unwrap();
    let counts = d.count((lo, hi)).unwrap();
    for (index, (&lo, &hi)) in lo.iter().zip(hi).enumerate() {
        let (keys, values) = answers.get(index);
        let expected: Vec<(u32, u32)> = match lo <= hi {
            true => pairs.range(lo..=hi).map(|(&key, &value)| (key, value)).collect(),
            false => Vec::new(),
        };
        assert_eq!(counts[index], expected.len() as u64, "the count from {lo} to {hi}");
        let answer = keys.iter().copied().zip(values.iter().copied());
        assert!(answer.eq(expected), "the range from {lo} to {hi}");
    }
}

each_device! {
    fn ranges_across_dead_stretches_have_every_pair(device) {
        let mut random = Random::new(11);
        for (bits, stretches, batches, survivors) in [
            (16, &[(300, 650)][..], 1, 0),
            (16, &[(0, 150), (850, 1000)], 1, 0),
            (16, &[(100, 200), (201, 300), (310, 400)], 3, 0),
            (17, &[(100, 480)], 2, 500),
            (17, &[(10, 390)], 5, 50),
            (18, &[(200, 201), (300, 301), (302, 303), (400, 700)], 2, 3001),
        ] {
            let (d, pairs) = with_dead(device, bits, stretches, batches, survivors);
            assert!(d.stats().unwrap().levels.len() > 1, "{d}");
            d.validate().unwrap();
            let ends = |random: &mut Random| random.number() as u32;
            // Few and long, in one call and one by one; then many short ones; then everything.
            let lo: Vec<u32> = (0..40).map(|_| ends(&mut random)).collect();
            let hi: Vec<u32> = lo.iter().map(|_| ends(&mut random)).collect();
            check(&d, &pairs, &lo, &hi);
            lo.iter().zip(&hi).take(8).for_each(|(&lo, &hi)| check(&d, &pairs, &[lo], &[hi]));
            // From just before a stretch to just behind it: a few pairs each.
            let keys: Vec<u32> = pairs.keys().copied().collect();
            let gaps = keys.windows(2).filter(|pair| pair[1] - pair[0] > 1 << 22);
            let mut at: Vec<(u32, u32)> = gaps.map(|pair| (pair[0], pair[1])).collect();
            at.extend([(0, keys[0]), (keys[keys.len() - 1], u32::MAX)]);
            let near = |key: u32, by: i64| {
                let place = keys.partition_point(|&other| other < key) as i64;
                keys[(place + by).clamp(0, keys.len() as i64 - 1) as usize]
            };
            let lo: Vec<u32> = (0..3000).map(|i| near(at[i % at.len()].0, -(i as i64 % 9))).collect();
            let hi: Vec<u32> = (0..3000).map(|i| near(at[i % at.len()].1, i as i64 % 7)).collect();
            check(&d, &pairs, &lo, &hi);
            // Within a stretch, where nothing is, and up to its very end.
            let lo: Vec<u32> = (0..2000).map(|i| at[i % at.len()].0.saturating_add(1)).collect();
            let hi: Vec<u32> = (0..2000).map(|i| at[i % at.len()].1.saturating_sub(i as u32 % 2)).collect();
            check(&d, &pairs, &lo, &hi);
            check(&d, &pairs, &[0], &[u32::MAX]);
            assert!(d.iter().eq(pairs.iter().map(|(&key, &value)| (key, value))));
            assert!(d.iter().rev().eq(pairs.iter().rev().map(|(&key, &value)| (key, value))));
            let from: Vec<u32> = at.iter().map(|&(key, _)| key.saturating_add(1)).collect();
            for (answer, key) in d.successor(&from).unwrap().into_iter().zip(&from) {
                assert_eq!(answer, pairs.range(key..).next().map(|(&key, &value)| (key, value)));
            }
        }
    }

    /// Every dead entry was read: a range of ten pairs across ten million of them took seconds.
    fn a_range_across_dead_entries_costs_no_more_than_its_pairs(device) {
        // Of 2^20 keys 400,000 neighbours were deleted: 800,000 stale entries, too few to start a cleanup.
        let (d, pairs) = with_dead(device, 20, &[(300, 680)], 1, 0);
        let clean = {
            let (mut clean, _) = with_dead(device, 20, &[], 1, 0);
            clean.delete(&[1]).unwrap();
            clean
        };
        let keys: Vec<u32> = pairs.keys().copied().collect();
        let gap = keys.partition_point(|&key| key < u32::MAX / 2);
        let all: Vec<u32> = clean.to_vecs().unwrap().0;
        let middle = all.partition_point(|&key| key < u32::MAX / 4);
        for (pairs, ranges) in [(0, 1), (0, 2000), (10, 1), (10, 4000), (5000, 1), (5000, 30)] {
            let across = (keys[gap - 1 - pairs / 2], keys[gap + pairs / 2]);
            let across = if pairs == 0 { (across.0 + 1, across.1 - 1) } else { across };
            let plain = (all[middle - 1 - pairs / 2], all[middle + pairs / 2]);
            let dead = seconds(&d, ranges, across);
            let alive = seconds(&clean, ranges, plain);
            assert!(
                dead <= 4.0 * alive + 0.001,
                "{ranges} ranges of {pairs} pairs: {dead} s across dead keys, {alive} s without"
            );
        }
        let start = Instant::now();
        assert_eq!(d.to_vecs().unwrap().0.len(), keys.len());
        let dead = start.elapsed().as_secs_f64();
        let start = Instant::now();
        assert_eq!(clean.to_vecs().unwrap().0.len(), all.len());
        let alive = start.elapsed().as_secs_f64();
        assert!(dead <= 4.0 * alive + 0.001, "a scan: {dead} s with dead keys, {alive} s without");
    }
}

/// Returns the shortest of a few times that this many equal ranges take.
fn seconds<K: Key, V: Value>(d: &Dictionary<K, V>, ranges: usize, (lo, hi): (K, K)) -> f64 {
    let (lo, hi) = (vec![lo; ranges], vec![hi; ranges]);
    let once = |_| {
        let start = Instant::now();
        d.range((&lo, &hi)).unwrap();
        start.elapsed().as_secs_f64()
    };
    (0..5).map(once).fold(f64::MAX, f64::min)
}
