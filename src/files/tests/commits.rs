//! Several threads share syncs.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::files::folder::Durability;
use crate::files::simulated::{Simulated, Survivors};
use crate::files::tests::database::{Change, Database, Pairs};

const THREADS: u64 = 8;
const UPDATES: u64 = 25;

#[test]
fn threads_share_syncs() {
    let storage = Simulated::new();
    let database = Mutex::new(Database::open(&storage, Durability::Batch).unwrap());
    let before = storage.syncs();
    storage.set_sync_time(Duration::from_millis(1));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (database, storage) = (&database, &storage);
            scope.spawn(move || {
                for update in 0..UPDATES {
                    let key = thread * UPDATES + update;
                    let change = Change::Batch { inserts: vec![(key, key)], deletes: vec![] };
                    // The lock is held to append, not to sync.
                    let (folder, sequence) = database.lock().unwrap().append(&change).unwrap();
                    folder.commit(sequence).unwrap();
                    if update + 1 == UPDATES {
                        let crashed = storage.moment().crash(Survivors::None, 0);
                        let survived = Database::open(&crashed, Durability::Batch).unwrap();
                        assert_eq!(survived.pairs.get(&key), Some(&key));
                    }
                }
            });
        }
    });
    let syncs = storage.syncs() - before;
    assert!(syncs < THREADS * UPDATES / 2, "{syncs} syncs of {} updates", THREADS * UPDATES);
    let survived = storage.moment().crash(Survivors::None, 0);
    let survived = Database::open(&survived, Durability::Batch).unwrap();
    assert_eq!(survived.pairs.len() as u64, THREADS * UPDATES);
}

#[test]
fn an_update_is_taken_back_while_another_thread_syncs() {
    let storage = Simulated::new();
    let mut database = Database::open(&storage, Durability::Batch).unwrap();
    storage.set_sync_time(Duration::from_millis(5));
    let insert = |key| Change::Batch { inserts: vec![(key, key)], deletes: vec![] };
    for key in 0..20 {
        let (folder, sequence) = database.append(&insert(key)).unwrap();
        let commit = thread::spawn(move || folder.commit(sequence));
        database.refuse(&insert(1000)).unwrap();
        commit.join().unwrap().unwrap();
    }
    drop(database);
    let expected: Pairs = (0..20).map(|key| (key, key)).collect();
    for survivors in [Survivors::None, Survivors::All] {
        let crashed = storage.moment().crash(survivors, 0);
        assert_eq!(Database::open(&crashed, Durability::Batch).unwrap().pairs, expected);
    }
}
