//! Sums of the values of ranges of about L, beside listing the pairs of the same ranges; in one run, and in the
//! eight of full levels. (The paper has no figures of these.)

use std::fmt::Display;

use gpulsm::Combine;

use crate::bench::experiments::full_levels::{LEVELS, full_levels};
use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;
use gpulsm_backends::backend::{Kind, Outcome};
use gpulsm_backends::numbers::Numbers;

pub fn cases(scale: &Scale, max_listed_factor: u64) -> Vec<Case> {
    let n = scale.queried;
    let make = |(wide, runs): (u64, u32)| {
        let most = ((max_listed_factor << n) / wide).min(1 << n);
        let work = most * (8 + wide / 4) * u64::from(runs) * scale.repeats as u64;
        let job = move |harness: &Harness| measure(harness, (wide, most), (n, runs), work);
        let params: [(&str, &dyn Display); 3] = [("L", &wide), ("n", &n), ("runs", &runs)];
        let rows =
            ["gpulsm", "list"].map(|series| row(Experiment::Aggregate, series, &params, None));
        Case { rows: rows.into(), work, job: Box::new(job) }
    };
    [8, 1024].into_iter().flat_map(|wide| [1, LEVELS].map(|runs| make((wide, runs)))).collect()
}

fn measure(
    harness: &Harness,
    (wide, most): (u64, u64),
    (n, runs): (u32, u32),
    work: u64,
) -> Outcome<Vec<Vec<Point>>> {
    let backend = &harness.backend;
    let (dictionary, len) = full_levels(harness, n, runs, Combine::Replace)?;
    let queried = len.min(most.min(backend.max_listed() / wide) as usize);
    let ranges = harness.ranges(Numbers::shuffled(0..len as u64, queried), wide, len)?;
    let keys = harness.sorted(len);
    let held = (&keys[..], len as u64);
    let mut sums = backend.zeroed(Kind::Count, queried)?;
    let mut counts = backend.zeroed(Kind::Count, queried)?;
    let ours = harness.repeat(|| backend.sum(&*dictionary, &ranges, &mut sums, &mut counts))?;
    harness.check_some_counts("aggregate", &ranges, &counts, held)?;
    harness.check_sums(&ranges, &sums, held)?;
    let total = counts.copy(0..queried)?.iter().sum::<u64>() as usize;
    let mut out = harness.range_out(queried, total)?;
    let listed = harness.repeat(|| backend.range(&*dictionary, &ranges, &mut out))?;
    harness.check_ranges("range", &ranges, &out, held)?;
    harness.done(work)?;
    Ok([ours, listed]
        .map(|samples| vec![Point { at: f64::from(runs), items: queried as u64, samples }])
        .into())
}
