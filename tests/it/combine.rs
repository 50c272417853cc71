//! Dictionaries whose inserts combine values. The random lists of `model.rs` draw every rule, too.

use std::collections::BTreeMap;

use gpulsm::testing::script::Random;
use gpulsm::{
    Batch, CleanupPolicy, Combine, Device, Dictionary, Duplicates, Error, Max, Min, Number, Sum,
    WriteBatch,
};

use crate::each_device;

fn combining<V: Number>(device: Device, rule: Combine) -> Dictionary<u32, V> {
    Dictionary::builder().device(device).batch_size(4).combine(rule).build().unwrap()
}

fn counters(device: Device) -> Dictionary<u32, u32> {
    combining(device, Combine::Add)
}

/// Inserts values for one key, one batch each, and returns what the key has then; once in many runs, once in
/// one, once from one batch.
#[track_caller]
fn combined<V: Number + PartialEq + std::fmt::Debug>(
    device: Device,
    rule: Combine,
    values: &[V],
) -> V {
    let builder = || Dictionary::<u32, V>::builder().device(device).batch_size(1).combine(rule);
    let mut d = builder().cleanup_policy(CleanupPolicy::Manual).build().unwrap();
    for &value in values {
        d.insert_one(7, value).unwrap();
        d.flush().unwrap();
        d.validate().unwrap();
    }
    let in_runs = d.lookup_one(7).unwrap().unwrap();
    d.cleanup().unwrap();
    d.validate().unwrap();
    let in_one_run = d.lookup_one(7).unwrap().unwrap();
    let of_a_batch = builder().bulk_build(&vec![7; values.len()], values).unwrap();
    let of_a_batch = of_a_batch.lookup_one(7).unwrap().unwrap();
    // As bytes, so that NaN equals NaN.
    assert_eq!(bytemuck::bytes_of(&in_runs), bytemuck::bytes_of(&in_one_run), "{rule}");
    assert_eq!(bytemuck::bytes_of(&in_runs), bytemuck::bytes_of(&of_a_batch), "{rule}");
    in_runs
}

each_device! {
    fn every_rule_on_every_type_of_number(device) {
        assert_eq!(combined(device, Combine::Add, &[u32::MAX, 3, 5]), 7);
        assert_eq!(combined(device, Combine::Add, &[u64::MAX, 3, 5]), 7);
        assert_eq!(combined(device, Combine::Add, &[-1i32, i32::MIN, 3]), i32::MIN + 2);
        assert_eq!(combined(device, Combine::Add, &[-1i64, 1 << 40]), (1 << 40) - 1);
        assert_eq!(combined(device, Combine::Add, &[0.5f32, -2.0, 16.25]), 14.75);
        assert_eq!(combined(device, Combine::Add, &[0.5f64, -2.0, 16.25]), 14.75);
        assert_eq!(combined(device, Combine::Min, &[7u32, u32::MAX, 3]), 3);
        assert_eq!(combined(device, Combine::Min, &[7i32, -5, 3]), -5);
        assert_eq!(combined(device, Combine::Min, &[7.5f32, -0.0, -0.0, f32::NAN]).to_bits(), 0);
        assert_eq!(combined(device, Combine::Min, &[7u64, 1 << 60]), 7);
        assert_eq!(combined(device, Combine::Min, &[7i64, i64::MIN, 3]), i64::MIN);
        assert_eq!(combined(device, Combine::Min, &[7.5f64, f64::INFINITY, -1e300]), -1e300);
        assert_eq!(combined(device, Combine::Max, &[7u32, u32::MAX, 3]), u32::MAX);
        assert_eq!(combined(device, Combine::Max, &[-7i32, -5, -9]), -5);
        assert!(combined(device, Combine::Max, &[7.5f32, f32::INFINITY, -f32::NAN]).is_nan());
        assert_eq!(combined(device, Combine::Max, &[7u64, 1 << 60]), 1 << 60);
        assert_eq!(combined(device, Combine::Max, &[-7i64, i64::MIN, -3]), -3);
        assert_eq!(combined(device, Combine::Max, &[-7.5f64, f64::NEG_INFINITY, -1e300]), -7.5);
        assert_eq!(combined(device, Combine::Or, &[1u32, 4, 5, 8]), 13);
        assert_eq!(combined(device, Combine::And, &[-1i64, 12, 6]), 4);
        assert_eq!(combined(device, Combine::Xor, &[1u64 << 63, 4, 5, 4]), (1 << 63) + 5);
        assert_eq!(combined(device, Combine::Xor, &[-1i32, 5]), -6);
    }

    fn values_of_several_numbers_combine_element_by_element(device) {
        let sum = combined(device, Combine::Add, &[[1.0f32, 2.0, 3.0, 4.0], [0.5, -2.0, 0.0, 1.0]]);
        assert_eq!(sum, [1.5, 0.0, 3.0, 5.0]);
        assert_eq!(combined(device, Combine::Max, &[[-1i32, 5], [3, -5]]), [3, 5]);
        assert_eq!(combined(device, Combine::Add, &[[u64::MAX, 1], [2, 3]]), [1, 4]);
        assert_eq!(combined(device, Combine::Min, &[[0.5f64, -1.0], [0.25, 1.0]]), [0.25, -1.0]);
    }

    fn a_delete_ends_what_was_combined(device) {
        let mut d = counters(device);
        d.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
        d.flush().unwrap();
        d.delete(&[1, 9]).unwrap();
        d.flush().unwrap();
        d.insert(&[1, 2, 1], &[1, 2, 1]).unwrap();
        d.validate().unwrap();
        assert_eq!(d.to_vecs(), Ok((vec![1, 2, 3], vec![2, 22, 30])));
        d.delete_range_one(2..=3).unwrap();
        d.insert(&[3], &[3]).unwrap();
        d.validate().unwrap();
        assert_eq!(d.lookup(&[1, 2, 3]), Ok(vec![Some(2), None, Some(3)]));
        // In one batch, a delete wins over inserts.
        d.update(Batch::new().insert(&[1, 3, 4], &[100; 3]).delete(&[3])).unwrap();
        d.validate().unwrap();
        assert_eq!(d.to_vecs(), Ok((vec![1, 4], vec![102, 100])));
    }

    fn set_replaces_a_value_and_inserts_go_on_from_it(device) {
        let mut d = counters(device);
        for round in 0..40u32 {
            d.insert(&[1, 2, 3, 4], &[round; 4]).unwrap();
            d.set(&[2, 2], &[500, 1000]).unwrap();
            d.insert(&[2, 5], &[7, 1]).unwrap();
            if round % 3 == 0 {
                d.validate().unwrap();
            }
            assert_eq!(d.lookup_one(2), Ok(Some(1007)), "round {round}");
            assert_eq!(d.lookup_one(5), Ok(Some(round + 1)), "round {round}");
        }
        assert_eq!(d.lookup_one(4), Ok(Some(780)));
        d.set_one(6, 66).unwrap();
        assert_eq!(d.last(), Ok(Some((6, 66))));
    }

    fn a_write_batch_applies_its_operations_in_order(device) {
        let mut d = counters(device);
        d.insert(&[1, 2, 3, 4], &[1000; 4]).unwrap();
        let mut batch = WriteBatch::new();
        batch.insert(1, 1);
        batch.insert(1, 2);
        batch.delete(2);
        batch.insert(2, 5);
        batch.insert(2, 6);
        batch.set(3, 7);
        batch.insert(3, 1);
        batch.insert(4, 1);
        batch.delete(4);
        batch.insert(5, 1);
        batch.set(5, 50);
        d.write(&batch).unwrap();
        d.validate().unwrap();
        assert_eq!(d.to_vecs(), Ok((vec![1, 2, 3, 5], vec![1003, 11, 8, 50])));
    }

    fn merging_another_dictionary_combines(device) {
        let mut d = counters(device);
        d.insert(&[1, 2], &[1, 2]).unwrap();
        let other: Dictionary<u32, u32> = [(2, 20), (3, 30)].into_iter().collect();
        d.merge_from(&other.snapshot()).unwrap();
        assert_eq!(d.to_vecs(), Ok((vec![1, 2, 3], vec![1, 22, 30])));
    }

    fn snapshots_and_clones_keep_what_they_have(device) {
        let mut d = counters(device);
        d.insert(&[1, 2], &[1, 2]).unwrap();
        let (before, mut fork) = (d.snapshot(), d.clone());
        d.insert(&[1, 2], &[10, 20]).unwrap();
        fork.set(&[1], &[5]).unwrap();
        assert_eq!(before.lookup(&[1, 2]), Ok(vec![Some(1), Some(2)]));
        assert_eq!(d.lookup(&[1, 2]), Ok(vec![Some(11), Some(22)]));
        assert_eq!(fork.lookup(&[1, 2]), Ok(vec![Some(5), Some(2)]));
        assert_eq!((before.combine(), fork.combine()), (Combine::Add, Combine::Add));
    }

    fn every_query_sees_combined_values(device) {
        let mut d: Dictionary<u32, u64> = combining(device, Combine::Add);
        let mut model = BTreeMap::new();
        let mut random = Random::new(5);
        for _ in 0..60 {
            let keys: Vec<u32> = (0..20).map(|_| (random.number() % 90) as u32).collect();
            let values: Vec<u64> = (0..20).map(|_| random.number() >> 20).collect();
            d.insert(&keys, &values).unwrap();
            d.flush().unwrap();
            for (key, value) in keys.iter().zip(&values) {
                *model.entry(*key).or_insert(0u64) += value;
            }
            let doomed = (random.number() % 90) as u32;
            d.delete(&[doomed]).unwrap();
            d.flush().unwrap();
            model.remove(&doomed);
        }
        d.validate().unwrap();
        let pairs: Vec<(u32, u64)> = model.iter().map(|(&key, &value)| (key, value)).collect();
        assert_eq!(d.iter().collect::<Vec<_>>(), pairs);
        assert_eq!(d.iter().rev().collect::<Vec<_>>(), pairs.iter().rev().copied().collect::<Vec<_>>());
        let indices: Vec<u64> = (0..pairs.len() as u64).collect();
        let selected: Vec<_> = d.select(&indices).unwrap().into_iter().flatten().collect();
        assert_eq!(selected, pairs);
        for key in 0..95 {
            let next = model.range(key..).next().map(|(&key, &value)| (key, value));
            assert_eq!(d.successor_one(key), Ok(next));
            let previous = model.range(..=key).next_back().map(|(&key, &value)| (key, value));
            assert_eq!(d.predecessor_one(key), Ok(previous));
            let values: Vec<u64> = model.range(key..key + 30).map(|(_, &value)| value).collect();
            let count = values.len() as u64;
            let range = key..key + 30;
            let sum = values.iter().fold(0u64, |sum, value| sum.wrapping_add(*value));
            let expected = (count > 0).then_some((sum, count));
            assert_eq!(d.aggregate_one(range.clone(), Sum), Ok(expected));
            let least = values.iter().min().map(|&least| (least, count));
            assert_eq!(d.aggregate_one(range.clone(), Min), Ok(least));
            let greatest = values.iter().max().map(|&greatest| (greatest, count));
            assert_eq!(d.aggregate_one(range.clone(), Max), Ok(greatest));
            assert_eq!(d.count_one(range), Ok(count));
        }
    }

    /// One key in every place of a batch, or every other one: all duplicates are combined, however many.
    fn batches_of_many_duplicates(device) {
        for (keys, len) in [(1u32, 100_000u32), (2, 100_001), (37, 65_536), (5000, 70_000)] {
            let batch: Vec<u32> = (0..len).map(|at| at.wrapping_mul(0x9e37_79b1) % keys).collect();
            let values: Vec<u32> = (0..len).collect();
            let mut sums = BTreeMap::new();
            for (&key, &value) in batch.iter().zip(&values) {
                let sum = sums.entry(key).or_insert(0u32);
                *sum = sum.wrapping_add(value);
            }
            let mut d = counters(device);
            d.insert(&batch, &values).unwrap();
            d.validate().unwrap();
            assert!(d.iter().eq(sums.clone()), "{len} inserts of {keys} keys");
            d.insert(&batch, &values).unwrap();
            d.validate().unwrap();
            let doubled = sums.iter().map(|(&key, &sum)| (key, sum.wrapping_mul(2)));
            assert!(d.iter().eq(doubled), "{len} inserts of {keys} keys, twice");
        }
    }

    fn float_sums_are_right_up_to_rounding(device) {
        let mut d: Dictionary<u32, f32> = combining(device, Combine::Add);
        let mut sums = vec![0f64; 100];
        let mut sizes = vec![0f64; 100];
        let mut random = Random::new(1);
        for _ in 0..50 {
            let keys: Vec<u32> = (0..200).map(|_| (random.number() % 100) as u32).collect();
            let number = |random: &mut Random| (random.number() % 2001) as f32 / 7.0 - 100.0;
            let values: Vec<f32> = keys.iter().map(|_| number(&mut random)).collect();
            d.insert(&keys, &values).unwrap();
            for (&key, &value) in keys.iter().zip(&values) {
                sums[key as usize] += f64::from(value);
                sizes[key as usize] += f64::from(value.abs());
            }
        }
        for _ in 0..2 {
            for (key, value) in d.iter() {
                let (sum, size) = (sums[key as usize], sizes[key as usize]);
                let error = (f64::from(value) - sum).abs();
                assert!(error <= size * f64::from(f32::EPSILON) * 200.0, "{key}: {value}, not {sum}");
            }
            d.cleanup().unwrap();
        }
        assert_eq!(d.len(), Ok(100));
    }

    fn what_cannot_combine_is_refused(device) {
        let builder = || Dictionary::<u32, f32>::builder().device(device);
        for rule in [Combine::Or, Combine::And, Combine::Xor] {
            let error = builder().combine(rule).build().err().unwrap();
            assert_eq!(error.to_string(), format!(
                "values can't be combined by `{rule}`: floats have no bitwise operations; use `add`, \
                 `min` or `max`"
            ));
        }
        let mut d = counters(device);
        d.insert(&[1], &[1]).unwrap();
        for duplicates in [Duplicates::First, Duplicates::Error] {
            let batch = Batch::new().insert(&[1, 1], &[1, 1]).duplicates(duplicates);
            assert_eq!(d.update(batch), Err(Error::DuplicatesCombine { rule: "add" }));
        }
        d.update(Batch::new().delete(&[2]).duplicates(Duplicates::Error)).unwrap();
        assert_eq!(d.lookup_one(1), Ok(Some(1)));
        let replacing = builder().combine(Combine::Replace).build().unwrap();
        assert_eq!(replacing.combine(), Combine::Replace);
    }

    /// Buffered batches, of which some assign: nothing may be folded across.
    fn buffered_batches_keep_their_order(device) {
        let mut d = counters(device);
        let mut model = BTreeMap::new();
        let mut random = Random::new(9);
        for step in 0..400 {
            let key = (random.number() % 6) as u32;
            let value = (random.number() % 100) as u32;
            match random.number() % 4 {
                0 => {
                    d.set_one(key, value).unwrap();
                    model.insert(key, value);
                }
                1 => {
                    d.delete(&[key]).unwrap();
                    model.remove(&key);
                }
                _ => {
                    d.insert_one(key, value).unwrap();
                    *model.entry(key).or_insert(0) += value;
                }
            }
            if step % 17 == 0 {
                assert!(d.iter().eq(model.clone()), "step {step}");
                d.validate().unwrap();
            }
        }
    }
}
