//! Checkpoints in the background give way to updates that need the memory of the runs that they hold.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use gpulsm::files::simulated::{Fault, Random, Simulated, Survivors};
use gpulsm::{Builder, Device, Dictionary, Durability, Error};

/// The files of a storage's runs, which are not written while this lives.
struct HeldRuns(Simulated);

impl HeldRuns {
    fn new(storage: &Simulated) -> Self {
        storage.hold_writes(Some(Path::new("/d/runs")));
        HeldRuns(storage.clone())
    }

    /// Waits until the checkpoint that was begun wants to write its first part, of several.
    fn wait(&self) {
        let begin = Instant::now();
        while self.0.held_writes() == 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no checkpoint is being written");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for HeldRuns {
    fn drop(&mut self) {
        self.0.hold_writes(None);
    }
}

fn files(storage: &Simulated, folder: &str) -> Vec<PathBuf> {
    storage.paths().into_iter().filter(|path| path.starts_with(folder)).collect()
}

fn runs(storage: &Simulated) -> usize {
    files(storage, "/d/runs").len()
}

const LIMIT: u64 = 64 << 20;
const BATCH: u64 = 1 << 16;

fn insert(d: &mut Dictionary<u64, u64>, batch: u64) -> Result<(), Error> {
    let numbers = batch * BATCH..(batch + 1) * BATCH;
    let keys: Vec<u64> = numbers.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    d.insert(&keys, &keys)?;
    d.flush()
}

/// The log asks for a checkpoint when the dictionary takes half of the memory. It would hold the runs until the end, since
/// its file is not written.
#[test]
#[cfg(target_os = "linux")]
fn updates_that_need_the_memory_of_a_checkpoint_do_not_wait_for_it() {
    let storage = Simulated::new();
    let log_limit = LIMIT * 15 / 16;
    let builder = Dictionary::<u64, u64>::builder().device(Device::cpu()).threads(2);
    let builder = builder.memory_limit(LIMIT).batch_size(1 << 14).log_limit(log_limit);
    let mut d = builder.durability(Durability::Os).open_simulated(&storage, "/d").unwrap();
    let held = HeldRuns::new(&storage);
    let mut batches = 0;
    // A checkpoint begins a new log. (The old one is synced in the background first.)
    while files(&storage, "/d/log").len() < 2 {
        assert!(batches * BATCH * 16 < LIMIT * 6 / 10, "no checkpoint was begun");
        insert(&mut d, batches).unwrap();
        batches += 1;
        thread::sleep(Duration::from_millis(5));
    }
    held.wait();
    let before = d.merges_in_place();
    while batches * BATCH * 16 < LIMIT * 17 / 20 {
        insert(&mut d, batches).unwrap();
        batches += 1;
    }
    assert!(d.merges_in_place() > before, "without the runs nothing can be merged in place");
    assert_eq!((storage.held_writes(), runs(&storage)), (1, 1), "its file is still not written");
    let memory = d.stats().unwrap().memory.unwrap();
    assert!(memory.shared == 0 && memory.holders.checkpoints == 0, "{memory:?}");
    drop(held);
    d.wait_for_checkpoint();
    assert_eq!(runs(&storage), 0, "nothing is left of it");
    // When the log is full, updates wait for a checkpoint: the log stays within its limit.
    for batch in 0..batches {
        insert(&mut d, batch).unwrap();
        let logs = files(&storage, "/d/log");
        let bytes: usize = logs.iter().filter_map(|log| Some(storage.contents(log)?.len())).sum();
        assert!(bytes as u64 <= log_limit + (2 << 20), "{bytes} bytes of logs");
    }
    d.wait_for_checkpoint();
    assert!(runs(&storage) > 0, "a checkpoint was written");
    d.validate().unwrap();
    assert_eq!(d.len(), Ok(batches * BATCH));
}

type Set = Dictionary<u32, ()>;

/// More keys than a checkpoint writes at a time.
const KEYS: u32 = (1 << 20) + 5000;

fn set() -> Builder<u32, ()> {
    Set::builder().device(Device::cpu()).threads(1).batch_size(64).log_limit(8 << 20)
}

/// Returns a storage with so long a log that the next update begins a checkpoint.
fn with_long_log() -> Simulated {
    let storage = Simulated::new();
    let mut d = set().log_limit(1 << 30).open_simulated(&storage, "/d").unwrap();
    let keys: Vec<u32> = (0..KEYS).collect();
    d.insert(&keys, &vec![(); keys.len()]).unwrap();
    d.close().unwrap();
    storage.moment().end_process()
}

/// Inserts a key beyond the first ones. There is no memory for it the first time.
fn insert_without_memory(d: &mut Set, number: u32) -> Result<(), Error> {
    d.len()?; // Nothing is buffered after a query.
    d.fail_allocation_after(0);
    let inserted = d.insert_one(KEYS + number, ());
    d.fail_allocation_after(u64::MAX);
    inserted
}

/// Returns which keys there are beyond the first ones, all of which there must be.
fn beyond(d: &Set) -> BTreeSet<u32> {
    assert_eq!(d.count_one(..KEYS), Ok(u64::from(KEYS)));
    d.iter_range(KEYS..).map(|(key, ())| key - KEYS).collect()
}

#[test]
fn a_checkpoint_that_gave_way_is_taken_again() {
    let storage = with_long_log();
    let mut d = set().open_simulated(&storage, "/d").unwrap();
    let held = HeldRuns::new(&storage);
    d.insert_one(KEYS, ()).unwrap();
    held.wait();
    insert_without_memory(&mut d, 1).unwrap();
    // It has nothing to give any more.
    let error = insert_without_memory(&mut d, 2).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    drop(held);
    d.wait_for_checkpoint();
    assert_eq!(runs(&storage), 0);
    // The next one is begun when the log has grown by a quarter.
    d.insert_one(KEYS + 3, ()).unwrap();
    d.wait_for_checkpoint();
    assert_eq!(runs(&storage), 0);
    let keys: Vec<u32> = (0..KEYS / 3).collect();
    d.insert(&keys, &vec![(); keys.len()]).unwrap();
    d.wait_for_checkpoint();
    assert_eq!(runs(&storage), 1);
    assert_eq!(beyond(&d), BTreeSet::from([0, 1, 3]));
}

#[test]
fn a_cleanup_does_not_wait_for_a_checkpoint_either() {
    let storage = with_long_log();
    let mut d = set().open_simulated(&storage, "/d").unwrap();
    let held = HeldRuns::new(&storage);
    d.insert_one(KEYS, ()).unwrap();
    held.wait();
    assert_eq!(d.len(), Ok(u64::from(KEYS) + 1));
    d.fail_allocation_after(0);
    d.cleanup().unwrap();
    drop(held);
    d.wait_for_checkpoint();
    assert_eq!((runs(&storage), d.stats().unwrap().levels.len()), (0, 1));
    assert_eq!(beyond(&d), BTreeSet::from([0]));
}

/// A checkpoint gives way in the middle of its file, and the next one is written. A crash may come at any time.
#[test]
fn acknowledged_updates_survive_crashes_around_a_checkpoint_that_gives_way() {
    let storage = with_long_log();
    let mut d = set().open_simulated(&storage, "/d").unwrap();
    storage.record();
    let held = HeldRuns::new(&storage);
    for number in 0..3 {
        storage.mark(u64::from(number) << 32 | u64::from(number + 1));
        if number == 1 {
            held.wait();
            insert_without_memory(&mut d, number).unwrap();
        } else {
            d.insert_one(KEYS + number, ()).unwrap();
        }
        storage.mark(u64::from(number + 1) << 32 | u64::from(number + 1));
    }
    drop(held);
    d.wait_for_checkpoint();
    d.checkpoint().unwrap();
    storage.mark(3 << 32 | 4);
    d.insert_one(KEYS + 3, ()).unwrap();
    storage.mark(4 << 32 | 4);
    drop(d);
    let mut random = Random(3);
    let moments = storage.take_recorded();
    assert!(moments.len() > 20, "{} moments", moments.len());
    for moment in &moments {
        let (durable, begun) = ((moment.mark >> 32) as u32, moment.mark as u32);
        for way in Survivors::EACH {
            let crashed = moment.crash(way, random.next());
            let d = set().open_simulated(&crashed, "/d").unwrap();
            let survived = beyond(&d);
            let is_prefix = survived.iter().copied().eq(0..survived.len() as u32);
            assert!(is_prefix, "{way:?}: {survived:?}");
            assert!((durable..=begun).contains(&(survived.len() as u32)), "{way:?}: {survived:?}");
            drop(d);
            assert!(runs(&crashed) <= 1, "what the checkpoint left is removed");
        }
    }
}

/// A storage call fails after a checkpoint gave way, or while it does. Returns whether there are as many calls.
fn fail_around_giving_way(before: &Simulated, call: u64, fault: Fault) -> bool {
    let storage = before.moment().end_process();
    let mut d = set().open_simulated(&storage, "/d").unwrap();
    let held = HeldRuns::new(&storage);
    d.insert_one(KEYS, ()).unwrap();
    held.wait();
    let calls = storage.calls();
    storage.fail(call, fault);
    let mut acknowledged = BTreeSet::from([0]);
    let mut uncertain = BTreeSet::new();
    let mut note = |number: u32, inserted: Result<(), Error>| match inserted {
        Ok(()) => drop(acknowledged.insert(number)),
        Err(Error::OutOfMemory { .. }) => panic!("the checkpoint did not give way"),
        Err(_) => drop(uncertain.insert(number)),
    };
    let first = insert_without_memory(&mut d, 1);
    drop(held);
    note(1, first);
    note(2, d.insert_one(KEYS + 2, ()));
    d.wait_for_checkpoint();
    note(3, d.insert_one(KEYS + 3, ()));
    drop(d);
    let was_reached = storage.calls() > calls + call;
    storage.stop_failing();
    let ways = Survivors::EACH.map(|way| storage.moment().crash(way, call));
    for crashed in ways.into_iter().chain([storage.moment().end_process()]) {
        let d = set().open_simulated(&crashed, "/d").unwrap();
        let survived = beyond(&d);
        let unexpected: Vec<_> = survived.difference(&acknowledged).collect();
        assert!(acknowledged.is_subset(&survived), "call {call}, {fault:?}: {survived:?}");
        assert!(unexpected.iter().all(|number| uncertain.contains(number)), "{survived:?}");
        drop(d);
        assert!(runs(&crashed) <= 1, "what the checkpoint left is removed");
    }
    was_reached
}

#[test]
fn every_storage_call_may_fail_around_a_checkpoint_that_gives_way() {
    let before = with_long_log();
    for fault in [Fault::Error(ErrorKind::Other), Fault::AllFrom(ErrorKind::StorageFull)] {
        let calls = (0..).take_while(|&call| fail_around_giving_way(&before, call, fault)).count();
        assert!(calls > 5, "only {calls} calls");
    }
}
