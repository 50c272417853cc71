//! Dictionaries in files, beside plain files of as many bytes, and logged updates beside updates in memory.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;

use gpulsm::Durability;
use gpulsm_backends::backend::{InFolder, Outcome, Pairs, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;

use super::growth::batch;
use crate::bench::disk::{self, Scratch};
use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::{Point, Row};

/// A batch of logged updates has 2^16 pairs, unless there are few in all.
const BATCH: u32 = 16;

/// What updates are measured of.
const UPDATED: [&str; 4] = ["gpulsm", "plain", "copy", "memory"];

pub fn cases(scale: &Scale) -> Vec<Case> {
    let (stored, logged) = (scale.stored, scale.logged);
    let b = BATCH.min(logged - 4);
    let whole =
        |op| move |series| row(Experiment::Files, series, &[("op", &op), ("n", &stored)], None);
    let logged_row = |op| {
        move |series| {
            row(Experiment::Files, series, &[("op", &op), ("b", &b), ("n", &logged)], None)
        }
    };
    let case = |rows: Vec<Row>, n: u32, measure: Measure| {
        let work = scale.repeats as u64 * (100 << n);
        let updates = Updates { n, b };
        let job = move |harness: &Harness| {
            let samples = measure(harness, updates)?;
            harness.done(work)?;
            Ok(samples.into_iter().map(|samples| Point::alone(1 << n, samples)).collect())
        };
        Case { rows, work, job: Box::new(job) }
    };
    vec![
        case(["gpulsm", "plain", "copy"].map(whole("save")).into(), stored, save),
        case(["gpulsm", "plain"].map(whole("load")).into(), stored, load),
        case(["gpulsm"].map(whole("open")).into(), stored, open),
        case(UPDATED.map(logged_row("update-os")).into(), logged, update_os),
        case(UPDATED.map(logged_row("update-batch")).into(), logged, update_batch),
        case(["gpulsm"].map(logged_row("replay")).into(), logged, replay),
    ]
}

/// 2^n pairs, in batches of 2^b where they come in batches.
#[derive(Clone, Copy)]
struct Updates {
    n: u32,
    b: u32,
}

/// Returns the seconds of each repeat, for each row.
type Measure = fn(&Harness, Updates) -> Outcome<Vec<Vec<f64>>>;

impl Updates {
    fn len(self) -> usize {
        1 << self.n
    }

    fn batch_size(self) -> usize {
        1 << self.b
    }

    /// Inserts all batches.
    fn insert(self, harness: &Harness, dictionary: &mut dyn AnyDictionary) -> Outcome<()> {
        let pairs = harness.pairs(self.len())?;
        for r in 1..=self.len() / self.batch_size() {
            harness.backend.insert(dictionary, &pairs, batch(r, self.batch_size()))?;
        }
        Ok(dictionary.flush()?)
    }
}

/// Returns the bytes of `len` pairs.
fn bytes(harness: &Harness, len: usize) -> usize {
    len * harness.backend.pair_bytes()
}

/// Makes a dictionary of the first `len` numbers.
fn filled(harness: &Harness, len: usize) -> Outcome<Box<dyn AnyDictionary>> {
    let mut dictionary = harness.backend.dictionary(len, Upkeep::Automatic)?;
    harness.backend.insert(&mut *dictionary, &*harness.pairs(len)?, 0..len)?;
    Ok(dictionary)
}

/// Measures each row once, in turns, so that all meet the disk in the same states; again for every repeat, after a
/// round that does not count.
fn in_turns<const N: usize>(
    harness: &Harness,
    round: impl Fn() -> Outcome<[f64; N]>,
) -> Outcome<Vec<Vec<f64>>> {
    round()?;
    let mut samples = vec![Vec::new(); N];
    for _ in 0..harness.scale.repeats {
        samples.iter_mut().zip(round()?).for_each(|(samples, time)| samples.push(time));
    }
    Ok(samples)
}

fn save(harness: &Harness, updates: Updates) -> Outcome<Vec<Vec<f64>>> {
    let (scratch, len) = (Scratch::create(&harness.scratch)?, updates.len());
    let (pairs, dictionary) = (harness.pairs(len)?, filled(harness, len)?);
    let (saved, plain) = (scratch.path("saved"), scratch.path("plain"));
    let data = disk::data(disk::PIECE);
    let samples = in_turns(harness, || {
        Ok([
            harness.time(|| harness.backend.save(&*dictionary, &saved))?,
            harness.time(|| Ok(disk::write(&plain, &data, bytes(harness, len))?))?,
            harness.time(|| harness.backend.copy_to_host(&pairs, 0..len))?,
        ])
    })?;
    harness.check_filled(&*harness.backend.load(&saved)?, len)?;
    Ok(samples)
}

fn load(harness: &Harness, updates: Updates) -> Outcome<Vec<Vec<f64>>> {
    let (scratch, len) = (Scratch::create(&harness.scratch)?, updates.len());
    let dictionary = filled(harness, len)?;
    let (saved, plain) = (scratch.path("saved"), scratch.path("plain"));
    harness.backend.save(&*dictionary, &saved)?;
    drop(dictionary);
    disk::write(&plain, &disk::data(disk::PIECE), bytes(harness, len))?;
    in_turns(harness, || {
        disk::drop_from_cache(&harness.scratch)?;
        let mut loaded = None;
        let times = [
            harness.time(|| {
                loaded = Some(harness.backend.load(&saved)?);
                Ok(())
            })?,
            harness.time(|| {
                black_box(fs::read(&plain)?);
                Ok(())
            })?,
        ];
        harness.check_filled(&**loaded.as_ref().expect("it was loaded"), len)?;
        Ok(times)
    })
}

/// Opens a folder with one run.
fn open(harness: &Harness, updates: Updates) -> Outcome<Vec<Vec<f64>>> {
    let (scratch, len) = (Scratch::create(&harness.scratch)?, updates.len());
    let path = scratch.path("folder");
    let folder = InFolder { path: &path, durability: Durability::Checkpoint, log_limit: None };
    let mut dictionary = harness.backend.open(len, folder)?;
    harness.backend.insert(&mut *dictionary, &*harness.pairs(len)?, 0..len)?;
    drop(dictionary); // Writes a checkpoint.
    reopen(harness, folder, len)
}

/// Opens a folder with a log.
fn replay(harness: &Harness, updates: Updates) -> Outcome<Vec<Vec<f64>>> {
    let (scratch, len) = (Scratch::create(&harness.scratch)?, updates.len());
    let path = scratch.path("folder");
    let log_limit = Some(u64::MAX);
    let folder = InFolder { path: &path, durability: Durability::Os, log_limit };
    let mut dictionary = harness.backend.open(updates.batch_size(), folder)?;
    updates.insert(harness, &mut *dictionary)?;
    drop(dictionary);
    reopen(harness, folder, len)
}

/// Times the opening of a folder that holds the first `len` numbers.
fn reopen(harness: &Harness, folder: InFolder<'_>, len: usize) -> Outcome<Vec<Vec<f64>>> {
    in_turns(harness, || {
        disk::drop_from_cache(folder.path)?;
        let mut opened = None;
        let time = harness.time(|| {
            opened = Some(harness.backend.open(len, folder)?);
            Ok(())
        })?;
        harness.check_filled(&**opened.as_ref().expect("it was opened"), len)?;
        Ok([time])
    })
}

fn update_os(harness: &Harness, updates: Updates) -> Outcome<Vec<Vec<f64>>> {
    update(harness, updates, Durability::Os)
}

fn update_batch(harness: &Harness, updates: Updates) -> Outcome<Vec<Vec<f64>>> {
    update(harness, updates, Durability::Batch)
}

/// Inserts batches into a dictionary in a folder, appends as many bytes to a plain file, and inserts the batches
/// into a dictionary in memory.
fn update(harness: &Harness, updates: Updates, durability: Durability) -> Outcome<Vec<Vec<f64>>> {
    let len = updates.len();
    let pairs = harness.pairs(len)?;
    let plain_batch = disk::data(bytes(harness, updates.batch_size()));
    in_turns::<{ UPDATED.len() }>(harness, || {
        let scratch = Scratch::create(&harness.scratch)?;
        let (path, plain) = (scratch.path("folder"), scratch.path("plain"));
        let folder = InFolder { path: &path, durability, log_limit: None };
        let mut logged = harness.backend.open(updates.batch_size(), folder)?;
        let mut memory = harness.backend.dictionary(updates.batch_size(), Upkeep::Automatic)?;
        let times = [
            harness.time(|| updates.insert(harness, &mut *logged))?,
            harness.time(|| append(&plain_batch, updates, durability, &plain))?,
            harness.time(|| copy(harness, updates, &pairs))?,
            harness.time(|| updates.insert(harness, &mut *memory))?,
        ];
        drop(logged);
        let reopened = harness.backend.open(updates.batch_size(), folder)?;
        harness.check_filled(&*reopened, len)?;
        harness.check_filled(&*memory, len)?;
        Ok(times)
    })
}

/// Copies the pairs to the host, batch by batch.
fn copy(harness: &Harness, updates: Updates, pairs: &Pairs) -> Outcome<()> {
    let copy = |r| harness.backend.copy_to_host(pairs, batch(r, updates.batch_size()));
    (1..=updates.len() / updates.batch_size()).try_for_each(copy)
}

/// Appends the bytes of all batches to a plain file, and syncs after each batch if it is to be durable.
fn append(batch: &[u8], updates: Updates, durability: Durability, path: &Path) -> Outcome<()> {
    let mut file = File::create_new(path)?;
    for _ in 0..updates.len() / updates.batch_size() {
        file.write_all(batch)?;
        if durability == Durability::Batch {
            file.sync_data()?;
        }
    }
    Ok(())
}
