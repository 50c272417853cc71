//! Dictionaries that combine values: batches with many equal keys, and long answers over several runs.

use std::collections::BTreeMap;
use std::fmt::Debug;

use gpulsm::testing::script::Random;
use gpulsm::{Combine, Device, Dictionary, Max, Number, Sum};

use crate::each_device;

fn dictionary<V: Number>(device: Device, rule: Combine, batch_size: usize) -> Dictionary<u64, V> {
    Dictionary::builder().device(device).combine(rule).batch_size(batch_size).build().unwrap()
}

/// Inserts batches in which `distinct` keys occur `len` times, each with the value `one`, and checks that they
/// add up to what `times` says.
fn count_occurrences<V: Number + PartialEq + Debug>(
    device: Device,
    len: u64,
    distinct: u64,
    one: V,
    times: fn(u64) -> V,
) {
    let mut d = dictionary(device, Combine::Add, 1 << 12);
    // Runs of equal keys, so that they begin and end anywhere in a tile; then scattered ones.
    let runs: Vec<u64> = (0..len).map(|i| (i * distinct / len) * 3).collect();
    let scattered: Vec<u64> = (0..len).map(|i| i * 7919 % distinct * 3).collect();
    let mut expected = BTreeMap::new();
    for keys in [runs, scattered] {
        d.insert(&keys, &vec![one; keys.len()]).unwrap();
        keys.iter().for_each(|&key| *expected.entry(key).or_insert(0) += 1);
        let answers = d.to_vecs().unwrap();
        let pairs = expected.iter().map(|(&key, &count)| (key, times(count)));
        assert_eq!(answers, pairs.unzip(), "{distinct} keys in {len} inserts");
        d.validate().unwrap();
    }
}

/// What every kind of query says about all keys, and about the keys of a few ranges.
fn check(d: &Dictionary<u64, [u64; 2]>, expected: &BTreeMap<u64, [u64; 2]>, domain: u64) {
    let (keys, values): (Vec<u64>, Vec<[u64; 2]>) = expected.iter().map(|(&k, &v)| (k, v)).unzip();
    let all: Vec<u64> = (0..domain).collect();
    let looked_up: Vec<_> = all.iter().map(|key| expected.get(key).copied()).collect();
    assert_eq!(d.lookup(&all).unwrap(), looked_up);
    // Few keys as well: they may be searched for in another way.
    assert_eq!(d.lookup(&all[..7]).unwrap(), looked_up[..7]);
    assert_eq!(d.to_vecs().unwrap(), (keys.clone(), values.clone()));
    let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
    let indices: Vec<u64> = (0..keys.len() as u64 + 3).collect();
    let selected: Vec<_> = indices.iter().map(|&i| pairs.get(i as usize).copied()).collect();
    assert_eq!(d.select(&indices).unwrap(), selected);
    let successors: Vec<_> =
        all.iter().map(|&key| expected.range(key..).next().map(|(&k, &v)| (k, v))).collect();
    assert_eq!(d.successor(&all).unwrap(), successors);
    for width in [1, 40, domain / 3, domain] {
        let lo: Vec<u64> = (0..domain).step_by(width as usize).collect();
        let hi: Vec<u64> = lo.iter().map(|lo| lo + width - 1).collect();
        let of = |lo: u64, hi: u64| expected.range(lo..=hi);
        let ranges = d.range((&lo, &hi)).unwrap();
        let listed = ranges.iter().map(|(keys, values)| (keys.to_vec(), values.to_vec()));
        let wanted = lo.iter().zip(&hi).map(|(&lo, &hi)| of(lo, hi).map(|(&k, &v)| (k, v)).unzip());
        assert!(listed.eq(wanted), "ranges of {width} keys");
        let fold = |folded: fn([u64; 2], [u64; 2]) -> [u64; 2]| {
            let ranges = lo.iter().zip(&hi);
            ranges
                .map(|(&lo, &hi)| {
                    let values = of(lo, hi).map(|(_, &value)| value);
                    values.reduce(folded).map(|total| (total, of(lo, hi).count() as u64))
                })
                .collect::<Vec<_>>()
        };
        let sums = fold(|a, b| [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]);
        assert_eq!(d.aggregate((&lo, &hi), Sum).unwrap(), sums, "sums of {width} keys");
        let greatest = fold(|a, b| [a[0].max(b[0]), a[1].max(b[1])]);
        assert_eq!(d.aggregate((&lo, &hi), Max).unwrap(), greatest, "maxima of {width} keys");
    }
}

/// Inserts, sets and deletes, in batches that are buffered or not, and checks all answers now and then.
fn check_history(device: Device, rule: Combine, combine: fn(u64, u64) -> u64) {
    const DOMAIN: u64 = 20_000;
    let mut d = dictionary::<[u64; 2]>(device, rule, 1 << 10);
    let mut expected = BTreeMap::new();
    let mut random = Random::new(rule as u64);
    for round in 0..40u64 {
        let len = [900, 5_000, 30, 2_500][round as usize % 4];
        let first = random.number() % DOMAIN;
        let keys: Vec<u64> = (0..len).map(|_| (first + random.number() % 6_000) % DOMAIN).collect();
        let values: Vec<[u64; 2]> = keys.iter().map(|key| [random.number(), key ^ round]).collect();
        let pairs = keys.iter().zip(&values);
        match round % 5 {
            0..=2 => {
                d.insert(&keys, &values).unwrap();
                for (&key, &[a, b]) in pairs {
                    let value = expected.entry(key);
                    value
                        .and_modify(|value: &mut [u64; 2]| {
                            *value = [combine(value[0], a), combine(value[1], b)];
                        })
                        .or_insert([a, b]);
                }
            }
            3 => {
                d.set(&keys, &values).unwrap();
                expected.extend(pairs.map(|(&key, &value)| (key, value)));
            }
            _ => {
                d.delete(&keys).unwrap();
                for key in &keys {
                    expected.remove(key);
                }
            }
        }
        if round % 3 == 2 {
            check(&d, &expected, DOMAIN);
            d.validate().unwrap();
        }
    }
    d.cleanup().unwrap();
    check(&d, &expected, DOMAIN);
}

each_device! {
    fn a_batch_with_many_equal_keys(device) {
        // Around the lengths of tiles, and of batches that are sorted in tiles.
        for len in [2, 31, 1_791, 1_793, 2_049, 70_000, (1 << 17) + 1, 600_000] {
            for distinct in [1, 2, 33, 500, len] {
                count_occurrences(device, len, distinct.min(len), 1u32, |count| count as u32);
            }
            count_occurrences(device, len, 3, 2u64, |count| 2 * count);
            count_occurrences(device, len, 3, [1u32, 0, 5, 7], |count| {
                [1, 0, 5, 7].map(|one| one * count as u32)
            });
            count_occurrences(device, len, 5, 0.5f64, |count| count as f64 / 2.0);
        }
    }

    fn histories_over_several_runs(device) {
        check_history(device, Combine::Add, u64::wrapping_add);
        check_history(device, Combine::Min, u64::min);
        check_history(device, Combine::Xor, |a, b| a ^ b);
    }
}
