//! Section V-B of the paper: batches of deletes, and mixed ones, applied to a dictionary of 2^n pairs.

use std::fmt::Display;

use gpulsm_backends::backend::{Outcome, Upkeep};
use gpulsm_backends::numbers::Numbers;

use super::growth::points;
use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

const ROUNDS: usize = 16;

/// How much of a batch deletes; the rest inserts.
const PERCENTS: [usize; 5] = [0, 25, 50, 75, 100];

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let b = n - 6;
    let work = ROUNDS as u64 * scale.repeats as u64 * (64 << b);
    let make = |percent: usize| {
        let params: [(&str, &dyn Display); 3] = [("b", &b), ("deletes", &percent), ("n", &n)];
        let row = row(Experiment::Delete, "gpulsm", &params, Some("round"));
        let job = move |harness: &Harness| Ok(vec![measure(harness, n, b, percent)?]);
        Case { rows: vec![row], work, job: Box::new(job) }
    };
    PERCENTS.map(make).into()
}

fn measure(harness: &Harness, n: u32, b: u32, percent: usize) -> Outcome<Vec<Point>> {
    let (len, size) = (1usize << n, 1usize << b);
    let deleted = size * percent / 100;
    let inserted = size - deleted;
    let backend = &harness.backend;
    let pairs = harness.pairs(len)?;
    let new = Numbers::counting((len as u64)..(len + ROUNDS * inserted.max(1)) as u64);
    let gone = Numbers::shuffled(0..len as u64, ROUNDS * size);
    let (new_pairs, gone_keys) = (harness.pairs_of(new)?, harness.keys(gone)?);
    let mut points = points(1 << b, 1..=ROUNDS);
    let mut base = backend.dictionary(size, Upkeep::Manual)?;
    backend.insert(&mut *base, &pairs, 0..len)?;
    for _ in 0..harness.scale.repeats {
        let mut dictionary = base.fork();
        for (round, point) in points.iter_mut().enumerate() {
            let part = |each: usize| round * each..(round + 1) * each;
            point.samples.push(harness.time(|| {
                let inserts = (&new_pairs, part(inserted));
                backend.update(&mut *dictionary, inserts, (&gone_keys, part(deleted)))?;
                Ok(dictionary.flush()?)
            })?);
            harness.done(64 << b)?;
        }
        let live = len + ROUNDS * inserted - ROUNDS * deleted;
        same("length", &"the dictionary", &dictionary.len()?, &live)?;
        let inserted = new.first(ROUNDS * inserted);
        harness.check_held(&*dictionary, inserted, |number| Some(harness.value_of(number)))?;
        harness.check_held(&*dictionary, gone.first(ROUNDS * deleted), |_| None)?;
    }
    Ok(points)
}
