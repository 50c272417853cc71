//! Deletes of ranges, over every arrangement of runs: their keys come sorted, and are known to be live.

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Builder, CleanupPolicy, Combine, Device, Dictionary, Key, Value};

use crate::each_device;

const LEN: u32 = 10_000;

/// A dictionary of the keys up to [`LEN`], each its own value, in one run.
fn in_one_run(device: Device) -> Dictionary<u32, u32> {
    let keys: Vec<u32> = (0..LEN).collect();
    settings(device, 64).from_sorted(&keys, &keys).unwrap()
}

fn settings<K: Key, V: Value>(device: Device, batch_size: usize) -> Builder<K, V> {
    let builder = Dictionary::builder().device(device).batch_size(batch_size);
    builder.cleanup_policy(CleanupPolicy::Manual)
}

/// The entries of each run, newest first, and how many of them are tombstones.
fn runs(d: &Dictionary<u32, u32>) -> Vec<(u64, u64)> {
    d.validate().unwrap();
    let levels = d.stats().unwrap().levels;
    levels.iter().map(|level| (level.entries, level.tombstones)).collect()
}

fn assert_means<K: Key + PartialEq, V: Value + PartialEq>(
    d: &Dictionary<K, V>,
    model: &Model<K, V>,
) {
    d.validate().unwrap();
    let (keys, values) = d.to_vecs().unwrap();
    assert!(keys.into_iter().zip(values).eq(model.iter()));
    assert_eq!(d.len(), Ok(model.len() as u64));
}

/// Inserts, deletes, and deletes of one range and of many, over runs of all lengths.
fn random_updates<K: Key + PartialEq, V: Value + PartialEq>(
    mut d: Dictionary<K, V>,
    (key, value): (impl Fn(u64) -> K, impl Fn(u64) -> V),
    seed: u64,
) {
    let mut random = Random::new(seed);
    let mut model = Model::default();
    for step in 0..60 {
        let mut below = |bound: u64| random.number() % bound;
        match below(4) {
            0 | 1 => {
                let len = 1 << below(12);
                // All over the keys, or in one place.
                let (from, bound) =
                    if below(2) == 0 { (0, 20_000) } else { (below(20_000), 2 * len) };
                let pairs: Vec<(K, V)> = (0..len)
                    .map(|i| (key(from + below(bound)), value(step * 10_000 + i)))
                    .collect();
                let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().copied().unzip();
                d.insert(&keys, &values).unwrap();
                model.update(&pairs, &[]);
            }
            2 => {
                let keys: Vec<K> = (0..below(300)).map(|_| key(below(20_000))).collect();
                d.delete(&keys).unwrap();
                model.update(&[], &keys);
            }
            _ => {
                let ranges = [1, 1, 3, 200][below(4) as usize];
                let ranges: Vec<(K, K)> = (0..ranges)
                    .map(|_| (below(20_000), below(6000 / ranges)))
                    .map(|(lo, len)| (key(lo), key(lo + len)))
                    .collect();
                d.delete_range(&ranges).unwrap();
                ranges.iter().for_each(|&(lo, hi)| model.delete_range(lo, hi));
            }
        }
        if below(3) == 0 {
            assert_means(&d, &model);
        }
    }
    assert_means(&d, &model);
}

each_device! {
    fn a_range_over_nothing_else_becomes_a_run_of_tombstones(device) {
        let mut d = in_one_run(device);
        d.delete_range_one(2000..3000).unwrap();
        assert_eq!(runs(&d), [(1000, 1000), (10_000, 0)]);
        // Another place, on top of tombstones elsewhere, with which its own are merged.
        d.delete_range_one(5000..6000).unwrap();
        assert_eq!(runs(&d), [(2000, 2000), (10_000, 0)]);
        // Around tombstones: keys that are gone already get no second one.
        d.delete_range_one(1900..3100).unwrap();
        assert_eq!(runs(&d), [(200, 200), (2000, 2000), (10_000, 0)]);
        d.delete_range_one(500..3200).unwrap();
        assert_eq!(runs(&d), [(3700, 3700), (10_000, 0)]);
        let expected: Vec<u32> =
            (0..LEN).filter(|key| !(500..3200).contains(key) && !(5000..6000).contains(key)).collect();
        assert_eq!(d.to_vecs(), Ok((expected.clone(), expected)));
        d.cleanup().unwrap();
        assert_eq!(runs(&d), [(6300, 0)]);
    }

    fn ranges_without_keys_change_nothing(device) {
        let mut d = in_one_run(device);
        d.delete_range(&[LEN..LEN + 5, 7..7]).unwrap();
        assert_eq!(runs(&d), [(10_000, 0)]);
        d.delete_range_one(..100).unwrap();
        d.delete_range_one(..100).unwrap();
        assert_eq!(runs(&d), [(100, 100), (10_000, 0)]);
    }

    fn keys_that_no_older_run_holds_leave_no_tombstone(device) {
        let mut d = in_one_run(device);
        let new: Vec<u32> = (LEN - 50..LEN + 50).collect();
        d.insert(&new, &new).unwrap();
        d.flush().unwrap();
        // Half of the carried keys are in the older run as well.
        d.delete_range_one(LEN - 40..LEN + 40).unwrap();
        assert_eq!(runs(&d), [(60, 40), (10_000, 0)]);
        d.delete_range_one(LEN..).unwrap();
        assert_eq!(runs(&d), [(10, 10), (60, 40), (10_000, 0)]);
        assert_eq!(d.lookup(&[LEN - 41, LEN - 40, LEN + 40]), Ok(vec![Some(LEN - 41), None, None]));
    }

    fn deleting_every_key_is_a_clear(device) {
        let mut d = in_one_run(device);
        d.delete_range_one(100..200).unwrap();
        let before = d.snapshot();
        // Not one range over all keys, but ranges that hold all that are left.
        d.delete_range(&[5000..=u32::MAX, 0..=99, 200..=4999]).unwrap();
        assert_eq!(runs(&d), []);
        assert_eq!((d.len(), before.len()), (Ok(0), Ok(9900)));
        d.insert(&[150], &[1]).unwrap();
        assert_eq!(d.to_vecs(), Ok((vec![150], vec![1])));
    }

    fn clones_and_snapshots_keep_what_a_range_delete_takes(device) {
        let mut d = in_one_run(device);
        let (snapshot, mut clone) = (d.snapshot(), d.clone());
        d.delete_range_one(..5000).unwrap();
        clone.delete_range_one(5000..).unwrap();
        assert_eq!((d.len(), clone.len(), snapshot.len()), (Ok(5000), Ok(5000), Ok(10_000)));
        assert_eq!(d.first(), Ok(Some((5000, 5000))));
        assert_eq!(clone.last(), Ok(Some((4999, 4999))));
        runs(&clone);
    }

    fn buffered_batches_are_applied_before_a_range_is_deleted(device) {
        let mut d = in_one_run(device);
        for batch in 0..10 {
            let keys: Vec<u32> = (batch * 30..batch * 30 + 60).map(|key| key + LEN - 100).collect();
            d.insert(&keys, &keys).unwrap();
        }
        d.delete(&[LEN + 100]).unwrap();
        d.delete_range_one(LEN - 50..LEN + 150).unwrap();
        d.validate().unwrap();
        assert_eq!(d.len(), Ok(u64::from(LEN) - 50 + 80));
        assert_eq!(d.successor_one(LEN - 50), Ok(Some((LEN + 150, LEN + 150))));
    }

    fn after_a_range_delete_values_combine_afresh(device) {
        let keys: Vec<u32> = (0..1000).collect();
        let builder = settings(device, 64).combine(Combine::Add);
        let mut d: Dictionary<u32, u32> = builder.bulk_build(&keys, &vec![1; 1000]).unwrap();
        d.insert(&keys, &vec![10; 1000]).unwrap();
        d.delete_range(&[100..200, 300..400]).unwrap();
        d.insert(&keys, &vec![100; 1000]).unwrap();
        d.validate().unwrap();
        let expected: Vec<u32> =
            keys.iter().map(|key| if [1, 3].contains(&(key / 100)) { 100 } else { 111 }).collect();
        assert_eq!(d.to_vecs(), Ok((keys, expected)));
    }

    fn a_window_that_slides_keeps_its_length(device) {
        let keys: Vec<u32> = (0..5000).collect();
        let builder = Dictionary::<u32, u32>::builder().device(device).batch_size(256);
        let mut d = builder.bulk_build(&keys, &keys).unwrap();
        for step in 0..120 {
            let from = 5000 + step * 100;
            let new: Vec<u32> = (from..from + 100).collect();
            d.insert(&new, &new).unwrap();
            d.delete_range_one(..from - 4900).unwrap();
            assert_eq!(d.len(), Ok(5000));
            d.validate().unwrap();
        }
        let expected: Vec<u32> = (12_000..17_000).collect();
        assert_eq!(d.to_vecs(), Ok((expected.clone(), expected)));
    }

    fn random_range_deletes_mean_what_the_model_says(device) {
        for (seed, batch_size) in [64, 64, 300, 4096, 100_000].into_iter().enumerate() {
            let seed = seed as u64;
            let number = |i: u64| i as u32;
            random_updates(settings(device, batch_size).build().unwrap(), (number, number), seed);
            let automatic = Dictionary::builder().device(device).batch_size(batch_size);
            let float = |i: u64| i as f64 - 9000.5;
            random_updates(automatic.threads(2).build().unwrap(), (float, |i| [i, 1]), seed);
            let pair = |i: u64| ((i / 700) as u32, i.cast_signed());
            random_updates(settings(device, batch_size).build().unwrap(), (pair, |_| ()), seed);
        }
    }
}
