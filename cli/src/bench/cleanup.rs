//! Cleanup, against rebuilding, and what it does for lookups: section V-D of the paper.

use gpulsm::{Dictionary, Snapshot};

use super::lab::{Case, Lab, same};
use super::numbers::{Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Outcome, Pairs, Site};
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

    /// The number of entry i, in the order they come, and whether it replaces another.
    fn number(&self, i: usize) -> (u64, bool) {
        let oldest = (self.batches / 2 + 1) * self.size;
        if i < oldest {
            return (i as u64, false);
        }
        // So many entries of each later batch replace, and the rest are new.
        let (batch, place) = ((i - oldest) / self.size, i % self.size);
        let later = self.batches / 2;
        let before = |batch: usize| self.replaced * batch / later;
        let own = before(batch + 1) - before(batch);
        match place < own {
            true => ((before(batch) + place) as u64, true),
            false => ((oldest + batch * self.size - before(batch) + place - own) as u64, false),
        }
    }

    fn value<V: Number>(&self, number: u64) -> V {
        V::of(if (number as usize) < self.replaced { number + REPLACED } else { number })
    }

    fn pairs<S: Site<K, V>, K: Number, V: Number>(
        &self,
        lab: &Lab<S, K, V>,
    ) -> Outcome<Pairs<S, K, V>> {
        let all = Numbers::counting(0..self.entries() as u64);
        let value = |(number, replaces): (u64, bool)| {
            V::of(if replaces { number + REPLACED } else { number })
        };
        let key = lab.scatter();
        Ok(Pairs {
            keys: lab.site.array(all.map(|i| key(self.number(i as usize).0)))?,
            values: lab.site.array(all.map(|i| value(self.number(i as usize))))?,
        })
    }

    /// The dictionary itself.
    fn dictionary<S: Site<K, V>, K: Number, V: Number>(
        &self,
        lab: &Lab<S, K, V>,
        pairs: &Pairs<S, K, V>,
    ) -> Outcome<Dictionary<K, V>> {
        let mut dictionary = lab.site.dictionary(self.size)?;
        for r in 0..self.batches {
            lab.site.take_in(&mut dictionary, pairs, r * self.size..(r + 1) * self.size)?;
        }
        let stats = dictionary.stats()?;
        let held = (stats.entries, stats.stale);
        same(
            "stale entries",
            &"the dictionary",
            &held,
            &(self.entries() as u64, self.replaced as u64),
        )?;
        Ok(dictionary)
    }
}

/// Section V-D.
pub fn cleanup<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let mut cases = Vec::new();
    for (batches, b) in [(63, n - 4), (127, n - 5)] {
        for percent in [10, 50] {
            cases.push(clean(batches, b, percent, false));
        }
    }
    cases.push(clean(127, n - 6, 10, true));
    cases
}

fn clean<S: Site<K, V> + 'static, K: Number, V: Number>(
    batches: usize,
    b: u32,
    percent: usize,
    lookups: bool,
) -> Case<S, K, V> {
    let mut series = vec!["gpulsm", "rebuild"];
    if lookups {
        series.extend(["lookup-before", "lookup-after"]);
    }
    let params: [(&str, &dyn std::fmt::Display); 3] =
        [("b", &b), ("batches", &batches), ("stale", &percent)];
    let rows = series.iter().map(|series| row("cleanup", series, &params, None)).collect();
    let work = (batches as u64) << (b + 7);
    let job = move |lab: &Lab<S, K, V>| {
        let stale = Stale::new(batches, b, percent);
        let pairs = stale.pairs(lab)?;
        let dictionary = stale.dictionary(lab, &pairs)?;
        lab.done(work / 2)?;
        // As it is, again and again: clones share what they hold.
        let (samples, cleaned) = lab.repeat_anew(
            || Ok(dictionary.clone()),
            |cleaned| Ok(cleaned.cleanup()?),
            |cleaned| {
                let stats = cleaned.stats()?;
                let left = (stats.entries, stats.stale);
                same("entries", &"the clean dictionary", &left, &(stale.live() as u64, 0))
            },
        )?;
        let numbers = Numbers::shuffled(0..stale.live() as u64, stale.live());
        lab.check_held("lookup", &cleaned, numbers, |number| Some(stale.value(number)))?;
        let mut points = vec![Point::alone(stale.entries(), samples)];
        points.push(Point::alone(stale.entries(), rebuild(lab, &stale, &pairs)?));
        if lookups {
            for dictionary in [&dictionary, &cleaned] {
                points.push(look_up_many(lab, &stale, dictionary)?);
            }
        }
        lab.done(work - work / 2)?;
        Ok(points)
    };
    Case { rows, work, job: Box::new(job) }
}

/// What one would do without a cleanup: build anew from everything.
fn rebuild<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stale: &Stale,
    pairs: &Pairs<S, K, V>,
) -> Outcome<Vec<f64>> {
    let (samples, _) = lab.repeat_anew(
        || lab.site.dictionary(stale.size),
        |anew| lab.site.insert(anew, pairs, 0..stale.entries()),
        |anew| same("length", &"the dictionary built anew", &anew.len()?, &stale.live()),
    )?;
    Ok(samples)
}

/// About as many lookups as there are entries (32 million in the paper), all of keys that are there.
fn look_up_many<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stale: &Stale,
    dictionary: &Snapshot<K, V>,
) -> Outcome<Vec<Point>> {
    let many = (stale.batches + 1) * stale.size;
    let numbers = Numbers::shuffled(0..stale.live() as u64, many);
    let keys = lab.keys(numbers)?;
    let (mut values, mut found) = (lab.site.zeroed(many)?, lab.site.found(many)?);
    let samples = lab.repeat(|| lab.site.lookup(dictionary, &keys, &mut values, &mut found))?;
    lab.check_lookups("lookup", numbers, &values, &found, |number| Some(stale.value(number)))?;
    Ok(Point::alone(many, samples))
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
