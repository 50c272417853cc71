//! Every kind of query, timed and checked.

use std::time::Instant;

use gpulsm::Dictionary;
use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;

use super::check::Checked;
use super::{Timed, key, pick, zip};
use crate::backend::Outcome;

/// Queries of each kind (fewer of those that are slow, or long), and how many keys a range has.
const QUERIES: usize = 1 << 20;
const RANGES: usize = 1 << 12;
const SELECTS: usize = 1 << 17;
const WIDE: u64 = 1024;

/// Queries of every kind.
pub struct Queries {
    /// Keys, of which about half exist.
    keys: Vec<u32>,
    lo: Vec<u32>,
    hi: Vec<u32>,
    indices: Vec<u64>,
}

impl Queries {
    pub(super) fn new(random: &mut Random, model: &Model<u32, u32>) -> Self {
        let len = model.len() as u64;
        let live: Vec<u32> = model.range(0, u32::MAX).map(|(key, _)| key).collect();
        let draw = |at: usize, random: &mut Random| match at % 2 {
            0 => pick(random, &live).unwrap_or(0),
            _ => key(random),
        };
        let keys = (0..QUERIES).map(|at| draw(at, random)).collect();
        let width = ((1u64 << 32) * WIDE / len.max(1)).min(u32::MAX.into()) as u32;
        let lo: Vec<u32> = (0..QUERIES).map(|_| key(random)).collect();
        let hi = lo.iter().map(|lo| lo.saturating_add(width)).collect();
        // One in sixteen is past the end.
        let indices = (0..SELECTS).map(|_| random.number() % (len + len / 16 + 1)).collect();
        Queries { keys, lo, hi, indices }
    }
}

/// The pairs of the model, in key order.
struct Sorted {
    keys: Vec<u32>,
    values: Vec<u32>,
}

impl Sorted {
    fn new(model: &Model<u32, u32>) -> Self {
        let (keys, values) = model.range(0, u32::MAX).unzip();
        Sorted { keys, values }
    }

    /// Returns how many keys are less.
    fn rank(&self, key: u32) -> usize {
        self.keys.partition_point(|&other| other < key)
    }

    /// Returns how many keys are not greater.
    fn up_to(&self, key: u32) -> usize {
        self.keys.partition_point(|&other| other <= key)
    }

    fn pair(&self, index: usize) -> Option<(u32, u32)> {
        Some((*self.keys.get(index)?, self.values[index]))
    }
}

/// Receives the name of a query, how many there were, and the seconds they took.
pub type Report<'a> = &'a mut dyn FnMut(&'static str, Timed);

impl Queries {
    /// Makes every kind of query, three times each; reports the fastest time and checks all answers.
    pub(super) fn run(
        &self,
        dictionary: &Dictionary<u32, u32>,
        model: &Model<u32, u32>,
        checked: &mut Checked,
        report: Report<'_>,
    ) -> Outcome<()> {
        let sorted = Sorted::new(model);
        let keys = &self.keys;
        let (values, time) = fastest(|| dictionary.lookup(keys))?;
        report("lookup, half of them exist", Timed { items: keys.len(), seconds: time });
        checked.each("lookup", keys, &values, |&key| model.lookup(key))?;
        self.run_ranges(dictionary, &sorted, checked, report)?;
        self.run_ordered(dictionary, &sorted, checked, report)?;
        let (all, time) = fastest(|| dictionary.to_vecs())?;
        report("every pair in key order", Timed { items: all.0.len(), seconds: time });
        let expected = (sorted.keys, sorted.values);
        checked.each("every pair", &[()], &[all], |()| expected.clone())
    }

    /// Counts ranges, and lists their pairs.
    fn run_ranges(
        &self,
        dictionary: &Dictionary<u32, u32>,
        sorted: &Sorted,
        checked: &mut Checked,
        report: Report<'_>,
    ) -> Outcome<()> {
        let (lo, hi) = (&self.lo, &self.hi);
        let ranges: Vec<(u32, u32)> = zip(lo, hi);
        let window = |&(lo, hi): &(u32, u32)| sorted.rank(lo)..sorted.up_to(hi);
        let (counts, time) = fastest(|| dictionary.count((lo, hi)))?;
        report("count, ranges of about 1,024", Timed { items: lo.len(), seconds: time });
        checked.each("count", &ranges, &counts, |range| window(range).len() as u64)?;

        let (found, time) = fastest(|| dictionary.range((&lo[..RANGES], &hi[..RANGES])))?;
        report(
            "pairs, from ranges of about 1,024",
            Timed { items: found.keys.len(), seconds: time },
        );
        let found: Vec<_> = found.iter().collect();
        checked.each("range", &ranges[..RANGES], &found, |range| {
            (&sorted.keys[window(range)], &sorted.values[window(range)])
        })?;
        checked.0 += found.iter().map(|(keys, _)| keys.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Makes the queries that follow the order.
    fn run_ordered(
        &self,
        dictionary: &Dictionary<u32, u32>,
        sorted: &Sorted,
        checked: &mut Checked,
        report: Report<'_>,
    ) -> Outcome<()> {
        let (keys, indices) = (&self.keys, &self.indices);
        let (pairs, time) = fastest(|| dictionary.successor(keys))?;
        report("successor", Timed { items: keys.len(), seconds: time });
        checked.each("successor", keys, &pairs, |&key| sorted.pair(sorted.rank(key)))?;

        let (pairs, time) = fastest(|| dictionary.predecessor(keys))?;
        report("predecessor", Timed { items: keys.len(), seconds: time });
        checked.each("predecessor", keys, &pairs, |&key| {
            sorted.pair(sorted.up_to(key).checked_sub(1)?)
        })?;

        let (ranks, time) = fastest(|| dictionary.rank(keys))?;
        report("rank", Timed { items: keys.len(), seconds: time });
        checked.each("rank", keys, &ranks, |&key| sorted.rank(key) as u64)?;

        let (pairs, time) = fastest(|| dictionary.select(indices))?;
        report("select", Timed { items: indices.len(), seconds: time });
        checked.each("select", indices, &pairs, |&index| sorted.pair(index as usize))
    }
}

/// Returns the result of a job and its seconds.
pub(super) fn timed<T>(job: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let done = job();
    (done, start.elapsed().as_secs_f64())
}

/// Returns the answers, and the shortest time of three.
fn fastest<T>(job: impl Fn() -> Result<T, gpulsm::Error>) -> Result<(T, f64), gpulsm::Error> {
    let (first, mut best) = timed(&job);
    let mut answers = first?;
    for _ in 0..2 {
        let (again, time) = timed(&job);
        answers = again?;
        best = best.min(time);
    }
    Ok((answers, best))
}
