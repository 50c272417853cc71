//! Inserts that add to the value their key has, beside inserts that replace it; and lookups in both.
//! (The paper has no figures of these.)

use std::fmt::Display;

use gpulsm::Combine;
use gpulsm_backends::backend::{Kind, Outcome, Pairs, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;
use rayon::prelude::*;

use crate::bench::experiments::full_levels::{Contents, LEVELS, full_levels};
use crate::bench::experiments::skew::shaped;
use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

/// The two rules, each with the name of its rows.
const RULES: [(Combine, &str); 2] = [(Combine::Add, "gpulsm"), (Combine::Replace, "replace")];

/// Keys of streams of batches: all different; Zipf's; ten inserts of each key in every batch.
const STREAMS: [&str; 3] = ["random", "zipf", "tenfold"];

/// Keys of a single batch: all different; all the same.
const BATCHES: [&str; 2] = ["random", "equal"];

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let b = n - LEVELS;
    let make = |op: &'static str, keys: &'static str, size: u32| {
        let params: [(&str, &dyn Display); 4] =
            [("b", &size), ("keys", &keys), ("n", &n), ("op", &op)];
        let rows = RULES.map(|(_, series)| row(Experiment::Combine, series, &params, None));
        let work = scale.repeats as u64 * (20 << n);
        let job = move |harness: &Harness| {
            let points = measure_inserts(harness, keys, 1 << n, 1 << size)?;
            harness.done(work)?;
            Ok(points)
        };
        Case { rows: rows.into(), work, job: Box::new(job) }
    };
    let streams = STREAMS.map(|keys| make("stream", keys, b));
    let batches = BATCHES.map(|keys| make("batch", keys, n));
    let contents = [Contents::Levels, Contents::OneRun];
    let lookups = contents.map(|contents| lookup_case(scale, n, contents));
    streams.into_iter().chain(batches).chain(lookups).collect()
}

/// Keys with their values, in the order they are inserted.
struct Inserts {
    keys: Vec<u64>,
    pairs: Pairs,
    size: usize,
}

impl Inserts {
    fn new(harness: &Harness, shape: &str, len: usize, size: usize) -> Outcome<Self> {
        let keys = match shape {
            "tenfold" => {
                let distinct = (size / 10).max(1);
                let key = harness.scatter();
                let number = |i: u64| i / size as u64 * distinct as u64 + i % distinct as u64;
                Numbers::counting(0..len as u64).map(&|i| key(number(i)))
            }
            _ => shaped(harness.key, shape, len, harness.seed),
        };
        let values = harness.backend.array(Kind::Value, len, &|i| value_at(i as u64))?;
        let pairs = Pairs { keys: harness.array(Kind::Key, &keys)?, values };
        Ok(Inserts { keys, pairs, size })
    }

    /// Inserts everything, batch by batch.
    fn apply(&self, harness: &Harness, dictionary: &mut dyn AnyDictionary) -> Outcome<()> {
        for start in (0..self.keys.len()).step_by(self.size) {
            harness.backend.insert(dictionary, &self.pairs, start..start + self.size)?;
        }
        Ok(dictionary.flush()?)
    }

    /// Returns every key in order, with the value that it should have.
    fn expected(&self, harness: &Harness, rule: Combine) -> Vec<(u64, u64)> {
        let mut inserts: Vec<(u64, u64)> = self.keys.iter().copied().zip(0..).collect();
        inserts.par_sort_unstable();
        let width = harness.value;
        let of_key = inserts.par_chunk_by(|a, b| a.0 == b.0);
        let pairs = of_key.map(|inserts| {
            let value = match rule {
                Combine::Add => inserts.iter().map(|&(_, at)| value_at(at)).sum(),
                _ => value_at(inserts[inserts.len() - 1].1),
            };
            (inserts[0].0, width.truncate(value))
        });
        pairs.collect()
    }
}

/// Returns the value that is inserted at an index.
fn value_at(index: u64) -> u64 {
    index % 251 + 1
}

fn measure_inserts(
    harness: &Harness,
    shape: &str,
    len: usize,
    size: usize,
) -> Outcome<Vec<Vec<Point>>> {
    let inserts = Inserts::new(harness, shape, len, size)?;
    let points = RULES.map(|(rule, _)| {
        let expected = inserts.expected(harness, rule);
        let (samples, dictionary) = harness.repeat_anew(
            || harness.backend.combining(size.min(1 << 20), Upkeep::Manual, rule),
            |dictionary| inserts.apply(harness, &mut **dictionary),
            |dictionary| same("length", &shape, &dictionary.len()?, &expected.len()),
        )?;
        check_lookups(harness, &*dictionary, &expected)?;
        Ok(Point::alone(len, samples))
    });
    points.into_iter().collect()
}

/// Looks up some of the keys, and compares their values.
fn check_lookups(
    harness: &Harness,
    dictionary: &dyn AnyDictionary,
    expected: &[(u64, u64)],
) -> Outcome<()> {
    let some = &expected[harness.stretch(expected.len())];
    let keys: Vec<u64> = some.iter().map(|&(key, _)| key).collect();
    let mut out = harness.lookup_out(keys.len())?;
    harness.backend.lookup(dictionary, &harness.array(Kind::Key, &keys)?, &mut out)?;
    let (values, found) = (out.values.copy(0..keys.len())?, out.found.copy(0..keys.len())?);
    for ((&(key, expected), value), found) in some.iter().zip(values).zip(found) {
        same("value", &key, &(found != 0).then_some(value), &Some(expected))?;
    }
    harness.compared(some.len());
    Ok(())
}

fn lookup_case(scale: &Scale, n: u32, contents: Contents) -> Case {
    let runs = contents.runs();
    let params: [(&str, &dyn Display); 3] = [("n", &n), ("op", &"lookup"), ("runs", &runs)];
    let rows = RULES.map(|(_, series)| row(Experiment::Combine, series, &params, None));
    let work = scale.repeats as u64 * (10 << n);
    let job = move |harness: &Harness| {
        let points = RULES.map(|(rule, _)| measure_lookups(harness, n, contents, rule));
        harness.done(work)?;
        points.into_iter().collect()
    };
    Case { rows: rows.into(), work, job: Box::new(job) }
}

/// Looks up keys that are all there, each in one of the runs.
fn measure_lookups(
    harness: &Harness,
    n: u32,
    contents: Contents,
    rule: Combine,
) -> Outcome<Vec<Point>> {
    let backend = &harness.backend;
    let (dictionary, len) = full_levels(harness, n, contents, rule)?;
    let numbers = Numbers::shuffled(0..len as u64, len);
    let keys = harness.keys(numbers)?;
    let mut out = harness.lookup_out(len)?;
    // The first lookups build filters.
    backend.lookup(&*dictionary, &keys, &mut out)?;
    backend.lookup(&*dictionary, &keys, &mut out)?;
    let samples = harness.repeat(|| backend.lookup(&*dictionary, &keys, &mut out))?;
    let some = harness.stretch(len);
    let (values, found) = (out.values.copy(some.clone())?, out.found.copy(some.clone())?);
    for ((at, value), found) in some.clone().zip(values).zip(found) {
        let number = numbers.at(at);
        let expected = Some(harness.value_of(number));
        same("lookup", &number, &(found != 0).then_some(value), &expected)?;
    }
    harness.compared(some.len());
    Ok(Point::alone(len, samples))
}
