//! A dictionary whose first eight levels are full, or all of whose pairs are in one run.

use gpulsm::Combine;
use gpulsm_backends::backend::{Outcome, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;

use crate::bench::harness::Harness;

/// How many levels are filled: all by batches of one size, as a binary counter counts to 2^8 - 1.
pub const LEVELS: u32 = 8;

/// What a dictionary's runs hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Every key once, in one run.
    OneRun,
    /// Every key once, in runs of all levels.
    Levels,
    /// Almost every key twice: the largest run holds those of all others too.
    StaleLevels,
}

impl Contents {
    pub fn runs(self) -> u32 {
        if self == Contents::OneRun { 1 } else { LEVELS }
    }

    /// Returns the parameters by which rows tell contents from each other.
    pub fn params(self) -> Vec<(&'static str, String)> {
        let runs = ("runs", self.runs().to_string());
        match self {
            Contents::StaleLevels => vec![runs, ("stale", "half".into())],
            Contents::OneRun | Contents::Levels => vec![runs],
        }
    }
}

/// Returns a dictionary of as many of the first 2^n numbers' pairs as fill the levels, and their number.
pub fn full_levels(
    harness: &Harness,
    n: u32,
    contents: Contents,
    rule: Combine,
) -> Outcome<(Box<dyn AnyDictionary>, usize)> {
    let backend = &harness.backend;
    let (size, batches) = (1usize << (n - LEVELS), (1usize << LEVELS) - 1);
    let distinct = if contents == Contents::StaleLevels { batches.div_ceil(2) } else { batches };
    let len = distinct * size;
    let pairs = harness.pairs(len)?;
    let mut dictionary = backend.combining(size, Upkeep::PaperLevels, rule)?;
    for batch in (0..batches).map(|batch| batch % distinct) {
        backend.apply(&mut *dictionary, &pairs, batch * size..(batch + 1) * size)?;
    }
    if contents == Contents::OneRun {
        dictionary.cleanup()?;
    }
    let (found, wanted) = (dictionary.stats()?.levels.len(), contents.runs());
    if found != wanted as usize {
        return Err(format!("{found} levels, but there should be {wanted}").into());
    }
    Ok((dictionary, len))
}
