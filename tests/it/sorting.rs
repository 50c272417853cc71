//! Batches of keys of every pattern: the last of equal keys counts, however a device sorts them.

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Device, Dictionary, OrderedKey, ScalarKey, Value};

use crate::each_device;

/// Patterns of keys that a sort may find hard.
const PATTERNS: [&str; 12] = [
    "random",
    "ascending",
    "descending",
    "equal",
    "few",
    "frequent",
    "composite",
    "narrow",
    "times",
    "ends",
    "greatest",
    "steps",
];

/// Returns keys as numbers of `bits` bits.
fn numbers(pattern: &str, bits: u32, len: usize, seed: u64) -> Vec<u128> {
    let max = u128::MAX >> (128 - bits);
    let (count, mut random) = (len as u128, Random::new(seed));
    let mut draw = || u128::from(random.number()) << 64 | u128::from(random.number());
    let mut number = |index: u128| match pattern {
        "ascending" => index * (max / count).min(1 << 70),
        "descending" => (count - 1 - index) * (max / count).min(1 << 70),
        "equal" => max / 3,
        "few" => draw() % 64 * (max / 64),
        // Half of the keys are one of three.
        "frequent" if index.is_multiple_of(2) => max / 2 + draw() % 3,
        // One of 64 symbols and a number of 20 bits.
        "composite" => (draw() % 64) << (bits - 8) | (draw() & 0xf_ffff),
        "narrow" => max / 2 + draw() % (2 * count),
        "times" => max / 2 + index * 3 + draw() % 40,
        "ends" if index.is_multiple_of(2) => draw() % count,
        "ends" => max - draw() % count,
        "greatest" => max - draw() % 3,
        // Each value many times, in ascending order.
        "steps" => index / 3_000,
        _ => draw(),
    };
    (0..count).map(|index| number(index) & max).collect()
}

fn keys<K: ScalarKey>(pattern: &str, len: usize, seed: u64) -> Vec<K> {
    numbers(pattern, K::BITS, len, seed)
        .into_iter()
        .map(|number| K::from_ordered(K::Ordered::narrow(number)))
        .collect()
}

/// Makes a batch, deletes some keys of it, and makes another, and compares with the model.
fn compare_with_model<K: ScalarKey + std::fmt::Debug, V: Value + PartialEq + std::fmt::Debug>(
    device: Device,
    len: usize,
    value: impl Fn(usize) -> V,
) {
    for pattern in PATTERNS {
        let (first, second) = (keys::<K>(pattern, len, 1), keys::<K>(pattern, len / 2, 2));
        let values: Vec<V> = (0..len).map(&value).collect();
        let mut d = Dictionary::builder().device(device).batch_size(500).build().unwrap();
        let mut model = Model::default();
        let pairs =
            |keys: &[K]| keys.iter().copied().zip(values.iter().copied()).collect::<Vec<_>>();
        d.insert(&first, &values).unwrap();
        model.update(&pairs(&first), &[]);
        assert!(d.iter().eq(model.iter()), "{pattern}, {len} pairs");
        d.validate().unwrap();
        let deleted = &first[..len / 3];
        d.update(Batch::new().insert(&second, &values[..second.len()]).delete(deleted)).unwrap();
        model.update(&pairs(&second), deleted);
        d.validate().unwrap();
        assert!(d.iter().eq(model.iter()), "{pattern}, {len} pairs, then deletes");
        d.delete(&second).unwrap();
        model.update(&[], &second);
        d.validate().unwrap();
        assert!(d.iter().eq(model.iter()), "{pattern}, {len} pairs, then more deletes");
    }
}

each_device! {
    fn batches_of_every_pattern_are_sorted(device) {
        for len in [700, 6_000] {
            compare_with_model::<u32, u64>(device, len, |i| i as u64);
            compare_with_model::<u64, ()>(device, len, |_| ());
            compare_with_model::<u128, u32>(device, len, |i| i as u32);
        }
    }
}

/// On a GPU, batches of some lengths are cut into buckets at splitters.
#[cfg(feature = "cuda")]
mod splitters {
    use gpulsm::cuda::sort_by_splitters;

    use super::*;

    fn cuda() -> Device {
        Device::cuda(0).unwrap()
    }

    /// Compares what a GPU and a CPU make of the same batches.
    fn compare_devices<K: ScalarKey + std::fmt::Debug, V: Value + PartialEq>(
        lens: &[usize],
        value: fn(usize) -> V,
    ) {
        for (seed, &len) in (5..).zip(lens) {
            let values: Vec<V> = (0..len).map(value).collect();
            for pattern in PATTERNS {
                // Splitters of a run are tried first: of one like the batch, or unlike it.
                let before = if seed % 2 == 0 { "random" } else { pattern };
                let before = keys::<K>(before, len / 5, seed + 100);
                let keys = keys::<K>(pattern, len, seed);
                let [cpu, gpu] = [Device::cpu(), cuda()].map(|device| {
                    let mut d =
                        Dictionary::builder().device(device).batch_size(len / 4).build().unwrap();
                    d.insert(&before, &values[..len / 5]).unwrap();
                    d.flush().unwrap();
                    let batch = Batch::new().insert(&keys, &values);
                    d.update(batch.delete(&keys[..len / 7])).unwrap();
                    d.insert(&keys, &values).unwrap();
                    d.validate().unwrap();
                    d.to_vecs().unwrap()
                });
                assert!(cpu == gpu, "{pattern}, {len} pairs");
            }
        }
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn batches_of_every_pattern_are_sorted_around_each_threshold() {
        compare_devices::<u32, u32>(
            &[
                (1 << 17) - 1,
                1 << 17,
                (1 << 17) + 1,
                1 << 18,
                (1 << 18) + 1,
                1 << 19,
                (1 << 19) + 1,
                1 << 20,
                (1 << 20) + 1,
            ],
            |i| i as u32,
        );
        compare_devices::<u64, u64>(
            &[(1 << 17) + 1, 1 << 18, (1 << 18) + 1, 1 << 20, (1 << 20) + 1],
            |i| i as u64,
        );
        compare_devices::<u128, u128>(
            &[(1 << 17) + 1, (1 << 18) + 1, 1 << 19, (1 << 19) + 1],
            |i| i as u128,
        );
        compare_devices::<u64, ()>(&[1 << 18, 1 << 19], |_| ());
        compare_devices::<u32, [u32; 4]>(&[1 << 18], |i| [i as u32; 4]);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn short_batches_are_sorted_by_splitters_too() {
        sort_by_splitters(1, 0);
        for len in [1, 2, 3, 31, 257, 2_559, 2_561, 9_000] {
            compare_with_model::<u32, u32>(cuda(), len, |i| i as u32);
            compare_with_model::<u64, u64>(cuda(), len, |i| i as u64);
            compare_with_model::<u128, ()>(cuda(), len, |_| ());
        }
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn buckets_that_do_not_fit_are_sorted_in_windows() {
        for most in [1, 7, 64] {
            sort_by_splitters(1, most);
            compare_with_model::<u32, u64>(cuda(), 20_000, |i| i as u64);
            compare_with_model::<u64, u32>(cuda(), 20_000, |i| i as u32);
            compare_with_model::<u128, u128>(cuda(), 20_000, |i| i as u128);
        }
        sort_by_splitters(1, 700);
        compare_devices::<u64, u64>(&[1 << 18, 1 << 20], |i| i as u64);
        compare_devices::<u32, u32>(&[1 << 18, 1 << 19], |i| i as u32);
    }
}
