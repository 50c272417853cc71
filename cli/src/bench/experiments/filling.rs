//! Queries at many fillings, which several experiments measure: section V-C of the paper. For each number
//! of batches there are as many queries as entries.

use std::fmt::Display;

use gpulsm_backends::backend::{Outcome, Upkeep};
use gpulsm_backends::baselines::SortedArray;
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::{MISSING, Numbers};

use crate::bench::harness::Harness;
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::{Point, Row};

/// A dictionary and a sorted array that hold the same pairs.
pub struct Filling<'a> {
    pub dictionary: &'a dyn AnyDictionary,
    /// The sorted array beside it, if there is one for keys of this type.
    pub sorted: Option<&'a mut (dyn SortedArray + 'static)>,
    pub batches: usize,
    /// How many pairs each of them holds.
    pub len: usize,
}

impl Filling<'_> {
    /// Makes the point of this filling.
    pub fn point(&self, items: usize, samples: Vec<f64>) -> Point {
        Point { at: self.batches as f64, items: items as u64, samples }
    }
}

/// Fills a dictionary by batches of 2^b, and a sorted array with it, and calls `measure` at every filling
/// that is to be measured.
pub fn fill(
    harness: &Harness,
    (n, b): (u32, u32),
    work: u64,
    mut measure: impl FnMut(Filling<'_>) -> Outcome<()>,
) -> Outcome<()> {
    let (len, size) = (1usize << n, 1usize << b);
    let pairs = harness.pairs(len)?;
    let mut dictionary = harness.backend.dictionary(size, Upkeep::PaperLevels)?;
    let has_baselines = harness.backend.has_baselines();
    let mut sorted = has_baselines.then(|| harness.backend.sorted_array(len, len)).transpose()?;
    let fillings = harness.scale.fillings(len / size);
    let mut filled = 0;
    for &batches in &fillings {
        for r in filled..batches {
            harness.backend.apply(&mut *dictionary, &pairs, r * size..(r + 1) * size)?;
        }
        if let Some(sorted) = &mut sorted {
            sorted.insert(&pairs, filled * size..batches * size)?;
        }
        filled = batches;
        let len = batches * size;
        let sorted = sorted.as_deref_mut();
        measure(Filling { dictionary: &*dictionary, sorted, batches, len })?;
        harness.done(work / fillings.len() as u64)?;
    }
    Ok(())
}

/// Estimates the work of queries at all fillings, `cost` for a query of one level.
pub fn work(scale: &Scale, n: u32, b: u32, cost: u64) -> u64 {
    let most = 1usize << (n - b);
    let batches: usize = scale.fillings(most).iter().sum();
    ((batches as u64) << b) * cost * (2 + u64::from(n - b) / 2) * scale.repeats as u64
}

/// Returns keys to query, and whether the dictionary has them: `existing` is `all` or `none`.
pub fn queries(existing: &str, len: usize) -> (Numbers, bool) {
    match existing {
        "all" => (Numbers::shuffled(0..len as u64, len), true),
        _ => (Numbers::shuffled(MISSING..MISSING + len as u64, len), false),
    }
}

/// Returns widths of ranges, with sizes of batches that they are queried over.
pub fn range_cases(scale: &Scale) -> impl Iterator<Item = (u64, u32)> + use<> {
    let n = scale.queried;
    [8, 1024]
        .into_iter()
        .flat_map(move |wide| (n.saturating_sub(8)..=n - 4).rev().map(move |b| (wide, b)))
}

/// Returns the rows of the dictionary and of the sorted array, for ranges of a width.
pub fn range_rows(experiment: Experiment, wide: u64, b: u32, n: u32) -> Vec<Row> {
    let params: [(&str, &dyn Display); 3] = [("L", &wide), ("b", &b), ("n", &n)];
    ["gpulsm", "sa"].map(|series| row(experiment, series, &params, Some("r"))).into()
}
