//! Table IV of the paper: how many keys there are in ranges of about L.

use gpulsm_backends::backend::{Kind, Outcome};
use gpulsm_backends::numbers::Numbers;

use super::filling::{fill, range_cases, range_rows, work};
use crate::bench::harness::{Case, Harness};
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let make = |(wide, b): (u64, u32)| {
        let work = work(scale, n, b, 6);
        let job = move |harness: &Harness| measure(harness, wide, (n, b), work);
        Case { rows: range_rows(Experiment::Count, wide, b, n), work, job: Box::new(job) }
    };
    range_cases(scale).map(make).collect()
}

fn measure(harness: &Harness, wide: u64, sizes: (u32, u32), work: u64) -> Outcome<Vec<Vec<Point>>> {
    let mut points = vec![Vec::new(), Vec::new()];
    let keys = harness.sorted(1 << sizes.0);
    fill(harness, sizes, work, |filling| {
        let (dictionary, len) = (filling.dictionary, filling.len);
        let held = (&keys[..], len as u64);
        let ranges = harness.ranges(Numbers::shuffled(0..len as u64, len), wide, len)?;
        let mut counts = harness.backend.zeroed(Kind::Count, len)?;
        let ours = harness.repeat(|| harness.backend.count(dictionary, &ranges, &mut counts))?;
        harness.check_some_counts("count", &ranges, &counts, held)?;
        points[0].push(filling.point(len, ours));
        if let Some(sorted) = &filling.sorted {
            let baseline = harness.repeat(|| sorted.count(&ranges, &mut counts))?;
            harness.check_some_counts("sorted array's count", &ranges, &counts, held)?;
            points[1].push(filling.point(len, baseline));
        }
        Ok(())
    })?;
    Ok(points)
}
