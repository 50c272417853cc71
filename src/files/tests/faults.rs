//! Every call fails in turn: an update is refused or applied, never half.

use std::io::ErrorKind;

use crate::error::Error;
use crate::files::folder::Durability;
use crate::files::simulated::{Fault, Random, Simulated, Survivors};
use crate::files::tests::database::{Change, Database, Pairs};

const FAULTS: [Fault; 4] = [
    Fault::Error(ErrorKind::Other),
    Fault::Error(ErrorKind::StorageFull),
    Fault::ShortWrite(ErrorKind::StorageFull),
    Fault::AllFrom(ErrorKind::Other),
];

/// What a dictionary must contain after errors.
struct Expected {
    /// Whether updates were refused once: they are from then on.
    is_refusing: bool,
    acknowledged: Pairs,
    /// The same and an update that failed, of which nobody knows whether it is durable.
    uncertain: Option<Pairs>,
}

impl Expected {
    fn check(&self, storage: &Simulated) {
        let database = Database::open(storage, Durability::Batch).unwrap();
        let pairs = &database.pairs;
        assert!(
            *pairs == self.acknowledged || Some(pairs) == self.uncertain.as_ref(),
            "{pairs:?} is neither {:?} nor {:?}",
            self.acknowledged,
            self.uncertain
        );
        // What was there once stays, even if it was only in memory since a sync failed.
        let crashed = storage.moment().crash(Survivors::None, 0);
        assert_eq!(Database::open(&crashed, Durability::Batch).unwrap().pairs, *pairs);
    }

    /// Appends an update and takes it back.
    fn refuse(&mut self, database: &mut Database, change: &Change) {
        let was_refusing = database.folder.check().is_err();
        let result = database.refuse(change);
        assert!(!(was_refusing && result.is_ok()), "an update was accepted after a failure");
        if !was_refusing && database.folder.check().is_err() {
            let mut pairs = self.acknowledged.clone();
            change.apply(&mut pairs);
            self.uncertain = Some(pairs);
        }
    }

    /// Applies an update, which may fail.
    fn update(&mut self, database: &mut Database, change: &Change, is_logged: bool) {
        let was_refusing = self.is_refusing || database.folder.check().is_err();
        self.is_refusing = was_refusing;
        let mut pairs = self.acknowledged.clone();
        change.apply(&mut pairs);
        let result = match is_logged {
            true => database.update(change),
            false => database.update_unlogged(change),
        };
        match result {
            Ok(()) => {
                assert!(!was_refusing, "an update was accepted after a failure");
                self.acknowledged = pairs;
            }
            Err(Error::UpdatesRefused { .. }) => assert!(was_refusing),
            Err(error) => {
                assert!(!was_refusing);
                let is_sync = matches!(error, Error::Io { call: "sync", .. });
                if is_logged && is_sync {
                    assert!(database.folder.check().is_err(), "updates go on after a failed sync");
                }
                self.uncertain = database.folder.check().is_err().then_some(pairs);
            }
        }
        assert_eq!(database.pairs, self.acknowledged, "after an error nothing has changed");
    }
}

/// Runs a history in which one call fails; returns whether it has as many calls.
fn run(seed: u64, call: u64, fault: Fault) -> bool {
    let storage = Simulated::new();
    storage.fail(call, fault);
    let mut random = Random(seed);
    let mut expected = Expected { is_refusing: false, acknowledged: Pairs::new(), uncertain: None };
    if let Ok(mut database) = Database::open(&storage, Durability::Batch) {
        for _ in 0..12 {
            let change = Change::random(&mut random);
            match random.below(8) {
                0 | 1 => {
                    // A checkpoint that fails changes nothing.
                    let _ = database.checkpoint(random.below(2) == 0);
                }
                2 => expected.update(&mut database, &change, false),
                3 => expected.refuse(&mut database, &change),
                _ => expected.update(&mut database, &change, true),
            }
            assert_eq!(database.pairs, expected.acknowledged);
        }
        let _ = database.folder.close();
    }
    let was_reached = storage.calls() > call;
    storage.stop_failing();
    expected.check(&storage.moment().end_process());
    for way in Survivors::EACH {
        expected.check(&storage.moment().crash(way, random.next()));
    }
    was_reached
}

#[test]
fn updates_are_refused_or_applied_whichever_call_fails() {
    let mut failures = 0;
    for seed in 0..12 {
        for fault in FAULTS {
            failures += (0..).take_while(|&call| run(seed, call, fault)).count();
        }
    }
    assert!(failures > 1000, "{failures} failures were tried");
}

#[test]
fn a_log_that_is_full_refuses_updates_only_if_checkpoints_fail() {
    let storage = Simulated::new();
    let mut database = Database::open_limited(&storage, Durability::Batch, 1000).unwrap();
    let change = Change::Batch { inserts: vec![(1, 2); 4], deletes: vec![] };
    while !database.folder.must_stall() {
        database.update(&change).unwrap();
    }
    assert!(database.folder.wants_checkpoint(u64::MAX));
    database.update(&change).unwrap();
    storage.fail(0, Fault::AllFrom(ErrorKind::StorageFull));
    assert!(database.checkpoint(true).is_err());
    storage.stop_failing();
    let refused = database.update(&change);
    assert!(matches!(refused, Err(Error::UpdatesRefused { .. })), "{refused:?}");
}

/// A call that changed nothing can be made again. After a sync that failed, it is not known what is durable.
#[test]
fn a_checkpoint_that_failed_before_anything_was_uncertain_can_be_repeated() {
    let mut repeated = 0;
    for call in 0.. {
        let storage = Simulated::new();
        let mut database = Database::open(&storage, Durability::Batch).unwrap();
        let change = Change::Batch { inserts: vec![(1, 2)], deletes: vec![] };
        database.update(&change).unwrap();
        storage.fail(call, Fault::Error(ErrorKind::StorageFull));
        let Err(error) = database.checkpoint(true) else { break };
        let Error::Io { call: failed, .. } = &error else { panic!("{error}") };
        if !failed.contains("sync") {
            database.update(&change).unwrap();
            database.checkpoint(true).unwrap();
            database.update(&change).unwrap();
            database.folder.close().unwrap();
            repeated += 1;
        }
    }
    assert!(repeated >= 6, "{repeated} calls failed");
}
