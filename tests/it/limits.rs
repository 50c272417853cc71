//! At the memory limit, and under many threads: nothing gets stuck, and nobody repeats another's work.

use std::time::Instant;

use gpulsm::{CleanupPolicy, Device, Dictionary, Error};

use crate::each_device;

/// Fills a dictionary until a batch finds no memory; returns how many keys it has.
fn fill(d: &mut Dictionary<u32, u32>, batch: u32) -> u32 {
    for part in 0.. {
        let keys: Vec<u32> = (part * batch..(part + 1) * batch).collect();
        if d.insert(&keys, &keys).and_then(|()| d.flush()).is_err() {
            return part * batch;
        }
    }
    unreachable!("there is a limit")
}

each_device! {
    fn a_full_dictionary_takes_deletes_and_recovers(device) {
        let b = 1 << 12;
        for limit in [3_000_000, 4_000_000, 6_500_000, 9_000_000] {
            let mut d = Dictionary::<u32, u32>::builder()
                .device(device)
                .batch_size(b)
                .memory_limit(limit)
                .build()
                .unwrap();
            let len = fill(&mut d, b as u32);
            assert!(len > 10 * b as u32, "{len} of {limit} bytes");
            // Every other key, b at a time.
            let doomed: Vec<u32> = (0..len).filter(|key| key % 2 == 0).take(b).collect();
            d.delete(&doomed).unwrap();
            d.validate().unwrap();
            assert_eq!(d.len(), Ok(u64::from(len) - b as u64));
            d.delete_range_one(len - 500..).unwrap();
            assert_eq!(d.len(), Ok(u64::from(len) - b as u64 - 500));
            assert_eq!(d.lookup(&[0, 1, len - 1]).unwrap(), [None, Some(1), None]);
            // Once most keys are gone, there is room for others.
            d.delete_range_one(10_000..).unwrap();
            d.cleanup().unwrap();
            d.validate().unwrap();
            let keys: Vec<u32> = (len..len + b as u32).collect();
            d.insert(&keys, &keys).unwrap();
            assert_eq!(d.lookup_one(len), Ok(Some(len)));
            assert!(d.stats().unwrap().bytes_shared <= limit);
        }
    }

    /// What the message of a failed insert advises.
    fn a_full_dictionary_has_room_again_after_deletes_and_a_cleanup(device) {
        let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for (limit, batch) in [
            (100_000, 1),
            (100_000, 100),
            (1 << 20, 1),
            (1 << 20, 100),
            (1 << 22, 1000),
            (1 << 24, 1000),
            (1 << 24, 100_000),
        ] {
            if device != Device::cpu() && limit < 1 << 22 {
                continue; // A GPU's working space takes more than that.
            }
            let builder = Dictionary::<u64, u64>::builder().device(device).memory_limit(limit);
            let mut d = builder.threads(2).build().unwrap();
            let keys = |from: u64, len: u64| (from..from + len).map(key).collect::<Vec<u64>>();
            let fill = |d: &mut Dictionary<u64, u64>, from: u64| {
                let mut next = from;
                let insert = |d: &mut Dictionary<u64, u64>, keys: &[u64]| d.insert(keys, keys);
                while insert(d, &keys(next, batch)).and_then(|()| d.flush()).is_ok() {
                    next += batch;
                }
                next
            };
            let (mut oldest, mut next) = (0, fill(&mut d, 0));
            assert!(next * 16 * 5 > limit || batch > 1000, "{next} pairs in {limit} bytes");
            for _ in 0..5 {
                let half = (oldest + next) / 2;
                for from in (oldest..half).step_by(batch as usize) {
                    d.delete(&keys(from, batch.min(half - from))).unwrap();
                }
                d.cleanup().unwrap_or_else(|error| panic!("{limit} bytes, {batch}: {error}"));
                oldest = half;
                assert_eq!(d.len(), Ok(next - oldest));
                let refilled = fill(&mut d, next);
                assert!(refilled > next, "{limit} bytes, {batch} at a time");
                next = refilled;
                d.validate().unwrap();
            }
            assert_eq!(d.len(), Ok(next - oldest));
        }
    }

    fn without_live_keys_a_cleanup_takes_no_memory(device) {
        let builder = Dictionary::<u64, u64>::builder().device(device).batch_size(64);
        let mut d = builder.cleanup_policy(CleanupPolicy::Manual).build().unwrap();
        let keys: Vec<u64> = (0..500).collect();
        d.insert(&keys, &keys).unwrap();
        d.delete(&keys[100..]).unwrap();
        d.delete(&keys[..100]).unwrap();
        assert_eq!(d.len(), Ok(0));
        d.fail_allocation_after(0);
        d.cleanup().unwrap();
        d.fail_allocation_after(u64::MAX);
        assert_eq!(d.stats().unwrap().entries, 0);
        d.validate().unwrap();
    }

    fn a_message_says_what_to_do_without_memory(device) {
        let builder = Dictionary::<u32, u32>::builder().device(device);
        let mut d = builder.memory_limit(1000).build().unwrap();
        let error = d.insert(&[1; 1000], &[1; 1000]).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }));
        let text = error.to_string();
        assert!(text.contains("use smaller batches, or raise the limit"), "{text}");
        for wrong in ["delete", "snapshots", "runs", " 0,"] {
            assert!(!text.contains(wrong), "{text}");
        }
    }

    fn many_first_queries_apply_buffered_batches_once(device) {
        let keys: Vec<u32> = (0..1 << 20).map(|i| i * 4).collect();
        let build = || Dictionary::<u32, u32>::builder().device(device).memory_limit(64 << 20);
        let filled = || {
            let mut d = build().bulk_build(&keys, &keys).unwrap();
            for part in 0..15 {
                let part: Vec<u32> = (0..60_000).map(|i| i * 60 + part * 4 + 1).collect();
                d.insert(&part, &part).unwrap();
            }
            d
        };
        let alone = filled();
        alone.lookup_one(1).unwrap();
        let peak = alone.stats().unwrap().bytes_peak;
        let d = filled();
        std::thread::scope(|scope| {
            for thread in 0..32 {
                let d = &d;
                scope.spawn(move || assert_eq!(d.lookup_one(thread * 4), Ok(Some(thread * 4))));
            }
        });
        let together = d.stats().unwrap().bytes_peak;
        assert!(together <= peak * 11 / 10, "{together} bytes at the peak, {peak} by one thread");
        assert_eq!(d.len(), alone.len());
        d.validate().unwrap();
    }

    fn a_bound_of_merges_bounds_the_buffer_too(device) {
        let mut d = Dictionary::<u32, u32>::builder()
            .device(device)
            .batch_size(1000)
            .max_merge_per_batch(4000)
            .build()
            .unwrap();
        for part in 0..100 {
            let keys: Vec<u32> = (part * 500..(part + 1) * 500).collect();
            d.insert(&keys, &keys).unwrap();
            let text = format!("{d:?}");
            let buffered = text.split_once("buffered: ").map_or(0, |(_, rest)| {
                rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
            });
            assert!(buffered <= 4000, "{text}");
        }
        assert_eq!(d.len(), Ok(50_000));
        d.validate().unwrap();
    }
}

#[test]
fn settings_of_zero_are_refused() {
    let builder = Dictionary::<u32, u32>::builder;
    let error = builder().memory_limit(0).build().unwrap_err();
    assert_eq!(error, Error::Setting { setting: "memory_limit", given: 0 });
    assert!(
        builder().max_merge_per_batch(0).build().unwrap_err().to_string().contains("at least 1")
    );
}

#[test]
fn a_reason_is_in_the_message_and_no_source_beside_it() {
    let builder = || Dictionary::<u32, u32>::builder().device(Device::cpu());
    let error = builder().threads(1 << 20).build().unwrap_err();
    assert!(matches!(&error, Error::Threads { reason, .. }
        if error.to_string().ends_with(&reason.to_string())));
    assert!(std::error::Error::source(&error).is_none());
    let error = builder().threads(0).build().unwrap_err();
    assert_eq!(error, Error::Setting { setting: "threads", given: 0 });
}

#[test]
fn the_advice_without_a_limit_is_about_the_call() {
    let text = Error::OutOfMemory { wanted: 8, free: None, memory: None }.to_string();
    assert!(text.contains("fewer keys or ranges") && !text.contains("limit"), "{text}");
}

/// Deletes at the limit are stored as runs of their own; that must not go on without end.
#[test]
fn deletes_at_the_limit_end_in_an_error_not_in_a_crash() {
    let device = Device::cpu();
    let builder = Dictionary::<u32, u32>::builder().device(device).batch_size(256);
    let mut d = builder.memory_limit(2_000_000).build().unwrap();
    let len = fill(&mut d, 256);
    let _held = d.snapshot(); // Nothing is freed.
    let start = Instant::now();
    let mut deleted = 0;
    for key in (0..len).step_by(2) {
        if d.delete(&[key]).and_then(|()| d.flush()).is_err() {
            break;
        }
        deleted += 1;
    }
    assert_eq!(d.len(), Ok(u64::from(len - deleted)));
    assert!(deleted >= 256 && start.elapsed().as_secs() < 60, "{deleted} deleted");
    d.validate().unwrap();
}
