//! Keys of 16 bytes where only large dictionaries, many queries or long ranges reach: against an ordered map.

use std::collections::BTreeMap;

use gpulsm::testing::script::Random;
use gpulsm::{Batch, CleanupPolicy, Combine, Device, Dictionary, Sum};

use crate::each_device;

/// Returns a key that differs from others in the upper half, in the lower half, or in both.
fn key(random: &mut Random) -> u128 {
    let (high, low) = (u128::from(random.number()), u128::from(random.number()));
    match random.number() % 4 {
        0 => high << 64 | low,
        1 => (high % 50) << 64 | (low % 50),
        2 => 7 << 64 | (low % 30_000),
        _ => (high % 3_000) << 100,
    }
}

/// Several levels, in which neighbours were deleted, and what they should hold.
fn levels(device: Device, batches: usize) -> (Dictionary<u128, u64>, BTreeMap<u128, u64>) {
    let settings = Dictionary::builder().device(device).batch_size(1 << 12);
    let mut d = settings.cleanup_policy(CleanupPolicy::Manual).build().unwrap();
    let (mut map, mut random) = (BTreeMap::new(), Random::new(5));
    for batch in 0..batches as u64 {
        let keys: Vec<u128> = (0..5_000).map(|_| key(&mut random)).collect();
        let values: Vec<u64> = (0..5_000).map(|i| batch << 32 | i).collect();
        let deletes: Vec<u128> = match batch % 5 {
            4 => (0..20_000).map(|low| 7 << 64 | low).collect(),
            _ => keys.iter().copied().filter(|key| key % 7 == 0).collect(),
        };
        d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
        d.flush().unwrap();
        d.validate().unwrap();
        map.extend(keys.into_iter().zip(values));
        for key in &deletes {
            map.remove(key);
        }
    }
    d.insert(&[0, u128::MAX], &[5, 6]).unwrap();
    map.extend([(0, 5), (u128::MAX, 6)]);
    (d, map)
}

#[track_caller]
fn check(d: &Dictionary<u128, u64>, map: &BTreeMap<u128, u64>, questions: usize) {
    let mut random = Random::new(9);
    let pairs: Vec<(u128, u64)> = map.iter().map(|(&key, &value)| (key, value)).collect();
    let (keys, values) = d.to_vecs().unwrap();
    assert!(keys.iter().copied().zip(values).eq(pairs.iter().copied()), "pairs");

    let mut asked: Vec<u128> = (0..questions).map(|_| key(&mut random)).collect();
    asked.extend([0, 1, u128::MAX - 1, u128::MAX, 7 << 64, (7 << 64) - 1]);
    let found = d.lookup(&asked).unwrap();
    let (ranks, successors) = (d.rank(&asked).unwrap(), d.successor(&asked).unwrap());
    let predecessors = d.predecessor(&asked).unwrap();
    for (i, &key) in asked.iter().enumerate() {
        let rank = pairs.partition_point(|pair| pair.0 < key);
        assert_eq!(found[i], map.get(&key).copied(), "lookup of {key}");
        assert_eq!(ranks[i], rank as u64, "rank of {key}");
        assert_eq!(successors[i], pairs.get(rank).copied(), "successor of {key}");
        let up_to = rank + usize::from(map.contains_key(&key));
        assert_eq!(predecessors[i], pairs[..up_to].last().copied(), "predecessor of {key}");
    }
    let indices: Vec<u64> = (0..2_000).map(|i| i * 31 % (pairs.len() as u64 + 9)).collect();
    let expected: Vec<_> = indices.iter().map(|&at| pairs.get(at as usize).copied()).collect();
    assert_eq!(d.select(&indices).unwrap(), expected);
    check_ranges(d, &pairs, &asked);
}

/// Checks short and long ranges, whose ends are among the keys that were asked for, and empty ones.
#[track_caller]
fn check_ranges(d: &Dictionary<u128, u64>, pairs: &[(u128, u64)], asked: &[u128]) {
    let ends = |count: usize, width: u128| -> (Vec<u128>, Vec<u128>) {
        asked.iter().take(count).map(|&lo| (lo, lo.saturating_add(width))).unzip()
    };
    for (lo, hi) in [
        ends(asked.len(), 40),
        ends(500, 20_000),
        ends(300, 1 << 101),
        (vec![0, 7 << 64, 9], vec![u128::MAX, (8 << 64) - 1, 3]),
    ] {
        let (listed, counts) = (d.range((&lo, &hi)).unwrap(), d.count((&lo, &hi)).unwrap());
        let sums = d.aggregate((&lo, &hi), Sum).unwrap();
        for (i, (&lo, &hi)) in lo.iter().zip(&hi).enumerate() {
            let start = pairs.partition_point(|pair| pair.0 < lo);
            let end = pairs.partition_point(|pair| pair.0 <= hi).max(start);
            let expected = &pairs[start..end];
            let (keys, values) = listed.get(i);
            assert_eq!(counts[i], expected.len() as u64, "{lo}..={hi}");
            assert!(keys.iter().eq(expected.iter().map(|(key, _)| key)), "{lo}..={hi}");
            assert!(values.iter().eq(expected.iter().map(|(_, value)| value)), "{lo}..={hi}");
            let sum = expected.iter().fold(0u64, |sum, (_, value)| sum.wrapping_add(*value));
            assert_eq!(sums[i], (start < end).then_some((sum, counts[i])), "{lo}..={hi}");
        }
    }
}

each_device! {
    fn many_queries_of_wide_keys(device) {
        let (mut d, map) = levels(device, 13);
        check(&d, &map, 6_000);
        d.cleanup().unwrap();
        d.validate().unwrap();
        check(&d, &map, 6_000);
    }

    fn few_queries_of_wide_keys(device) {
        let (d, map) = levels(device, 9);
        for questions in [0, 20, 700] {
            check(&d, &map, questions);
        }
    }

    fn wide_keys_that_combine(device) {
        let settings = Dictionary::<u128, u64>::builder().device(device).batch_size(1 << 10);
        let mut d = settings.combine(Combine::Add).build().unwrap();
        let (mut map, mut random) = (BTreeMap::<u128, u64>::new(), Random::new(3));
        for len in [300, 5_000, 1, 40_000, 1_024, 9_999] {
            let keys: Vec<u128> = (0..len).map(|_| key(&mut random)).collect();
            let values: Vec<u64> = (0..len).collect();
            d.insert(&keys, &values).unwrap();
            d.validate().unwrap();
            keys.iter().zip(&values).for_each(|(&key, value)| *map.entry(key).or_default() += value);
        }
        check(&d, &map, 4_000);
    }

    fn long_batches_of_keys_that_differ_in_few_bits(device) {
        let len = 1 << 21;
        for shift in [0, 30, 90] {
            let mut random = Random::new(shift);
            let keys: Vec<u128> =
                (0..len).map(|_| 5 << 120 | u128::from(random.number() >> 40) << shift).collect();
            let values: Vec<u32> = (0..len).collect();
            let mut d = Dictionary::<u128, u32>::builder().device(device).build().unwrap();
            d.insert(&keys, &values).unwrap();
            d.validate().unwrap();
            let map: BTreeMap<u128, u32> = keys.into_iter().zip(values).collect();
            let (keys, values) = d.to_vecs().unwrap();
            assert!(keys.into_iter().zip(values).eq(map), "shift {shift}");
        }
    }

    fn long_batches_of_narrow_keys_that_differ_in_few_bits(device) {
        let len = 1 << 22;
        for (shift, bits) in [(0, 32), (20, 24), (3, 0)] {
            let mut random = Random::new(shift);
            let most = (1u64 << bits) - 1;
            let keys: Vec<u64> = (0..len).map(|_| 1 << 60 | (random.number() & most) << shift).collect();
            let values: Vec<u32> = (0..len).collect();
            let mut d = Dictionary::<u64, u32>::builder().device(device).build().unwrap();
            d.insert(&keys, &values).unwrap();
            d.validate().unwrap();
            let mut pairs: Vec<(u64, u32)> = keys.into_iter().zip(values).collect();
            pairs.sort();
            pairs.dedup_by(|next, kept| next.0 == kept.0 && { kept.1 = next.1; true });
            let (keys, values) = d.to_vecs().unwrap();
            assert!(keys.into_iter().zip(values).eq(pairs), "shift {shift}");
        }
    }
}
