//! Sums, minima and maxima of the values of ranges.

use std::collections::BTreeMap;
use std::fmt::Debug;

use gpulsm::testing::script::Random;
use gpulsm::{Batch, CleanupPolicy, Device, Dictionary, Error, Max, Min, Number, Snapshot, Sum};

use crate::each_device;

/// A dictionary of these values at the keys 0, 1, 2, …, of which some were replaced and all others, from
/// `values.len()` on, deleted: in several runs.
fn with_values<V: Number>(device: Device, values: &[V]) -> Dictionary<u32, V> {
    let mut d = Dictionary::builder().device(device).batch_size(2).build().unwrap();
    let len = values.len() as u32;
    let keys: Vec<u32> = (0..2 * len).collect();
    let others: Vec<V> = values.iter().rev().chain(values).copied().collect();
    d.insert(&keys, &others).unwrap();
    d.flush().unwrap();
    for (key, value) in (0..len).zip(values) {
        d.insert_one(key, *value).unwrap();
        d.flush().unwrap();
    }
    d.delete(&keys[values.len()..]).unwrap();
    d.validate().unwrap();
    d
}

/// Checks the aggregates of all values, of the first one, and of none.
#[track_caller]
fn check_values<V: Number + Debug + PartialEq>(
    device: Device,
    values: &[V],
    (sum, min, max): (V::Sum, V, V),
) where
    Min: gpulsm::Aggregate<V, Answer = V>,
    Max: gpulsm::Aggregate<V, Answer = V>,
{
    let mut d = with_values(device, values);
    let count = values.len() as u64;
    for runs in ["many runs", "one run"] {
        assert_eq!(d.aggregate_one(.., Sum), Ok(Some((sum, count))), "{runs}");
        assert_eq!(d.aggregate_one(.., Min), Ok(Some((min, count))), "{runs}");
        assert_eq!(d.aggregate_one(.., Max), Ok(Some((max, count))), "{runs}");
        let first = Some((values[0], 1));
        assert_eq!(d.aggregate(&[(0, 0), (1, 0)], Min), Ok(vec![first, None]), "{runs}");
        d.cleanup().unwrap();
        d.validate().unwrap();
    }
}

each_device! {
    fn every_type_of_number(device) {
        check_values(device, &[7u32, u32::MAX, 3], (u64::from(u32::MAX) + 10, 3, u32::MAX));
        check_values(device, &[7i32, i32::MIN, -3], (4 + i64::from(i32::MIN), i32::MIN, 7));
        check_values(device, &[0.5f32, -2.0, 16.25], (14.75, -2.0, 16.25));
        check_values(device, &[1u64 << 63, 5, 6], ((1 << 63) + 11, 5, 1 << 63));
        check_values(device, &[-1i64, i64::MIN + 1, 5], (i64::MIN + 5, i64::MIN + 1, 5));
        check_values(device, &[1e300f64, -2.0, 0.0], (1e300, -2.0, 1e300));
    }

    fn elements_of_arrays_are_taken_each_by_itself(device) {
        check_values(device, &[[7u32], [9]], ([16], [7], [9]));
        check_values(device, &[[1i32, -9], [-5, 3]], ([-4, -6], [-5, -9], [1, 3]));
        let (small, large) = ([1.0f32, 2.0, 3.0, 4.0], [8.0, 7.0, 6.0, -5.0]);
        let (least, greatest) = ([1.0, 2.0, 3.0, -5.0], [8.0, 7.0, 6.0, 4.0]);
        check_values(device, &[small, large], ([9.0, 9.0, 9.0, -1.0], least, greatest));
        check_values(device, &[[1u64, 2], [u64::MAX, 1]], ([0, 3], [1, 1], [u64::MAX, 2]));
        check_values(device, &[[-1i64, 2], [4, 1]], ([3, 3], [-1, 1], [4, 2]));
        check_values(device, &[[0.5f64, 2.0], [4.0, 1.0]], ([4.5, 3.0], [0.5, 1.0], [4.0, 2.0]));
    }

    fn sums_of_integers_wrap_around(device) {
        check_values(device, &[u64::MAX, 1, 1], (1, 1, u64::MAX));
        check_values(device, &[i64::MAX, 1], (i64::MIN, 1, i64::MAX));
        // Narrow ones have 32 bits to spare.
        let d = with_values(device, &[u32::MAX; 100]);
        assert_eq!(d.aggregate_one(.., Sum), Ok(Some((100 * u64::from(u32::MAX), 100))));
    }

    fn zeros_are_one_and_nan_comes_last(device) {
        let d = with_values(device, &[-0.0f32, f32::NEG_INFINITY, f32::INFINITY, -f32::NAN]);
        let least = d.aggregate_one(..1, Min).unwrap().unwrap().0;
        assert_eq!(least.to_bits(), 0.0f32.to_bits());
        assert_eq!(d.aggregate_one(..1, Max).unwrap().unwrap().0.to_bits(), 0);
        assert_eq!(d.aggregate_one(.., Min), Ok(Some((f32::NEG_INFINITY, 4))));
        assert_eq!(d.aggregate_one(..3, Max), Ok(Some((f32::INFINITY, 3))));
        let greatest = d.aggregate_one(.., Max).unwrap().unwrap().0;
        assert_eq!(greatest.to_bits(), f32::NAN.to_bits());
        assert_eq!(d.aggregate_one(3.., Min).unwrap().unwrap().0.to_bits(), f32::NAN.to_bits());
        assert!(d.aggregate_one(.., Sum).unwrap().unwrap().0.is_nan());
        assert_eq!(d.aggregate_one(..2, Sum), Ok(Some((f64::NEG_INFINITY, 2))));
    }

    fn ranges_without_keys_have_no_answer(device) {
        let mut d = Dictionary::<i64, f64>::builder().device(device).build().unwrap();
        assert_eq!(d.aggregate(&[..], Sum), Ok(vec![None]));
        d.insert(&[-10, 10, 20], &[1.0, 2.0, 3.0]).unwrap();
        d.delete(&[20]).unwrap();
        d.validate().unwrap();
        let ranges = (&[-9, 15, 11, 5, i64::MIN], &[9, 25, 9, -5, i64::MAX]);
        let sums = d.aggregate(ranges, Sum).unwrap();
        assert_eq!(sums, [None, None, None, None, Some((3.0, 2))]);
        assert_eq!(d.aggregate((&[], &[]), Max), Ok(vec![]));
        let (mut least, mut counts) = ([9.0; 6], [9; 6]);
        d.aggregate_into(ranges, Min, &mut least, &mut counts).unwrap();
        assert_eq!(least, [0.0, 0.0, 0.0, 0.0, 1.0, 9.0], "zeros for empty ranges");
        assert_eq!(counts, [0, 0, 0, 0, 2, 9], "and nothing behind the last");
    }

    fn buffers_that_are_too_short_are_told_what_is_needed(device) {
        let d = with_values(device, &[1u32, 2, 3]);
        let ranges = &[0..1, 1..3];
        let error = d.aggregate_into(ranges, Sum, &mut [0; 1], &mut [0; 2]);
        let too_small = |buffer| Err(Error::BufferTooSmall { buffer, needed: 2, given: 1 });
        assert_eq!(error, too_small("answers"));
        assert_eq!(d.aggregate_into(ranges, Min, &mut [0; 2], &mut [0; 1]), too_small("counts"));
        let error = d.aggregate((&[1, 2], &[3]), Sum).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    }

    fn a_snapshot_answers_what_was_there(device) {
        let mut d = with_values(device, &[1u32, 2, 3]);
        let before: Snapshot<u32, u32> = d.snapshot();
        d.insert(&[1, 7], &[20, 70]).unwrap();
        d.validate().unwrap();
        assert_eq!(before.aggregate(&[..], Sum), Ok(vec![Some((6, 3))]));
        assert_eq!(before.aggregate_one(1.., Max), Ok(Some((3, 2))));
        assert_eq!(d.aggregate_one(.., Sum), Ok(Some((94, 4))));
    }

    fn aggregates_see_buffered_batches(device) {
        let mut d = Dictionary::<u32, u32>::builder().device(device).build().unwrap();
        for round in 0..20 {
            d.insert(&[round, 100 + round], &[1, 2]).unwrap();
        }
        d.delete(&[5, 6, 119]).unwrap();
        assert_eq!(d.aggregate(&[0..100, 100..200], Sum), Ok(vec![Some((18, 18)), Some((38, 19))]));
        d.validate().unwrap();
    }
}

/// Several levels of many entries, with a stretch of keys that were all deleted again and one that was
/// replaced many times, and what they should hold.
fn levels(device: Device) -> (Dictionary<u64, i64>, BTreeMap<u64, i64>) {
    let mut d = Dictionary::builder()
        .device(device)
        .batch_size(1 << 13)
        .cleanup_policy(CleanupPolicy::Manual)
        .build()
        .unwrap();
    let mut map = BTreeMap::new();
    let mut random = Random::new(5);
    // The last batches are short, so that they stay in levels of their own.
    for (round, len) in [12_000; 13].into_iter().chain([3_000, 700, 100]).enumerate() {
        let mut key = |most: u64| random.number() % most;
        let keys: Vec<u64> = (0..len)
            .map(|i| match i % 4 {
                0 => 1_000 + key(2_000),
                1 => 1_000_000 + key(60_000),
                _ => 10_000_000 + key(1 << 20),
            })
            .collect();
        let values: Vec<i64> = keys.iter().map(|_| key(u64::MAX).cast_signed()).collect();
        let deletes: Vec<u64> = match round {
            12 => (1_000_100..1_059_900).collect(),
            _ => keys.iter().copied().filter(|key| key % 7 == 0).collect(),
        };
        d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
        d.flush().unwrap();
        map.extend(keys.into_iter().zip(values));
        for key in &deletes {
            map.remove(key);
        }
    }
    d.validate().unwrap();
    assert!(d.stats().unwrap().levels.len() >= 3);
    (d, map)
}

#[track_caller]
fn check_ranges(d: &Dictionary<u64, i64>, map: &BTreeMap<u64, i64>, ranges: &[(u64, u64)]) {
    let sums = d.aggregate(ranges, Sum).unwrap();
    let least = d.aggregate(ranges, Min).unwrap();
    let greatest = d.aggregate(ranges, Max).unwrap();
    for (index, &(lo, hi)) in ranges.iter().enumerate() {
        let values: Vec<i64> = match lo <= hi {
            true => map.range(lo..=hi).map(|(_, &value)| value).collect(),
            false => Vec::new(),
        };
        let count = values.len() as u64;
        let sum = values.iter().fold(0, |sum: i64, &value| sum.wrapping_add(value));
        assert_eq!(sums[index], (count > 0).then_some((sum, count)), "{lo}..={hi}");
        assert_eq!(least[index], values.iter().min().map(|&value| (value, count)), "{lo}..={hi}");
        assert_eq!(
            greatest[index],
            values.iter().max().map(|&value| (value, count)),
            "{lo}..={hi}"
        );
    }
}

each_device! {
    fn long_ranges_over_many_runs_and_over_one(device) {
        let (mut d, map) = levels(device);
        for _ in ["many runs", "one run"] {
            // Each alone, so that it is divided among threads; then all of them in one call.
            let mut ranges = vec![
                (0, u64::MAX),
                (0, 10_000_000),
                (1_000_000, 1_060_000),
                (1_000_100, 1_059_899),
                (1_000_099, 10_000_100),
                (10_000_000, u64::MAX),
                (10_500_000, 10_400_000),
                (10_100_000, 11_000_000),
            ];
            for range in &ranges {
                check_ranges(&d, &map, &[*range]);
            }
            ranges.extend((0..50).map(|i| (10_000_000 + i * 1000, 10_003_000 + i * 1000)));
            ranges.push((10_000_001, u64::MAX - 1));
            check_ranges(&d, &map, &ranges);
            d.cleanup().unwrap();
            d.validate().unwrap();
        }
    }

    fn many_overlapping_ranges(device) {
        let (mut d, map) = levels(device);
        let mut random = Random::new(6);
        // More than are searched for at a time.
        let ranges: Vec<(u64, u64)> = (0..40_000)
            .map(|i| {
                let lo = 10_000_000 + random.number() % (1 << 20);
                (lo, lo + random.number() % if i % 100 == 0 { 30_000 } else { 300 })
            })
            .collect();
        check_ranges(&d, &map, &ranges);
        d.cleanup().unwrap();
        check_ranges(&d, &map, &ranges[..5000]);
    }

    fn an_aggregate_without_memory_changes_nothing(device) {
        let (d, map) = levels(device);
        d.flush().unwrap();
        let mut failed = 0;
        for n in 0.. {
            d.fail_allocation_after(n);
            let answer = d.aggregate_one(.., Sum);
            d.fail_allocation_after(u64::MAX);
            match answer {
                Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{error}"),
                Ok(_) => break,
            }
            failed += 1;
        }
        assert!(failed > 0, "working memory is counted");
        d.validate().unwrap();
        check_ranges(&d, &map, &[(0, u64::MAX)]);
    }

    fn many_aggregates_of_a_dictionary_with_little_memory_left(device) {
        let mut d = Dictionary::<u32, u32>::builder()
            .device(device)
            .batch_size(4096)
            .memory_limit(900_000)
            .build()
            .unwrap();
        let keys: Vec<u32> = (0..12_288).map(|number| number * 1_021 % 12_289 * 5).collect();
        for batch in keys.chunks(4096) {
            d.insert(batch, batch).unwrap();
            d.flush().unwrap();
        }
        d.validate().unwrap();
        let lo: Vec<u32> = (0..40_000).collect();
        for wide in [9, 2_000] {
            let hi: Vec<u32> = lo.iter().map(|lo| lo + wide).collect();
            check_multiples_of_five((&lo, &hi), &d.aggregate((&lo, &hi), Sum).unwrap());
        }
        d.validate().unwrap();
    }
}

/// Checks sums of keys, where all multiples of 5 are there.
fn check_multiples_of_five((lo, hi): (&[u32], &[u32]), sums: &[Option<(u64, u64)>]) {
    for ((&lo, &hi), sum) in lo.iter().zip(hi).zip(sums) {
        let keys = (lo.next_multiple_of(5)..=hi).step_by(5).map(u64::from);
        assert_eq!(*sum, Some((keys.clone().sum(), keys.count() as u64)), "{lo}..={hi}");
    }
}
