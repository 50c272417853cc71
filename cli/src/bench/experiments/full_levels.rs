//! A dictionary whose first eight levels are full, or all of whose pairs are in one run.

use gpulsm::Combine;

use crate::bench::harness::Harness;
use gpulsm_backends::backend::{Outcome, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;

/// How many levels are filled: all by batches of one size, as a binary counter counts to 2^8 - 1.
pub const LEVELS: u32 = 8;

/// Returns a dictionary of as many of the first 2^n numbers' pairs as fill the levels, in so many runs, and
/// their number.
pub fn full_levels(
    harness: &Harness,
    n: u32,
    runs: u32,
    rule: Combine,
) -> Outcome<(Box<dyn AnyDictionary>, usize)> {
    let backend = &harness.backend;
    let (size, batches) = (1usize << (n - LEVELS), (1usize << LEVELS) - 1);
    let len = batches * size;
    let pairs = harness.pairs(len)?;
    let mut dictionary = backend.combining(size, Upkeep::PaperLevels, rule)?;
    for batch in 0..batches {
        backend.apply(&mut *dictionary, &pairs, batch * size..(batch + 1) * size)?;
    }
    if runs == 1 {
        dictionary.cleanup()?;
    }
    let found = dictionary.stats()?.levels.len();
    if found != runs as usize {
        return Err(format!("{found} levels, but there should be {runs}").into());
    }
    Ok((dictionary, len))
}
