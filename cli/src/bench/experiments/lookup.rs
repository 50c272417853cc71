//! Table III of the paper: lookups of keys that exist, and of keys that do not.

use std::fmt::Display;

use gpulsm_backends::backend::Outcome;

use super::filling::{fill, queries, work};
use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let mut cases = Vec::new();
    for existing in ["none", "all"] {
        for b in (n.saturating_sub(8)..=n).rev() {
            cases.push(case(scale, existing, n, b));
        }
        let params: [(&str, &dyn Display); 2] = [("existing", &existing), ("n", &n)];
        let row = row(Experiment::Lookup, "hash", &params, None);
        let job = move |harness: &Harness| measure_hash_table(harness, existing, n);
        cases.push(Case { rows: vec![row], work: 8 << n, job: Box::new(job) });
    }
    cases
}

fn case(scale: &Scale, existing: &'static str, n: u32, b: u32) -> Case {
    let params: [(&str, &dyn Display); 3] = [("b", &b), ("existing", &existing), ("n", &n)];
    let rows = [("gpulsm", Some("cold")), ("gpulsm", Some("warm")), ("sa", None)];
    let rows = rows.map(|(series, state)| {
        let mut row = row(Experiment::Lookup, series, &params, Some("r"));
        row.params.extend(state.map(|state| ("state".into(), state.into())));
        row
    });
    let work = work(scale, n, b, 4);
    let job = move |harness: &Harness| measure(harness, existing, (n, b), work);
    Case { rows: rows.into(), work, job: Box::new(job) }
}

fn measure(
    harness: &Harness,
    existing: &str,
    sizes: (u32, u32),
    work: u64,
) -> Outcome<Vec<Vec<Point>>> {
    let mut points = vec![Vec::new(), Vec::new(), Vec::new()];
    fill(harness, sizes, work, |filling| {
        let (dictionary, len) = (filling.dictionary, filling.len);
        let (numbers, exist) = queries(existing, len);
        let keys = harness.keys(numbers)?;
        let mut out = harness.lookup_out(len)?;
        let expected = |number| exist.then_some(harness.value_of(number));
        // The first call builds filters, where there are any; later calls find them.
        let cold = harness.time(|| harness.backend.lookup(dictionary, &keys, &mut out))?;
        harness.check_lookups("lookup", numbers, &out, expected)?;
        let warm = harness.repeat(|| harness.backend.lookup(dictionary, &keys, &mut out))?;
        harness.check_lookups("lookup", numbers, &out, expected)?;
        points[0].push(filling.point(len, vec![cold]));
        points[1].push(filling.point(len, warm));
        if let Some(sorted) = &filling.sorted {
            let baseline = harness.repeat(|| sorted.lookup(&keys, &mut out))?;
            harness.check_lookups("sorted array's lookup", numbers, &out, expected)?;
            points[2].push(filling.point(len, baseline));
        }
        Ok(())
    })?;
    Ok(points)
}

fn measure_hash_table(harness: &Harness, existing: &str, n: u32) -> Outcome<Vec<Vec<Point>>> {
    let len = 1usize << n;
    let pairs = harness.pairs(len)?;
    let mut table = harness.backend.hash_table(len)?;
    table.build(&pairs, len)?;
    let (numbers, exist) = queries(existing, len);
    let keys = harness.keys(numbers)?;
    let mut out = harness.lookup_out(len)?;
    let samples = harness.repeat(|| table.lookup(&keys, &mut out))?;
    let expected = |number| exist.then_some(harness.value_of(number));
    harness.check_lookups("hash table's lookup", numbers, &out, expected)?;
    harness.done(8 << n)?;
    Ok(vec![Point::alone(len, samples)])
}
