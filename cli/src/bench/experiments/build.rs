//! Building from pairs in any order, beside a sort of them and a hash table.

use gpulsm_backends::backend::{Outcome, Upkeep};
use gpulsm_backends::numbers::Numbers;

use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

/// Builds something from this many pairs a few times; returns the seconds of each time.
type Build = fn(&Harness, usize) -> Outcome<Vec<f64>>;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let sizes = move |n: u32| (n.saturating_sub(12).max(8)..=n).step_by(2);
    let n = scale.inserted;
    let work = (1u64 << n) * 40;
    let make = |(series, build): (&str, Build)| {
        let job = move |harness: &Harness| {
            let mut points = Vec::new();
            for log in sizes(n) {
                let samples = build(harness, 1 << log)?;
                points.push(Point { at: f64::from(log), items: 1 << log, samples });
                harness.done(work >> (n - log) >> 1)?;
            }
            Ok(vec![points])
        };
        let rows = vec![row(Experiment::Build, series, &[], Some("n"))];
        Case { rows, work, job: Box::new(job) }
    };
    let builds: [(&str, Build); 3] =
        [("gpulsm", build_dictionary), ("sort", sort), ("hash", build_hash_table)];
    builds.map(make).into()
}

fn build_dictionary(harness: &Harness, len: usize) -> Outcome<Vec<f64>> {
    let pairs = harness.pairs(len)?;
    let (samples, _) = harness.repeat_anew(
        || harness.backend.dictionary(1 << 16, Upkeep::Manual),
        |dictionary| harness.backend.insert(&mut **dictionary, &pairs, 0..len),
        |dictionary| harness.check_filled(&**dictionary, len),
    )?;
    Ok(samples)
}

fn sort(harness: &Harness, len: usize) -> Outcome<Vec<f64>> {
    let pairs = harness.pairs(len)?;
    let mut sort = harness.backend.sort(&pairs, len)?;
    let samples = harness.repeat(|| sort.sort(&pairs))?;
    let part = harness.stretch(len);
    let (keys, values) = (sort.output().keys.copy(part.clone())?, sort.output().values.copy(part)?);
    same("sort", &len, &keys.is_sorted(), &true)?;
    harness.compared(keys.len());
    harness.check_values("sort", &keys, &values)?;
    Ok(samples)
}

fn build_hash_table(harness: &Harness, len: usize) -> Outcome<Vec<f64>> {
    let pairs = harness.pairs(len)?;
    let mut table = harness.backend.hash_table(len)?;
    let samples = harness.repeat(|| table.build(&pairs, len))?;
    let numbers = Numbers::shuffled(0..len as u64, len);
    let lookup = |keys: &_, out: &mut _| table.lookup(keys, out);
    let expected = |number| Some(harness.value_of(number));
    harness.check_with("hash table's lookup", numbers, lookup, expected)?;
    Ok(samples)
}
