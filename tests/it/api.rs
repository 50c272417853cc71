//! What a Rust user expects of a map, and what every call says of bad input.

use std::sync::mpsc;

use gpulsm::testing::script::Random;
use gpulsm::{Batch, CleanupPolicy, Device, Dictionary, Error, Snapshot};

use crate::{each_device, figures};

fn squares() -> Dictionary<u32, u32> {
    (0..100).map(|i| (i, i * i)).collect()
}

#[test]
fn lengths_that_disagree_are_named() {
    let mut d = squares();
    let before = figures(&d);
    let error = d.insert(&[1, 2], &[1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`keys` has 2 elements but `values` has 1: give one `values` element for each `keys` element"
    );
    let update = d.update(Batch::new().insert(&[1], &[]).delete(&[2]));
    assert!(matches!(update, Err(Error::LengthMismatch { left: "keys", left_len: 1, .. })));
    for outcome in [
        d.delete_range((&[1], &[])),
        d.count((&[1], &[])).map(drop),
        d.range((&[1], &[2, 3])).map(drop),
        Dictionary::<u32, u32>::bulk_build(&[1], &[]).map(drop),
        Dictionary::<u32, u32>::from_sorted(&[1], &[]).map(drop),
    ] {
        assert!(matches!(outcome, Err(Error::LengthMismatch { .. })), "{outcome:?}");
    }
    assert_eq!(figures(&d), before);
}

#[test]
fn buffers_that_are_too_short_are_told_what_is_needed() {
    let d = squares();
    let mut offsets = [9; 3];
    let (mut keys, mut values) = ([0; 20], [0; 11]);
    let error =
        d.range_into((&[0, 50], &[9, 54]), &mut offsets, &mut keys, &mut values).unwrap_err();
    assert_eq!(error, Error::BufferTooSmall { buffer: "values", needed: 15, given: 11 });
    assert_eq!(error.to_string(), "the buffer `values` holds 11 elements but the answer has 15");
    assert_eq!(offsets, [0, 10, 15], "the offsets are there all the same");
    let error =
        d.range_into((&[0, 50], &[9, 54]), &mut offsets[..2], &mut keys, &mut values).unwrap_err();
    assert_eq!(error, Error::BufferTooSmall { buffer: "offsets", needed: 3, given: 2 });
    let (mut one, mut found) = ([0; 1], [false; 2]);
    let error = d.lookup_into(&[1, 2], &mut one, &mut found).unwrap_err();
    assert_eq!(error, Error::BufferTooSmall { buffer: "values", needed: 2, given: 1 });
    assert!(d.contains_into(&[1, 2, 3], &mut found).is_err());
    assert!(d.count_into((&[1, 2], &[1, 2]), &mut [0]).is_err());
    assert!(d.rank_into(&[1, 2], &mut [0]).is_err());
    assert!(d.select_into(&[1, 2], &mut [0; 2], &mut [0; 2], &mut [false]).is_err());
    let error = d.successor_into(&[1, 2], &mut [0], &mut [0; 2], &mut found).unwrap_err();
    assert_eq!(error, Error::BufferTooSmall { buffer: "out_keys", needed: 2, given: 1 });
}

#[test]
fn answers_go_into_the_callers_buffers() {
    let mut d = Dictionary::<i64, f32>::new();
    d.insert(&[-5, 10, 20], &[0.5, 1.0, 2.0]).unwrap();
    // Longer buffers than needed: the rest is left alone.
    let (mut values, mut found) = ([9.0; 4], [true; 4]);
    d.lookup_into(&[10, 11, -5], &mut values, &mut found).unwrap();
    assert_eq!((values, found), ([1.0, 0.0, 0.5, 9.0], [true, false, true, true]));
    let mut keys = [9; 3];
    d.successor_into(&[-100, 11, 21], &mut keys, &mut values, &mut found).unwrap();
    assert_eq!((keys, found), ([-5, 20, 0], [true, true, false, true]));
    assert_eq!(values, [0.5, 2.0, 0.0, 9.0]);
    d.predecessor_into(&[-100, 11, 21], &mut keys, &mut values, &mut found).unwrap();
    assert_eq!((keys, found), ([0, 10, 20], [false, true, true, true]));
    d.select_into(&[2, 3], &mut keys, &mut values, &mut found).unwrap();
    assert_eq!((&keys[..2], &found[..2]), (&[20, 0][..], &[true, false][..]));
    let mut numbers = [7; 3];
    d.count_into((&[-5, 0], &[10, 5]), &mut numbers).unwrap();
    assert_eq!(numbers, [2, 0, 7]);
    d.rank_into(&[0], &mut numbers).unwrap();
    assert_eq!(numbers, [1, 0, 7]);
    let (mut offsets, mut keys) = ([0; 2], [0; 3]);
    assert_eq!(d.range_into((&[-9], &[10]), &mut offsets, &mut keys, &mut values), Ok(2));
    assert_eq!((offsets, keys), ([0, 2], [-5, 10, 0]));
    assert_eq!(d.range_offsets_into((&[-9], &[i64::MAX]), &mut offsets), Ok(3));
}

#[test]
fn one_key_at_a_time() {
    let mut d = Dictionary::<u64, u32>::new();
    d.insert_one(5, 50).unwrap();
    d.insert_one(6, 60).unwrap();
    d.insert_one(5, 55).unwrap();
    d.delete_one(6).unwrap();
    d.delete_one(7).unwrap();
    assert_eq!((d.lookup_one(5), d.lookup_one(6)), (Ok(Some(55)), Ok(None)));
    assert_eq!((d.contains_one(5), d.contains_one(6)), (Ok(true), Ok(false)));
}

#[test]
fn ranges_as_rust_writes_them() {
    let d = squares();
    assert_eq!(d.count_one(..), Ok(100));
    assert_eq!(d.count_one(10..20), Ok(10));
    assert_eq!(d.count_one(10..=20), Ok(11));
    assert_eq!(d.count_one(99..), Ok(1));
    assert_eq!(d.count_one(..0), Ok(0));
    #[allow(clippy::reversed_empty_ranges)]
    let inverted = d.count_one(20..10);
    assert_eq!(inverted, Ok(0));
    use std::ops::Bound::{Excluded, Unbounded};
    assert_eq!(d.count_one((Excluded(97), Unbounded)), Ok(2));
    assert_eq!(d.count_one((Excluded(u32::MAX), Unbounded)), Ok(0));
    assert_eq!(d.range_one(3..5), Ok(vec![(3, 9), (4, 16)]));
    let floats: Dictionary<f32, ()> = [(0.0, ()), (1.0, ()), (f32::NAN, ())].into_iter().collect();
    assert_eq!(floats.count_one(..=f32::INFINITY), Ok(2));
    assert_eq!(floats.count_one(..), Ok(3));
    assert_eq!(floats.count_one(-0.0..1.0), Ok(1));
    assert_eq!(floats.count_one(..0.0), Ok(0));
    assert_eq!(floats.count_one(-1.0..-0.0), Ok(0));
    assert_eq!(floats.count_one(..f32::NAN), Ok(2));
    assert_eq!(floats.range_one(..f32::NAN), Ok(vec![(0.0, ()), (1.0, ())]));
    assert_eq!(floats.range_one((Excluded(-0.0), Excluded(f32::NAN))), Ok(vec![(1.0, ())]));
    assert_eq!(floats.count_one((Excluded(f32::INFINITY), Unbounded)), Ok(1));
    assert_eq!(floats.count_one((Excluded(f32::NAN), Unbounded)), Ok(0));
    assert_eq!(floats.count_one(..f32::NEG_INFINITY), Ok(0));
}

#[test]
fn collecting_extending_and_iterating() {
    let mut d: Dictionary<u32, u32> = [(3, 1), (1, 2), (3, 3)].into_iter().collect();
    d.extend([(2, 4), (1, 5)]);
    assert_eq!(d.iter().collect::<Vec<_>>(), [(1, 5), (2, 4), (3, 3)]);
    assert_eq!((&d).into_iter().rev().collect::<Vec<_>>(), [(3, 3), (2, 4), (1, 5)]);
    assert_eq!(d.iter().len(), 3);

    let large: Dictionary<u32, u32> = (0..20_000).map(|i| (i, i)).collect();
    assert!(large.iter().map(|(key, _)| key).eq(0..20_000));
    let mut from_both_ends = large.iter();
    let mut seen = Vec::new();
    while let Some((front, _)) = from_both_ends.next() {
        seen.push(front);
        seen.extend(from_both_ends.next_back().map(|(back, _)| back));
        assert_eq!(from_both_ends.len() + seen.len(), 20_000);
    }
    assert_eq!(from_both_ends.next_back(), None);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..20_000));
}

#[test]
fn an_iterator_is_advanced_from_either_end_by_any_number() {
    let mut d: Dictionary<u32, u32> = (0..30_000).map(|i| (i, i)).collect();
    d.delete_range_one(5000..10_000).unwrap();
    let mut random = Random::new(7);
    for round in 0..200 {
        let start = (random.number() % 20_000) as u32;
        let mut expected: std::vec::IntoIter<_> = (start..30_000)
            .filter(|key| !(5000..10_000).contains(key))
            .collect::<Vec<_>>()
            .into_iter();
        let mut iter = d.iter_range(start..);
        let longest = [3, 100, 3000, 40_000][round % 4];
        for _ in 0..50 {
            let n = (random.number() % longest) as usize;
            let pair = |key: Option<u32>| key.map(|key| (key, key));
            match random.number() % 4 {
                0 => assert_eq!(iter.next(), pair(expected.next())),
                1 => assert_eq!(iter.next_back(), pair(expected.next_back())),
                2 => assert_eq!(iter.nth(n), pair(expected.nth(n))),
                _ => assert_eq!(iter.nth_back(n), pair(expected.nth_back(n))),
            }
            assert_eq!(iter.len(), expected.len());
        }
        assert_eq!(iter.clone().count(), expected.len());
        assert_eq!(iter.clone().last(), expected.clone().last().map(|key| (key, key)));
        assert!(iter.map(|(key, _)| key).eq(expected));
    }
}

#[test]
fn iteration_is_over_what_was_there_when_it_began() {
    let mut d = squares();
    let mut iter = d.iter();
    assert_eq!(iter.next(), Some((0, 0)));
    d.clear().unwrap();
    assert_eq!(iter.len(), 99);
    assert_eq!(iter.last(), Some((99, 99 * 99)));
}

#[test]
fn merging_two_dictionaries() {
    let mut d: Dictionary<i32, u32> = [(-1, 1), (2, 2), (5, 5)].into_iter().collect();
    let other: Dictionary<i32, u32> = [(-7, 70), (2, 20)].into_iter().collect();
    d.merge_from(&other.snapshot()).unwrap();
    d.merge_from(&d.snapshot()).unwrap();
    d.validate().unwrap();
    assert_eq!(d.to_vecs().unwrap(), (vec![-7, -1, 2, 5], vec![70, 1, 20, 5]));
    assert_eq!(other.len(), Ok(2));
}

#[test]
fn clones_go_their_own_ways() {
    let mut d = squares();
    let mut clone = d.clone();
    clone.delete(&[1]).unwrap();
    d.insert(&[1], &[77]).unwrap();
    assert_eq!((d.lookup_one(1), clone.lookup_one(1)), (Ok(Some(77)), Ok(None)));
    // What either has to find out for that, it has found out the second time.
    let shared = [&clone, &d, &clone, &d].map(|each| each.stats().unwrap().bytes_shared);
    assert_eq!(shared[2], shared[3]);
}

#[test]
fn building_leaves_one_run() {
    let keys: Vec<u32> = (0..1000).rev().collect();
    let built = Dictionary::bulk_build(&keys, &keys).unwrap();
    let sorted: Vec<u32> = (0..1000).collect();
    let from_sorted = Dictionary::from_sorted(&sorted, &sorted).unwrap();
    for d in [built, from_sorted] {
        d.validate().unwrap();
        assert_eq!(d.stats().unwrap().levels.len(), 1);
        assert_eq!(d.to_vecs().unwrap(), (sorted.clone(), sorted.clone()));
    }
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    let builder = || Dictionary::<u32, u32>::builder().device(Device::cpu());
    let error = builder().batch_size(0).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a batch size of 0 is out of range: it must be from 1 to 1099511627776"
    );
    assert!(builder().batch_size(usize::MAX).build().is_err());
    for threads in [1025, usize::MAX] {
        let error = builder().threads(threads).build().unwrap_err();
        assert!(error.to_string().ends_with("from 1 to 1024 are allowed"), "{error}");
    }
    assert!(builder().batch_size(1).threads(3).build().is_ok());
    let small = builder().memory_limit(100).build().map(|mut d| d.insert(&[0; 100], &[0; 100]));
    assert!(matches!(small, Ok(Err(Error::OutOfMemory { free: Some(..=100), .. }))));
}

#[test]
fn settings_are_as_they_were_set() {
    let d = Dictionary::<u32, ()>::builder()
        .batch_size(123)
        .cleanup_policy(CleanupPolicy::Manual)
        .device(Device::cpu())
        .build()
        .unwrap();
    assert_eq!((d.batch_size(), d.cleanup_policy()), (123, CleanupPolicy::Manual));
    assert_eq!(d.device(), Device::cpu());
    assert_eq!(Dictionary::<u32, ()>::default().batch_size(), 65_536);
}

#[test]
fn manual_cleanup_is_left_to_the_caller() {
    let mut d = Dictionary::<u32, u32>::builder()
        .batch_size(4)
        .cleanup_policy(CleanupPolicy::Manual)
        .build()
        .unwrap();
    for round in 0..63 {
        d.insert(&[1, 2, 3, 4], &[round; 4]).unwrap();
    }
    assert!(d.stats().unwrap().stale > 0);
    d.cleanup().unwrap();
    let stats = d.stats().unwrap();
    assert_eq!((stats.stale, stats.entries, stats.levels.len()), (0, 4, 1));
    assert_eq!(d.to_vecs().unwrap().1, [62; 4]);
}

#[test]
fn a_picture_of_the_levels() {
    let mut d =
        Dictionary::<u32, u32>::builder().batch_size(1000).device(Device::cpu()).build().unwrap();
    let keys: Vec<u32> = (0..3500).collect();
    d.insert(&keys, &keys).unwrap();
    d.delete(&keys[..5]).unwrap();
    let picture = d.stats().unwrap().to_string();
    let lines: Vec<&str> = picture.lines().collect();
    assert!(lines[0].starts_with("3,495 keys on cpu, 10 stale entries, "), "{picture}");
    assert_eq!(lines[1], "level  0  █░░░░░░░░░░░░░░░░░░░░░░░              5 of 125, 5 tombstones");
    assert_eq!(lines[2], "level  5  █████████████████████░░░          3,500 of 4,000");
    assert_eq!(lines.len(), 3);
    let debug = format!("{d:?}");
    assert!(
        debug.starts_with("Dictionary { device: \"cpu\", batch_size: 1000, len: 3495"),
        "{debug}"
    );
    assert!(format!("{:?}", d.snapshot()).starts_with("Snapshot"));
    let picture = d.to_string();
    assert!(picture.starts_with("3,495 keys on cpu, 10 stale entries, "), "{picture}");
    assert_eq!(picture.lines().nth(2), Some(lines[2]));
}

#[test]
fn stats_add_up() {
    let mut d = Dictionary::<u64, u64>::builder().batch_size(512).build().unwrap();
    let keys: Vec<u64> = (0..10_000).collect();
    d.insert(&keys, &keys).unwrap();
    d.delete(&keys[..300]).unwrap();
    d.insert(&keys[300..400], &[0; 100]).unwrap();
    let stats = d.stats().unwrap();
    assert_eq!((stats.live, stats.entries), (9_700, 10_400));
    assert_eq!(stats.stale, stats.entries - stats.live);
    assert_eq!(stats.levels.iter().map(|level| level.entries).sum::<u64>(), stats.entries);
    assert_eq!(
        stats.levels.iter().map(|level| level.bytes.total()).sum::<u64>(),
        stats.bytes.total()
    );
    // Fences and marks are small change beside the pairs.
    assert!(stats.bytes.total() < 10_400 * 16 * 115 / 100, "{stats:?}");
}

fn is_shareable<T: Send + Sync + Clone>() {}

#[test]
fn dictionaries_and_snapshots_go_between_threads() {
    is_shareable::<Dictionary<f64, u128>>();
    is_shareable::<Snapshot<u32, ()>>();
}

each_device! {
    fn snapshots_are_read_while_updates_go_on(device) {
        let mut d = Dictionary::<u32, u32>::builder().device(device).batch_size(64).build().unwrap();
        let (sender, receiver) = mpsc::channel::<(u32, Snapshot<u32, u32>)>();
        let receiver = std::sync::Mutex::new(receiver);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| loop {
                    let Ok((round, snapshot)) = receiver.lock().unwrap().recv() else { return };
                    // In round r the keys 0 to 999 have the value r, and key 1000 + r is there.
                    let (keys, values) = snapshot.to_vecs().unwrap();
                    assert!(keys[..1000].iter().copied().eq(0..1000));
                    assert!(values[..1000].iter().all(|&value| value == round));
                    assert_eq!(keys[1000..], [1000 + round]);
                    assert_eq!(snapshot.count_one(..), Ok(1001));
                });
            }
            let keys: Vec<u32> = (0..1000).collect();
            for round in 0..300 {
                let mut keys = keys.clone();
                keys.push(1000 + round);
                let values = vec![round; 1001];
                let last_round = if round == 0 { &[][..] } else { &[999 + round][..] };
                d.update(Batch::new().insert(&keys, &values).delete(last_round)).unwrap();
                sender.send((round, d.snapshot())).unwrap();
            }
            drop(sender);
        });
        d.validate().unwrap();
    }
}

each_device! {
    /// Every byte of the GPU's memory, or of the limit, is accounted for.
    fn stats_account_for_all_memory(device) {
        let limit = 64 << 20;
        let mut d = Dictionary::<u64, u64>::builder()
            .device(device)
            .memory_limit(limit)
            .build()
            .unwrap();
        let keys: Vec<u64> = (0..100_000).collect();
        d.insert(&keys, &keys).unwrap();
        let snapshot = d.snapshot();
        d.delete_range_one(1000..).unwrap();
        d.cleanup().unwrap();
        let stats = d.stats().unwrap();
        let memory = stats.memory.unwrap();
        let sum = memory.free + memory.runs + memory.filters + memory.rest + memory.idle + memory.others;
        assert_eq!(sum, memory.total, "{memory:?}");
        assert_eq!(memory.runs + memory.filters, stats.bytes.total());
        // What only the snapshot holds.
        assert!(memory.rest >= 16 * 100_000, "{memory:?}");
        assert_eq!(snapshot.len(), Ok(100_000));
        if device == Device::cpu() {
            assert_eq!((memory.total, memory.others), (limit, 0));
            let d = Dictionary::<u64, u64>::builder().device(device).build().unwrap();
            assert_eq!(d.stats().unwrap().memory, None);
        }
    }

    /// Whoever is out of memory learns what takes it, and what would help.
    fn an_error_of_memory_says_what_takes_it(device) {
        for holds_snapshots in [false, true] {
            let mut d = Dictionary::<u64, u64>::builder()
                .device(device)
                .batch_size(4096)
                .memory_limit(8 << 20)
                .build()
                .unwrap();
            let mut snapshots = Vec::new();
            let error = (0..)
                .find_map(|round: u64| {
                    let keys: Vec<u64> = (0..4096).map(|key| key + round * 4096).collect();
                    snapshots.extend(holds_snapshots.then(|| d.snapshot()));
                    d.insert(&keys, &keys).and_then(|()| d.flush()).err()
                })
                .unwrap();
            let Error::OutOfMemory { wanted, free: Some(free), memory: Some(memory) } = &error else {
                panic!("{error}")
            };
            assert!(wanted > free && memory.runs > 1 << 19, "{error}");
            let parts = [memory.free, memory.runs, memory.filters, memory.rest, memory.idle];
            assert_eq!(parts.iter().sum::<u64>() + memory.others, memory.total, "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("runs {}", memory.runs)), "{text}");
            assert!(!holds_snapshots || device.is_cuda() || text.contains(": drop the snapshots"), "{text}");
        }
    }
}
