//! Dictionaries with several shards whose data comes from a GPU's memory: divided there, and put back in order.

use std::process::Command;

use gpulsm::cuda::{DeviceVec, Stream};
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Builder, Combine, Device, Dictionary, Error, MAX_SHARDS, ScalarKey, Value};

use crate::files::Scratch;

fn gpu() -> Device {
    Device::cuda(0).unwrap()
}

/// Lists of devices of which at least one is a GPU.
fn lists() -> Vec<Vec<Device>> {
    let (gpu, cpu) = (gpu(), Device::cpu());
    vec![vec![gpu; 2], vec![cpu, gpu, cpu, gpu], vec![gpu; 7], vec![gpu; 40]]
}

/// Updates and looks up more keys than a block of threads divides, in any order and with many duplicates, and compares
/// with the CPU.
fn divided<K: ScalarKey, V: Value + PartialEq + std::fmt::Debug>(
    devices: &[Device],
    builder: fn() -> Builder<K, V>,
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) {
    let stream = Stream::new(gpu()).unwrap();
    let mut d = builder().batch_size(20_000).devices(devices).build().unwrap();
    let mut cpu = builder().batch_size(20_000).device(Device::cpu()).build().unwrap();
    let mut random = Random::new(devices.len() as u64);
    for (round, len) in [9_001, 60_000, 1, 30_000, 5].into_iter().enumerate() {
        let numbers: Vec<u64> = (0..len).map(|_| random.number() % 50_000).collect();
        let keys: Vec<K> = numbers.iter().map(|&n| key(n)).collect();
        let values: Vec<V> = (0..len).map(|n| value(n * 7 + round as u64)).collect();
        let deletes: Vec<K> = numbers.iter().step_by(9).map(|&n| key(n / 2)).collect();
        let on_gpu = DeviceVec::from_slice(&stream, &keys).unwrap();
        let values_on_gpu = DeviceVec::from_slice(&stream, &values).unwrap();
        let deletes_on_gpu = DeviceVec::from_slice(&stream, &deletes).unwrap();
        let mut resident = d.resident_mut().unwrap();
        resident.update(&on_gpu, &values_on_gpu, &deletes_on_gpu).unwrap();
        cpu.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
        let some = keys.len() / 3;
        resident.set(on_gpu.slice(..some), values_on_gpu.slice(..some)).unwrap();
        cpu.set(&keys[..some], &values[..some]).unwrap();
        d.validate().unwrap();
    }
    assert_eq!(d.to_vecs().unwrap(), cpu.to_vecs().unwrap());

    let queries: Vec<K> = (0..140_000).map(|_| key(random.number() % 60_000)).collect();
    let on_gpu = DeviceVec::from_slice(&stream, &queries).unwrap();
    let mut values = DeviceVec::<V>::zeroed(&stream, queries.len()).unwrap();
    let mut found = DeviceVec::<u8>::zeroed(&stream, queries.len()).unwrap();
    d.resident().unwrap().lookup(&on_gpu, &mut values, &mut found).unwrap();
    let (mut expected, mut is_found) = (vec![V::zeroed(); 140_000], vec![false; 140_000]);
    cpu.lookup_into(&queries, &mut expected, &mut is_found).unwrap();
    assert_eq!(values.to_vec().unwrap(), expected);
    let flags: Vec<u8> = is_found.iter().map(|&found| found.into()).collect();
    assert_eq!(found.to_vec().unwrap(), flags);
    found = DeviceVec::zeroed(&stream, queries.len()).unwrap();
    d.resident().unwrap().contains(&on_gpu, &mut found).unwrap();
    assert_eq!(found.to_vec().unwrap(), flags);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn data_on_a_gpu_is_divided_among_shards() {
    for devices in lists() {
        divided(&devices, Dictionary::<u32, u32>::builder, |n| n as u32 * 70_001, |n| n as u32);
        divided(&devices, Dictionary::<i64, ()>::builder, |n| n as i64 * -9_000_000_007, |_| ());
        divided(
            &devices,
            Dictionary::<u128, [u64; 2]>::builder,
            |n| u128::from(n) << 90,
            |n| [n, !n],
        );
        let adds = || Dictionary::<u64, f64>::builder().combine(Combine::Add);
        divided(&devices, adds, |n| n << 44, |n| n as f64);
    }
    divided(&[gpu(); MAX_SHARDS], Dictionary::<u64, u64>::builder, |n| n << 40, |n| n);
}

/// Applies batches of all kinds with no query in between, so that their parts go straight to write buffers, and compares
/// with the CPU.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn buffered_batches_are_written_where_shards_buffer_them() {
    let stream = Stream::new(gpu()).unwrap();
    for (seed, devices) in lists().into_iter().enumerate() {
        let mut random = Random::new(seed as u64);
        let mut d =
            Dictionary::<u64, u32>::builder().batch_size(3_000).devices(&devices).build().unwrap();
        let mut cpu = Dictionary::<u64, u32>::builder().device(Device::cpu()).build().unwrap();
        for round in 0..120 {
            let len = [3_000, 1, 700, 9_000, 0][(random.number() % 5) as usize];
            let keys: Vec<u64> = (0..len).map(|_| (random.number() % 40_000) << 40).collect();
            let values: Vec<u32> = (0..len as u32).map(|n| n * 200 + round).collect();
            // Inserts alone, deletes alone, and both.
            let (inserts, deletes) = match random.number() % 3 {
                0 => (len, 0),
                1 => (0, len / 2),
                _ => (len, len / 3),
            };
            let on_gpu = DeviceVec::from_slice(&stream, &keys).unwrap();
            let values_on_gpu = DeviceVec::from_slice(&stream, &values).unwrap();
            let mut resident = d.resident_mut().unwrap();
            let (some, given) = (on_gpu.slice(..inserts), values_on_gpu.slice(..inserts));
            resident.update(some, given, on_gpu.slice(..deletes)).unwrap();
            let batch = Batch::new().insert(&keys[..inserts], &values[..inserts]);
            cpu.update(batch.delete(&keys[..deletes])).unwrap();
            // What was given may change, and be freed, at once.
            if round % 30 == 29 {
                d.validate().unwrap();
                assert_eq!(d.to_vecs().unwrap(), cpu.to_vecs().unwrap(), "round {round}");
            }
        }
    }
}

/// Buffers batches of the host beside batches on a GPU, some of which fail, and compares with the CPU.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn batches_of_the_host_and_of_a_gpu_share_a_write_buffer() {
    let stream = Stream::new(gpu()).unwrap();
    let mut failures = 0;
    for (seed, devices) in lists().into_iter().enumerate() {
        let mut random = Random::new(seed as u64);
        let mut d =
            Dictionary::<u64, u32>::builder().batch_size(5_000).devices(&devices).build().unwrap();
        let mut cpu = Dictionary::<u64, u32>::builder().device(Device::cpu()).build().unwrap();
        for round in 0..200 {
            let len = [2_000, 1, 90, 7_000][(random.number() % 4) as usize];
            let keys: Vec<u64> = (0..len).map(|_| (random.number() % 40_000) << 40).collect();
            let values: Vec<u32> = (0..len as u32).map(|n| n * 200 + round).collect();
            let deletes = &keys[..[0, 0, 0, len / 3][(random.number() % 4) as usize]];
            let batch = Batch::new().insert(&keys, &values).delete(deletes);
            let (is_on_gpu, may_fail) =
                (random.number().is_multiple_of(2), random.number().is_multiple_of(4));
            let on_gpu = DeviceVec::from_slice(&stream, &keys).unwrap();
            let values_on_gpu = DeviceVec::from_slice(&stream, &values).unwrap();
            if may_fail {
                d.fail_allocation_after(random.number() % 6);
            }
            let updated = if is_on_gpu {
                let mut resident = d.resident_mut().unwrap();
                resident.update(&on_gpu, &values_on_gpu, on_gpu.slice(..deletes.len()))
            } else {
                d.update(batch.clone())
            };
            d.fail_allocation_after(u64::MAX);
            match updated {
                Ok(()) => cpu.update(batch).unwrap(),
                Err(error) => {
                    assert!(may_fail && matches!(error, Error::OutOfMemory { .. }), "{error}");
                    failures += 1;
                }
            }
            if random.number().is_multiple_of(20) {
                d.validate().unwrap();
                assert_eq!(d.to_vecs().unwrap(), cpu.to_vecs().unwrap(), "round {round}");
            }
        }
        d.validate().unwrap();
        assert_eq!(d.to_vecs().unwrap(), cpu.to_vecs().unwrap());
    }
    assert!(failures > 20, "{failures} batches failed");
}

/// Runs tests in a process in which every dictionary has this many shards, and shards copy data from the GPU that it is
/// on to their own, as if that were another one.
fn run(shards: usize, copies: bool, tests: &[&str]) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(tests).args(["--include-ignored", "--skip", "shards_of_a_process"]);
    process.env("GPULSM_SHARDS", shards.to_string());
    process.env("GPULSM_PEER_COPIES", if copies { "1" } else { "0" });
    let output = process.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains(" 0 passed"), "{shards} shards: {text}");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn shards_of_a_process_take_and_answer_what_is_on_a_gpu() {
    let tests = ["data_on_the_gpu_is_taken", "values_combine_on_the_gpu", "aggregates_stay"];
    run(3, false, &tests);
    run(2, true, &tests);
    run(1, true, &["cuda_shards::data_on_a_gpu"]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn what_belongs_to_one_device_is_refused() {
    let stream = Stream::new(gpu()).unwrap();
    let devices = [gpu(), Device::cpu(), gpu()];
    let mut d = Dictionary::<u32, u32>::builder().devices(&devices).build().unwrap();
    d.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
    let refused = Error::Sharded { shards: 3 };
    assert_eq!(d.resident().unwrap().view().map(drop), Err(refused.clone()));
    assert_eq!(d.snapshot().on_stream(&stream).map(drop), Err(refused));
    assert_eq!(d.resident().unwrap().stream().device(), gpu());
    let cpus = [Device::cpu(); 2];
    let mut on_cpus = Dictionary::<u32, u32>::builder().devices(&cpus).build().unwrap();
    assert!(on_cpus.resident().is_err() && on_cpus.resident_mut().is_err());
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_batch_on_a_gpu_happens_on_all_shards_or_on_none() {
    let stream = Stream::new(gpu()).unwrap();
    let devices = [gpu(), Device::cpu(), gpu()];
    let keys: Vec<u64> = (0..3_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let on_gpu = DeviceVec::from_slice(&stream, &keys).unwrap();
    let mut failures = 0;
    for (n, is_buffered) in (0..80).map(|n| (n / 2, n % 2 == 1)) {
        let mut d =
            Dictionary::<u64, u64>::builder().batch_size(500).devices(&devices).build().unwrap();
        d.resident_mut().unwrap().insert(on_gpu.slice(..1_500), on_gpu.slice(..1_500)).unwrap();
        let before = d.to_vecs().unwrap();
        if is_buffered {
            // Batches are buffered from the second one after a query on.
            for _ in 0..2 {
                d.resident_mut().unwrap().insert(on_gpu.slice(..9), on_gpu.slice(..9)).unwrap();
            }
        }
        d.fail_allocation_after(n);
        let updated = d.resident_mut().unwrap().update(
            on_gpu.slice(1_000..),
            on_gpu.slice(..2_000),
            on_gpu.slice(..700),
        );
        d.fail_allocation_after(u64::MAX); // What is buffered has yet to be applied.
        match updated {
            Ok(()) => assert_eq!(d.len(), Ok(2_300)),
            Err(error) => {
                assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
                assert_eq!(d.to_vecs().unwrap(), before);
                failures += 1;
            }
        }
        d.validate().unwrap();
    }
    assert!(failures > 2, "{failures} allocations failed");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn files_take_batches_of_a_gpu_for_all_shards() {
    let (scratch, stream) = (Scratch::new("cuda-shards"), Stream::new(gpu()).unwrap());
    let folder = scratch.path("folder");
    let devices = [gpu(), gpu(), Device::cpu()];
    let keys: Vec<u32> = (0..5_000).map(|n| n * 771_111).collect();
    let on_gpu = DeviceVec::from_slice(&stream, &keys).unwrap();
    let mut d = Dictionary::<u32, u32>::builder().devices(&devices).open(&folder).unwrap();
    d.resident_mut().unwrap().insert(&on_gpu, &on_gpu).unwrap();
    d.resident_mut().unwrap().delete(on_gpu.slice(100..200)).unwrap();
    let expected = d.to_vecs().unwrap();
    drop(d);
    let opened = Dictionary::<u32, u32>::builder().device(Device::cpu()).open(&folder).unwrap();
    assert_eq!(opened.len(), Ok(4_900));
    assert_eq!(opened.to_vecs().unwrap(), expected);
}
