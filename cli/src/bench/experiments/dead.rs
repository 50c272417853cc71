//! Ranges, scans and successors across dead areas. Deleting neighbouring keys leaves their entries and
//! tombstones in the runs until a cleanup; queries that cross them are measured beside the same queries
//! where nothing was deleted.

use std::fmt::Display;
use std::ops::Range;

use gpulsm_backends::backend::{Kind, Outcome, Pairs, RangeEnds, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::{Numbers, Width};

use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
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

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let make = |part: u32| {
        let dead = n - part;
        let rows = OPS.iter().flat_map(|op| {
            let params: [(&str, &dyn Display); 3] = [("dead", &dead), ("n", &n), ("op", op)];
            SERIES.map(|series| row(Experiment::Dead, series, &params, None))
        });
        let work = OPS.len() as u64 * (8 << n);
        let job = move |harness: &Harness| {
            let sorted = harness.sorted(1 << n);
            let subjects = [
                Subject::dead(harness, &sorted, 1 << dead)?,
                Subject::alive(harness, &sorted, 1 << dead)?,
            ];
            let mut points = Vec::new();
            for op in OPS {
                for subject in &subjects {
                    points.push(subject.measure(harness, op)?);
                }
                harness.done(work / OPS.len() as u64)?;
            }
            Ok(points)
        };
        Case { rows: rows.collect(), work, job: Box::new(job) }
    };
    PARTS.map(make).into()
}

/// A dictionary, what it should hold, and where to query it.
struct Subject<'a> {
    dictionary: Box<dyn AnyDictionary>,
    live: Live<'a>,
    /// Ranges without any pair.
    empty: Vec<(u64, u64)>,
}

/// Live keys with their numbers, in key order, cut in two where ranges cross from one part to the other.
/// A dead area, if there is one, lies between the parts.
struct Live<'a> {
    before: &'a [(u64, u64)],
    after: &'a [(u64, u64)],
}

impl Live<'_> {
    fn at(&self, index: usize) -> (u64, u64) {
        match index.checked_sub(self.before.len()) {
            None => self.before[index],
            Some(index) => self.after[index],
        }
    }

    /// Returns the indices of the keys from `lo` to `hi`.
    fn within(&self, lo: u64, hi: u64) -> Range<usize> {
        let start = |part: &[(u64, u64)]| part.partition_point(|&(key, _)| key < lo);
        let end = |part: &[(u64, u64)]| part.partition_point(|&(key, _)| key <= hi);
        start(self.before) + start(self.after)..end(self.before) + end(self.after)
    }

    /// Returns ranges of `wide` pairs each, about half of them on either side of the cut.
    fn across(&self, wide: usize, count: usize) -> Vec<(u64, u64)> {
        let range = |i: usize| {
            let before = wide / 2 - 3 + (i + 3) % 7;
            let start = self.before.len() - before;
            (self.at(start).0, self.at(start + wide - 1).0)
        };
        (0..count).map(range).collect()
    }
}

/// Returns ranges from one key of a dead area to another.
fn inside(dead: &[(u64, u64)], count: usize) -> Vec<(u64, u64)> {
    let starts = Numbers::shuffled(0..dead.len() as u64, count);
    let range = |i: usize| {
        let from = &dead[starts.at(i) as usize..];
        let further = Width::U32.scatter(i as u64) as usize % from.len();
        (from[0].0, from[further].0)
    };
    (0..count).map(range).collect()
}

/// Returns ranges between neighbouring keys. Keys without any key between them are skipped.
fn between(keys: &[(u64, u64)], count: usize) -> Vec<(u64, u64)> {
    let gap = |pair: &[(u64, u64)]| (pair[0].0 + 1, pair[1].0 - 1);
    let gaps = keys.windows(2).map(gap).filter(|(lo, hi)| lo <= hi);
    let gaps: Vec<(u64, u64)> = gaps.collect();
    let indices = Numbers::shuffled(0..gaps.len() as u64, count);
    (0..count).map(|i| gaps[indices.at(i) as usize]).collect()
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

impl<'a> Subject<'a> {
    /// Makes a dictionary whose middle `dead` keys are deleted.
    fn dead(harness: &Harness, sorted: &'a [(u64, u64)], dead: usize) -> Outcome<Self> {
        let area = middle(sorted.len(), dead);
        let dictionary = changed(harness, sorted, area.clone(), Change::Delete)?;
        let live = Live { before: &sorted[..area.start], after: &sorted[area.end..] };
        let empty = inside(&sorted[area], queries(sorted.len()));
        Ok(Subject { dictionary, live, empty })
    }

    /// Makes a dictionary of the same runs where the same keys are replaced, to be queried elsewhere: in
    /// an area of as many keys that does not meet them.
    fn alive(harness: &Harness, sorted: &'a [(u64, u64)], dead: usize) -> Outcome<Self> {
        let dictionary = changed(harness, sorted, middle(sorted.len(), dead), Change::Replace)?;
        let (before, after) = sorted.split_at(sorted.len() / 16 * 3);
        let area = before.len() - dead / 2..before.len() + dead / 2;
        let empty = between(&sorted[area], queries(sorted.len()));
        Ok(Subject { dictionary, live: Live { before, after }, empty })
    }

    /// Measures and checks one kind of query.
    fn measure(&self, harness: &Harness, op: &str) -> Outcome<Vec<Point>> {
        let len = 1 << harness.scale.queried;
        let wide = LONG.min(len / 8);
        match op {
            "one" => self.list(harness, op, &self.live.across(SHORT, 1)),
            "short" => self.list(harness, op, &self.live.across(SHORT, queries(len))),
            "long" => {
                let count = (len / 4 / wide).min(MOST_LONG);
                self.list(harness, op, &self.live.across(wide, count))
            }
            "empty" => self.list(harness, op, &self.empty),
            "scan" => self.list(harness, op, &[(0, harness.key.max())]),
            _ => self.succeed(harness, op),
        }
    }

    /// Lists the pairs of ranges in one call, and compares all of them.
    fn list(&self, harness: &Harness, op: &str, ranges: &[(u64, u64)]) -> Outcome<Vec<Point>> {
        let (lo, hi): (Vec<u64>, Vec<u64>) = ranges.iter().copied().unzip();
        let (lo, hi) = (harness.array(Kind::Key, &lo)?, harness.array(Kind::Key, &hi)?);
        let ends = RangeEnds { lo, hi, len: ranges.len() };
        let expected: Vec<_> = ranges.iter().map(|&(lo, hi)| self.live.within(lo, hi)).collect();
        let total: usize = expected.iter().map(Range::len).sum();
        let mut out = harness.range_out(ranges.len(), total.max(1))?;
        let samples =
            harness.repeat(|| harness.backend.range(&*self.dictionary, &ends, &mut out))?;
        let offsets = out.offsets.copy(0..ranges.len() + 1)?;
        let mut end = 0;
        same(op, &"the first offset", &offsets[0], &end)?;
        for (i, indices) in expected.iter().enumerate() {
            end += indices.len() as u64;
            same(op, &ranges[i], &offsets[i + 1], &end)?;
        }
        let (keys, values) = (out.keys.copy(0..total)?, out.values.copy(0..total)?);
        harness.compared(ranges.len() + total);
        let indices = expected.into_iter().flatten();
        for (index, pair) in indices.zip(keys.into_iter().zip(values)) {
            let (key, number) = self.live.at(index);
            same(op, &index, &pair, &(key, harness.value_of(number)))?;
        }
        Ok(Point::alone(if op == "scan" { total } else { ranges.len() }, samples))
    }

    /// Finds the successors of the first keys of the empty ranges, and compares all of them.
    fn succeed(&self, harness: &Harness, op: &str) -> Outcome<Vec<Point>> {
        let queried: Vec<u64> = self.empty.iter().map(|&(lo, _)| lo).collect();
        let len = queried.len();
        let mut out = harness.nearest_out(len)?;
        let keys = harness.array(Kind::Key, &queried)?;
        let samples =
            harness.repeat(|| harness.backend.successor(&*self.dictionary, &keys, &mut out))?;
        let (keys, values) = (out.keys.copy(0..len)?, out.values.copy(0..len)?);
        let found = out.found.copy(0..len)?;
        harness.compared(len);
        for (i, key) in queried.iter().enumerate() {
            let index = self.live.within(*key, harness.key.max()).start;
            let (next, number) = self.live.at(index);
            let expected = (next, harness.value_of(number), true);
            same(op, key, &(keys[i], values[i], found[i] != 0), &expected)?;
        }
        Ok(Point::alone(len, samples))
    }
}

/// Makes a dictionary of all pairs in two runs, then deletes or replaces an area in one batch, which
/// becomes a third run: it fits into a level below theirs, so that nothing is merged.
fn changed(
    harness: &Harness,
    sorted: &[(u64, u64)],
    area: Range<usize>,
    change: Change,
) -> Outcome<Box<dyn AnyDictionary>> {
    let (backend, len, dead) = (&harness.backend, sorted.len(), area.len());
    let pairs = harness.pairs(len)?;
    // Capacities double from n / 64 on: 5/8 n lies in the level of n, 3/8 n in that of n / 2, and the
    // batch, n / 4 at most, in a lower one.
    let mut dictionary = backend.dictionary(len / 64, Upkeep::PaperLevels)?;
    let first = len / 8 * 5;
    backend.apply(&mut *dictionary, &pairs, 0..first)?;
    backend.apply(&mut *dictionary, &pairs, first..len)?;
    let area = &sorted[area];
    let batch = Pairs {
        keys: backend.array(Kind::Key, dead, &|i| area[i].0)?,
        values: backend.array(Kind::Value, dead, &|i| area[i].1)?,
    };
    let (inserts, deletes, live) = match change {
        Change::Delete => (0..0, 0..dead, len - dead),
        Change::Replace => (0..dead, 0..0, len),
    };
    backend.update(&mut *dictionary, (&batch, inserts), (&batch.keys, deletes))?;
    dictionary.flush()?;
    let stats = dictionary.stats()?;
    let runs: Vec<u64> = stats.levels.iter().map(|level| level.entries).collect();
    let expected = [dead, len - first, first].map(|len| len as u64);
    same("runs", &"the dictionary", &runs, &expected.into())?;
    same("length", &"the dictionary", &stats.live, &(live as u64))?;
    Ok(dictionary)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys 10, 20, … 10,240: those from 4,010 to 6,000 are dead.
    fn keys() -> Vec<(u64, u64)> {
        (1..=1024).map(|number| (10 * number, number)).collect()
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

        let neighbours = [(7, 0), (8, 1), (10, 2), (u64::MAX, 3)];
        let live = Live { before: &neighbours[..2], after: &neighbours[2..] };
        let ranges = between(&neighbours, 6);
        assert!(ranges.contains(&(9, 9)) && ranges.contains(&(11, u64::MAX - 1)));
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
