//! Merging one dictionary into another: on one device, or from one to the other.

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{CleanupPolicy, Combine, Device, Dictionary};

use crate::each_device;

type Counters = Dictionary<u64, u64>;

/// A dictionary of random pairs in several runs, some of which delete; with what it means.
fn several_runs(device: Device, combine: Combine, seed: u64) -> (Counters, Model<u64, u64>) {
    let builder = Counters::builder().device(device).batch_size(128).combine(combine);
    let mut d = builder.cleanup_policy(CleanupPolicy::Manual).build().unwrap();
    let (mut random, mut model) = (Random::new(seed), Model::default());
    for len in [6000, 2000, 500, 100] {
        let pairs: Vec<(u64, u64)> =
            (0..len).map(|_| (random.number() % 20_000, random.number() % 1000)).collect();
        let deletes: Vec<u64> = (0..len / 10).map(|_| random.number() % 20_000).collect();
        let (keys, values): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
        d.insert(&keys, &values).unwrap();
        d.delete(&deletes).unwrap();
        d.flush().unwrap();
        merge(&mut model, &pairs, combine);
        model.update(&[], &deletes);
    }
    assert!(d.stats().unwrap().levels.len() > 1);
    (d, model)
}

fn merge(model: &mut Model<u64, u64>, pairs: &[(u64, u64)], combine: Combine) {
    match combine {
        Combine::Replace => model.update(pairs, &[]),
        Combine::Add => model.combine(pairs, &[], u64::wrapping_add),
        Combine::Max => model.combine(pairs, &[], u64::max),
        _ => unreachable!("no test uses another rule"),
    }
}

fn assert_means(d: &Counters, model: &Model<u64, u64>) {
    d.validate().unwrap();
    let (keys, values) = d.to_vecs().unwrap();
    assert!(keys.into_iter().zip(values).eq(model.iter()));
}

/// Merges a dictionary of one device into one of another, for every pair of rules.
fn merge_across(to: Device, from: Device) {
    let rules = [Combine::Replace, Combine::Add, Combine::Max];
    for (seed, (rule, other_rule)) in
        rules.iter().flat_map(|&rule| rules.map(|other| (rule, other))).enumerate()
    {
        let (mut d, mut model) = several_runs(to, rule, seed as u64);
        let (mut other, other_model) = several_runs(from, other_rule, 100 + seed as u64);
        let pairs: Vec<(u64, u64)> = other_model.iter().collect();
        d.merge_from(&other.snapshot()).unwrap();
        merge(&mut model, &pairs, rule);
        assert_means(&d, &model);
        // Now it is one run.
        other.cleanup().unwrap();
        d.merge_from(&other.snapshot()).unwrap();
        merge(&mut model, &pairs, rule);
        assert_means(&d, &model);
        assert_means(&other, &other_model);
    }
}

each_device! {
    fn rules_of_both_dictionaries_count(device) {
        merge_across(device, device);
    }

    fn an_empty_dictionary_takes_all_and_gives_nothing(device) {
        let (d, model) = several_runs(device, Combine::Replace, 7);
        let mut empty = Counters::builder().device(device).build().unwrap();
        empty.merge_from(&d.snapshot()).unwrap();
        assert_means(&empty, &model);
        assert_eq!(empty.stats().unwrap().levels.len(), 1);
        let mut d = d;
        d.merge_from(&Counters::builder().device(device).build().unwrap().snapshot()).unwrap();
        assert_means(&d, &model);
    }

    fn a_dictionary_merges_with_its_own_snapshot(device) {
        let (mut d, mut model) = several_runs(device, Combine::Add, 9);
        let before = d.snapshot();
        d.merge_from(&before).unwrap();
        let pairs: Vec<(u64, u64)> = model.iter().collect();
        merge(&mut model, &pairs, Combine::Add);
        assert_means(&d, &model);
        assert!(before.to_vecs().unwrap().1.into_iter().eq(pairs.iter().map(|&(_, value)| value)));
        d.cleanup().unwrap();
        d.merge_from(&d.snapshot()).unwrap();
        let pairs: Vec<(u64, u64)> = model.iter().collect();
        merge(&mut model, &pairs, Combine::Add);
        assert_means(&d, &model);
    }

    fn without_memory_nothing_is_merged(device) {
        let (other, _) = several_runs(device, Combine::Replace, 4);
        let other = other.snapshot();
        let (mut expected, _) = several_runs(device, Combine::Replace, 3);
        expected.merge_from(&other).unwrap();
        for n in 0..30 {
            let (mut d, model) = several_runs(device, Combine::Replace, 3);
            d.fail_allocation_after(n);
            let merged = d.merge_from(&other);
            d.fail_allocation_after(u64::MAX);
            match merged {
                // It was made again, after memory was freed.
                Ok(()) => assert_eq!(d.to_vecs(), expected.to_vecs()),
                Err(_) => assert_means(&d, &model),
            }
            d.validate().unwrap();
        }
    }

    fn a_snapshot_that_is_gone_was_merged_all_the_same(device) {
        let mut sum = Counters::builder().device(device).combine(Combine::Add).build().unwrap();
        let keys: Vec<u64> = (0..30_000).collect();
        for _ in 0..10 {
            let builder = Counters::builder().device(device);
            let other = builder.from_sorted(&keys, &vec![1; keys.len()]).unwrap();
            sum.merge_from(&other.snapshot()).unwrap();
        }
        sum.validate().unwrap();
        assert_eq!(sum.to_vecs(), Ok((keys, vec![10; 30_000])));
    }
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn dictionaries_merge_from_one_device_to_another() {
    let gpu = Device::cuda(0).unwrap();
    merge_across(gpu, Device::cpu());
    merge_across(Device::cpu(), gpu);
}
