//! Random lists of operations against the model, for every key type and every width of value.

use gpulsm::testing::bits::Types;
use gpulsm::testing::check::{check, check_in_files};
use gpulsm::testing::script::Draw;
use gpulsm::{Device, Key, Value};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::each_device;

/// One list for each drawn dictionary; 40 pairs of types times this many lists a run.
const LISTS: u32 = 100;

/// Checks random lists on dictionaries of these types.
fn check_lists<K: Key, V: Value>(device: Device) {
    let config = ProptestConfig { cases: LISTS, ..ProptestConfig::default() };
    // Each operation is drawn from bytes of its own, so that a failing list shrinks by losing operations.
    let lists = vec(vec(any::<u8>(), 0..150), 0..60);
    // Every fourth dictionary lives in files; the number chooses what happens to them.
    let files = proptest::option::weighted(0.25, any::<u64>());
    proptest!(config, |(size in any::<u8>(), bytes in lists, threads in 1usize..3, files in files)| {
        let settings = Draw::new([size]).settings::<K, V>().device(device).threads(threads);
        let types = Types::of::<K, V>();
        let operations: Vec<_> =
            bytes.into_iter().map(|bytes| Draw::new(bytes).operation(&types)).collect();
        let outcome = match files {
            Some(seed) => check_in_files(settings, device, &operations, seed),
            None => check(settings.build().unwrap(), &operations),
        };
        if let Err(mismatch) = outcome {
            return Err(TestCaseError::fail(mismatch.to_string()));
        }
    });
}

macro_rules! model_tests {
    ($($name:ident: $key:ty, $value:ty;)*) => {$(
        each_device! {
            fn $name(device) {
                check_lists::<$key, $value>(device);
            }
        }
    )*};
}

model_tests! {
    u32_set: u32, ();
    u32_u32: u32, u32;
    u32_u64: u32, u64;
    u32_wide: u32, [u64; 2];
    u64_set: u64, ();
    u64_f32: u64, f32;
    u64_u64: u64, u64;
    u64_wide: u64, u128;
    i32_set: i32, ();
    i32_i32: i32, i32;
    i32_f64: i32, f64;
    i32_wide: i32, [u8; 16];
    i64_set: i64, ();
    i64_u32: i64, [u16; 2];
    i64_i64: i64, i64;
    i64_wide: i64, [f32; 4];
    f32_set: f32, ();
    f32_f32: f32, f32;
    f32_u64: f32, [u32; 2];
    f32_wide: f32, i128;
    f64_set: f64, ();
    f64_u32: f64, u32;
    f64_f64: f64, f64;
    f64_wide: f64, [f64; 2];
    bytes3_u32: [u8; 3], u32;
    bytes8_set: [u8; 8], ();
    pair_set: (u32, u32), ();
    pair_u32: (i32, f32), u32;
    pair_wide: (f32, [u8; 2]), u128;
    u128_set: u128, ();
    u128_u32: u128, u32;
    u128_u64: u128, u64;
    u128_wide: u128, u128;
    i128_i64: i128, i64;
    bytes16_u32: [u8; 16], u32;
    bytes9_wide: [u8; 9], [f32; 4];
    pair_of_symbol_and_time: (u32, i64), f64;
    pair_of_floats: (f64, f64), f32;
    triple: (u32, i32, f32), u32;
    quadruple: (u32, [u8; 3], i32, f32), ();
}

each_device! {
    fn long_lists_of_short_batches(device) {
        for seed in 0..20 {
            let mut draw = Draw::random(seed);
            let dictionary =
                draw.settings::<i32, u32>().device(device).build().unwrap();
            let types = Types::of::<i32, u32>();
            let operations: Vec<_> = (0..600).map(|_| draw.operation(&types)).collect();
            check(dictionary, &operations).unwrap_or_else(|mismatch| panic!("seed {seed}: {mismatch}"));
        }
    }

    fn long_lists_in_files(device) {
        for seed in 0..40 {
            let mut draw = Draw::random(seed);
            let settings = draw.settings::<u64, u64>().threads(1);
            let types = Types::of::<u64, u64>();
            let operations: Vec<_> = (0..400).map(|_| draw.operation(&types)).collect();
            check_in_files(settings, device, &operations, seed)
                .unwrap_or_else(|mismatch| panic!("seed {seed}: {mismatch}"));
        }
    }
}
