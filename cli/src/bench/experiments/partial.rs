//! Section IV-A of the paper: batches that are not full. Ours have only the pairs there are; the paper
//! fills them up with copies of their last pair.

use gpulsm_backends::backend::{Kind, Outcome, Pairs, Upkeep};

use super::growth::batch;
use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

const BATCHES: usize = 63;

/// Shares of the batch size that a batch has.
const SHARES: [f64; 6] = [1.0 / 16.0, 1.0 / 8.0, 0.25, 0.5, 0.75, 1.0];

pub fn cases(scale: &Scale) -> Vec<Case> {
    let b = scale.inserted - 9;
    let size = 1usize << b;
    let make = |(series, padded): (&str, bool)| {
        let row = row(Experiment::Partial, series, &[("b", &b)], Some("share"));
        let job = move |harness: &Harness| {
            let points = SHARES.iter().map(|&share| {
                let point = measure(harness, size, share, padded)?;
                harness.done((BATCHES * size * 16) as u64)?;
                Ok(point)
            });
            Ok(vec![points.collect::<Outcome<_>>()?])
        };
        let work = (BATCHES * size * 16 * SHARES.len()) as u64;
        Case { rows: vec![row], work, job: Box::new(job) }
    };
    [("gpulsm", false), ("padded", true)].map(make).into()
}

fn measure(harness: &Harness, size: usize, share: f64, padded: bool) -> Outcome<Point> {
    let real = (size as f64 * share) as usize;
    let stride = if padded { size } else { real };
    // The number of pair i: of its batch, or a copy of the batch's last.
    let number = |i: usize| {
        let (batch, index) = (i / stride, i % stride);
        (batch * real + index.min(real - 1)) as u64
    };
    let (backend, key) = (&harness.backend, harness.scatter());
    let pairs = Pairs {
        keys: backend.array(Kind::Key, stride * BATCHES, &|i| key(number(i)))?,
        values: backend.array(Kind::Value, stride * BATCHES, &number)?,
    };
    let mut samples = Vec::new();
    for _ in 0..harness.scale.repeats {
        let mut dictionary = backend.dictionary(size, Upkeep::Manual)?;
        samples.push(harness.time(|| {
            (1..=BATCHES)
                .try_for_each(|r| backend.insert(&mut *dictionary, &pairs, batch(r, stride)))?;
            Ok(dictionary.flush()?)
        })?);
        harness.check_filled(&*dictionary, real * BATCHES)?;
    }
    Ok(Point { at: share, items: (real * BATCHES) as u64, samples })
}
