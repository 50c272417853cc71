//! Batches: columns, ordered operations, duplicates; single forms beside batch forms.

use std::collections::BTreeMap;

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Combine, Dictionary, Duplicates, Error, WriteBatch};

use crate::each_device;

fn dictionary(device: gpulsm::Device) -> Dictionary<u32, u64> {
    Dictionary::builder().device(device).batch_size(64).build().unwrap()
}

each_device! {
    fn a_batch_keeps_every_part_that_is_added(device) {
        let mut d = dictionary(device);
        d.update(Batch::new().insert(&[1, 2], &[10, 20]).insert(&[2, 3], &[21, 30])).unwrap();
        assert_eq!(d.to_vecs().unwrap(), (vec![1, 2, 3], vec![10, 21, 30]));
        d.update(Batch::new().delete(&[1]).delete(&[3]).insert(&[3, 4], &[31, 40])).unwrap();
        assert_eq!(d.to_vecs().unwrap(), (vec![2, 4], vec![21, 40]));
        d.update(Batch::new()).unwrap();
        d.update(Batch::new().delete(&[2, 4])).unwrap();
        assert_eq!(d.is_empty(), Ok(true));
        d.validate().unwrap();
    }

    fn duplicates_are_resolved_as_told(device) {
        let mut random = Random::new(3);
        for len in [0, 1, 2, 100, 5000] {
            let keys: Vec<u32> = (0..len).map(|_| random.number() as u32 % 2000).collect();
            let values: Vec<u64> = (0..len as u64).collect();
            let mut model = Model::default();
            for (&key, &value) in keys.iter().zip(&values).rev() {
                model.update(&[(key, value)], &[]); // The first insert comes last, and stays.
            }
            let batch = || Batch::new().insert(&keys, &values);
            let mut d = dictionary(device);
            d.update(batch().duplicates(Duplicates::First)).unwrap();
            assert!(d.iter().eq(model.range(0, u32::MAX)), "{len} pairs");
            let unique = model.len() == len;
            let before = d.to_vecs().unwrap();
            match d.update(batch().duplicates(Duplicates::Error)) {
                Ok(()) => assert!(unique, "{len} pairs"),
                Err(Error::DuplicateKey { key, first, second }) => {
                    assert!(first < second && keys[first] == keys[second] && !unique);
                    assert_eq!(key, keys[first].to_string());
                    assert_eq!(d.to_vecs().unwrap(), before, "an error changes nothing");
                }
                Err(error) => panic!("{error}"),
            }
            d.validate().unwrap();
            let built = Dictionary::<u32, u64>::builder().device(device);
            let built = built.duplicates(Duplicates::First).bulk_build(&keys, &values).unwrap();
            assert_eq!(built.to_vecs().unwrap(), before);
        }
    }

    fn duplicates_are_keys_that_are_stored_as_one(device) {
        let mut d = Dictionary::<f32, u32>::builder().device(device).build().unwrap();
        let keys = [1.0, -0.0, f32::NAN, 0.0];
        let batch = Batch::new().insert(&keys, &[1, 2, 3, 4]).delete(&[1.0, 1.0]);
        let error = d.update(batch.duplicates(Duplicates::Error)).unwrap_err();
        assert!(error.to_string().starts_with("keys[1] and keys[3] are both 0.0: remove one"));
        assert_eq!(d.is_empty(), Ok(true));
    }

    fn the_last_operation_on_a_key_wins_in_a_write_batch(device) {
        let mut random = Random::new(9);
        let (mut d, mut model) = (dictionary(device), Model::default());
        for _ in 0..40 {
            let mut batch = WriteBatch::with_capacity(10);
            for _ in 0..random.number() % 200 {
                let (key, value) = (random.number() as u32 % 100, random.number());
                if random.number().is_multiple_of(3) {
                    batch.delete(key);
                    model.update(&[], &[key]);
                } else {
                    batch.insert(key, value);
                    model.update(&[(key, value)], &[]);
                }
            }
            d.write(&batch).unwrap();
            assert!(d.iter().eq(model.range(0, u32::MAX)));
            d.validate().unwrap();
        }
    }

    fn deleted_ranges_keep_their_place_in_a_write_batch(device) {
        for rule in [Combine::Replace, Combine::Add] {
            let builder = Dictionary::<u32, u64>::builder().device(device).batch_size(64);
            let mut d = builder.combine(rule).build().unwrap();
            let (mut random, mut model) = (Random::new(10), BTreeMap::new());
            for _ in 0..60 {
                let mut batch = WriteBatch::new();
                for _ in 0..random.number() % 60 {
                    let (key, value) = (random.number() as u32 % 100, random.number() % 1000);
                    match random.number() % 8 {
                        0 => {
                            let end = key + random.number() as u32 % 20;
                            batch.delete_range(key..end);
                            model.retain(|other, _| !(key..end).contains(other));
                        }
                        1 => {
                            batch.delete(key);
                            model.remove(&key);
                        }
                        2 => {
                            batch.set(key, value);
                            model.insert(key, value);
                        }
                        _ => {
                            batch.insert(key, value);
                            let before = model.get(&key).filter(|_| rule == Combine::Add);
                            model.insert(key, value + before.copied().unwrap_or(0));
                        }
                    }
                }
                d.write(&batch).unwrap();
                assert!(d.iter().eq(model.iter().map(|(&key, &value)| (key, value))), "{rule}");
                d.validate().unwrap();
            }
            let mut batch = WriteBatch::new();
            batch.delete_range(5..5);
            assert!(batch.is_empty());
            batch.delete_range(..50);
            batch.delete_range(70..=80);
            assert_eq!(batch.len(), 2);
            d.write(&batch).unwrap();
            model.retain(|key, _| !(..50).contains(key) && !(70..=80).contains(key));
            assert!(d.iter().eq(model.into_iter()), "{rule}");
        }
    }

    fn single_forms_answer_as_batches_do(device) {
        let mut d = dictionary(device);
        assert_eq!((d.pop_first(), d.pop_last()), (Ok(None), Ok(None)));
        d.try_extend((0..1000).map(|i| (i * 10, u64::from(i)))).unwrap();
        d.insert_one(5, 55).unwrap();
        assert_eq!((d.lookup_one(5), d.lookup_one(6)), (Ok(Some(55)), Ok(None)));
        assert_eq!((d.contains_one(5), d.contains_one(6)), (Ok(true), Ok(false)));
        assert_eq!((d.delete_one(5), d.delete_one(5)), (Ok(Some(55)), Ok(None)));
        assert_eq!((d.count_one(10..30), d.count_one((10, 30))), (Ok(2), Ok(3)));
        assert_eq!(d.range_one(10..30).unwrap(), [(10, 1), (20, 2)]);
        assert_eq!(d.successor_one(11), Ok(Some((20, 2))));
        assert_eq!(d.predecessor_one(11), Ok(Some((10, 1))));
        assert_eq!(d.strict_successor_one(10), Ok(Some((20, 2))));
        assert_eq!(d.strict_predecessor_one(10), Ok(Some((0, 0))));
        assert_eq!((d.rank_one(11), d.select_one(1)), (Ok(2), Ok(Some((10, 1)))));
        assert_eq!((d.pop_first(), d.pop_last()), (Ok(Some((0, 0))), Ok(Some((9990, 999)))));
        d.delete_range_one(..9000).unwrap();
        assert_eq!(d.len(), Ok(99));
        d.validate().unwrap();
    }

    fn strict_neighbours_at_the_ends_of_the_type(device) {
        let mut d = dictionary(device);
        d.insert(&[0, 7, u32::MAX], &[1, 2, 3]).unwrap();
        let keys = [0, 1, 7, u32::MAX - 1, u32::MAX];
        let pair = |key, value| Some((key, value));
        assert_eq!(
            d.strict_successor(&keys).unwrap(),
            [pair(7, 2), pair(7, 2), pair(u32::MAX, 3), pair(u32::MAX, 3), None]
        );
        assert_eq!(
            d.strict_predecessor(&keys).unwrap(),
            [None, pair(0, 1), pair(0, 1), pair(7, 2), pair(7, 2)]
        );
    }

    fn ranges_are_read_lazily_from_both_ends(device) {
        let mut d = dictionary(device);
        let keys: Vec<u32> = (0..20_000).map(|i| i * 3).collect();
        d.insert(&keys, &vec![0; keys.len()]).unwrap();
        d.delete_range_one(30_000..30_030).unwrap();
        let live = |range: std::ops::Range<u32>| {
            let is_live = |key: &&u32| range.contains(key) && !(30_000..30_030).contains(*key);
            keys.iter().filter(is_live).copied().collect::<Vec<u32>>()
        };
        for (lo, hi) in [(0, 60_000), (5, 5), (100, 40_000), (29_999, 30_031), (59_000, 70_000)] {
            let expected = live(lo..hi);
            assert!(d.iter_range(lo..hi).map(|pair| pair.0).eq(expected.iter().copied()));
            assert!(d.iter_range(lo..hi).rev().map(|pair| pair.0).eq(expected.into_iter().rev()));
        }
        let mut both = d.try_iter_range(..).unwrap();
        let (mut front, mut back) = (Vec::new(), Vec::new());
        while let Some(pair) = both.next() {
            front.push(pair.unwrap().0);
            back.extend(both.next_back().map(|pair| pair.unwrap().0));
        }
        back.reverse();
        assert_eq!([front, back].concat(), live(0..u32::MAX));
    }

    fn an_iterator_returns_an_error_and_ends(device) {
        let mut d = dictionary(device);
        let keys: Vec<u32> = (0..20_000).collect();
        d.insert(&keys, &vec![0; keys.len()]).unwrap();
        let mut pairs = d.try_iter().unwrap();
        assert_eq!(pairs.next(), Some(Ok((0, 0))));
        // What has been read is returned; the next chunk can't be.
        d.fail_allocation_after(0);
        let error = pairs.by_ref().find_map(Result::err);
        d.fail_allocation_after(u64::MAX);
        assert!(matches!(error, Some(Error::OutOfMemory { .. })), "{error:?}");
        assert_eq!((pairs.next(), pairs.next_back()), (None, None));
    }

    fn a_thawed_snapshot_goes_its_own_way(device) {
        let mut d = dictionary(device);
        d.insert(&[1, 2], &[10, 20]).unwrap();
        let snapshot = d.snapshot();
        let mut thawed = snapshot.thaw();
        thawed.insert(&[3], &[30]).unwrap();
        d.delete(&[1]).unwrap();
        assert_eq!((d.len(), snapshot.len(), thawed.len()), (Ok(1), Ok(2), Ok(3)));
        // A snapshot answers all that a dictionary does.
        assert_eq!(snapshot.lookup(&[1, 3]).unwrap(), [Some(10), None]);
        assert_eq!(snapshot.count(&[0..2, 2..9]).unwrap(), [1, 1]);
        assert_eq!(snapshot.range_one(..).unwrap(), snapshot.iter().collect::<Vec<_>>());
        snapshot.validate().unwrap();
    }
}
