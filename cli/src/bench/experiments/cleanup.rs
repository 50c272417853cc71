//! Cleanup, against rebuilding, and what it does for lookups: section V-D of the paper.

use std::fmt::Display;

use gpulsm_backends::backend::{Kind, Outcome, Pairs, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

/// Added to the number of a key that was replaced to make its new value.
const REPLACED: u64 = 1 << 29;

/// The paper's dictionaries with stale entries: 2^k - 1 batches, so that all levels are full. The batches
/// of all levels but the last replace keys of the last, so that none is dropped before its time.
struct Stale {
    batches: usize,
    size: usize,
    /// Numbers below this were replaced.
    replaced: usize,
}

impl Stale {
    fn new(batches: usize, b: u32, percent: usize) -> Self {
        let size = 1usize << b;
        // Half of the batches, and one more, are in the last level; the others can replace no more keys
        // than they have.
        let most = batches / 2 * size;
        Stale { batches, size, replaced: (batches * size * percent / 100).min(most) }
    }

    fn entries(&self) -> usize {
        self.batches * self.size
    }

    fn live(&self) -> usize {
        self.entries() - self.replaced
    }

    /// Returns the number of entry i, in the order of insertion, and whether it replaces another.
    fn number(&self, i: usize) -> (u64, bool) {
        let oldest = (self.batches / 2 + 1) * self.size;
        if i < oldest {
            return (i as u64, false);
        }
        // The first entries of each later batch replace, and the rest are new.
        let (batch, index) = ((i - oldest) / self.size, i % self.size);
        let later = self.batches / 2;
        let before = |batch: usize| self.replaced * batch / later;
        let own = before(batch + 1) - before(batch);
        match index < own {
            true => ((before(batch) + index) as u64, true),
            false => ((oldest + batch * self.size - before(batch) + index - own) as u64, false),
        }
    }

    /// Returns the value that a number has in the end.
    fn value(&self, harness: &Harness, number: u64) -> u64 {
        let is_replaced = (number as usize) < self.replaced;
        harness.value_of(if is_replaced { number + REPLACED } else { number })
    }

    fn pairs(&self, harness: &Harness) -> Outcome<Pairs> {
        let value = |i: usize| {
            let (number, replaces) = self.number(i);
            if replaces { number + REPLACED } else { number }
        };
        let (backend, key) = (&harness.backend, harness.scatter());
        Ok(Pairs {
            keys: backend.array(Kind::Key, self.entries(), &|i| key(self.number(i).0))?,
            values: backend.array(Kind::Value, self.entries(), &value)?,
        })
    }

    fn dictionary(&self, harness: &Harness, pairs: &Pairs) -> Outcome<Box<dyn AnyDictionary>> {
        let mut dictionary = harness.backend.dictionary(self.size, Upkeep::Manual)?;
        for r in 0..self.batches {
            let part = r * self.size..(r + 1) * self.size;
            harness.backend.apply(&mut *dictionary, pairs, part)?;
        }
        let stats = dictionary.stats()?;
        let (held, expected) =
            ((stats.entries, stats.stale), (self.entries() as u64, self.replaced as u64));
        same("stale entries", &"the dictionary", &held, &expected)?;
        Ok(dictionary)
    }
}

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let mut cases = Vec::new();
    for (batches, b) in [(63, n - 4), (127, n - 5)] {
        for percent in [10, 50] {
            cases.push(case(batches, b, percent, false));
        }
    }
    cases.push(case(127, n - 6, 10, true));
    cases
}

fn case(batches: usize, b: u32, percent: usize, lookups: bool) -> Case {
    let mut series = vec!["gpulsm", "rebuild"];
    if lookups {
        series.extend(["lookup-before", "lookup-after"]);
    }
    let params: [(&str, &dyn Display); 3] = [("b", &b), ("batches", &batches), ("stale", &percent)];
    let rows =
        series.iter().map(|series| row(Experiment::Cleanup, series, &params, None)).collect();
    let work = (batches as u64) << (b + 7);
    let job =
        move |harness: &Harness| measure(harness, &Stale::new(batches, b, percent), work, lookups);
    Case { rows, work, job: Box::new(job) }
}

fn measure(harness: &Harness, stale: &Stale, work: u64, lookups: bool) -> Outcome<Vec<Vec<Point>>> {
    let pairs = stale.pairs(harness)?;
    let dictionary = stale.dictionary(harness, &pairs)?;
    harness.done(work / 2)?;
    let (samples, cleaned) = harness.repeat_anew(
        || Ok(dictionary.fork()),
        |cleaned| Ok(cleaned.cleanup()?),
        |cleaned| {
            let stats = cleaned.stats()?;
            let left = (stats.entries, stats.stale);
            same("entries", &"the clean dictionary", &left, &(stale.live() as u64, 0))
        },
    )?;
    let numbers = Numbers::shuffled(0..stale.live() as u64, stale.live());
    let expected = |number| Some(stale.value(harness, number));
    harness.check_held(&*cleaned, numbers, expected)?;
    let mut points = vec![Point::alone(stale.entries(), samples)];
    points.push(Point::alone(stale.entries(), rebuild(harness, stale, &pairs)?));
    if lookups {
        for dictionary in [&dictionary, &cleaned] {
            points.push(look_up(harness, stale, &**dictionary)?);
        }
    }
    harness.done(work - work / 2)?;
    Ok(points)
}

/// Builds a new dictionary from everything: the alternative to a cleanup.
fn rebuild(harness: &Harness, stale: &Stale, pairs: &Pairs) -> Outcome<Vec<f64>> {
    let backend = &harness.backend;
    let (samples, _) = harness.repeat_anew(
        || backend.dictionary(stale.size, Upkeep::Manual),
        |rebuilt| backend.insert(&mut **rebuilt, pairs, 0..stale.entries()),
        |rebuilt| same("length", &"the rebuilt dictionary", &rebuilt.len()?, &stale.live()),
    )?;
    Ok(samples)
}

/// Looks up about as many keys as there are entries (32 million in the paper), all of which exist.
fn look_up(
    harness: &Harness,
    stale: &Stale,
    dictionary: &dyn AnyDictionary,
) -> Outcome<Vec<Point>> {
    let count = (stale.batches + 1) * stale.size;
    let numbers = Numbers::shuffled(0..stale.live() as u64, count);
    let keys = harness.keys(numbers)?;
    let mut out = harness.lookup_out(count)?;
    let samples = harness.repeat(|| harness.backend.lookup(dictionary, &keys, &mut out))?;
    let expected = |number| Some(stale.value(harness, number));
    harness.check_lookups("lookup", numbers, &out, expected)?;
    Ok(Point::alone(count, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_entries_are_as_many_as_said_and_every_number_is_there() {
        for (batches, percent) in [(63, 10), (63, 50), (127, 10), (127, 50), (1, 0)] {
            let stale = Stale::new(batches, 6, percent);
            let entries: Vec<_> = (0..stale.entries()).map(|i| stale.number(i)).collect();
            let replacing: Vec<u64> =
                entries.iter().filter(|entry| entry.1).map(|entry| entry.0).collect();
            assert!(replacing.into_iter().eq(0..stale.replaced as u64));
            let mut new: Vec<u64> =
                entries.iter().filter(|entry| !entry.1).map(|entry| entry.0).collect();
            new.sort_unstable();
            assert!(new.into_iter().eq(0..stale.live() as u64));
            let share = stale.replaced * 100 / stale.entries();
            assert!(share.abs_diff(percent) <= 1, "{share} % of {batches} batches");
        }
    }
}
