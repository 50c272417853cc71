//! Table IV of the paper: the pairs of ranges of about L; fewer ranges where their pairs would not fit.

use gpulsm_backends::backend::{Kind, Outcome};
use gpulsm_backends::numbers::Numbers;

use super::filling::{fill, range_cases, range_rows, work};
use crate::bench::harness::{Case, Harness};
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

pub fn cases(scale: &Scale, max_listed_factor: u64) -> Vec<Case> {
    let n = scale.queried;
    let make = |(wide, b): (u64, u32)| {
        let most = ((max_listed_factor << n) / wide).min(1 << n);
        let work = (work(scale, n, b, 8 + wide / 8) >> n) * most;
        let job = move |harness: &Harness| measure(harness, (wide, most), (n, b), work);
        Case { rows: range_rows(Experiment::Range, wide, b, n), work, job: Box::new(job) }
    };
    range_cases(scale).map(make).collect()
}

fn measure(
    harness: &Harness,
    (wide, most): (u64, u64),
    sizes: (u32, u32),
    work: u64,
) -> Outcome<Vec<Vec<Point>>> {
    let backend = &harness.backend;
    let most = most.min(backend.max_listed() / wide);
    let mut points = vec![Vec::new(), Vec::new()];
    let keys = harness.sorted(1 << sizes.0);
    fill(harness, sizes, work, |mut filling| {
        let (dictionary, len) = (filling.dictionary, filling.len);
        let queried = len.min(most as usize);
        let ranges = harness.ranges(Numbers::shuffled(0..len as u64, queried), wide, len)?;
        let mut counts = backend.zeroed(Kind::Count, queried)?;
        backend.count(dictionary, &ranges, &mut counts)?;
        let total = counts.copy(0..queried)?.iter().sum::<u64>() as usize;
        let mut out = harness.range_out(queried, total)?;
        let held = (&keys[..], len as u64);
        let ours = harness.repeat(|| backend.range(dictionary, &ranges, &mut out))?;
        harness.check_ranges("range", &ranges, &out, held)?;
        points[0].push(filling.point(queried, ours));
        if let Some(sorted) = filling.sorted.take() {
            let baseline = harness.repeat(|| sorted.range(&ranges, &mut out))?;
            harness.check_ranges("sorted array's range", &ranges, &out, held)?;
            points[1].push(filling.point(queried, baseline));
        }
        Ok(())
    })?;
    Ok(points)
}
