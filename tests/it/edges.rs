//! Edges, by name.

use std::time::Instant;

use gpulsm::{Batch, Device, Dictionary, Error, Key, Value};

use crate::{each_device, figures};

fn dictionary<K: Key, V: Value>(device: Device, batch_size: usize) -> Dictionary<K, V> {
    Dictionary::builder().device(device).batch_size(batch_size).build().unwrap()
}

/// The first and the last key of a type, side by side with their neighbours, through every query.
fn ends_of<K: Key>(device: Device, second: K, second_last: K) {
    let keys = [K::HIGHEST, second, K::LOWEST, second_last];
    let mut d = dictionary::<K, u32>(device, 2);
    d.insert(&keys, &[4, 2, 1, 3]).unwrap();
    d.validate().unwrap();
    assert_eq!(d.len(), Ok(4));
    let values = d.lookup(&[K::LOWEST, second, second_last, K::HIGHEST]).unwrap();
    assert_eq!(values, [1, 2, 3, 4].map(Some));
    assert_eq!(d.count((&[K::LOWEST, second, K::HIGHEST], &[K::HIGHEST; 3])).unwrap(), [4, 3, 1]);
    assert_eq!(d.count((&[K::LOWEST; 2], &[K::LOWEST, second_last])).unwrap(), [1, 3]);
    assert_eq!(d.rank(&[K::LOWEST, K::HIGHEST]).unwrap(), [0, 3]);
    assert_eq!(d.first().unwrap().unwrap().1, 1);
    assert_eq!(d.last().unwrap().unwrap().1, 4);
    assert_eq!(d.successor(&[K::HIGHEST]).unwrap()[0].unwrap().1, 4);
    assert_eq!(d.predecessor(&[K::LOWEST]).unwrap()[0].unwrap().1, 1);
    assert_eq!(d.to_vecs().unwrap().1, [1, 2, 3, 4]);
    d.delete(&[K::LOWEST, K::HIGHEST]).unwrap();
    d.validate().unwrap();
    assert_eq!(d.lookup(&[K::LOWEST, K::HIGHEST]).unwrap(), [None, None]);
    assert_eq!(d.successor(&[second_last, K::HIGHEST]).unwrap()[1], None);
    assert_eq!(d.predecessor(&[second, K::LOWEST]).unwrap()[1], None);
    assert_eq!(d.to_vecs().unwrap().1, [2, 3]);
}

each_device! {
    fn the_first_and_the_last_key_of_each_type(device) {
        ends_of::<u32>(device, 1, u32::MAX - 1);
        ends_of::<u64>(device, 1, u64::MAX - 1);
        ends_of::<i32>(device, i32::MIN + 1, i32::MAX - 1);
        ends_of::<i64>(device, i64::MIN + 1, i64::MAX - 1);
        ends_of::<f32>(device, f32::MIN, f32::INFINITY);
        ends_of::<f64>(device, f64::MIN, f64::INFINITY);
    }

    fn every_key_equal(device) {
        let mut d = dictionary::<u32, u32>(device, 16);
        for round in 0..50 {
            let values: Vec<u32> = (0..100).map(|i| round * 100 + i).collect();
            d.insert(&[u32::MAX; 100], &values).unwrap();
            d.validate().unwrap();
            assert_eq!(d.to_vecs().unwrap(), (vec![u32::MAX], vec![round * 100 + 99]));
        }
        let large: Vec<u32> = (0..100_000).collect();
        d.insert(&vec![u32::MAX; 100_000], &large).unwrap();
        assert_eq!(d.lookup_one(u32::MAX), Ok(Some(99_999)));
        assert_eq!(d.len(), Ok(1));
    }

    fn the_last_of_several_inserts_wins(device) {
        let mut d = dictionary::<u32, u32>(device, 4);
        d.insert(&[5, 5, 3, 5, 3], &[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(d.to_vecs().unwrap(), (vec![3, 5], vec![5, 4]));
        // In calls long enough to be sorted by several threads too.
        let keys: Vec<u32> = (0..60_000).map(|i| i % 7_001).collect();
        let values: Vec<u32> = (0..60_000).collect();
        d.insert(&keys, &values).unwrap();
        d.validate().unwrap();
        let expected = |key: u32| (0..60_000).rev().find(|i| i % 7_001 == key).unwrap();
        for key in [0, 1, 3_000, 6_999, 7_000] {
            assert_eq!(d.lookup_one(key), Ok(Some(expected(key))));
        }
    }

    fn a_key_inserted_and_deleted_in_one_call_is_deleted(device) {
        for calls_of in [1, 3, 4, 5, 100, 20_000] {
            let mut d = dictionary::<u32, u32>(device, 4);
            let keys: Vec<u32> = (0..calls_of).collect();
            d.update(Batch::new().insert(&keys, &keys).delete(&keys)).unwrap();
            assert_eq!(d.stats().unwrap().entries, 0, "deleting the absent costs nothing");
            d.insert(&keys, &keys).unwrap();
            let half: Vec<u32> = keys.iter().copied().filter(|key| key % 2 == 0).collect();
            d.update(Batch::new().insert(&keys, &vec![9; keys.len()]).delete(&half)).unwrap();
            d.validate().unwrap();
            let odd: Vec<u32> = keys.iter().copied().filter(|key| key % 2 == 1).collect();
            assert_eq!(d.to_vecs().unwrap(), (odd.clone(), vec![9; odd.len()]));
        }
    }

    fn empty_calls(device) {
        let mut d = dictionary::<u32, u64>(device, 8);
        for filled in [false, true] {
            if filled {
                d.insert(&[1], &[2]).unwrap();
            }
            let before = figures(&d);
            d.insert(&[], &[]).unwrap();
            d.delete(&[]).unwrap();
            d.delete_range((&[], &[])).unwrap();
            d.update(Batch::new().insert(&[], &[])).unwrap();
            d.merge_from(&dictionary(device, 8).snapshot()).unwrap();
            assert_eq!(figures(&d), before);
            assert_eq!(d.lookup(&[]), Ok(vec![]));
            assert_eq!(d.contains(&[]), Ok(vec![]));
            assert_eq!(d.count((&[], &[])), Ok(vec![]));
            assert_eq!(d.rank(&[]), Ok(vec![]));
            assert_eq!(d.select(&[]), Ok(vec![]));
            assert_eq!(d.successor(&[]), Ok(vec![]));
            assert_eq!(d.range((&[], &[])).unwrap().offsets, [0]);
        }
    }

    fn an_empty_dictionary_answers_everything(device) {
        let mut d = dictionary::<i64, u32>(device, 8);
        d.cleanup().unwrap();
        d.validate().unwrap();
        assert_eq!(d.is_empty(), Ok(true));
        assert_eq!(d.lookup(&[0]), Ok(vec![None]));
        assert_eq!(d.count((&[i64::MIN], &[i64::MAX])), Ok(vec![0]));
        assert_eq!(d.range((&[0, 5], &[9, 1])).unwrap().offsets, [0, 0, 0]);
        assert_eq!((d.first(), d.last()), (Ok(None), Ok(None)));
        assert_eq!(d.select(&[0]), Ok(vec![None]));
        assert_eq!(d.rank(&[7]), Ok(vec![0]));
        assert_eq!(d.iter().next(), None);
    }

    fn deleting_what_is_not_there(device) {
        let mut d = dictionary::<u32, u32>(device, 2);
        d.delete(&[1, 2, 3]).unwrap();
        assert_eq!(d.stats().unwrap().entries, 0);
        d.insert(&[10, 20, 30], &[1, 2, 3]).unwrap();
        d.delete(&[15, 25, 35, 0]).unwrap();
        d.validate().unwrap();
        assert_eq!(d.stats().unwrap().entries, 3);
        d.delete(&[20]).unwrap();
        d.delete(&[20]).unwrap();
        d.validate().unwrap();
        assert_eq!(d.len(), Ok(2));
    }

    fn delete_range_of_everything_and_of_parts(device) {
        let keys: Vec<u32> = (0..1000).map(|i| i * 2).collect();
        let mut d = dictionary::<u32, u32>(device, 64);
        for half in keys.chunks(500) {
            d.insert(half, half).unwrap();
        }
        d.delete_range((&[100, 50, 900, 7], &[120, 110, 899, 7])).unwrap();
        d.validate().unwrap();
        assert_eq!(d.len(), Ok(1000 - 36));
        assert_eq!(d.count((&[48], &[122])), Ok(vec![2]));
        let before = d.snapshot();
        d.delete_range((&[0], &[u32::MAX])).unwrap();
        d.validate().unwrap();
        assert_eq!(d.stats().unwrap().entries, 0);
        assert_eq!(before.len(), Ok(964));
        d.insert(&[5], &[5]).unwrap();
        assert_eq!(d.to_vecs(), Ok((vec![5], vec![5])));
    }

    fn ranges_empty_inverted_and_full(device) {
        let mut d = dictionary::<i32, i32>(device, 2);
        d.insert(&[-3, 0, 4], &[1, 2, 3]).unwrap();
        d.insert(&[7, 0], &[4, 5]).unwrap();
        d.delete(&[4]).unwrap();
        let lo = [1, 5, i32::MIN, 0, 4];
        let hi = [3, -5, i32::MAX, 0, 4];
        assert_eq!(d.count((&lo, &hi)), Ok(vec![0, 0, 3, 1, 0]));
        let ranges = d.range((&lo, &hi)).unwrap();
        assert_eq!(ranges.offsets, [0, 0, 0, 3, 4, 4]);
        assert_eq!(ranges.get(2), (&[-3, 0, 7][..], &[1, 5, 4][..]));
        assert_eq!(ranges.get(3), (&[0][..], &[5][..]));
    }

    fn select_past_the_end(device) {
        let mut d = dictionary::<u32, u32>(device, 2);
        d.insert(&[1, 2, 3], &[1, 2, 3]).unwrap();
        d.delete(&[2]).unwrap();
        let selected = d.select(&[0, 1, 2, 3, u64::MAX]).unwrap();
        assert_eq!(selected, [Some((1, 1)), Some((3, 3)), None, None, None]);
    }

    fn zeros_nans_and_infinities(device) {
        let mut d = dictionary::<f64, u32>(device, 4);
        let keys = [0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5, f64::MAX];
        d.insert(&keys, &[1, 2, 3, 4, 5, 6]).unwrap();
        d.insert(&[-0.0, f64::from_bits(f64::NAN.to_bits() | 1), -f64::NAN], &[7, 8, 9]).unwrap();
        d.validate().unwrap();
        assert_eq!(d.to_vecs().unwrap().1, [4, 5, 7, 6, 3, 9]);
        assert_eq!(d.lookup(&[0.0, -0.0, f64::NAN]).unwrap(), [Some(7), Some(7), Some(9)]);
        let zero = d.successor(&[-0.0]).unwrap()[0].unwrap().0;
        assert!(zero == 0.0 && zero.is_sign_positive());
        assert_eq!(d.count((&[f64::NEG_INFINITY], &[f64::INFINITY])), Ok(vec![5]));
        assert_eq!(d.count((&[f64::NEG_INFINITY, f64::NAN], &[f64::NAN; 2])), Ok(vec![6, 1]));
        assert!(d.last().unwrap().unwrap().0.is_nan());
        assert_eq!(d.rank(&[f64::NAN]), Ok(vec![5]));
    }

    fn values_of_0_and_of_16_bytes(device) {
        let mut set = dictionary::<u64, ()>(device, 8);
        set.insert(&[3, 1, 2, 3], &[(); 4]).unwrap();
        set.delete(&[2]).unwrap();
        assert_eq!(set.lookup(&[1, 2]), Ok(vec![Some(()), None]));
        assert_eq!(set.to_vecs(), Ok((vec![1, 3], vec![(); 2])));
        let mut wide = dictionary::<u32, [u64; 2]>(device, 8);
        let values: Vec<[u64; 2]> = (0..5000).map(|i| [u64::MAX - i, i]).collect();
        let keys: Vec<u32> = (0..5000).rev().collect();
        wide.insert(&keys, &values).unwrap();
        wide.validate().unwrap();
        assert_eq!(wide.lookup_one(4999), Ok(Some([u64::MAX, 0])));
        assert_eq!(wide.lookup_one(0), Ok(Some([u64::MAX - 4999, 4999])));
    }

    fn successor_over_a_million_tombstones(device) {
        let n = 3_000_000;
        let keys: Vec<u32> = (0..n).collect();
        let mut d = Dictionary::<u32, ()>::builder()
            .device(device)
            .cleanup_policy(gpulsm::CleanupPolicy::Manual)
            .bulk_build(&keys, &vec![(); n as usize])
            .unwrap();
        // In parts, with one key put back: tombstones at several levels, all above their victims.
        for part in keys[1..=1_000_000].chunks(100_000) {
            d.delete(part).unwrap();
        }
        d.insert_one(500_000, ()).unwrap();
        assert!(d.stats().unwrap().levels.iter().map(|level| level.tombstones).sum::<u64>() > 900_000);
        let started = Instant::now();
        let answers = d.successor(&[0, 1, 499_999, 500_001, n]).unwrap();
        let expected = [Some(0), Some(500_000), Some(500_000), Some(1_000_001), None];
        assert_eq!(answers.iter().map(|pair| pair.map(|pair| pair.0)).collect::<Vec<_>>(), expected);
        let answers = d.predecessor(&[1_000_000, 499_999]).unwrap();
        assert_eq!([answers[0].unwrap().0, answers[1].unwrap().0], [500_000, 0]);
        assert!(started.elapsed().as_millis() < 50, "tombstones are not walked over one by one");
    }

    fn a_million_updates_of_a_thousand_keys_stay_small(device) {
        let mut d = dictionary::<u32, u32>(device, 256);
        let keys: Vec<u32> = (0..1_000_000u32).map(|i| i.wrapping_mul(0x9e37_79b1) >> 7 & 1023).collect();
        let keys: Vec<u32> = keys.into_iter().map(|key| key % 1000).collect();
        let mut taken = 0;
        // Calls shorter than, equal to and longer than b.
        for len in [1, 17, 255, 256, 257, 3000].into_iter().cycle() {
            let call = &keys[taken..keys.len().min(taken + len)];
            let values: Vec<u32> = (taken as u32..).take(call.len()).collect();
            d.insert(call, &values).unwrap();
            let stats = d.stats().unwrap();
            assert!(stats.entries <= 2 * stats.live + 4 * 256, "{stats}");
            taken += call.len();
            if taken == keys.len() {
                break;
            }
        }
        d.validate().unwrap();
        assert_eq!(d.len(), Ok(1000));
        for key in [0, 1, 500, 999] {
            let last = keys.iter().rposition(|&other| other == key).unwrap();
            assert_eq!(d.lookup_one(key), Ok(Some(last as u32)));
        }
    }

    fn a_hundred_thousand_single_inserts_are_quick_and_leave_few_levels(device) {
        let mut d = dictionary::<u32, u32>(device, 65_536);
        let started = Instant::now();
        for i in 0..100_000u32 {
            d.insert_one(i.wrapping_mul(0x9e37_79b1), i).unwrap();
        }
        let each = started.elapsed() / 100_000;
        // A GPU has a dozen kernels to launch for each.
        let most = if device.is_cuda() { 1000 } else { 20 };
        assert!(each.as_micros() < most, "{each:?} for each insert");
        let levels = d.stats().unwrap().levels.len();
        assert!(levels <= 8, "{levels} levels");
        d.validate().unwrap();
        assert_eq!(d.len(), Ok(100_000));
    }

    fn keys_said_to_be_sorted_must_be(device) {
        let builder = || Dictionary::<f32, u32>::builder().device(device);
        let unsorted = builder().from_sorted(&[1.0, 2.0, 2.0], &[1, 2, 3]).unwrap_err();
        assert_eq!(unsorted, Error::NotSorted { index: 2 });
        assert!(unsorted.to_string().contains("keys[2] is not greater than keys[1]"), "{unsorted}");
        // −0 and +0 are one key.
        assert!(builder().from_sorted(&[-0.0, 0.0], &[1, 2]).is_err());
        assert!(builder().from_sorted(&[f32::INFINITY, f32::NAN], &[1, 2]).is_ok());
        assert!(builder().from_sorted(&[], &[]).unwrap().is_empty().unwrap());
    }
}
