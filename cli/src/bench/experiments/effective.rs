//! Figure 4b of the paper: all elements inserted so far over all the time it took.

use std::fmt::Display;

use gpulsm_backends::backend::Outcome;

use super::growth::{Structure, batch_sizes};
use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.inserted;
    let mut cases = Vec::new();
    for b in batch_sizes(scale).filter(|b| *b + 1 < n && (n - b).is_multiple_of(3)) {
        for structure in [Structure::Gpulsm, Structure::SortedArray] {
            let params: [(&str, &dyn Display); 2] = [("b", &b), ("n", &n)];
            let series = structure.series();
            let row = row(Experiment::Effective, series, &params, Some("elements"));
            let job = move |harness: &Harness| Ok(vec![points(harness, structure, n, b)?]);
            cases.push(Case { rows: vec![row], work: structure.work(n, b), job: Box::new(job) });
        }
    }
    cases
}

fn points(harness: &Harness, structure: Structure, n: u32, b: u32) -> Outcome<Vec<Point>> {
    let (mut total, mut next, mut points) = (0.0, 1.0, Vec::new());
    for (batches, seconds) in (1u64..).zip(structure.grow(harness, n, b)?) {
        total += seconds;
        // A point for every eighth more: they are shown on a logarithmic axis.
        if batches as f64 >= next || batches == 1 << (n - b) {
            next = (batches as f64 * 1.125).max(batches as f64 + 1.0);
            let items = batches << b;
            points.push(Point { at: items as f64, items, samples: vec![total] });
        }
    }
    Ok(points)
}
