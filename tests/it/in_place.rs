//! Merges in place: at a memory limit, runs that nobody else holds are merged in the memory that they have.

use gpulsm::{CleanupPolicy, Device, Dictionary};

/// The random lists of operations, on runs that all are merged in place whenever nobody else holds them.
#[test]
fn random_lists_are_merged_in_place() {
    for list in ["model::u64_u64::cpu", "model::u32_set::cpu", "model::i32_wide::cpu", "combine::"]
    {
        run_in_place(&[list, "--skip", "::cuda"]);
    }
}

#[test]
fn allocations_may_fail_during_merges_in_place() {
    run_in_place(&["child_whose_allocations_fail", "--ignored"]);
}

/// Runs tests in a process in which all runs that nobody else holds are merged in place.
fn run_in_place(arguments: &[&str]) {
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    let output = process.args(arguments).env("GPULSM_IN_PLACE", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains(" 0 passed"), "{text}");
}

fn spread(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Inserts batches of new keys, with lookups in between, until one is refused; returns how many pairs there are.
fn fill(d: &mut Dictionary<u64, u64>, from: u64, batch: u64) -> u64 {
    for start in (from..).step_by(batch as usize) {
        let keys: Vec<u64> = (start..start + batch).map(spread).collect();
        if d.insert(&keys, &keys).is_err() {
            return start;
        }
        let some: Vec<u64> = (0..100).map(|at| spread(at * 7919 % (start + batch))).collect();
        assert!(d.contains(&some).unwrap().iter().all(|&found| found));
    }
    unreachable!("there is a limit")
}

#[test]
fn nine_tenths_of_the_limit_hold_pairs() {
    let (limit, batch) = (64 << 20, 1 << 14);
    let builder = Dictionary::<u64, u64>::builder().device(Device::cpu()).threads(2);
    let mut d = builder.memory_limit(limit).batch_size(batch as usize).build().unwrap();
    let len = fill(&mut d, 0, batch);
    assert!(len * 16 >= limit * 9 / 10, "{} % of the limit", len * 1600 / limit);
    d.validate().unwrap();
    let stats = d.stats().unwrap();
    assert!(stats.bytes_peak <= limit);
    let levels = (len / batch).ilog2() as usize + 1;
    assert!(stats.levels.len() <= levels, "{} runs", stats.levels.len());
    // Half of it is deleted, and it can be filled again.
    for start in (0..len / 2).step_by(batch as usize) {
        d.delete(&(start..start + batch).map(spread).collect::<Vec<u64>>()).unwrap();
    }
    d.cleanup().unwrap();
    d.validate().unwrap();
    let held = d.len().unwrap();
    assert_eq!(d.stats().unwrap().entries, held);
    let refilled = (0..)
        .map(|part| {
            (len + part * batch..len + (part + 1) * batch).map(spread).collect::<Vec<u64>>()
        })
        .take_while(|keys| d.insert(keys, keys).is_ok())
        .count() as u64;
    assert!((held + refilled * batch) * 16 >= limit * 9 / 10, "{refilled} batches");
    d.validate().unwrap();
}

#[test]
fn a_snapshot_is_in_the_way_until_it_is_dropped() {
    let (limit, batch) = (64 << 20, 1 << 14);
    let builder = Dictionary::<u64, u64>::builder().device(Device::cpu()).threads(2);
    let mut d = builder.memory_limit(limit).batch_size(batch as usize).build().unwrap();
    let mut len = 0;
    while len * 16 < limit * 3 / 10 {
        let keys: Vec<u64> = (len..len + batch).map(spread).collect();
        d.insert(&keys, &keys).unwrap();
        d.flush().unwrap();
        len += batch;
    }
    let snapshot = d.snapshot();
    let with_snapshot = fill(&mut d, len, batch);
    assert!(with_snapshot > len);
    assert!(with_snapshot * 16 < limit * 3 / 4, "{with_snapshot} pairs");
    let before = d.merges_in_place();
    let keys: Vec<u64> = (0..len).map(spread).collect();
    assert!(snapshot.contains(&keys).unwrap().into_iter().all(|found| found));
    assert_eq!(snapshot.len().unwrap(), len);
    drop(snapshot);
    let filled = fill(&mut d, with_snapshot, batch);
    assert!(d.merges_in_place() > before);
    assert!(filled * 16 >= limit * 17 / 20, "{} % of the limit", filled * 1600 / limit);
    d.validate().unwrap();
}

#[test]
fn filters_do_not_make_an_update_fail() {
    let (limit, batch) = (64 << 20, 1 << 12);
    let builder = Dictionary::<u64, u64>::builder().device(Device::cpu()).threads(2);
    let mut d = builder.memory_limit(limit).batch_size(batch as usize).build().unwrap();
    let keys: Vec<u64> = (0..1_900_000).map(spread).collect();
    for some in keys.chunks(50_000) {
        d.insert(some, some).unwrap();
        d.flush().unwrap();
    }
    let misses: Vec<u64> = keys.iter().map(|key| key ^ 1).collect();
    for some in misses.chunks(1 << 16) {
        d.contains(some).unwrap();
    }
    let filters = d.stats().unwrap().bytes.filters;
    assert!(filters > limit / 80, "{filters} bytes of filters");
    // Another dictionary takes what is left of the limit.
    let mut other = d.clone();
    other.clear().unwrap();
    fill(&mut other, 0, batch);
    let more: Vec<u64> = (2_000_000..2_025_000).map(spread).collect();
    d.insert(&more, &more).unwrap();
    d.flush().unwrap();
    assert_eq!(d.stats().unwrap().bytes.filters, 0);
    assert_eq!(d.len(), Ok(1_925_000));
    d.validate().unwrap();
    other.validate().unwrap();
}

/// Whatever is deleted, in however small parts, a cleanup is possible, and then more deletes are.
#[test]
fn a_full_dictionary_can_be_emptied_in_small_parts() {
    for policy in [CleanupPolicy::Automatic, CleanupPolicy::Manual] {
        let batch = 1 << 10;
        let builder = Dictionary::<u64, u64>::builder().device(Device::cpu()).threads(2);
        let builder = builder.memory_limit(64 << 20).batch_size(batch as usize);
        let mut d = builder.cleanup_policy(policy).build().unwrap();
        let len = fill(&mut d, 0, 5 * batch);
        let mut cleanups = 0;
        for start in (0..len / 2).step_by(250) {
            let doomed: Vec<u64> = (start..start + 250).map(spread).collect();
            if d.delete(&doomed).is_err() {
                cleanups += 1;
                d.cleanup().unwrap();
                d.delete(&doomed).unwrap();
            }
        }
        d.cleanup().unwrap();
        let left = len - (len / 2).next_multiple_of(250);
        assert_eq!(d.len(), Ok(left), "{cleanups} cleanups");
        assert!(d.to_vecs().unwrap().0.len() as u64 == left);
        d.validate().unwrap();
    }
}
