//! Merges in place on a GPU. Only long runs have memory for that, so these tests start a process in which all runs of
//! at least 2 MiB do, in small blocks.

use std::process::Command;
use std::{env, thread};

use gpulsm::{Combine, Device, Dictionary, Error};

/// Runs tests of this name in a process in which runs from this many bytes on can be merged in place.
fn run(test: &str, mapped_from: u64, settings: &[&str]) {
    let mut process = Command::new(env::current_exe().unwrap());
    process.args(["--include-ignored", test, "--nocapture"]);
    process.env("GPULSM_MAPPED_FROM", mapped_from.to_string());
    process.envs(settings.iter().map(|name| (name, "1")));
    let output = process.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains(" 0 passed"), "{text}{errors}");
}

/// Returns whether this is such a process.
fn is_child() -> bool {
    env::var_os("GPULSM_MAPPED_FROM").is_some()
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_limit_is_filled_to_the_brim() {
    run("cuda_in_place::child_fills_a_limit", 2 << 20, &[]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn whatever_is_merged_in_place_is_right() {
    run("cuda_in_place::child_merges_in_place", 2 << 20, &["GPULSM_IN_PLACE"]);
}

/// The random lists of operations, on runs that all are merged in place whenever nobody else holds them.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn random_lists_are_merged_in_place() {
    for lists in ["model::u64_u64::cuda", "model::u32_set::cuda", "combine::"] {
        run(lists, 1, &["GPULSM_IN_PLACE"]);
    }
}

/// Every allocation, every block and every mapping fails in turn.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn mappings_may_fail_during_merges_in_place() {
    let test = "faults::child_whose_mappings_fail_during_merges_in_place";
    run(test, 1, &["GPULSM_IN_PLACE"]);
}

const BATCH: u64 = 1 << 18;

fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Inserts the numbers of a batch as keys, with values that tell the round.
fn insert(d: &mut Dictionary<u64, u64>, batch: u64, round: u64) -> Result<(), Error> {
    let numbers = batch * BATCH..(batch + 1) * BATCH;
    let keys: Vec<u64> = numbers.clone().map(key).collect();
    let values: Vec<u64> = numbers.map(|number| number ^ round << 40).collect();
    d.insert(&keys, &values)?;
    d.flush()
}

/// Checks a sample of what `batches` batches inserted, of which every other one was replaced in round 1.
fn check(d: &Dictionary<u64, u64>, batches: u64, replaced: bool) {
    let numbers: Vec<u64> = (0..batches * BATCH).step_by(97).collect();
    let keys: Vec<u64> = numbers.iter().map(|&number| key(number)).collect();
    let found = d.lookup(&keys).unwrap();
    for (&number, value) in numbers.iter().zip(&found) {
        let round = u64::from(replaced && number / BATCH % 2 == 1);
        assert_eq!(*value, Some(number ^ round << 40), "number {number}");
    }
    assert_eq!(d.len(), Ok(batches * BATCH));
    assert_eq!(d.lookup_one(key(batches * BATCH + 5)), Ok(None));
}

#[test]
#[ignore = "started by another test"]
fn child_fills_a_limit() {
    if !is_child() {
        return;
    }
    let limit = 1 << 30;
    let mut d = Dictionary::<u64, u64>::builder()
        .device(Device::cuda(0).unwrap())
        .batch_size(BATCH as usize)
        .memory_limit(limit)
        .build()
        .unwrap();
    let mut batches = 0;
    let error = loop {
        match insert(&mut d, batches, 0) {
            Ok(()) => batches += 1,
            Err(error) => break error,
        }
        if batches % 16 == 0 {
            check(&d, batches, false);
        }
    };
    let held = batches * BATCH * 16;
    println!("{:.1} % of the limit: {error}", held as f64 * 100.0 / limit as f64);
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert!(held * 100 >= limit * 85, "only {held} bytes of pairs");
    assert!(d.merges_in_place() > 3, "{} merges in place", d.merges_in_place());
    check(&d, batches, false);
    d.validate().unwrap();
    // A full dictionary can be cleaned up, and has room for deletes.
    for batch in 0..8 {
        let doomed: Vec<u64> = (batch * BATCH..(batch + 1) * BATCH).map(key).collect();
        // Blocks of 2 MiB are large beside the reserve for deletes here.
        for some in doomed.chunks(BATCH as usize / 16) {
            if d.delete(some).is_err() {
                d.cleanup().unwrap();
                d.delete(some).unwrap();
            }
        }
    }
    d.cleanup().unwrap();
    assert_eq!(d.len(), Ok((batches - 8) * BATCH));
    insert(&mut d, 0, 0).unwrap();
    assert_eq!(d.len(), Ok((batches - 7) * BATCH));
    assert!(d.stats().unwrap().bytes_peak <= limit);
}

#[test]
#[ignore = "started by another test"]
fn child_merges_in_place() {
    if !is_child() {
        return;
    }
    let device = Device::cuda(0).unwrap();
    let builder = || Dictionary::<u64, u64>::builder().device(device).batch_size(BATCH as usize);
    let mut d = builder().build().unwrap();
    let batches = 24;
    for batch in 0..batches {
        let before = d.merges_in_place();
        insert(&mut d, batch, 0).unwrap();
        d.validate().unwrap();
        assert!(batch % 2 == 0 || d.merges_in_place() > before, "batch {batch}");
    }
    check(&d, batches, false);
    // What somebody else holds is merged beside, and stays as it was.
    let snapshot = d.snapshot();
    for batch in (1..batches).step_by(2) {
        insert(&mut d, batch, 1).unwrap();
    }
    check(&snapshot.thaw(), batches, false);
    check(&d, batches, true);
    drop(snapshot);
    d.cleanup().unwrap();
    d.validate().unwrap();
    check(&d, batches, true);
    // Deletes leave marks, which are merged, too.
    let doomed: Vec<u64> = (0..batches * BATCH).step_by(3).map(key).collect();
    for part in doomed.chunks(BATCH as usize) {
        d.delete(part).unwrap();
        d.validate().unwrap();
    }
    assert_eq!(d.len(), Ok(batches * BATCH - doomed.len() as u64));
    let before = d.merges_in_place();
    d.cleanup().unwrap();
    assert!(d.merges_in_place() > before);
    d.validate().unwrap();
    assert_eq!(d.lookup(&[key(0), key(3), key(4)]).unwrap(), [None, None, Some(4)]);

    let mut sums = builder().combine(Combine::Add).build().unwrap();
    for _ in 0..8 {
        insert(&mut sums, 0, 0).unwrap();
        sums.validate().unwrap();
    }
    assert_eq!(sums.lookup(&[key(3), key(77)]).unwrap(), [Some(24), Some(8 * 77)]);

    // Queries on other streams, whose holders are gone, are done before their memory is reused.
    let mut d = builder().build().unwrap();
    for batch in 0..8 {
        insert(&mut d, batch, 0).unwrap();
        let snapshot = d.snapshot();
        let reader = thread::spawn(move || check(&snapshot.thaw(), batch + 1, false));
        reader.join().unwrap();
    }
    check(&d, 8, false);
}
