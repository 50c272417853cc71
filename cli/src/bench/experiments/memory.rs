//! Bytes for each live pair after different histories.

use std::ops::Range;

use gpulsm_backends::backend::{Outcome, Pairs, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::{MISSING, Numbers};

use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::{Point, Row, Unit};

const HISTORIES: [&str; 8] = [
    "built-at-once",
    "inserted-in-batches",
    "replaced-once",
    "half-deleted",
    "half-deleted-and-cleaned",
    "built-and-looked-up",
    "replaced-with-a-snapshot-held",
    "most-while-inserted-in-batches",
];

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let rows = HISTORIES.iter().map(|history| {
        let row = row(Experiment::Memory, "gpulsm", &[("history", history), ("n", &n)], None);
        Row { unit: Unit::Bytes, ..row }
    });
    let work = 200 << n;
    let job = move |harness: &Harness| {
        let points = HISTORIES.iter().map(|history| {
            let (bytes, live) = measure(harness, history, 1 << n)?;
            harness.done(work / HISTORIES.len() as u64)?;
            Ok(Point::alone(live, vec![bytes as f64]))
        });
        points.collect()
    };
    vec![Case { rows: rows.collect(), work, job: Box::new(job) }]
}

/// Returns the bytes that a dictionary, with its snapshots, takes after a history of `len` pairs, and how
/// many pairs are live.
fn measure(harness: &Harness, history: &str, len: usize) -> Outcome<(u64, usize)> {
    let size = (len >> 8).max(1);
    let pairs = harness.pairs(len)?;
    let mut dictionary = harness.backend.dictionary(size, Upkeep::Automatic)?;
    let is_peak = history.starts_with("most-while");
    if history.starts_with("built") {
        harness.backend.insert(&mut *dictionary, &pairs, 0..len)?;
    } else {
        insert(harness, &mut *dictionary, &pairs, (len, size), is_peak)?;
    }
    let snapshot = (history == "replaced-with-a-snapshot-held").then(|| dictionary.snapshot());
    if history.starts_with("replaced") {
        insert(harness, &mut *dictionary, &pairs, (len, size), is_peak)?;
    }
    let mut live = 0..len;
    if history.starts_with("half-deleted") {
        live = len / 2..len;
        delete(harness, &mut *dictionary, &pairs, (len / 2, size))?;
    }
    if history.ends_with("cleaned") {
        dictionary.cleanup()?;
    }
    if history.ends_with("looked-up") {
        look_up_missing(harness, &*dictionary, len)?;
    }
    check(harness, &*dictionary, history, live.clone())?;
    let stats = dictionary.stats()?;
    let bytes = if is_peak { stats.bytes_peak } else { stats.bytes_shared };
    drop(snapshot);
    Ok((bytes, live.len()))
}

/// Inserts `len` pairs in batches of `size`.
fn insert(
    harness: &Harness,
    dictionary: &mut dyn AnyDictionary,
    pairs: &Pairs,
    (len, size): (usize, usize),
    is_peak: bool,
) -> Outcome<()> {
    for start in (0..len).step_by(size) {
        harness.backend.insert(dictionary, pairs, start..start + size)?;
        // Buffered batches would be sorted and merged as one, whose length decides on the working space.
        if is_peak {
            dictionary.flush()?;
        }
    }
    Ok(())
}

/// Deletes the keys of the first `len` numbers in batches of `size`.
fn delete(
    harness: &Harness,
    dictionary: &mut dyn AnyDictionary,
    pairs: &Pairs,
    (len, size): (usize, usize),
) -> Outcome<()> {
    let gone = harness.keys(Numbers::counting(0..len as u64))?;
    for start in (0..len).step_by(size) {
        harness.backend.update(dictionary, (pairs, 0..0), (&gone, start..start + size))?;
    }
    Ok(())
}

/// Looks up missing keys often enough that the dictionary builds filters.
fn look_up_missing(harness: &Harness, dictionary: &dyn AnyDictionary, len: usize) -> Outcome<()> {
    for _ in 0..3 {
        let keys = harness.keys(Numbers::counting(MISSING..MISSING + len as u64))?;
        harness.backend.lookup(dictionary, &keys, &mut harness.lookup_out(len)?)?;
    }
    Ok(())
}

fn check(
    harness: &Harness,
    dictionary: &dyn AnyDictionary,
    history: &str,
    live: Range<usize>,
) -> Outcome<()> {
    same("length", &history, &dictionary.len()?, &live.len())?;
    let left = Numbers::shuffled(live.start as u64..live.end as u64, live.len());
    harness.check_held(dictionary, left, |number| Some(harness.value_of(number)))
}
