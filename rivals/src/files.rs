//! Dictionaries in files beside other embedded stores: 2^22 random `u64` pairs in batches of 2^16, each synced
//! before the next; then 2^20 lookups of random keys that are there; then closing and opening again.
//!
//! Stores that look up one key at a time are asked by as many threads as the dictionary uses. Every answer of every
//! store is checked. How long it takes to sync as many bytes as the pairs have, batch by batch, is measured with a
//! plain file in the same run.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gpulsm::{Dictionary, Durability};
use rayon::prelude::*;

use crate::sorts::mix;

const PAIRS: usize = 1 << 22;
const BATCH: usize = 1 << 16;
const LOOKUPS: usize = 1 << 20;
/// Each store is measured this often, in turns; medians are printed.
const ROUNDS: usize = 3;

/// A store that lives in a folder.
trait Store: Sized {
    const NAME: &'static str;

    /// Opens the store in a folder that exists, and creates it if the folder is empty.
    fn open(path: &Path) -> Self;
    /// Inserts pairs, which are on stable storage when this returns.
    fn insert(&mut self, keys: &[u64], values: &[u64]);
    fn lookup(&self, keys: &[u64]) -> Vec<Option<u64>>;
    fn close(self);
}

struct Gpulsm(Dictionary<u64, u64>);

impl Store for Gpulsm {
    const NAME: &'static str = "gpulsm";

    fn open(path: &Path) -> Self {
        Gpulsm(Dictionary::builder().durability(Durability::Batch).open(path).unwrap())
    }

    fn insert(&mut self, keys: &[u64], values: &[u64]) {
        self.0.insert(keys, values).unwrap();
    }

    fn lookup(&self, keys: &[u64]) -> Vec<Option<u64>> {
        self.0.lookup(keys).unwrap()
    }

    fn close(mut self) {
        self.0.close().unwrap();
    }
}

struct Redb(redb::Database);

const REDB_TABLE: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("pairs");

impl Store for Redb {
    const NAME: &'static str = "redb";

    fn open(path: &Path) -> Self {
        Redb(redb::Database::create(path.join("pairs.redb")).unwrap())
    }

    fn insert(&mut self, keys: &[u64], values: &[u64]) {
        let write = self.0.begin_write().unwrap();
        {
            let mut table = write.open_table(REDB_TABLE).unwrap();
            for (key, value) in keys.iter().zip(values) {
                table.insert(key, value).unwrap();
            }
        }
        write.commit().unwrap(); // Its default is to sync.
    }

    fn lookup(&self, keys: &[u64]) -> Vec<Option<u64>> {
        use redb::ReadableDatabase;

        let read = self.0.begin_read().unwrap();
        let table = read.open_table(REDB_TABLE).unwrap();
        let value = |key: &u64| table.get(key).unwrap().map(|value| value.value());
        keys.par_iter().map(value).collect()
    }

    fn close(self) {}
}

struct Fjall {
    database: fjall::Database,
    pairs: fjall::Keyspace,
}

impl Store for Fjall {
    const NAME: &'static str = "fjall";

    fn open(path: &Path) -> Self {
        let database = fjall::Database::builder(path).open().unwrap();
        let pairs = database.keyspace("pairs", fjall::KeyspaceCreateOptions::default).unwrap();
        Fjall { database, pairs }
    }

    fn insert(&mut self, keys: &[u64], values: &[u64]) {
        let mut batch = self.database.batch().durability(Some(fjall::PersistMode::SyncData));
        for (key, value) in keys.iter().zip(values) {
            batch.insert(&self.pairs, key.to_be_bytes(), value.to_le_bytes());
        }
        batch.commit().unwrap();
    }

    fn lookup(&self, keys: &[u64]) -> Vec<Option<u64>> {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let value = |key: &u64| self.pairs.get(key.to_be_bytes()).unwrap();
        keys.par_iter().map(|key| value(key).map(|bytes| number(&bytes))).collect()
    }

    fn close(self) {}
}

#[cfg(feature = "rocksdb")]
struct RocksDb(rocksdb::DB);

#[cfg(feature = "rocksdb")]
impl Store for RocksDb {
    const NAME: &'static str = "RocksDB";

    fn open(path: &Path) -> Self {
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.increase_parallelism(rayon::current_num_threads() as i32);
        RocksDb(rocksdb::DB::open(&options, path).unwrap())
    }

    fn insert(&mut self, keys: &[u64], values: &[u64]) {
        let mut batch = rocksdb::WriteBatch::default();
        for (key, value) in keys.iter().zip(values) {
            batch.put(key.to_be_bytes(), value.to_le_bytes());
        }
        let mut synced = rocksdb::WriteOptions::default();
        synced.set_sync(true);
        self.0.write_opt(batch, &synced).unwrap();
    }

    fn lookup(&self, keys: &[u64]) -> Vec<Option<u64>> {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let value = |key: &u64| self.0.get_pinned(key.to_be_bytes()).unwrap();
        keys.par_iter().map(|key| value(key).map(|bytes| number(&bytes))).collect()
    }

    fn close(self) {}
}

struct Data {
    keys: Vec<u64>,
    values: Vec<u64>,
    /// Which pairs are looked up.
    looked_up: Vec<usize>,
}

/// Seconds.
#[derive(Clone, Copy)]
struct Times {
    inserts: f64,
    lookups: f64,
    reopening: f64,
    /// Bytes on the disk for each byte of pairs, after the store was closed.
    space: f64,
}

/// Prints the table, of files in a folder of the current one.
pub fn run() {
    let keys: Vec<u64> = (1..=PAIRS as u64).map(mix).collect();
    let values: Vec<u64> = (0..PAIRS as u64).collect();
    let looked_up = (1..=LOOKUPS as u64).map(|i| mix(i << 32) as usize % PAIRS).collect();
    let data = Data { keys, values, looked_up };
    let scratch = PathBuf::from(format!("gpulsm-rivals-{}", std::process::id()));
    let threads = rayon::current_num_threads();
    println!(
        "2^22 random u64 pairs in batches of 2^16, each synced; {threads} threads; median of {ROUNDS} rounds:\n"
    );

    let mut syncing = Vec::new();
    let mut all: Vec<(&str, Vec<Times>)> = Vec::new();
    for _ in 0..ROUNDS {
        syncing.push(sync_plainly(&scratch));
        let mut round = vec![
            (Gpulsm::NAME, measure::<Gpulsm>(&scratch, &data)),
            (Redb::NAME, measure::<Redb>(&scratch, &data)),
            (Fjall::NAME, measure::<Fjall>(&scratch, &data)),
        ];
        #[cfg(feature = "rocksdb")]
        round.push((RocksDb::NAME, measure::<RocksDb>(&scratch, &data)));
        for (name, times) in round.drain(..) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, rounds)) => rounds.push(times),
                None => all.push((name, vec![times])),
            }
        }
    }
    print(median(syncing.into_iter()), &all);
}

fn print(syncing: f64, all: &[(&str, Vec<Times>)]) {
    println!("Appending the pairs to a plain file, and a sync after each batch: {syncing:.3} s\n");
    println!(
        "| | inserts, M/s | net of syncing | lookups, M/s | reopening, ms | bytes for each byte of pairs |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, rounds) in all {
        let of = |field: fn(&Times) -> f64| median(rounds.iter().map(field));
        let inserts = of(|times| times.inserts);
        let net = (inserts - syncing).max(f64::MIN_POSITIVE);
        println!(
            "| {name} | {:.2} | {:.2} | {:.2} | {:.0} | {:.2} |",
            PAIRS as f64 / inserts / 1e6,
            PAIRS as f64 / net / 1e6,
            LOOKUPS as f64 / of(|times| times.lookups) / 1e6,
            of(|times| times.reopening) * 1e3,
            of(|times| times.space),
        );
    }
}

/// Measures one store, and checks every answer.
fn measure<S: Store>(scratch: &Path, data: &Data) -> Times {
    eprintln!("{}…", S::NAME);
    fs::create_dir_all(scratch).unwrap();
    let start = Instant::now();
    let mut store = S::open(scratch);
    for (keys, values) in data.keys.chunks(BATCH).zip(data.values.chunks(BATCH)) {
        store.insert(keys, values);
    }
    let inserts = start.elapsed().as_secs_f64();

    let questions: Vec<u64> = data.looked_up.iter().map(|&index| data.keys[index]).collect();
    let start = Instant::now();
    let answers = store.lookup(&questions);
    let lookups = start.elapsed().as_secs_f64();
    let check = |answers: &[Option<u64>]| {
        let expected = data.looked_up.iter().map(|&index| Some(data.values[index]));
        assert!(answers.iter().copied().eq(expected), "{} answers wrongly", S::NAME);
    };
    check(&answers);

    store.close();
    let start = Instant::now();
    let store = S::open(scratch);
    let first = store.lookup(&questions[..1]);
    let reopening = start.elapsed().as_secs_f64();
    assert_eq!(first, answers[..1]);
    check(&store.lookup(&questions));
    store.close();
    let space = bytes_in(scratch) as f64 / (16 * PAIRS) as f64;
    fs::remove_dir_all(scratch).unwrap();
    Times { inserts, lookups, reopening, space }
}

/// Returns how long it takes to append the bytes of all pairs to a file, with a sync after each batch.
fn sync_plainly(scratch: &Path) -> f64 {
    fs::create_dir_all(scratch).unwrap();
    let batch: Vec<u8> = (0..BATCH as u64 * 2).flat_map(|i| mix(i).to_le_bytes()).collect();
    let start = Instant::now();
    let mut file = File::create_new(scratch.join("plain")).unwrap();
    for _ in 0..PAIRS / BATCH {
        file.write_all(&batch).unwrap();
        file.sync_data().unwrap();
    }
    let elapsed = start.elapsed().as_secs_f64();
    fs::remove_dir_all(scratch).unwrap();
    elapsed
}

/// Returns how many bytes the files of a folder take.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => bytes_in(&entry.path()),
        false => entry.metadata().unwrap().len(),
    });
    bytes.sum()
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
