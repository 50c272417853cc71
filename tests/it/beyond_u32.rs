//! More entries than 32 bits can count.

use gpulsm::{Device, Dictionary};

const BATCHES: u64 = 34;
const BATCH: u64 = 1 << 27;

/// How many keys there are, in all and below those that [`check`] looks at: more than 2^32.
const LEN: u64 = BATCHES * BATCH;
const BORDER: u64 = 1 << 32;

/// Checks every query around the border and at both ends, given that the keys are the multiples of 3 below 3 [`LEN`] but
/// for those of `deleted` numbers from the border on.
fn check(d: &Dictionary<u64, ()>, deleted: u64) {
    let gap = BORDER..BORDER + deleted;
    let len = LEN - deleted;
    let numbers: Vec<u64> = [0, BORDER, LEN - 2000]
        .into_iter()
        .flat_map(|at: u64| at.saturating_sub(1000)..at + 1000)
        .chain((0..LEN).step_by(7_919_173))
        .collect();
    let keys: Vec<u64> = numbers.iter().map(|number| 3 * number).collect();
    let below = |number: u64| number - (number.min(gap.end).saturating_sub(BORDER));

    assert_eq!(d.len(), Ok(len));
    assert_eq!(d.count_one(..), Ok(len));
    let found = d.contains(&keys).unwrap();
    assert!(numbers.iter().zip(found).all(|(number, found)| found != gap.contains(number)));
    assert!(!d.contains_one(3 * BORDER + 1).unwrap());
    let ranks: Vec<u64> = numbers.iter().map(|&number| below(number)).collect();
    assert_eq!(d.rank(&keys).unwrap(), ranks);
    let positions: Vec<u64> = (BORDER - 500..BORDER + 500).chain([0, len - 1, len]).collect();
    let selected = d.select(&positions).unwrap();
    for (&position, pair) in positions.iter().zip(selected) {
        let number = if position < BORDER { position } else { position + deleted };
        assert_eq!(pair, (position < len).then_some((3 * number, ())), "position {position}");
    }
    assert_eq!(d.successor_one(3 * BORDER).unwrap(), Some((3 * gap.end, ())));
    assert_eq!(d.predecessor_one(3 * gap.end - 1).unwrap(), Some((3 * (BORDER - 1), ())));
    let around = 3 * (BORDER - 10)..3 * (gap.end + 10);
    let listed = d.range_one(around.clone()).unwrap();
    let expected = (BORDER - 10..BORDER).chain(gap.end..gap.end + 10);
    assert!(listed.into_iter().eq(expected.map(|number| (3 * number, ()))));
    assert_eq!(d.count_one(around), Ok(20));
}

fn holds_more_entries_than_32_bits_can_count(device: Device) {
    let builder = Dictionary::<u64, ()>::builder().device(device);
    let mut d = builder.batch_size(BATCH as usize).build().unwrap();
    let values = vec![(); BATCH as usize];
    // Every batch has keys everywhere, so that every merge takes from all its runs.
    let mut keys: Vec<u64> = (0..BATCH).map(|at| 3 * BATCHES * at).collect();
    for _ in 0..BATCHES {
        d.insert(&keys, &values).unwrap();
        keys.iter_mut().for_each(|key| *key += 3);
    }
    drop(keys);
    check(&d, 0);
    let deleted = 1_000_000;
    d.delete_range_one(3 * BORDER..3 * (BORDER + deleted)).unwrap();
    check(&d, deleted);
    d.cleanup().unwrap();
    let stats = d.stats().unwrap();
    assert_eq!((stats.levels.len(), stats.levels[0].entries), (1, LEN - deleted));
    check(&d, deleted);
}

const NEEDED: u64 = 90 << 30;

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs 90 GiB of memory"]
fn on_the_cpu() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:")).unwrap();
    let available = line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    if available < NEEDED {
        return println!("skipped: {available} bytes of memory are available");
    }
    holds_more_entries_than_32_bits_can_count(Device::cpu());
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU with 90 GiB of memory"]
fn on_a_gpu() {
    let d = Dictionary::<u64, ()>::builder().device(Device::cuda(0).unwrap()).build().unwrap();
    let free = d.stats().unwrap().memory.map_or(0, |memory| memory.free);
    if free < NEEDED {
        return println!("skipped: {free} bytes of the GPU's memory are free");
    }
    drop(d);
    holds_more_entries_than_32_bits_can_count(Device::cuda(0).unwrap());
}
