//! Which filters a search uses, be it a lookup or a batch that looks for its shadows, and when they are made.
//!
//! A run gets a filter once there were enough searches in it to pay for one, or is written with one where
//! that is foreseen (`update/absorb.rs`). The newest runs, which are short and many, also get a joint one.

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::Filters;
use crate::cuda::run::Run;
use crate::cuda::run::filter::{Filter, FilterKeys};
use crate::error::Error;

/// A run gets a filter after this many searches in it…
const MIN_SEARCHES: u64 = 1 << 18;

/// …and, for lookups, one more for every two entries: building a filter takes as long as that.
const ENTRIES_PER_LOOKUP: u64 = 2;

/// The newest runs get a joint filter if there are at least this many of them…
const MIN_JOINT_RUNS: usize = 3;

/// …that have at most an eighth of all entries together.
const JOINT_PART: u64 = 8;

/// Returns the filters for `lookups` lookups on this stream, which has waited for the runs.
pub(crate) fn lookup_filters(
    cuda: &EnteredCuda<'_>,
    runs: &[Run],
    lookups: u64,
) -> Result<Filters, Error> {
    if runs.len() < 2 {
        return Ok(Filters::default()); // Every key has to be searched for in the only run.
    }
    let mut filters = run_filters(cuda, runs, lookups, ENTRIES_PER_LOOKUP)?;
    let newest = &runs[..newest(runs)];
    if newest.len() < MIN_JOINT_RUNS
        || filters.words[..newest.len()].contains(&0)
        || !has_enough_searches(&newest[0], ENTRIES_PER_LOOKUP)
    {
        return Ok(filters);
    }
    // Older runs hardly ever change without a newer one: it can stay with the newest.
    let joint = newest[0].joint_filter(|| build(cuda, newest));
    if let Some(joint) = joint.filter(|joint| joint.is_of(newest.iter().map(Run::id))) {
        (filters.joint, filters.joint_len) = joint.read(cuda)?;
        filters.joint_runs = newest.len() as u32;
    }
    Ok(filters)
}

/// Returns the filters of the single runs, for `searches` searches on this stream, which has waited for the
/// runs. One is built if there were `MIN_SEARCHES` searches in the run, and one more for every
/// `entries_per_search` entries.
pub(crate) fn run_filters(
    cuda: &EnteredCuda<'_>,
    runs: &[Run],
    searches: u64,
    entries_per_search: u64,
) -> Result<Filters, Error> {
    let mut filters = Filters::default();
    for (at, run) in runs.iter().enumerate() {
        run.count_searches(searches);
        let is_due = has_enough_searches(run, entries_per_search);
        let make = || if is_due { build(cuda, &runs[at..=at]) } else { None };
        match run.filter(make) {
            Some(filter) => (filters.words[at], filters.len[at]) = filter.read(cuda)?,
            // There was no memory for it: it is tried again after as many searches.
            None if is_due => run.forget_searches(),
            None => {}
        }
    }
    Ok(filters)
}

/// Builds one filter for these runs, if there is memory for it.
fn build(cuda: &EnteredCuda<'_>, runs: &[Run]) -> Option<Filter> {
    let keys: Vec<FilterKeys> = runs.iter().map(Run::filter_keys).collect();
    Filter::build(cuda, &keys)
}

/// Returns whether there were enough searches in the run for a filter to pay.
fn has_enough_searches(run: &Run, entries_per_search: u64) -> bool {
    run.searches() >= run.bound() / entries_per_search + MIN_SEARCHES
}

/// Returns how many of the newest runs have few entries together.
fn newest(runs: &[Run]) -> usize {
    let all: u64 = runs.iter().map(Run::bound).sum();
    let mut entries = 0;
    let is_few = |run: &&Run| {
        entries += run.bound();
        entries <= all / JOINT_PART
    };
    runs.iter().take_while(is_few).count()
}
