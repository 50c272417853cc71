//! Growing batch by batch, which several experiments measure: the dictionary, or the sorted array.

use std::ops::Range;

use gpulsm_backends::backend::{Outcome, Pairs, Upkeep};
use gpulsm_backends::baselines::SortedArray;
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

/// Returns the part of all pairs that batch number r, counted from 1, has.
pub fn batch(r: usize, size: usize) -> Range<usize> {
    (r - 1) * size..r * size
}

/// Makes points without samples.
pub fn points(items: u64, at: impl Iterator<Item = usize>) -> Vec<Point> {
    at.map(|at| Point { at: at as f64, items, samples: Vec::new() }).collect()
}

/// Returns sizes of batches as powers of two: from as many batches as in the paper down to a single one.
pub fn batch_sizes(scale: &Scale) -> impl Iterator<Item = u32> + use<> {
    (scale.inserted.saturating_sub(12).max(2)..=scale.inserted).rev()
}

/// What grows: the dictionary, or the sorted array beside it.
#[derive(Clone, Copy, PartialEq)]
pub enum Structure {
    Gpulsm,
    SortedArray,
}

/// A structure while it grows.
enum Growing {
    Gpulsm(Box<dyn AnyDictionary>),
    SortedArray(Box<dyn SortedArray>),
}

impl Growing {
    fn insert(&mut self, harness: &Harness, pairs: &Pairs, part: Range<usize>) -> Outcome<()> {
        match self {
            Growing::Gpulsm(dictionary) => harness.backend.apply(&mut **dictionary, pairs, part),
            Growing::SortedArray(array) => array.insert(pairs, part),
        }
    }

    /// Returns an error if some of the first `len` pairs are missing.
    fn check(&self, harness: &Harness, len: usize) -> Outcome<()> {
        match self {
            Growing::Gpulsm(dictionary) => harness.check_filled(&**dictionary, len),
            Growing::SortedArray(array) => {
                let numbers = Numbers::shuffled(0..len as u64, len);
                let lookup = |keys: &_, out: &mut _| array.lookup(keys, out);
                let expected = |number| Some(harness.value_of(number));
                harness.check_with("sorted array's lookup", numbers, lookup, expected)
            }
        }
    }
}

impl Structure {
    pub fn series(self) -> &'static str {
        if self == Structure::Gpulsm { "gpulsm" } else { "sa" }
    }

    /// Estimates the work of growing to 2^n in batches of 2^b.
    pub fn work(self, n: u32, b: u32) -> u64 {
        let (len, batches) = (1u64 << n, 1u64 << (n - b));
        let calls = batches << 12;
        let passes = match self {
            Structure::Gpulsm => 8 + u64::from(n - b),
            Structure::SortedArray => 8 + batches / 4,
        };
        calls + len * passes
    }

    /// Grows to 2^n in batches of 2^b; returns how many seconds each batch took.
    pub fn grow(self, harness: &Harness, n: u32, b: u32) -> Outcome<Vec<f64>> {
        let (len, size) = (1 << n, 1 << b);
        let backend = &harness.backend;
        let pairs = harness.pairs(len)?;
        let mut growing = match self {
            Structure::Gpulsm => Growing::Gpulsm(backend.dictionary(size, Upkeep::Manual)?),
            Structure::SortedArray => Growing::SortedArray(backend.sorted_array(len, size)?),
        };
        let mut seconds = Vec::with_capacity(len / size);
        let work = self.work(n, b) >> (n - b);
        for r in 1..=len / size {
            seconds.push(harness.time(|| growing.insert(harness, &pairs, batch(r, size)))?);
            harness.done(work)?;
        }
        growing.check(harness, len)?;
        Ok(seconds)
    }

    /// Measures every batch on the way to 2^n, several times (a sorted array takes too long for that).
    pub fn case(self, experiment: Experiment, scale: &Scale, b: u32) -> Case {
        let n = scale.inserted;
        let repeats = if self == Structure::Gpulsm { scale.repeats } else { 1 };
        let row = row(experiment, self.series(), &[("b", &b), ("n", &n)], Some("r"));
        let job = move |harness: &Harness| {
            let mut points = points(1 << b, 1..=1 << (n - b));
            for _ in 0..repeats {
                for (point, seconds) in points.iter_mut().zip(self.grow(harness, n, b)?) {
                    point.samples.push(seconds);
                }
            }
            Ok(vec![points])
        };
        Case { rows: vec![row], work: self.work(n, b) * repeats as u64, job: Box::new(job) }
    }
}
