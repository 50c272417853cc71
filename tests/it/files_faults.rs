//! Dictionaries in files whose storage fails, that may not be read or written, and that run out of memory.

use std::io::ErrorKind;

use gpulsm::files::simulated::{Fault, Random, Simulated, Survivors};
use gpulsm::{Batch, Builder, Combine, Device, Dictionary, Durability, Error, WriteBatch};

use crate::files_crashes::{Change, Disk, Pairs, builder, pairs};

/// What a dictionary must contain after errors.
#[derive(Default)]
struct Expected {
    acknowledged: Pairs,
    /// The same and an update that returned an error…
    failed: Option<Pairs>,
    /// …which may be there only if updates are refused since then.
    is_refusing: bool,
    has_failed_checkpoint: bool,
}

impl Expected {
    fn update(&mut self, d: &mut Disk, change: &Change) {
        let before = pairs(d);
        let after = change.model(&self.acknowledged);
        match change.apply(d) {
            Ok(()) => {
                assert!(!self.is_refusing, "an update was accepted after others were refused");
                assert_eq!(before, self.acknowledged, "updates go on after a failed sync");
                assert_eq!(pairs(d), after);
                (self.acknowledged, self.failed) = (after, None);
            }
            Err(Error::UpdatesRefused { .. }) => {
                assert!(
                    self.failed.is_some() || self.has_failed_checkpoint,
                    "refused for no reason"
                );
                assert_eq!(pairs(d), before, "queries go on");
                self.is_refusing = true;
            }
            Err(error) => {
                assert!(matches!(error, Error::Io { .. }), "{error}");
                assert!(!self.is_refusing);
                let now = pairs(d);
                assert!(now == after || now == before, "applied in part");
                self.failed = Some(after);
            }
        }
    }

    fn checkpoint(&mut self, d: &mut Disk) {
        let before = pairs(d);
        self.has_failed_checkpoint |= d.checkpoint().is_err();
        assert_eq!(pairs(d), before);
    }

    /// Compares with what a storage has.
    fn check(&self, storage: &Simulated, what: &str) {
        let survived = pairs(&builder(100_000).open_simulated(storage, "/d").unwrap());
        let may_be_there = self.failed.as_ref().filter(|_| self.is_refusing);
        assert!(
            survived == self.acknowledged || Some(&survived) == may_be_there,
            "{what}: {survived:?} is not {:?}",
            self.acknowledged
        );
    }
}

/// Makes updates of which one storage call fails; returns whether there are as many calls.
fn run_with_fault(call: u64, fault: Fault) -> bool {
    let storage = Simulated::new();
    storage.fail(call, fault);
    let mut random = Random(call);
    let mut expected = Expected::default();
    if let Ok(mut d) = builder(100_000).open_simulated(&storage, "/d") {
        for step in 0..10 {
            match step % 4 {
                3 => expected.checkpoint(&mut d),
                // An empty update asks nothing of the files.
                _ => match Change::random(&mut random) {
                    change if change.is_empty() => {}
                    change => expected.update(&mut d, &change),
                },
            }
        }
        // Shows whether an update that failed last is one after which others are refused.
        let probe = Change::Batch { inserts: vec![1], value: 1, deletes: vec![] };
        expected.update(&mut d, &probe);
        d.close().ok();
    }
    let was_reached = storage.calls() > call;
    storage.stop_failing();
    let what = format!("call {call}, {fault:?}");
    for way in Survivors::EACH {
        expected.check(&storage.moment().crash(way, random.next()), &what);
    }
    expected.check(&storage.moment().end_process(), &what);
    was_reached
}

#[test]
fn every_storage_call_may_fail() {
    for fault in [
        Fault::Error(ErrorKind::Other),
        Fault::ShortWrite(ErrorKind::StorageFull),
        Fault::AllFrom(ErrorKind::StorageFull),
    ] {
        let calls = (0..).take_while(|&call| run_with_fault(call, fault)).count();
        assert!(calls > 50, "only {calls} calls");
    }
}

/// Closing fails at every storage call in turn, as on a full disk. What memory has is neither lost nor locked away.
#[test]
fn a_dictionary_that_cannot_be_closed_stays_open() {
    for durability in [Durability::Batch, Durability::Os, Durability::Checkpoint] {
        let mut failures = 0;
        for call in 0.. {
            let storage = Simulated::new();
            let open = || builder(100_000).durability(durability).open_simulated(&storage, "/d");
            let mut d = open().unwrap();
            d.insert(&[1, 2], &[10, 20]).unwrap();
            storage.fail(call, Fault::AllFrom(ErrorKind::StorageFull));
            let closed = d.close();
            storage.stop_failing();
            if closed.is_ok() {
                break;
            }
            failures += 1;
            assert_eq!(d.len(), Ok(2));
            assert!(matches!(open(), Err(Error::Locked { .. })));
            // After a sync that failed nobody knows what the log has, but everything else can be tried again.
            match d.insert(&[3], &[30]) {
                Ok(()) => d.close().unwrap(),
                Err(error) => {
                    assert!(matches!(error, Error::UpdatesRefused { .. }), "{error}");
                    assert_eq!((durability, failures), (Durability::Os, 1), "{error}");
                }
            }
            let expected = pairs(&d);
            drop(d);
            assert_eq!(pairs(&open().unwrap()), expected);
        }
        assert!(failures > 3, "{failures} calls of closing failed under {durability:?}");
    }
}

#[test]
fn whatever_may_not_be_read_or_written_is_named_and_left_as_it_was() {
    let storage = Simulated::new();
    let mut d = builder(100_000).open_simulated(&storage, "/d").unwrap();
    d.insert(&[1, 2], &[10, 20]).unwrap();
    d.checkpoint().unwrap();
    d.insert(&[3], &[30]).unwrap();
    let expected = pairs(&d);
    drop(d);
    let mut refused = 0;
    for call in 0.. {
        let copy = storage.moment().end_process();
        let before = copy.paths();
        copy.fail(call, Fault::AllFrom(ErrorKind::PermissionDenied));
        let opened = builder(100_000).open_simulated(&copy, "/d");
        let was_reached = copy.calls() > call;
        copy.stop_failing();
        match opened {
            // Files that are not needed any more may stay.
            Ok(d) => assert_eq!(pairs(&d), expected),
            Err(error) => {
                let is_named = error.to_string().contains("/d");
                assert!(matches!(error, Error::Io { kind: ErrorKind::PermissionDenied, .. }));
                assert!(is_named, "{error}");
                assert!(before.iter().all(|path| copy.paths().contains(path)), "{error}");
                let d = builder(100_000).open_simulated(&copy, "/d").unwrap();
                assert_eq!(pairs(&d), expected, "after {error}");
                refused += 1;
            }
        }
        if !was_reached {
            break;
        }
    }
    assert!(refused > 10, "only {refused} calls were refused");
}

#[test]
fn a_folder_that_may_not_be_created_is_named() {
    for call in 0..4 {
        let storage = Simulated::new();
        storage.fail(call, Fault::AllFrom(ErrorKind::PermissionDenied));
        let error = builder(100_000).open_simulated(&storage, "/d").err().unwrap();
        assert!(matches!(error, Error::Io { kind: ErrorKind::PermissionDenied, .. }), "{error}");
        storage.stop_failing();
        assert!(pairs(&builder(100_000).open_simulated(&storage, "/d").unwrap()).is_empty());
    }
}

type Sums = Dictionary<u64, i64>;

/// The settings of a dictionary that combines, so that values can be set as well.
fn sums(log_limit: u64) -> Builder<u64, i64> {
    let builder = Sums::builder().device(Device::cpu()).threads(1).combine(Combine::Add);
    builder.batch_size(8).log_limit(log_limit)
}

/// Returns a dictionary with a run and a log.
fn open_sums(storage: &Simulated, log_limit: u64) -> Sums {
    let mut d = sums(log_limit).open_simulated(storage, "/d").unwrap();
    for round in 0..6 {
        let keys: Vec<u64> = (0..100).map(|i| i * 7 % 101 + round).collect();
        d.insert(&keys, &vec![round as i64; 100]).unwrap();
        if round == 3 {
            d.checkpoint().unwrap();
        }
    }
    d
}

/// A call that changes a dictionary or its files.
type Call = fn(&mut Sums) -> Result<(), Error>;

const KEYS: [u64; 150] = {
    let mut keys = [0; 150];
    let mut index = 0;
    while index < 150 {
        keys[index] = (index as u64 * 37) % 211;
        index += 1;
    }
    keys
};

const CALLS: [(&str, Call); 8] = [
    ("insert", |d| d.insert(&KEYS, &[1; 150])),
    ("delete", |d| d.delete(&KEYS)),
    ("delete_range", |d| d.delete_range((&KEYS[..20], &KEYS[20..40]))),
    ("set", |d| d.set(&KEYS, &[9; 150])),
    ("write", |d| {
        let mut batch = WriteBatch::new();
        for key in KEYS {
            batch.set(key, 4);
            batch.insert(key, 5);
            batch.delete(key / 2);
        }
        d.write(&batch)
    }),
    ("update", |d| d.update(Batch::new().insert(&KEYS, &[3; 150]).delete(&KEYS[..50]))),
    ("checkpoint", Sums::checkpoint),
    ("clear", Sums::clear),
];

/// Makes a call whose allocations fail from the `n`-th on; returns whether it failed.
fn fail_allocation(name: &str, call: Call, log_limit: u64, n: u64) -> bool {
    let storage = Simulated::new();
    let mut d = open_sums(&storage, log_limit);
    let before = d.to_vecs().unwrap();
    let mut changed = d.clone();
    call(&mut changed).unwrap();
    let after = changed.to_vecs().unwrap();
    drop(changed);
    d.fail_allocation_after(n);
    let result = call(&mut d);
    d.fail_allocation_after(u64::MAX);
    assert!(matches!(result, Ok(()) | Err(Error::OutOfMemory { .. })), "{name}: {result:?}");
    let expected = if result.is_ok() { &after } else { &before };
    d.snapshot().validate().unwrap();
    assert_eq!(d.to_vecs().as_ref(), Ok(expected), "{name}, allocation {n}");
    let reopened = |way| {
        let crashed = storage.moment().crash(way, n);
        sums(log_limit).open_simulated(&crashed, "/d").unwrap().to_vecs().unwrap()
    };
    for way in [Survivors::All, Survivors::None, Survivors::Some] {
        assert_eq!(&reopened(way), expected, "{name}, allocation {n}, {way:?}");
    }
    if result.is_err() {
        call(&mut d).unwrap();
        assert_eq!(d.to_vecs().as_ref(), Ok(&after), "{name} after allocation {n} failed");
        assert_eq!(reopened(Survivors::None), after, "{name} after allocation {n} failed");
    }
    result.is_err()
}

#[test]
fn a_change_without_memory_is_neither_made_nor_in_the_files() {
    // With the second limit, every change is too large for the log, and becomes part of a checkpoint.
    for log_limit in [1 << 20, 100] {
        for (name, call) in CALLS {
            let fails = |n| fail_allocation(name, call, log_limit, n);
            let failures = (0..40).filter(|&n| fails(n)).count();
            // Deletes have a reserve, and to clear a dictionary takes no memory.
            let may_never_fail = ["delete", "delete_range", "clear"].contains(&name);
            assert!(failures > 0 || may_never_fail, "{name}, with a limit of {log_limit} bytes");
        }
    }
}

#[test]
fn what_is_opened_without_memory_is_left_as_it_was() {
    let storage = Simulated::new();
    let d = open_sums(&storage, 1 << 20);
    let expected = d.to_vecs().unwrap();
    drop(d);
    let before = storage.moment().end_process();
    let contents = |storage: &Simulated| -> Vec<_> {
        storage.paths().into_iter().map(|path| (storage.contents(&path), path)).collect()
    };
    let mut failures = 0;
    for limit in (0..14).map(|power| 64 << power) {
        let copy = before.moment().end_process();
        match sums(1 << 20).memory_limit(limit).open_simulated(&copy, "/d") {
            Ok(d) => assert_eq!(d.to_vecs().unwrap(), expected),
            Err(error) => {
                assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
                assert_eq!(contents(&copy), contents(&before), "with a limit of {limit}");
                failures += 1;
            }
        }
    }
    assert!((1..14).contains(&failures), "{failures} failures");
}

#[test]
fn what_is_loaded_without_memory_is_an_error() {
    let scratch = crate::files::Scratch::new("memory");
    let d = open_sums(&Simulated::new(), 1 << 20);
    d.save(scratch.path("file")).unwrap();
    let load = |limit| sums(1).memory_limit(limit).load(scratch.path("file"));
    let outcomes: Vec<_> = (0..14).map(|power| load(64 << power)).collect();
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert!((1..14).contains(&failed), "{failed} failures");
    for outcome in outcomes {
        match outcome {
            Ok(loaded) => assert_eq!(loaded.to_vecs(), d.to_vecs()),
            Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{error}"),
        }
    }
}
