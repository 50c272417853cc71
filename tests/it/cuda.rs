//! What only a GPU has: data that stays there, streams, graphs, and the same answers as the CPU.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::{result, sys};
use gpulsm::cuda::{DeviceSlice, DeviceSliceMut, DeviceVec, Stream};
use gpulsm::testing::allocated_pinned_heads;
use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{
    Batch, CleanupPolicy, Combine, Device, Dictionary, Error, Min, ScalarKey, Sum, Value,
};

use crate::files::Scratch;

fn device() -> Device {
    Device::cuda(0).unwrap()
}

fn numbers(seed: u64, len: usize) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.number()).collect()
}

/// Mixed batches for both devices: `len` inserts over a domain, a third as many deletes.
fn batches(len: usize, domain: u64) -> impl Iterator<Item = (Vec<u64>, Vec<u64>)> {
    (0..).map(move |seed| {
        let draw = |seed, len| numbers(seed, len).into_iter().map(|n| n % domain * 977).collect();
        (draw(seed * 2, len), draw(seed * 2 + 1, len / 3))
    })
}

/// Everything that can be asked, as one value to compare.
fn answers<K: ScalarKey, V: Value + PartialEq + std::fmt::Debug>(
    d: &Dictionary<K, V>,
    keys: &[K],
) -> impl PartialEq + std::fmt::Debug {
    let mut ends = keys.to_vec();
    ends.rotate_left(1);
    let places: Vec<u64> = (0..keys.len() as u64).map(|i| i * 3).collect();
    (
        (d.lookup(keys).unwrap(), d.contains(keys).unwrap(), d.count((keys, &ends)).unwrap()),
        (
            d.rank(keys).unwrap(),
            d.select(&places).unwrap(),
            d.range((&keys[..50], &ends[..50])).unwrap(),
        ),
        (d.successor(keys).unwrap(), d.predecessor(keys).unwrap(), d.len().unwrap()),
    )
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn both_devices_give_equal_answers_and_equal_runs_after_a_cleanup() {
    for (batch, domain) in [(700, 4_000), (5_000, 1 << 40)] {
        let settings = || Dictionary::<u64, [u32; 4]>::builder().batch_size(1024);
        let mut cpu = settings().device(Device::cpu()).build().unwrap();
        let mut cuda = settings().device(device()).build().unwrap();
        for (round, (keys, deletes)) in batches(batch, domain).take(25).enumerate() {
            let values: Vec<[u32; 4]> =
                (0..keys.len() as u32).map(|i| [i, round as u32, 7, i ^ 9]).collect();
            for d in [&mut cpu, &mut cuda] {
                d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
            }
            assert_eq!(answers(&cpu, &keys), answers(&cuda, &keys), "round {round}");
        }
        cuda.validate().unwrap();
        cpu.cleanup().unwrap();
        cuda.cleanup().unwrap();
        cuda.validate().unwrap();
        assert_eq!(cpu.to_vecs().unwrap(), cuda.to_vecs().unwrap());
        let levels = |d: &Dictionary<u64, [u32; 4]>| {
            let levels = d.stats().unwrap().levels;
            levels.iter().map(|level| (level.level, level.entries)).collect::<Vec<_>>()
        };
        assert_eq!(levels(&cpu), levels(&cuda));
    }
}

/// Every call on device-resident data, for keys that are mapped and keys that are not.
fn resident<K: ScalarKey, V: Value + PartialEq + std::fmt::Debug>(
    stream: &Stream,
    own_stream: bool,
    key_of: impl Fn(u64) -> K,
    value_of: impl Fn(u64) -> V,
) {
    let settings = Dictionary::<K, V>::builder().batch_size(300);
    let settings = if own_stream { settings.device(device()) } else { settings.stream(stream) };
    let mut d = settings.build().unwrap();
    let mut cpu = Dictionary::<K, V>::builder().device(Device::cpu()).build().unwrap();
    let drawn = numbers(7, 6_000);
    let upload = |numbers: &[u64]| {
        let keys: Vec<K> = numbers.iter().map(|&n| key_of(n % 5_000)).collect();
        (DeviceVec::from_slice(stream, &keys).unwrap(), keys)
    };
    for part in drawn.chunks(700) {
        let (on_gpu, keys) = upload(part);
        let values: Vec<V> = part.iter().map(|&n| value_of(n)).collect();
        let values_on_gpu = DeviceVec::from_slice(stream, &values).unwrap();
        let (deletes_on_gpu, deletes) =
            upload(&part[..200].iter().map(|n| n / 3).collect::<Vec<_>>());
        let mut to = d.resident_mut().unwrap();
        to.insert(&on_gpu, &values_on_gpu).unwrap();
        to.delete(&deletes_on_gpu).unwrap();
        to.update(on_gpu.slice(..100), values_on_gpu.slice(..100), deletes_on_gpu.slice(50..90))
            .unwrap();
        // What is dropped here is still being read: it is given back in order.
        cpu.insert(&keys, &values).unwrap();
        cpu.delete(&deletes).unwrap();
        cpu.update(Batch::new().insert(&keys[..100], &values[..100]).delete(&deletes[50..90]))
            .unwrap();
    }
    d.validate().unwrap();
    assert_eq!(d.to_vecs().unwrap().1, cpu.to_vecs().unwrap().1);

    let queries: Vec<K> = (0..2_000).map(|n| key_of(n * 3)).collect();
    let ends: Vec<K> = (0..2_000).map(|n| key_of(n * 3 + 40)).collect();
    let [lo, hi] = [&queries, &ends].map(|keys| DeviceVec::from_slice(stream, keys).unwrap());
    let mut keys = DeviceVec::<K>::zeroed(stream, 60_000).unwrap();
    let mut values = DeviceVec::<V>::zeroed(stream, 60_000).unwrap();
    let mut found = DeviceVec::<u8>::zeroed(stream, 2_000).unwrap();
    let mut counts = DeviceVec::<u64>::zeroed(stream, 2_001).unwrap();
    let snapshot = d.snapshot();
    let from = snapshot.resident().unwrap();
    let is_found =
        |found: &DeviceVec<u8>| found.to_vec().unwrap().iter().map(|&f| f == 1).collect::<Vec<_>>();

    from.lookup(&lo, values.slice_mut(..2_000), &mut found).unwrap();
    let (mut expected, mut expected_found) = (vec![V::zeroed(); 2_000], vec![false; 2_000]);
    cpu.lookup_into(&queries, &mut expected, &mut expected_found).unwrap();
    assert_eq!(values.slice(..2_000).to_vec().unwrap(), expected);
    assert_eq!(is_found(&found), expected_found);
    from.contains(&hi, &mut found).unwrap();
    assert_eq!(is_found(&found), cpu.contains(&ends).unwrap());

    from.count(&lo, &hi, counts.slice_mut(..2_000)).unwrap();
    assert_eq!(counts.slice(..2_000).to_vec().unwrap(), cpu.count((&queries, &ends)).unwrap());
    from.rank(&lo, counts.slice_mut(..2_000)).unwrap();
    assert_eq!(counts.slice(..2_000).to_vec().unwrap(), cpu.rank(&queries).unwrap());

    let ranges = cpu.range((&queries, &ends)).unwrap();
    let total = ranges.keys.len();
    let offsets: Vec<u64> = ranges.offsets.clone();
    from.range_offsets(&lo, &hi, &mut counts).unwrap();
    assert_eq!(counts.to_vec().unwrap(), offsets);
    from.range(&lo, &hi, &mut counts, &mut keys, &mut values).unwrap();
    assert_eq!(counts.to_vec().unwrap(), offsets);
    assert_eq!(keys.slice(..total).to_vec().unwrap(), ranges.keys);
    assert!(
        keys.slice(total..)
            .to_vec()
            .unwrap()
            .iter()
            .all(|key| bytemuck::bytes_of(key).iter().all(|&b| b == 0))
    );
    assert_eq!(values.slice(..total).to_vec().unwrap(), ranges.values);

    let check_pairs = |keys: &DeviceVec<K>,
                       values: &DeviceVec<V>,
                       found: &DeviceVec<u8>,
                       expected: Vec<Option<(K, V)>>| {
        let pairs = keys
            .slice(..2_000)
            .to_vec()
            .unwrap()
            .into_iter()
            .zip(values.slice(..2_000).to_vec().unwrap());
        let pairs: Vec<_> = pairs.zip(is_found(found)).collect();
        for (index, ((pair, found), expected)) in pairs.into_iter().zip(expected).enumerate() {
            assert_eq!(found.then_some(pair), expected, "query {index}");
            assert!(found || bytemuck::bytes_of(&pair.0).iter().all(|&byte| byte == 0));
        }
    };
    from.successor(&lo, keys.slice_mut(..), values.slice_mut(..), found.slice_mut(..)).unwrap();
    check_pairs(&keys, &values, &found, cpu.successor(&queries).unwrap());
    from.predecessor(&lo, keys.slice_mut(..), values.slice_mut(..), found.slice_mut(..)).unwrap();
    check_pairs(&keys, &values, &found, cpu.predecessor(&queries).unwrap());
    let places: Vec<u64> = (0..2_000).map(|i| i * 3).collect();
    let places_on_gpu = DeviceVec::from_slice(stream, &places).unwrap();
    from.select(&places_on_gpu, keys.slice_mut(..), values.slice_mut(..), found.slice_mut(..))
        .unwrap();
    check_pairs(&keys, &values, &found, cpu.select(&places).unwrap());
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn data_on_the_gpu_is_taken_and_answered_there() {
    let stream = Stream::new(device()).unwrap();
    for own_stream in [false, true] {
        resident::<u32, u32>(&stream, own_stream, |n| n as u32, |n| n as u32);
        resident::<u64, [u64; 2]>(&stream, own_stream, |n| n << 40, |n| [n, !n]);
        resident::<i32, ()>(&stream, own_stream, |n| n as i32 - 2_500, |_| ());
        resident::<i64, u32>(&stream, own_stream, |n| n as i64 * -7_000_000_000, |n| n as u32);
        resident::<f32, u64>(&stream, own_stream, |n| n as f32 / 8.0 - 200.0, |n| n);
        resident::<f64, f64>(&stream, own_stream, |n| 300.0 - n as f64, |n| n as f64);
        resident::<u128, u64>(&stream, own_stream, |n| u128::from(n) << 70, |n| n);
        resident::<i128, [f32; 4]>(
            &stream,
            own_stream,
            |n| i128::from(n) * -(1 << 65),
            |n| [n as f32; 4],
        );
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn values_combine_on_the_gpu() {
    let stream = Stream::new(device()).unwrap();
    let of = |data: &[u32]| DeviceVec::from_slice(&stream, data).unwrap();
    let builder = || Dictionary::<u32, u32>::builder().batch_size(2).combine(Combine::Add);
    let mut d = builder().stream(&stream).build().unwrap();
    let mut all = d.resident_mut().unwrap();
    all.insert(&of(&[1, 2, 3, 2]), &of(&[10, 20, 30, 1])).unwrap();
    all.insert(&of(&[2, 4]), &of(&[5, 40])).unwrap();
    all.set(&of(&[3, 4, 3]), &of(&[9, 8, 7])).unwrap();
    all.update(&of(&[3, 1]), &of(&[100, 100]), &of(&[1])).unwrap();
    d.flush().unwrap();
    d.resident_mut().unwrap().insert(&of(&[1]), &of(&[6])).unwrap();
    let keys = of(&[1, 2, 3, 4, 5]);
    let (mut values, mut found) = (of(&[0; 5]), DeviceVec::<u8>::zeroed(&stream, 5).unwrap());
    d.resident().unwrap().lookup(&keys, &mut values, &mut found).unwrap();
    assert_eq!(values.to_vec().unwrap(), [6, 26, 107, 8, 0]);
    assert_eq!(found.to_vec().unwrap(), [1, 1, 1, 1, 0]);
    let indices = DeviceVec::from_slice(&stream, &[3u64, 0, 9, 1, 2]).unwrap();
    let mut selected = of(&[0; 5]);
    d.resident().unwrap().select(&indices, &mut selected, &mut values, &mut found).unwrap();
    assert_eq!(selected.to_vec().unwrap(), [4, 1, 0, 2, 3]);
    assert_eq!(values.to_vec().unwrap(), [8, 6, 0, 26, 107]);
    assert_eq!(d.to_vecs().unwrap(), (vec![1, 2, 3, 4], vec![6, 26, 107, 8]));
    d.validate().unwrap();
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn bad_arguments_are_named_and_change_nothing() {
    let stream = Stream::new(device()).unwrap();
    let mut d = Dictionary::<u64, u64>::builder().stream(&stream).build().unwrap();
    let keys = DeviceVec::from_slice(&stream, &[1u64, 2, 3]).unwrap();
    let mismatch = d.resident_mut().unwrap().insert(&keys, keys.slice(..2)).unwrap_err();
    assert!(matches!(
        mismatch,
        Error::LengthMismatch { left: "keys", left_len: 3, right_len: 2, .. }
    ));
    // SAFETY: the call refuses the address and reads nothing there.
    let odd = unsafe { DeviceSlice::from_raw(keys.as_ptr().byte_add(4), 2, &stream) };
    let misaligned = d.resident_mut().unwrap().delete(odd).unwrap_err();
    assert!(matches!(misaligned, Error::Misaligned { to: 8, .. }), "{misaligned}");
    let mut counts = DeviceVec::zeroed(&stream, 2).unwrap();
    let short = d.resident().unwrap().rank(&keys, &mut counts).unwrap_err();
    assert_eq!(short, Error::BufferTooSmall { buffer: "ranks", needed: 3, given: 2 });
    assert_eq!(d.len(), Ok(0));
    let mut cpu = Dictionary::<u64, u64>::builder().device(Device::cpu()).build().unwrap();
    assert_eq!(cpu.resident_mut().map(drop), Err(Error::NotOnCuda));
    assert_eq!(cpu.resident().map(drop), Err(Error::NotOnCuda));
    assert_eq!(cpu.snapshot().on_stream(&stream).map(drop), Err(Error::NotOnCuda));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn what_can_not_be_part_of_a_graph_is_refused_and_memory_waits_for_its_end() {
    let _alone = capturing_alone();
    let stream = Stream::new(device()).unwrap();
    let other = Stream::new(device()).unwrap();
    let mut d = Dictionary::<u32, u32>::builder().stream(&stream).build().unwrap();
    d.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
    let scratch = Scratch::new("graph");
    let in_files = Dictionary::<u32, u32>::builder().stream(&stream);
    let mut in_files = in_files.open(scratch.path("folder")).unwrap();
    let keys = DeviceVec::from_slice(&stream, &[1u32, 2]).unwrap();
    let mut found = DeviceVec::<u8>::zeroed(&other, 2).unwrap();
    let old = DeviceVec::from_slice(&stream, &[0u8; 1000]).unwrap();
    // SAFETY: the stream is alive, and nothing is captured that is not alive at the end.
    unsafe {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        with_context(|| result::stream::begin_capture(stream.as_raw().cast(), mode).unwrap());
    }
    assert_eq!(d.insert(&[4], &[40]), Err(Error::Capturing));
    assert_eq!(d.resident_mut().unwrap().delete(&keys), Err(Error::Capturing));
    assert_eq!(in_files.resident_mut().unwrap().insert(&keys, &keys), Err(Error::Capturing));
    assert_eq!(d.lookup(&[1]), Err(Error::Capturing));
    assert_eq!(DeviceVec::from_slice(&stream, &[1u32]).map(drop), Err(Error::Capturing));
    d.resident().unwrap().contains(&keys, &mut found).unwrap();
    drop(old);
    // SAFETY: as above.
    with_context(|| unsafe { result::stream::end_capture(stream.as_raw().cast()) }).unwrap();
    d.insert(&[4], &[40]).unwrap();
    assert_eq!(d.lookup(&[1, 4]).unwrap(), [Some(10), Some(40)]);
    assert_eq!(d.len(), Ok(4));
    in_files.resident_mut().unwrap().insert(&keys, &keys).unwrap();
    assert_eq!(in_files.len(), Ok(2));
}

/// Waits until no other test captures: what one does with CUDA's own functions can spoil the capture of
/// another.
fn capturing_alone() -> MutexGuard<'static, ()> {
    static CAPTURING: Mutex<()> = Mutex::new(());
    CAPTURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls CUDA's own functions, which want a current context.
fn with_context<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: the primary context is retained for good.
    unsafe {
        let context = result::primary_ctx::retain(result::device::get(0).unwrap()).unwrap();
        result::ctx::set_current(context).unwrap();
        let answer = call();
        result::ctx::set_current(std::ptr::null_mut()).unwrap();
        answer
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn aggregates_stay_on_the_gpu() {
    let stream = Stream::new(device()).unwrap();
    let mut d = Dictionary::<f32, i32>::builder().batch_size(500).stream(&stream).build().unwrap();
    let mut cpu = Dictionary::<f32, i32>::builder().device(Device::cpu()).build().unwrap();
    for (keys, deletes) in batches(3_000, 20_000).take(12) {
        let keys: Vec<f32> = keys.iter().map(|&key| key as f32 - 9_000.5).collect();
        let deletes: Vec<f32> = deletes.iter().map(|&key| key as f32 - 9_000.5).collect();
        let values: Vec<i32> = keys.iter().map(|key| (key * 40_000.0) as i32).collect();
        for d in [&mut d, &mut cpu] {
            d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
        }
    }
    d.validate().unwrap();
    let lo: Vec<f32> = (0..3_000).map(|n| n as f32 * 6_000.0 - 9_100.0).collect();
    let hi: Vec<f32> = lo.iter().enumerate().map(|(n, lo)| lo + (n % 70 * n * 50) as f32).collect();
    let [from, to] = [&lo, &hi].map(|keys| DeviceVec::from_slice(&stream, keys).unwrap());
    for _ in ["many runs", "one run"] {
        let mut sums = DeviceVec::<i64>::zeroed(&stream, 3_001).unwrap();
        let mut least = DeviceVec::<i32>::zeroed(&stream, 3_000).unwrap();
        let mut counts = DeviceVec::<u64>::zeroed(&stream, 3_000).unwrap();
        let resident = d.resident().unwrap();
        resident.aggregate(&from, &to, Sum, &mut sums, &mut counts).unwrap();
        resident.aggregate(&from, &to, Min, &mut least, &mut counts).unwrap();
        let (mut expected, mut expected_counts) = (vec![0; 3_001], vec![0; 3_000]);
        cpu.aggregate_into((&lo, &hi), Sum, &mut expected, &mut expected_counts).unwrap();
        assert_eq!(sums.to_vec().unwrap(), expected);
        assert_eq!(counts.to_vec().unwrap(), expected_counts);
        let mut expected = vec![0; 3_000];
        cpu.aggregate_into((&lo, &hi), Min, &mut expected, &mut expected_counts).unwrap();
        assert_eq!(least.to_vec().unwrap(), expected);
        let short = &mut DeviceVec::<i64>::zeroed(&stream, 2_999).unwrap();
        let error = resident.aggregate(&from, &to, Sum, short, &mut counts).unwrap_err();
        assert!(error.to_string().contains("`answers`"), "{error}");
        d.cleanup().unwrap();
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn ranges_without_room_write_offsets_and_no_pair() {
    let stream = Stream::new(device()).unwrap();
    let keys: Vec<u32> = (0..100).collect();
    let d = Dictionary::<u32, u32>::builder().stream(&stream).bulk_build(&keys, &keys).unwrap();
    let [lo, hi] = [[10, 50], [19, 59]].map(|ends| DeviceVec::from_slice(&stream, &ends).unwrap());
    let mut offsets = DeviceVec::zeroed(&stream, 3).unwrap();
    let mut out = DeviceVec::from_slice(&stream, &[7u32; 19]).unwrap();
    let mut values = DeviceVec::from_slice(&stream, &[7u32; 30]).unwrap();
    let from = d.resident().unwrap();
    from.range(&lo, &hi, &mut offsets, &mut out, &mut values).unwrap();
    assert_eq!(offsets.to_vec().unwrap(), [0, 10, 20]);
    assert_eq!(out.to_vec().unwrap(), [7; 19]);
    assert_eq!(values.to_vec().unwrap(), [7; 30]);
}

/// A writer goes on while readers ask earlier snapshots on streams and threads of their own.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn snapshots_are_read_on_other_streams_during_a_thousand_updates() {
    let mut d = Dictionary::<u32, u32>::builder().device(device()).batch_size(512).build().unwrap();
    let keys: Vec<u32> = (0..4_000).collect();
    d.insert(&keys, &vec![0; 4_000]).unwrap();
    let (send, receive) = std::sync::mpsc::sync_channel::<(u32, gpulsm::Snapshot<u32, u32>)>(4);
    let receive = Mutex::new(receive);
    let read = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = Stream::new(device()).unwrap();
                loop {
                    let next = receive.lock().unwrap().recv();
                    let Ok((round, snapshot)) = next else { break };
                    let snapshot = snapshot.on_stream(&stream).unwrap();
                    // Round r wrote r to keys r..r + 500 of 3,500, and deleted key 3,500 + r % 500.
                    let expected = |key: u32| match key {
                        0..3_500 => {
                            let last = (0..=round)
                                .rev()
                                .take(3_500)
                                .find(|r| (key + 3_500 - r % 3_500) % 3_500 < 500);
                            Some(last.unwrap_or(0))
                        }
                        _ => (round < key - 3_500).then_some(0),
                    };
                    let some: Vec<u32> = (0..4_000).step_by(37).collect();
                    let values = snapshot.lookup(&some).unwrap();
                    for (&key, value) in some.iter().zip(values) {
                        assert_eq!(value, expected(key), "key {key} in round {round}");
                    }
                    let gone = u64::from((round + 1).min(500));
                    assert_eq!(
                        snapshot.count((&[0, 3_500], &[3_499, 3_999])).unwrap(),
                        [3_500, 500 - gone]
                    );
                    read.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..1_000u32 {
            let keys: Vec<u32> = (0..500).map(|i| (round + i) % 3_500).collect();
            d.update(Batch::new().insert(&keys, &[round; 500]).delete(&[3_500 + round % 500]))
                .unwrap();
            send.send((round, d.snapshot())).unwrap();
        }
        drop(send);
    });
    assert_eq!(read.into_inner(), 1_000);
    d.validate().unwrap();
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn what_a_captured_query_needs_is_found_out_outside_of_the_graph() {
    let _alone = capturing_alone();
    let stream = Stream::new(device()).unwrap();
    let mut d = Dictionary::<u32, u32>::builder().stream(&stream).batch_size(1000).build().unwrap();
    let keys: Vec<u32> = (0..3000).collect();
    d.insert(&keys, &keys).unwrap();
    assert_eq!(d.len(), Ok(3000));
    // Nobody has counted since, so it is still open which of these were there.
    d.insert(&keys[2500..], &keys[..500]).unwrap();
    assert_eq!(d.lookup_one(2500), Ok(Some(0)));
    let (lo, hi) = ([2000u32, 0], [2999u32, u32::MAX]);
    let ends = [lo, hi].map(|ends| DeviceVec::from_slice(&stream, &ends).unwrap());
    let mut counts = DeviceVec::<u64>::zeroed(&stream, 2).unwrap();
    stream.synchronize().unwrap();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is alive, and what is captured outlives the graph.
    with_context(|| unsafe { result::stream::begin_capture(stream.as_raw().cast(), mode) })
        .unwrap();
    let from = d.resident().unwrap();
    from.count(&ends[0], &ends[1], &mut counts).unwrap();
    // SAFETY: as above.
    unsafe {
        let graph = with_context(|| result::stream::end_capture(stream.as_raw().cast())).unwrap();
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = with_context(|| result::graph::instantiate(graph, flags)).unwrap();
        with_context(|| result::graph::launch(graph, stream.as_raw().cast())).unwrap();
    }
    assert_eq!(counts.to_vec().unwrap(), [1000, 3000]);
    d.validate().unwrap();
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_graph_keeps_the_runs_that_it_reads() {
    let _alone = capturing_alone();
    let stream = Stream::new(device()).unwrap();
    let mut d =
        Dictionary::<u32, u32>::builder().stream(&stream).batch_size(1 << 16).build().unwrap();
    let keys: Vec<u32> = (0..1 << 18).collect();
    for round in 0..3 {
        d.insert(&keys, &vec![round; keys.len()]).unwrap();
    }
    d.flush().unwrap();
    let asked = DeviceVec::from_slice(&stream, &keys).unwrap();
    let mut values = DeviceVec::<u32>::zeroed(&stream, keys.len()).unwrap();
    let mut found = DeviceVec::<u8>::zeroed(&stream, keys.len()).unwrap();
    stream.synchronize().unwrap();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is alive, and what is captured outlives the graph.
    with_context(|| unsafe { result::stream::begin_capture(stream.as_raw().cast(), mode) })
        .unwrap();
    let from = d.resident().unwrap();
    from.lookup(&asked, &mut values, &mut found).unwrap();
    // SAFETY: as above.
    let graph =
        with_context(|| unsafe { result::stream::end_capture(stream.as_raw().cast()) }).unwrap();
    // Whoever asks for this may have it cleaned up; and the memory be used again.
    assert_eq!(d.stats().unwrap().live, 1 << 18);
    d.synchronize().unwrap();
    let others: Vec<_> =
        (0..4).map(|_| DeviceVec::<u32>::zeroed(&stream, 1 << 20).unwrap()).collect();
    // SAFETY: as above.
    unsafe {
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = with_context(|| result::graph::instantiate(graph, flags)).unwrap();
        with_context(|| result::graph::launch(graph, stream.as_raw().cast())).unwrap();
    }
    assert!(values.to_vec().unwrap().iter().all(|&value| value == 2));
    assert!(found.to_vec().unwrap().iter().all(|&found| found == 1));
    drop(others);
}

/// Returns how many bytes of runs are shared, and with whom.
fn shared(d: &Dictionary<u32, u32>) -> (bool, String) {
    let memory = d.stats().unwrap().memory.unwrap();
    (memory.shared > 0, memory.holders.to_string())
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn views_that_hold_runs_are_counted() {
    let keys: Vec<u32> = (0..1 << 18).collect();
    let builder = Dictionary::<u32, u32>::builder().device(device());
    let d = builder.from_sorted(&keys, &keys).unwrap();
    assert_eq!(shared(&d), (false, String::new()));
    let snapshot = d.snapshot();
    let view = snapshot.resident().unwrap().view().unwrap();
    assert_eq!(shared(&d), (true, "1 snapshot and 1 view".into()));
    drop(view);
    assert_eq!(shared(&d), (true, "1 snapshot".into()));
    drop(snapshot);
    assert_eq!(shared(&d), (false, String::new()));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn graphs_that_hold_runs_are_counted() {
    let _alone = capturing_alone();
    let stream = Stream::new(device()).unwrap();
    let keys: Vec<u32> = (0..1 << 18).collect();
    let builder = Dictionary::<u32, u32>::builder().stream(&stream);
    let d = builder.from_sorted(&keys, &keys).unwrap();
    assert_eq!(shared(&d), (false, String::new()));
    let snapshot = d.snapshot();
    let queried = DeviceVec::from_slice(&stream, &keys).unwrap();
    let mut values = DeviceVec::<u32>::zeroed(&stream, keys.len()).unwrap();
    let mut found = DeviceVec::<u8>::zeroed(&stream, keys.len()).unwrap();
    stream.synchronize().unwrap();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is alive, and what is captured outlives the graph, which is never launched.
    with_context(|| unsafe { result::stream::begin_capture(stream.as_raw().cast(), mode) })
        .unwrap();
    snapshot.resident().unwrap().lookup(&queried, &mut values, &mut found).unwrap();
    // SAFETY: as above.
    with_context(|| unsafe { result::stream::end_capture(stream.as_raw().cast()) }).unwrap();
    assert_eq!(shared(&d), (true, "1 snapshot and 1 graph".into()));
    drop(snapshot);
    assert_eq!(shared(&d), (false, String::new()));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn runs_take_no_more_than_they_need() {
    let mut d =
        Dictionary::<u32, u32>::builder().device(device()).batch_size(1 << 14).build().unwrap();
    let keys: Vec<u32> = (0..1 << 17).collect();
    for round in 0..3 {
        for some in keys.chunks(1 << 14) {
            d.insert(some, &vec![round; some.len()]).unwrap();
            d.flush().unwrap();
        }
    }
    d.synchronize().unwrap();
    let stats = d.stats().unwrap();
    assert!(stats.bytes.total() < 10 * stats.entries, "{stats:?}");
    assert_eq!((d.len(), d.lookup_one(77)), (Ok(1 << 17), Ok(Some(2))));
    d.validate().unwrap();
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn queries_can_be_captured_into_a_graph() {
    let _alone = capturing_alone();
    let stream = Stream::new(device()).unwrap();
    let mut d =
        Dictionary::<u32, u32>::builder().device(device()).batch_size(1000).build().unwrap();
    for round in 0..7u32 {
        let keys: Vec<u32> = (0..1000).map(|i| i * 7 + round).collect();
        d.insert(&keys, &vec![round; 1000]).unwrap();
    }
    // The dictionary has a stream of its own; the queries are captured on the caller's.
    let snapshot = d.snapshot().on_stream(&stream).unwrap();
    let mut keys = DeviceVec::from_slice(&stream, &[0u32, 15, 6_999, 7_000]).unwrap();
    let mut values = DeviceVec::<u32>::zeroed(&stream, 4).unwrap();
    let mut found = DeviceVec::<u8>::zeroed(&stream, 4).unwrap();
    let mut offsets = DeviceVec::<u64>::zeroed(&stream, 5).unwrap();
    let mut out = DeviceVec::<u32>::zeroed(&stream, 100_000).unwrap();
    let mut out_values = DeviceVec::<u32>::zeroed(&stream, 100_000).unwrap();
    let ends = DeviceVec::from_slice(&stream, &[10u32, 20, 7_100, u32::MAX]).unwrap();
    stream.synchronize().unwrap();
    // What follows uses CUDA's own functions, which want a current context.
    // SAFETY: the primary context is retained for good.
    unsafe {
        let context = result::primary_ctx::retain(result::device::get(0).unwrap()).unwrap();
        result::ctx::set_current(context).unwrap();
    }

    // SAFETY: the stream is alive, and what is captured outlives the graph.
    let graph = unsafe {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        result::stream::begin_capture(stream.as_raw().cast(), mode).unwrap();
        let from = snapshot.resident().unwrap();
        from.lookup(&keys, &mut values, &mut found).unwrap();
        from.range(&keys, &ends, &mut offsets, &mut out, &mut out_values).unwrap();
        let graph = result::stream::end_capture(stream.as_raw().cast()).unwrap();
        result::graph::instantiate(
            graph,
            sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
        )
        .unwrap()
    };
    for queries in [[0, 15, 6_999, 7_000], [1, 8, 22, 50]] {
        keys.write(&queries).unwrap();
        // SAFETY: as above.
        unsafe { result::graph::launch(graph, stream.as_raw().cast()).unwrap() };
        let expected = snapshot.lookup(&queries).unwrap();
        let answers = values.to_vec().unwrap().into_iter().zip(found.to_vec().unwrap());
        assert_eq!(
            answers.map(|(value, found)| (found == 1).then_some(value)).collect::<Vec<_>>(),
            expected
        );
        let ranges = snapshot.range((&queries, &[10, 20, 7_100, u32::MAX])).unwrap();
        let total = ranges.keys.len();
        assert_eq!(offsets.to_vec().unwrap()[4], total as u64);
        assert_eq!(out.slice(..total).to_vec().unwrap(), ranges.keys);
        assert_eq!(out_values.slice(..total).to_vec().unwrap(), ranges.values);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_threads_current_context_is_left_alone() {
    std::thread::spawn(|| {
        let mut d = Dictionary::<u32, u32>::builder().device(device()).build().unwrap();
        assert_eq!(result::ctx::get_current().unwrap(), None);
        d.insert(&[1, 2], &[3, 4]).unwrap();
        let snapshot = d.snapshot();
        assert_eq!(snapshot.lookup(&[2]).unwrap(), [Some(4)]);
        drop((d, snapshot));
        assert_eq!(result::ctx::get_current().unwrap(), None);
    })
    .join()
    .unwrap();
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn taking_in_a_batch_does_not_wait_for_the_gpu() {
    let stream = Stream::new(device()).unwrap();
    let mut d =
        Dictionary::<u32, u32>::builder().stream(&stream).batch_size(1 << 16).build().unwrap();
    let keys: Vec<u32> = (0..1u32 << 16).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
    let on_gpu = DeviceVec::from_slice(&stream, &keys).unwrap();
    // Every kernel has been launched once before, for the first time may take longer.
    for _ in 0..4 {
        d.resident_mut().unwrap().insert(&on_gpu, &on_gpu).unwrap();
    }
    d.cleanup().unwrap();
    d.synchronize().unwrap();
    // The stream is blocked until the host lets it go on: a call that waited would never return.
    static GO: AtomicBool = AtomicBool::new(false);
    struct Go;
    impl Drop for Go {
        fn drop(&mut self) {
            GO.store(true, Ordering::Release);
        }
    }
    unsafe extern "C" fn wait(_: *mut std::ffi::c_void) {
        while !GO.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
    // Whatever happens here, the stream goes on in the end.
    let go = Go;
    // SAFETY: the function uses nothing of CUDA and ends once the batches are in.
    unsafe {
        result::stream::launch_host_function(stream.as_raw().cast(), wait, std::ptr::null_mut())
            .unwrap();
    }
    for _ in 0..2 {
        d.resident_mut().unwrap().insert(&on_gpu, &on_gpu).unwrap();
    }
    drop(go);
    d.synchronize().unwrap();
    d.validate().unwrap();
    assert_eq!(
        d.lookup(&keys[..10]).unwrap(),
        keys[..10].iter().copied().map(Some).collect::<Vec<_>>()
    );
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn someone_elses_memory_is_used_where_it_lies() {
    let stream = Stream::new(device()).unwrap();
    let mut d = Dictionary::<u32, u32>::builder().device(device()).build().unwrap();
    let theirs = DeviceVec::from_slice(&stream, &[5u32, 6, 7, 0, 0, 0]).unwrap();
    let pointer = theirs.as_ptr();
    // SAFETY: the vector is alive, and its two halves are used as what they are.
    let (keys, found) = unsafe {
        let found = pointer.add(3).cast_mut().cast::<u8>();
        (DeviceSlice::from_raw(pointer, 3, &stream), DeviceSliceMut::from_raw(found, 3, &stream))
    };
    d.resident_mut().unwrap().insert(keys, keys).unwrap();
    d.delete(&[6]).unwrap();
    d.resident().unwrap().contains(keys, found).unwrap();
    assert_eq!(theirs.to_vec().unwrap()[3], u32::from_le_bytes([1, 0, 1, 0]));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn more_than_the_gpu_has_is_an_error_and_the_dictionary_goes_on() {
    let mut d = Dictionary::<u64, [u64; 2]>::builder().device(device()).build().unwrap();
    d.insert(&[1, 2], &[[1, 1], [2, 2]]).unwrap();
    let stream = Stream::new(device()).unwrap();
    let refused = DeviceVec::<u64>::zeroed(&stream, 1 << 42).unwrap_err();
    let Error::OutOfMemory { wanted, free: Some(free), .. } = refused else { panic!("{refused}") };
    assert!(wanted == 8 << 42 && free > 0 && free < wanted, "{refused}");
    assert_eq!(d.lookup_one(2), Ok(Some([2, 2])));
    let mut model = Model::default();
    model.update(&[(1u64, [1u64, 1]), (2, [2, 2])], &[]);
    assert!(d.iter().eq(model.iter()));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_dictionary_gives_its_memory_back() {
    let keys: Vec<u64> = (0..32 << 20).collect();
    drop(Dictionary::<u64, u64>::builder().device(device()).bulk_build(&keys, &keys).unwrap());
    let before = free_memory();
    for _ in 0..3 {
        let d = Dictionary::<u64, u64>::builder()
            .device(device())
            .cleanup_policy(CleanupPolicy::Manual)
            .bulk_build(&keys, &keys)
            .unwrap();
        d.synchronize().unwrap();
        drop(d);
    }
    // Other tests come and go beside this one: a leak of three times 512 MiB would show all the same, and stay.
    let start = Instant::now();
    while free_memory() + (1 << 30) <= before {
        assert!(start.elapsed() < Duration::from_secs(60), "not all of {before} bytes are free");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Bytes free on the GPU.
fn free_memory() -> u64 {
    with_context(|| result::mem_get_info().unwrap().0 as u64)
}

/// For how long tests that look for rare accidents do so.
fn patience() -> Duration {
    let seconds = std::env::var("GPULSM_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// Of two threads that queried one snapshot on one stream, the one that had begun first could be noted as
/// the run's last reader: its memory was given back, and used again, while the other's kernel read it.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_run_outlives_the_queries_of_all_threads_that_share_a_stream() {
    const KEYS: u32 = 100_000;
    const THREADS: usize = 8;
    let stream = Stream::new(device()).unwrap();
    let keys: Vec<u32> = (0..KEYS).collect();
    let asked = DeviceVec::from_slice(&stream, &keys).unwrap();
    let start = Instant::now();
    let mut rounds = 0u32;
    while start.elapsed() < patience() {
        let mut d = Dictionary::<u32, u32>::builder()
            .device(device())
            .bulk_build(&keys, &vec![rounds; keys.len()])
            .unwrap();
        let snapshot = d.snapshot().on_stream(&stream).unwrap();
        let answers: Vec<DeviceVec<u32>> = std::thread::scope(|scope| {
            let ask = || {
                let mut values = DeviceVec::<u32>::zeroed(&stream, keys.len()).unwrap();
                let mut found = DeviceVec::<u8>::zeroed(&stream, keys.len()).unwrap();
                for _ in 0..6 {
                    let resident = snapshot.resident().unwrap();
                    let (values, found) = (&mut values, &mut found);
                    resident.lookup(&asked, values, found).unwrap();
                }
                values
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // Nobody has the old run any more, but queries of it may still be under way; and its memory is
        // what the next one is likely to get.
        drop(snapshot);
        d.clear().unwrap();
        d.insert(&keys, &vec![u32::MAX; keys.len()]).unwrap();
        d.synchronize().unwrap();
        for values in answers {
            assert!(values.to_vec().unwrap().iter().all(|&value| value == rounds));
        }
        rounds += 1;
    }
    assert!(rounds > 2, "only {rounds} rounds");
}

/// Pinned heads that were taken before something failed stayed unusable: each attempt to insert without
/// memory took others, and pinned memory grew without end.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn pinned_heads_of_failed_updates_are_used_again() {
    const ALONE: &str = "GPULSM_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // All tests of a process share the heads.
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--include-ignored", "pinned_heads_of_failed_updates_are_used_again"]);
        let output = process.env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !text.contains(" 0 passed"), "{text}");
        return;
    }
    let keys: Vec<u32> = (0..3000).collect();
    let builder = Dictionary::<u32, u32>::builder().device(device()).batch_size(256);
    let mut d = builder.max_merge_per_batch(1000).bulk_build(&keys, &keys).unwrap();
    let (before, at_a_time) = allocated_pinned_heads();
    let mut failures = 0;
    for attempt in 0..5 * at_a_time {
        d.fail_allocation_after(attempt as u64 % 5);
        failures += usize::from(d.insert(&keys[..500], &keys[..500]).is_err());
        failures += usize::from(d.count(&[0..=100]).is_err());
        d.fail_allocation_after(u64::MAX);
        if attempt % 64 == 0 {
            d.cleanup().unwrap();
        }
    }
    assert!(failures > at_a_time, "only {failures} calls failed");
    // Kernels that are still under way may need a few more than there were.
    let (after, _) = allocated_pinned_heads();
    assert!(after <= before + at_a_time, "{after} for {before}");
    d.validate().unwrap();
}
