//! Lookups that order their keys by buckets first, which on a GPU large dictionaries do: the answers are the same.

use std::fmt::Debug;

use gpulsm::cuda::{Bucketing, DeviceVec, Stream, choose_bucketing};
use gpulsm::testing::script::Random;
use gpulsm::{Batch, CleanupPolicy, Combine, Device, Dictionary, ScalarKey, Value};

const ALWAYS: Bucketing = Bucketing::Always { bits: 8, max_part: 1 << 24 };

/// Few and many buckets, and keys ordered all at once or a few at a time.
const KINDS: [Bucketing; 4] = [
    ALWAYS,
    Bucketing::Always { bits: 11, max_part: 1 << 24 },
    Bucketing::Always { bits: 1, max_part: 7_000 },
    Bucketing::Always { bits: 10, max_part: 4_096 },
];

fn stream() -> Stream {
    Stream::new(Device::cuda(0).unwrap()).unwrap()
}

fn numbers(seed: u64, len: usize) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.number()).collect()
}

/// Calls `answer` with each kind of buckets, and compares with what it returns without.
#[track_caller]
fn compare<T: PartialEq>(answer: impl Fn() -> T) -> T {
    choose_bucketing(Bucketing::Never);
    let plain = answer();
    for kind in KINDS {
        choose_bucketing(kind);
        assert!(answer() == plain, "{kind:?}");
    }
    choose_bucketing(Bucketing::Usual);
    plain
}

/// Looks up keys of the host and of the GPU, with values and without.
#[track_caller]
fn check<K: ScalarKey, V: Value + PartialEq + Debug>(
    d: &Dictionary<K, V>,
    cpu: &Dictionary<K, V>,
    stream: &Stream,
    keys: &[K],
) {
    let len = keys.len();
    let (values, found) = compare(|| {
        let (mut values, mut found) = (vec![V::zeroed(); len], vec![false; len]);
        d.lookup_into(keys, &mut values, &mut found).unwrap();
        (values, found)
    });
    let (mut expected, mut expected_found) = (vec![V::zeroed(); len], vec![false; len]);
    cpu.lookup_into(keys, &mut expected, &mut expected_found).unwrap();
    assert!(values == expected && found == expected_found);
    assert!(compare(|| d.contains(keys).unwrap()) == found);

    let on_gpu = DeviceVec::from_slice(stream, keys).unwrap();
    let is_found: Vec<u8> = found.into_iter().map(u8::from).collect();
    let resident = compare(|| {
        let mut values = DeviceVec::<V>::zeroed(stream, len).unwrap();
        let mut found = DeviceVec::<u8>::zeroed(stream, len).unwrap();
        d.resident().unwrap().lookup(&on_gpu, &mut values, &mut found).unwrap();
        (values.to_vec().unwrap(), found.to_vec().unwrap())
    });
    assert!(resident == (values, is_found.clone()));
    let contained = compare(|| {
        let mut found = DeviceVec::<u8>::zeroed(stream, len).unwrap();
        d.resident().unwrap().contains(&on_gpu, &mut found).unwrap();
        found.to_vec().unwrap()
    });
    assert!(contained == is_found);
}

/// A dictionary of several runs with replacements and tombstones, grown from nothing.
fn grown<K: ScalarKey, V: Value + PartialEq + Debug>(
    key_of: impl Fn(u64) -> K,
    value_of: impl Fn(u64) -> V,
) {
    let stream = stream();
    let settings =
        || Dictionary::<K, V>::builder().batch_size(2_048).cleanup_policy(CleanupPolicy::Manual);
    let mut d = settings().stream(&stream).build().unwrap();
    let mut cpu = settings().device(Device::cpu()).build().unwrap();
    let keys = |seed, len| -> Vec<K> {
        numbers(seed, len).into_iter().map(|n| key_of(n % 60_000)).collect()
    };
    check(&d, &cpu, &stream, &keys(1, 5_000));
    for (round, len) in [1, 15, 300, 20_000, 9_000, 2_100, 40].into_iter().enumerate() {
        let seed = round as u64;
        let inserts = keys(2 * seed, len);
        let deletes = keys(2 * seed + 1, len / 3);
        let values: Vec<V> =
            numbers(seed, len).into_iter().map(|n| value_of(n.wrapping_add(seed))).collect();
        for d in [&mut d, &mut cpu] {
            d.update(Batch::new().insert(&inserts, &values).delete(&deletes)).unwrap();
            d.flush().unwrap();
        }
        for questions in [1, 31, 3_841, 50_000] {
            check(&d, &cpu, &stream, &keys(100 + seed, questions));
        }
    }
    assert!(d.stats().unwrap().levels.len() > 2);
    // All the same, and all beyond what is there.
    let one = keys(2, 1)[0];
    check(&d, &cpu, &stream, &[one; 20_000]);
    let beyond: Vec<K> = (0..20_000).map(|n| key_of(70_000 + n)).collect();
    check(&d, &cpu, &stream, &beyond);
    d.cleanup().unwrap();
    cpu.cleanup().unwrap();
    check(&d, &cpu, &stream, &keys(200, 50_000));
    d.validate().unwrap();
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn buckets_change_no_answer_whatever_the_types() {
    grown::<u32, ()>(|n| n as u32, |_| ());
    grown::<u32, u32>(|n| u32::MAX - n as u32, |n| n as u32);
    grown::<i32, [u64; 2]>(|n| n as i32 - 30_000, |n| [n, !n]);
    grown::<u64, u64>(|n| n << 40, |n| n);
    grown::<f64, f32>(|n| 300.0 - n as f64, |n| (n % 1_000) as f32);
    grown::<i64, ()>(|n| n as i64 * -7_000_000_000, |_| ());
    grown::<u64, [u32; 4]>(|n| n.pow(3), |n| [n as u32, 1, 2, 3]);
    grown::<u128, u64>(|n| u128::from(n) << 90, |n| n);
    grown::<u128, [u64; 2]>(|n| u128::MAX - u128::from(n), |n| [n, n ^ 7]);
    grown::<i128, ()>(|n| i128::from(n) - 9_000, |_| ());
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn combined_values_are_found_in_buckets() {
    let stream = stream();
    let settings = || Dictionary::<u64, u64>::builder().batch_size(1_024).combine(Combine::Add);
    let mut d = settings().stream(&stream).build().unwrap();
    let mut cpu = settings().device(Device::cpu()).build().unwrap();
    for round in 0..9 {
        let keys: Vec<u64> = numbers(round, 3_000).iter().map(|n| n % 9_000 * 31).collect();
        let values = vec![round + 1; keys.len()];
        for d in [&mut d, &mut cpu] {
            d.update(Batch::new().insert(&keys, &values).delete(&keys[..200])).unwrap();
            d.flush().unwrap();
        }
    }
    let questions: Vec<u64> = numbers(99, 60_000).iter().map(|n| n % 10_000 * 31).collect();
    check(&d, &cpu, &stream, &questions);
}

/// More than 2 GiB of keys and values, and more keys to look up than are ordered at a time.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn large_dictionaries_answer_alike_with_buckets_and_without() {
    const ENTRIES: u64 = 9 << 24;
    let stream = stream();
    let mut d = Dictionary::<u64, u64>::builder().stream(&stream).build().unwrap();
    let key_of = |n: u64| (n % ENTRIES).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for part in 0..9 {
        let keys: Vec<u64> = (part << 24..(part + 1) << 24).map(key_of).collect();
        let values: Vec<u64> = keys.iter().map(|key| !key).collect();
        d.insert(&keys, &values).unwrap();
    }
    // Every other key is there.
    let keys: Vec<u64> =
        numbers(5, (1 << 24) + 12_345).into_iter().map(|n| key_of(n >> 1) ^ (n & 1)).collect();
    let keys = DeviceVec::from_slice(&stream, &keys).unwrap();
    let answers = |bucketing| {
        choose_bucketing(bucketing);
        let mut values = DeviceVec::<u64>::zeroed(&stream, keys.len()).unwrap();
        let mut found = DeviceVec::<u8>::zeroed(&stream, keys.len()).unwrap();
        d.resident().unwrap().lookup(&keys, &mut values, &mut found).unwrap();
        (values.to_vec().unwrap(), found.to_vec().unwrap())
    };
    let plain = answers(Bucketing::Never);
    let is_right =
        |((key, value), found): ((u64, &u64), &u8)| *value == if *found == 1 { !key } else { 0 };
    let asked = keys.to_vec().unwrap();
    assert!(asked.into_iter().zip(&plain.0).zip(&plain.1).all(is_right));
    let found = plain.1.iter().map(|&found| u64::from(found)).sum::<u64>();
    assert!((1 << 22..3 << 22).contains(&found), "{found}");
    for bucketing in [Bucketing::Usual, ALWAYS, KINDS[1]] {
        assert!(answers(bucketing) == plain, "{bucketing:?}");
    }
    choose_bucketing(Bucketing::Usual);
}
