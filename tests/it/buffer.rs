//! Buffered batches: those that arrive with no query between them.

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, CleanupPolicy, Dictionary, Error};
use rayon::prelude::*;

use crate::each_device;

fn same(dictionary: &Dictionary<u32, u64>, model: &Model<u32, u64>) {
    let (keys, values) = dictionary.to_vecs().unwrap();
    assert!(keys.into_iter().zip(values).eq(model.iter()));
    dictionary.validate().unwrap();
}

/// A batch of inserts and deletes of a few hundred keys.
fn some_batch(random: &mut Random, most: u64) -> (Vec<(u32, u64)>, Vec<u32>) {
    let (inserts, deletes) = (random.number() % most, random.number() % most);
    let key = |random: &mut Random| (random.number() % 700) as u32;
    let pairs = (0..inserts).map(|_| (key(random), random.number())).collect();
    (pairs, (0..deletes).map(|_| key(random)).collect())
}

each_device! {
    fn later_batches_win_however_many_are_buffered(device) {
        let mut random = Random::new(7);
        for (batch_size, most, policy) in [
            (64, 3, CleanupPolicy::Automatic),
            (64, 40, CleanupPolicy::Automatic),
            (1000, 40, CleanupPolicy::Manual),
            (8, 900, CleanupPolicy::Manual),
        ] {
            let mut d = Dictionary::builder()
                .device(device)
                .batch_size(batch_size)
                .cleanup_policy(policy)
                .build()
                .unwrap();
            let mut model = Model::default();
            for round in 0..400 {
                let (pairs, deletes) = some_batch(&mut random, most);
                let (keys, values): (Vec<u32>, Vec<u64>) = pairs.iter().copied().unzip();
                // By turns all in one batch, and in two.
                if round % 3 == 0 {
                    d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
                    model.update(&pairs, &deletes);
                } else {
                    d.delete(&deletes).unwrap();
                    d.insert(&keys, &values).unwrap();
                    model.update(&[], &deletes);
                    model.update(&pairs, &[]);
                }
                if round % 97 == 96 {
                    same(&d, &model);
                }
            }
            same(&d, &model);
        }
    }

    fn buffered_batches_belong_to_snapshots_and_clones_too(device) {
        let mut d = Dictionary::<u32, u64>::builder().device(device).batch_size(16).build().unwrap();
        for key in 0..10 {
            d.insert_one(key, 1).unwrap();
        }
        let (snapshot, mut clone) = (d.snapshot(), d.clone());
        for key in 5..15 {
            d.insert_one(key, 2).unwrap();
            clone.delete_one(key).unwrap();
        }
        assert_eq!(snapshot.to_vecs().unwrap(), ((0..10).collect(), vec![1; 10]));
        assert_eq!(clone.to_vecs().unwrap(), ((0..5).collect(), vec![1; 5]));
        assert_eq!((d.len(), d.lookup_one(5), d.lookup_one(4)), (Ok(15), Ok(Some(2)), Ok(Some(1))));
        d.insert_one(99, 3).unwrap();
        d.insert_one(98, 3).unwrap();
        d.clear().unwrap();
        assert_eq!(d.len(), Ok(0));
    }

    fn a_query_without_memory_to_flush_loses_nothing(device) {
        let mut struck = 0;
        for n in 0..40 {
            let mut d = Dictionary::<u32, u64>::builder().device(device).batch_size(64).build().unwrap();
            for key in 0..20 {
                d.insert_one(key, u64::from(key)).unwrap();
            }
            d.fail_allocation_after(n);
            let answers = d.lookup(&[3, 19, 20]);
            d.fail_allocation_after(u64::MAX);
            if let Err(error) = answers {
                assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
                struck += 1;
            }
            assert_eq!(d.lookup(&[3, 19, 20]).unwrap(), [Some(3), Some(19), None]);
            // A clone that could not flush does so by itself later.
            d.insert_one(30, 1).unwrap();
            d.insert_one(31, 1).unwrap();
            d.fail_allocation_after(n);
            let mut clone = d.clone();
            d.fail_allocation_after(u64::MAX);
            clone.insert_one(32, 1).unwrap();
            d.insert_one(33, 1).unwrap();
            assert_eq!((clone.len(), d.len()), (Ok(23), Ok(23)));
            assert_eq!((clone.lookup_one(32), d.lookup_one(32), d.lookup_one(33)), (Ok(Some(1)), Ok(None), Ok(Some(1))));
            clone.validate().unwrap();
            d.validate().unwrap();
        }
        assert!(struck > 0, "no query met the fault");
    }

    fn many_threads_may_flush_at_once(device) {
        for round in 0..20 {
            let mut d = Dictionary::<u32, u64>::builder().device(device).batch_size(64).build().unwrap();
            for part in 0..50u32 {
                let keys: Vec<u32> = (part * 100..part * 100 + 100).collect();
                d.insert(&keys, &vec![round; 100]).unwrap();
            }
            // From threads like those that apply it.
            let answers: Vec<bool> = (0..64u32)
                .into_par_iter()
                .map(|part| d.lookup(&[part * 70]).unwrap() == [Some(round)])
                .collect();
            assert!(answers.into_iter().all(|right| right));
        }
    }

    fn the_buffer_keeps_to_the_memory_limit(device) {
        let limit = 4_000_000;
        let mut d = Dictionary::<u32, u64>::builder()
            .device(device)
            .batch_size(1 << 14)
            .memory_limit(limit)
            .build()
            .unwrap();
        let mut taken = 0;
        for part in 0.. {
            let keys: Vec<u32> = (part * 1000..part * 1000 + 1000).collect();
            if d.insert(&keys, &vec![1; 1000]).is_err() {
                break;
            }
            taken += 1000;
        }
        // It is full, and still answers.
        assert_eq!(d.len(), Ok(taken));
        assert!(taken >= 80_000, "{taken}");
        assert!(d.stats().unwrap().bytes_shared <= limit);
        d.validate().unwrap();
    }

    fn what_was_buffered_can_be_applied(device) {
        // Limits around what a batch needs when it comes to an almost empty dictionary.
        for limit in (1..=24).map(|quarter| quarter * 500_000) {
            let mut d = Dictionary::<u32, u64>::builder()
                .device(device)
                .memory_limit(limit)
                .build()
                .unwrap();
            d.insert_one(7, 7).unwrap();
            let keys: Vec<u32> = (0..100_000).collect();
            let outcome = d.insert(&keys, &vec![1; keys.len()]);
            assert_eq!(d.len(), Ok(if outcome.is_ok() { 100_000 } else { 1 }), "{limit} bytes");
            assert_eq!(d.lookup_one(7), Ok(Some(if outcome.is_ok() { 1 } else { 7 })));
            assert!(outcome.is_ok() || limit < 10_000_000);
        }
    }

    fn single_updates_are_cheap_without_queries_between_them(device) {
        let mut d = Dictionary::<u32, u64>::builder().device(device).build().unwrap();
        let start = std::time::Instant::now();
        for key in 0..20_000 {
            d.insert_one(key % 5000, u64::from(key)).unwrap();
        }
        assert_eq!(d.len(), Ok(5000));
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
        assert_eq!(d.lookup_one(4999), Ok(Some(19_999)));
    }
}
