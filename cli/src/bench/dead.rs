//! Ranges, scans and successors across dead areas. Deleting neighbouring keys leaves their entries and
//! tombstones in the runs until a cleanup; queries that cross them are measured beside the same queries
//! where nothing was deleted.

use std::fmt::Display;
use std::ops::Range;

use gpulsm::Dictionary;

use super::lab::{Case, Lab, same};
use super::numbers::{Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Ends, Listed, Nearest, Outcome, Pairs, Site};
use crate::results::Point;

/// The queries of each dead area.
const OPS: [&str; 6] = ["one", "short", "long", "empty", "scan", "successor"];

/// Dictionaries with a dead area, and those that replace the same keys instead of deleting them.
const SERIES: [&str; 2] = ["gpulsm", "alive"];

/// Dead areas, as the powers of two that n is divided by.
const PARTS: [u32; 3] = [6, 4, 2];

/// Pairs in short and in long ranges.
const SHORT: usize = 8;
const LONG: usize = 1 << 10;

/// The most queries in one call; of long ranges there are fewer.
const MOST_QUERIES: usize = 1 << 14;
const MOST_LONG: usize = 1 << 10;

/// Measures queries across dead areas of several sizes.
pub fn dead<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let make = |part: u32| {
        let dead = n - part;
        let rows = OPS.iter().flat_map(|op| {
            let params: [(&str, &dyn Display); 3] = [("dead", &dead), ("n", &n), ("op", op)];
            SERIES.map(|series| row("dead", series, &params, None))
        });
        let work = OPS.len() as u64 * (8 << n);
        let job = move |lab: &Lab<S, K, V>| {
            let sorted = lab.sorted(1 << n);
            let subjects =
                [Subject::dead(lab, &sorted, 1 << dead)?, Subject::alive(lab, &sorted, 1 << dead)?];
            let mut points = Vec::new();
            for op in OPS {
                for subject in &subjects {
                    points.push(subject.measure(lab, op)?);
                }
                lab.done(work / OPS.len() as u64)?;
            }
            Ok(points)
        };
        Case { rows: rows.collect(), work, job: Box::new(job) }
    };
    PARTS.into_iter().map(make).collect()
}

/// A dictionary, what it should hold, and where to query it.
struct Subject<'a, K: Number, V: Number> {
    dictionary: Dictionary<K, V>,
    live: Live<'a, K>,
    /// Ranges without any pair.
    empty: Vec<(K, K)>,
}

/// Live keys with their numbers, in key order, cut in two where ranges cross from one part to the other.
/// A dead area, if there is one, lies between the parts.
struct Live<'a, K> {
    before: &'a [(K, u64)],
    after: &'a [(K, u64)],
}

impl<K: Number> Live<'_, K> {
    fn at(&self, index: usize) -> (K, u64) {
        match index.checked_sub(self.before.len()) {
            None => self.before[index],
            Some(index) => self.after[index],
        }
    }

    /// Returns the places of the keys from `lo` to `hi`.
    fn within(&self, lo: K, hi: K) -> Range<usize> {
        let start = |part: &[(K, u64)]| part.partition_point(|&(key, _)| key < lo);
        let end = |part: &[(K, u64)]| part.partition_point(|&(key, _)| key <= hi);
        start(self.before) + start(self.after)..end(self.before) + end(self.after)
    }

    /// Returns ranges of `wide` pairs each, about half of them on either side of the cut.
    fn across(&self, wide: usize, count: usize) -> Vec<(K, K)> {
        let range = |i: usize| {
            let before = wide / 2 - 3 + (i + 3) % 7;
            let start = self.before.len() - before;
            (self.at(start).0, self.at(start + wide - 1).0)
        };
        (0..count).map(range).collect()
    }
}

/// Returns ranges from one key of a dead area to another.
fn inside<K: Number>(dead: &[(K, u64)], count: usize) -> Vec<(K, K)> {
    let starts = Numbers::shuffled(0..dead.len() as u64, count);
    let range = |i: usize| {
        let from = &dead[starts.at(i) as usize..];
        let further = u32::scattered(i as u64) as usize % from.len();
        (from[0].0, from[further].0)
    };
    (0..count).map(range).collect()
}

/// Returns ranges between neighbouring keys. Keys without any key between them are passed over.
fn between<K: Number>(keys: &[(K, u64)], count: usize) -> Vec<(K, K)> {
    let gap = |pair: &[(K, u64)]| (pair[0].0.plus(1), K::of(pair[1].0.wide() - 1));
    let gaps = keys.windows(2).map(gap).filter(|(lo, hi)| lo <= hi);
    let gaps: Vec<(K, K)> = gaps.collect();
    let places = Numbers::shuffled(0..gaps.len() as u64, count);
    (0..count).map(|i| gaps[places.at(i) as usize]).collect()
}

/// Returns how many queries one call has, in a dictionary of `len` pairs.
fn queries(len: usize) -> usize {
    MOST_QUERIES.min(len / 16)
}

/// Returns the area in the middle of the keys that is deleted or replaced.
fn middle(len: usize, dead: usize) -> Range<usize> {
    len / 2 - dead / 2..len / 2 + dead / 2
}

/// What becomes of the keys in the middle.
enum Change {
    Delete,
    Replace,
}

impl<'a, K: Number, V: Number> Subject<'a, K, V> {
    /// Makes a dictionary whose middle `dead` keys are deleted.
    fn dead<S: Site<K, V>>(
        lab: &Lab<S, K, V>,
        sorted: &'a [(K, u64)],
        dead: usize,
    ) -> Outcome<Self> {
        let area = middle(sorted.len(), dead);
        let dictionary = changed(lab, sorted, area.clone(), Change::Delete)?;
        let live = Live { before: &sorted[..area.start], after: &sorted[area.end..] };
        let empty = inside(&sorted[area], queries(sorted.len()));
        Ok(Subject { dictionary, live, empty })
    }

    /// Makes a dictionary of the same runs where the same keys are replaced, to be queried elsewhere: in
    /// an area of as many keys that does not meet them.
    fn alive<S: Site<K, V>>(
        lab: &Lab<S, K, V>,
        sorted: &'a [(K, u64)],
        dead: usize,
    ) -> Outcome<Self> {
        let dictionary = changed(lab, sorted, middle(sorted.len(), dead), Change::Replace)?;
        let (before, after) = sorted.split_at(sorted.len() / 16 * 3);
        let area = before.len() - dead / 2..before.len() + dead / 2;
        let empty = between(&sorted[area], queries(sorted.len()));
        Ok(Subject { dictionary, live: Live { before, after }, empty })
    }

    /// Measures and checks one kind of query.
    fn measure<S: Site<K, V>>(&self, lab: &Lab<S, K, V>, op: &str) -> Outcome<Vec<Point>> {
        let len = 1 << lab.scale.asked;
        let wide = LONG.min(len / 8);
        match op {
            "one" => self.list(lab, op, &self.live.across(SHORT, 1)),
            "short" => self.list(lab, op, &self.live.across(SHORT, queries(len))),
            "long" => {
                let count = (len / 4 / wide).min(MOST_LONG);
                self.list(lab, op, &self.live.across(wide, count))
            }
            "empty" => self.list(lab, op, &self.empty),
            "scan" => self.list(lab, op, &[(K::of(0), K::MAX)]),
            _ => self.succeed(lab, op),
        }
    }

    /// Lists the pairs of ranges in one call, and compares all of them.
    fn list<S: Site<K, V>>(
        &self,
        lab: &Lab<S, K, V>,
        op: &str,
        ranges: &[(K, K)],
    ) -> Outcome<Vec<Point>> {
        let (lo, hi) = ranges.iter().copied().unzip();
        let ends = Ends { lo: lab.site.array(lo)?, hi: lab.site.array(hi)?, len: ranges.len() };
        let expected: Vec<_> = ranges.iter().map(|&(lo, hi)| self.live.within(lo, hi)).collect();
        let total: usize = expected.iter().map(Range::len).sum();
        let mut answers = Listed {
            offsets: lab.site.zeroed(ranges.len() + 1)?,
            keys: lab.site.zeroed(total.max(1))?,
            values: lab.site.zeroed(total.max(1))?,
        };
        let samples = lab.repeat(|| lab.site.range(&self.dictionary, &ends, &mut answers))?;
        let offsets = lab.site.copy(&answers.offsets, 0..ranges.len() + 1)?;
        let mut end = 0;
        same(op, &"the first offset", &offsets[0], &end)?;
        for (i, places) in expected.iter().enumerate() {
            end += places.len() as u64;
            same(op, &ranges[i], &offsets[i + 1], &end)?;
        }
        let keys = lab.site.copy(&answers.keys, 0..total)?;
        let values = lab.site.copy(&answers.values, 0..total)?;
        lab.compared(ranges.len() + total);
        let places = expected.into_iter().flatten();
        for (place, pair) in places.zip(keys.into_iter().zip(values)) {
            let (key, number) = self.live.at(place);
            same(op, &place, &pair, &(key, V::of(number)))?;
        }
        Ok(Point::alone(if op == "scan" { total } else { ranges.len() }, samples))
    }

    /// Finds the successors of the first keys of the empty ranges, and compares all of them.
    fn succeed<S: Site<K, V>>(&self, lab: &Lab<S, K, V>, op: &str) -> Outcome<Vec<Point>> {
        let asked: Vec<K> = self.empty.iter().map(|&(lo, _)| lo).collect();
        let (site, len) = (&lab.site, asked.len());
        let (keys, values) = (site.zeroed(len)?, site.zeroed(len)?);
        let mut answers: Nearest<S, K, V> = Nearest { keys, values, found: site.found(len)? };
        let queried = site.array(asked.clone())?;
        let samples = lab.repeat(|| site.successor(&self.dictionary, &queried, &mut answers))?;
        let (keys, values) =
            (site.copy(&answers.keys, 0..len)?, site.copy(&answers.values, 0..len)?);
        let found = site.copy_found(&answers.found, 0..len)?;
        lab.compared(len);
        for (i, key) in asked.iter().enumerate() {
            let place = self.live.within(*key, K::MAX).start;
            let (next, number) = self.live.at(place);
            same(op, key, &(keys[i], values[i], found[i]), &(next, V::of(number), true))?;
        }
        Ok(Point::alone(len, samples))
    }
}

/// Makes a dictionary of all pairs in two runs, then deletes or replaces an area in one batch, which
/// becomes a third run: it fits into a level below theirs, so that nothing is merged.
fn changed<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    sorted: &[(K, u64)],
    area: Range<usize>,
    change: Change,
) -> Outcome<Dictionary<K, V>> {
    let (site, len, dead) = (&lab.site, sorted.len(), area.len());
    let pairs = lab.pairs(len)?;
    // Capacities double from n / 64 on: 5/8 n lies in the level of n, 3/8 n in that of n / 2, and the
    // batch, n / 4 at most, in a lower one.
    let mut dictionary = site.levels(len / 64)?;
    let first = len / 8 * 5;
    site.take_in(&mut dictionary, &pairs, 0..first)?;
    site.take_in(&mut dictionary, &pairs, first..len)?;
    let keys = sorted[area.clone()].iter().map(|&(key, _)| key).collect();
    let values = sorted[area].iter().map(|&(_, number)| V::of(number)).collect();
    let batch = Pairs { keys: site.array(keys)?, values: site.array(values)? };
    let (inserts, deletes, live) = match change {
        Change::Delete => (0..0, 0..dead, len - dead),
        Change::Replace => (0..dead, 0..0, len),
    };
    site.update(&mut dictionary, (&batch, inserts), (&batch.keys, deletes))?;
    dictionary.settle()?;
    let stats = dictionary.stats()?;
    let runs: Vec<u64> = stats.levels.iter().map(|level| level.entries).collect();
    same(
        "runs",
        &"the dictionary",
        &runs,
        &[dead, len - first, first].map(|len| len as u64).into(),
    )?;
    same("length", &"the dictionary", &stats.live, &(live as u64))?;
    Ok(dictionary)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys 10, 20, … 10,240: those from 4,010 to 6,000 are dead.
    fn keys() -> Vec<(u32, u64)> {
        (1..=1024).map(|number| (10 * number as u32, number)).collect()
    }

    #[test]
    fn ranges_cross_the_dead_area_with_the_pairs_they_should_have() {
        let keys = keys();
        let live = Live { before: &keys[..400], after: &keys[600..] };
        assert_eq!(live.across(8, 1), [(3970, 6040)], "four pairs on either side");
        for (wide, count) in [(8, 20), (64, 20)] {
            let ranges = live.across(wide, count);
            for (lo, hi) in &ranges {
                assert!(*lo <= 4000 && *hi > 6000);
                assert_eq!(live.within(*lo, *hi).len(), wide);
            }
            assert_eq!(ranges[..7].iter().collect::<std::collections::HashSet<_>>().len(), 7);
        }
    }

    #[test]
    fn empty_ranges_lie_where_no_key_is() {
        let keys = keys();
        let live = Live { before: &keys[..400], after: &keys[600..] };
        let ranges = inside(&keys[400..600], 300);
        assert!(ranges.iter().all(|&(lo, hi)| 4010 <= lo && lo <= hi && hi <= 6000));
        assert!(ranges.iter().all(|&(lo, hi)| live.within(lo, hi) == (400..400)));
        assert!(ranges.iter().any(|&(lo, hi)| hi - lo > 1000));

        let neighbours = [(7u32, 0), (8, 1), (10, 2), (u32::MAX, 3)];
        let live = Live { before: &neighbours[..2], after: &neighbours[2..] };
        let ranges = between(&neighbours, 6);
        assert!(ranges.contains(&(9, 9)) && ranges.contains(&(11, u32::MAX - 1)));
        assert!(ranges.iter().all(|&(lo, hi)| lo <= hi && live.within(lo, hi).is_empty()));
    }

    #[test]
    fn queries_of_living_areas_do_not_meet_the_keys_that_are_replaced() {
        for len in [1usize << 13, 1 << 18] {
            let dead = len >> PARTS[PARTS.len() - 1];
            let cut = len / 16 * 3;
            assert!(cut >= dead / 2 && cut + dead / 2 <= middle(len, dead).start);
            assert!(LONG.min(len / 8) / 2 + 3 <= cut);
        }
    }
}
