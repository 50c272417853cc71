//! Whoever holds runs keeps them from being merged in place: statistics count them, and errors name them.

use std::ops::Range;

use gpulsm::{Device, Dictionary, Error, Holders};

const LIMIT: u64 = 16 << 20;
const BATCH: u64 = 1 << 13;

fn dictionary() -> Dictionary<u64, u64> {
    let builder = Dictionary::builder().device(Device::cpu()).threads(2);
    builder.memory_limit(LIMIT).batch_size(BATCH as usize).build().unwrap()
}

fn keys(numbers: Range<u64>) -> Vec<u64> {
    numbers.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

/// Inserts batches of new keys, up to a number of them or to an error; returns how many keys there are, and the error.
fn fill(d: &mut Dictionary<u64, u64>, mut len: u64, most: u64) -> (u64, Option<Error>) {
    while len < most {
        let keys = keys(len..len + BATCH);
        if let Err(error) = d.insert(&keys, &keys) {
            return (len, Some(error));
        }
        d.flush().unwrap();
        len += BATCH;
    }
    (len, None)
}

/// Fills a dictionary whose runs something holds, until a batch is refused: the error names it. Afterwards there is room.
fn check_named<T>(hold: impl Fn(&Dictionary<u64, u64>) -> T, shared: &str, advice: &str) {
    let mut d = dictionary();
    let (len, none) = fill(&mut d, 0, LIMIT * 3 / 10 / 16);
    assert_eq!(none, None);
    let holder = hold(&d);
    let memory = d.stats().unwrap().memory.unwrap();
    assert_eq!(memory.holders.to_string(), shared);
    assert_eq!(memory.shared, memory.runs + memory.filters, "all runs are shared");
    let (held, error) = fill(&mut d, len, u64::MAX);
    let text = error.unwrap().to_string();
    let Some(found) = text.find(&format!(" bytes of runs and filters are shared with {shared}"))
    else {
        panic!("{shared} is not in: {text}")
    };
    let bytes: u64 = text[..found].rsplit(' ').next().unwrap().parse().unwrap();
    assert!(bytes >= len * 8, "{text}");
    assert!(text.ends_with(&format!(": {advice}, so that runs can be merged in place")), "{text}");
    drop(holder);
    let memory = d.stats().unwrap().memory.unwrap();
    assert!(memory.holders.is_empty() && memory.shared == 0, "{memory:?}");
    let (full, error) = fill(&mut d, held, u64::MAX);
    assert!(full > held, "no more than {held} keys");
    let text = error.unwrap().to_string();
    assert!(!text.contains("shared with"), "{text}");
    d.validate().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn snapshots_that_hold_runs_are_named() {
    check_named(|d| d.snapshot(), "1 snapshot", "drop the snapshot");
    let three = |d: &Dictionary<u64, u64>| {
        let first = d.snapshot();
        [first.clone(), d.snapshot(), first]
    };
    check_named(three, "3 snapshots", "drop the snapshots");
}

#[test]
#[cfg(target_os = "linux")]
fn clones_and_thawed_snapshots_that_hold_runs_are_named() {
    check_named(|d| d.clone(), "1 clone", "drop the clone");
    let both = |d: &Dictionary<u64, u64>| (d.snapshot().thaw(), d.snapshot());
    check_named(both, "1 snapshot and 1 clone", "drop the snapshot and clone");
}

#[test]
#[cfg(target_os = "linux")]
fn iterators_that_hold_runs_are_named() {
    check_named(|d| d.iter(), "1 iterator", "drop the iterator");
    let iterators =
        |d: &Dictionary<u64, u64>| (d.try_iter_range(7..).unwrap(), d.try_iter().unwrap());
    check_named(iterators, "2 iterators", "drop the iterators");
}

#[test]
fn a_snapshot_counts_those_besides_itself() {
    let mut d = dictionary();
    d.insert(&[1, 2], &[1, 2]).unwrap();
    let first = d.snapshot();
    let second = first.clone();
    let holders =
        |snapshot: &gpulsm::Snapshot<u64, u64>| snapshot.stats().unwrap().memory.unwrap().holders;
    assert_eq!(holders(&first).to_string(), "1 snapshot");
    drop(second);
    assert!(holders(&first).is_empty());
    assert_eq!(Holders::default().to_string(), "");
}
