//! Sums of the values of ranges of about L, beside listing the pairs of the same ranges; in one run, in the eight
//! of full levels, and in eight where half of the entries are stale. (The paper has no figures of these.)

use std::fmt::Display;

use gpulsm::Combine;
use gpulsm_backends::backend::{Kind, Outcome};
use gpulsm_backends::numbers::Numbers;

use crate::bench::experiments::full_levels::{Contents, full_levels};
use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

pub fn cases(scale: &Scale, max_listed_factor: u64) -> Vec<Case> {
    let n = scale.queried;
    let make = |(wide, contents): (u64, Contents)| {
        let most = ((max_listed_factor << n) / wide).min(1 << n);
        let work = most * (8 + wide / 4) * u64::from(contents.runs()) * scale.repeats as u64;
        let job = move |harness: &Harness| measure(harness, (wide, most), (n, contents), work);
        let of_contents = contents.params();
        let mut params: Vec<(&str, &dyn Display)> = vec![("L", &wide), ("n", &n)];
        params.extend(of_contents.iter().map(|(name, value)| (*name, value as &dyn Display)));
        let rows =
            ["gpulsm", "list"].map(|series| row(Experiment::Aggregate, series, &params, None));
        Case { rows: rows.into(), work, job: Box::new(job) }
    };
    let contents = [Contents::OneRun, Contents::Levels, Contents::StaleLevels];
    [8, 1024].into_iter().flat_map(|wide| contents.map(|contents| make((wide, contents)))).collect()
}

fn measure(
    harness: &Harness,
    (wide, most): (u64, u64),
    (n, contents): (u32, Contents),
    work: u64,
) -> Outcome<Vec<Vec<Point>>> {
    let backend = &harness.backend;
    let (dictionary, len) = full_levels(harness, n, contents, Combine::Replace)?;
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
        .map(|samples| {
            vec![Point { at: f64::from(contents.runs()), items: queried as u64, samples }]
        })
        .into())
}
