//! Dictionaries in files whose updates come from a GPU's memory.

use std::fs;
use std::path::Path;

use gpulsm::cuda::{DeviceVec, Stream};
use gpulsm::testing::script::Random;
use gpulsm::{Builder, Combine, Device, Dictionary, Durability, Error, ScalarKey, Value};

use crate::files::{Scratch, bits};

/// Copies a folder as it is: what a process that is killed now would leave.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A limit of logs that no test reaches.
const UNLIMITED: u64 = 1 << 30;

/// Inserts, sets and deletes from the GPU's memory, in files and in memory. After each round, what a killed process
/// would leave is opened on the CPU; if checkpoints may be under way, the folder is closed and opened again.
fn resident_updates<K: ScalarKey, V: Value>(
    builder: fn() -> Builder<K, V>,
    limit: u64,
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) {
    let scratch = Scratch::new("resident");
    let folder = scratch.path("folder");
    let stream = Stream::new(Device::cuda(0).unwrap()).unwrap();
    let builder = || builder().batch_size(128);
    let on_gpu = || builder().device(Device::cuda(0).unwrap());
    let opened = || on_gpu().durability(Durability::Os).log_limit(limit).open(&folder).unwrap();
    let (mut disk, mut memory) = (opened(), on_gpu().build().unwrap());
    let mut random = Random::new(3);
    for round in 0..8 {
        let drawn: Vec<u64> = (0..900).map(|_| random.number() % 2_000).collect();
        let keys: Vec<K> = drawn.iter().map(|&n| key(n)).collect();
        let values: Vec<V> = drawn.iter().map(|&n| value(n + round)).collect();
        let keys = DeviceVec::from_slice(&stream, &keys).unwrap();
        let values = DeviceVec::from_slice(&stream, &values).unwrap();
        for d in [&mut memory, &mut disk] {
            let mut resident = d.resident_mut().unwrap();
            resident.insert(&keys, &values).unwrap();
            resident.set(keys.slice(..300), values.slice(200..500)).unwrap();
            resident.delete(keys.slice(250..400)).unwrap();
            resident.update(keys.slice(600..), values.slice(600..), keys.slice(700..750)).unwrap();
            resident.delete(keys.slice(..0)).unwrap();
        }
        if limit == UNLIMITED {
            let killed = scratch.path(&format!("killed{round}"));
            copy(&folder, &killed);
            let left = builder().device(Device::cpu()).open(&killed).unwrap();
            assert_eq!(bits(&left.snapshot()), bits(&memory.snapshot()), "round {round}");
            left.snapshot().validate().unwrap();
        } else if round % 2 == 0 {
            disk.close().unwrap();
            disk = opened();
        }
        assert_eq!(bits(&disk.snapshot()), bits(&memory.snapshot()), "round {round}");
        disk.snapshot().validate().unwrap();
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn updates_of_the_gpus_memory_are_logged() {
    let adding = || Dictionary::builder().combine(Combine::Add);
    // A log without limits; one that checkpoints end now and then; one that is too short for any batch.
    for limit in [UNLIMITED, 60_000, 1_000] {
        resident_updates::<u32, u32>(Dictionary::builder, limit, |n| n as u32, |n| n as u32);
        resident_updates::<i64, ()>(Dictionary::builder, limit, |n| 900 - n as i64, |_| ());
        resident_updates::<f64, i64>(adding, limit, |n| 0.5 - n as f64, |n| 7 - n as i64);
        resident_updates::<u128, [u64; 2]>(
            Dictionary::builder,
            limit,
            |n| u128::from(n) << 90,
            |n| [n, !n],
        );
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn without_a_log_only_checkpoints_keep_updates_of_the_gpus_memory() {
    let scratch = Scratch::new("resident-unlogged");
    let stream = Stream::new(Device::cuda(0).unwrap()).unwrap();
    let builder = || Dictionary::<u32, u32>::builder().device(Device::cuda(0).unwrap());
    let mut d = builder().durability(Durability::Checkpoint).open(scratch.path("folder")).unwrap();
    let keys = DeviceVec::from_slice(&stream, &[1u32, 2, 3]).unwrap();
    d.resident_mut().unwrap().insert(&keys, &keys).unwrap();
    copy(&scratch.path("folder"), &scratch.path("killed"));
    assert_eq!(builder().open(scratch.path("killed")).unwrap().len(), Ok(0));
    d.close().unwrap();
    let d = builder().open(scratch.path("folder")).unwrap();
    assert_eq!(d.to_vecs().unwrap(), (vec![1, 2, 3], vec![1, 2, 3]));
}

/// An update for which there is no memory is neither in the dictionary nor in its log.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn resident_updates_without_memory_are_not_logged() {
    let scratch = Scratch::new("resident-memory");
    let stream = Stream::new(Device::cuda(0).unwrap()).unwrap();
    let gpu = || Dictionary::<u32, u32>::builder().device(Device::cuda(0).unwrap()).batch_size(64);
    let mut d = gpu().open(scratch.path("folder")).unwrap();
    let kept: Vec<u32> = (0..500).collect();
    d.insert(&kept, &kept).unwrap();
    let more: Vec<u32> = (400..1 << 20).collect(); // Too many to be buffered.
    let more = DeviceVec::from_slice(&stream, &more).unwrap();
    drop(d);
    // Even if what can be freed is.
    let mut d = gpu().memory_limit(1 << 20).open(scratch.path("folder")).unwrap();
    let outcome = d.resident_mut().unwrap().insert(&more, &more);
    assert!(matches!(outcome, Err(Error::OutOfMemory { .. })), "{outcome:?}");
    let killed = scratch.path("killed");
    copy(&scratch.path("folder"), &killed);
    let left = gpu().device(Device::cpu()).open(&killed).unwrap();
    assert_eq!(left.to_vecs().unwrap(), (kept.clone(), kept.clone()));
    assert_eq!(d.to_vecs().unwrap(), (kept.clone(), kept.clone()));
    drop(d);
    // An allocation that fails once is made again, or the update is refused as a whole.
    let mut d = gpu().open(scratch.path("folder")).unwrap();
    for n in 0.. {
        d.fail_allocation_after(n);
        let outcome = d.resident_mut().unwrap().insert(&more, &more);
        d.fail_allocation_after(u64::MAX);
        match outcome {
            Ok(()) => break,
            Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{error}"),
        }
        assert_eq!(d.to_vecs().unwrap(), (kept.clone(), kept.clone()));
    }
    assert_eq!(d.len(), Ok(1 << 20));
    drop(d);
    assert_eq!(gpu().open(scratch.path("folder")).unwrap().len(), Ok(1 << 20));
}
