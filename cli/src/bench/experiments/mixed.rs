//! A steady state: every round a batch replaces, adds and deletes pairs, then every kind of query is made.
//! The dictionary cleans itself up as it sees fit.

use std::fmt::Display;
use std::ops::Range;

use gpulsm_backends::backend::{Kind, Outcome, Pairs, RangeEnds, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::{Point, Row, Unit};

/// What is measured in every round.
const OPS: [&str; 7] = ["update", "lookup", "count", "range", "successor", "rank", "select"];

/// Each round leaves a batch more of entries: after 64 there are twice as many as live ones, and the
/// dictionary cleans up.
const ROUNDS: u64 = 144;

/// How many keys a range has.
const WIDE: u64 = 8;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let b = n - 6;
    let mut rows: Vec<Row> = OPS
        .iter()
        .map(|op| {
            let params: [(&str, &dyn Display); 3] = [("b", &b), ("n", &n), ("op", op)];
            row(Experiment::Mixed, "gpulsm", &params, Some("round"))
        })
        .collect();
    let memory = row(Experiment::Mixed, "memory", &[("b", &b), ("n", &n)], Some("round"));
    rows.push(Row { unit: Unit::Bytes, ..memory });
    let job = move |harness: &Harness| measure(harness, n, b);
    vec![Case { rows, work: ROUNDS << (b + 7), job: Box::new(job) }]
}

fn measure(harness: &Harness, n: u32, b: u32) -> Outcome<Vec<Vec<Point>>> {
    let (len, size) = (1usize << n, 1usize << b);
    let pairs = harness.pairs(len)?;
    let mut dictionary = harness.backend.dictionary(size, Upkeep::Automatic)?;
    harness.backend.insert(&mut *dictionary, &pairs, 0..len)?;
    let mut points: Vec<Vec<Point>> = vec![Vec::new(); OPS.len() + 1];
    let mut live = 0..len as u64;
    for round in 0..ROUNDS {
        let updated = update(harness, &mut *dictionary, &mut live, size)?;
        same("length", &"the dictionary", &dictionary.len()?, &len)?;
        let queried = query(harness, &*dictionary, live.clone(), size)?;
        let at = (round + 1) as f64;
        let times = std::iter::once(updated).chain(queried);
        for (points, seconds) in points.iter_mut().zip(times) {
            points.push(Point { at, items: size as u64, samples: vec![seconds] });
        }
        let bytes = dictionary.stats()?.bytes.total() as f64;
        points[OPS.len()].push(Point { at, items: len as u64, samples: vec![bytes] });
        harness.done(1 << (b + 7))?;
    }
    Ok(points)
}

/// Applies a batch to a dictionary of the numbers in `live`: a quarter of it is new, as many old ones are
/// deleted, and half of it replaces. Returns its seconds.
fn update(
    harness: &Harness,
    dictionary: &mut dyn AnyDictionary,
    live: &mut Range<u64>,
    size: usize,
) -> Outcome<f64> {
    let quarter = size as u64 / 4;
    let new = Numbers::counting(live.end..live.end + quarter);
    let replaced = Numbers::shuffled(live.start + quarter..live.end, size / 2);
    let deleted = Numbers::counting(live.start..live.start + quarter);
    let mut numbers = new.map(&|number| number);
    numbers.extend(replaced.map(&|number| number));
    let keys: Vec<u64> = numbers.iter().map(|&number| harness.key_of(number)).collect();
    let batch = Pairs {
        keys: harness.array(Kind::Key, &keys)?,
        values: harness.array(Kind::Value, &numbers)?,
    };
    let gone = harness.keys(deleted)?;
    let seconds = harness.time(|| {
        let (inserts, deletes) = ((&batch, 0..numbers.len()), (&gone, 0..deleted.len));
        harness.backend.update(dictionary, inserts, deletes)?;
        Ok(dictionary.flush()?)
    })?;
    *live = live.start + quarter..live.end + quarter;
    harness.check_held(dictionary, deleted, |_| None)?;
    Ok(seconds)
}

/// Returns the seconds of each kind of query, `count` of each, of a dictionary of these numbers.
fn query(
    harness: &Harness,
    dictionary: &dyn AnyDictionary,
    live: Range<u64>,
    count: usize,
) -> Outcome<[f64; 6]> {
    let backend = &harness.backend;
    let numbers = Numbers::shuffled(live.clone(), count);
    let keys = harness.keys(numbers)?;
    let mut found = harness.lookup_out(count)?;
    let lookup = harness.time(|| backend.lookup(dictionary, &keys, &mut found))?;
    let expected = |number| Some(harness.value_of(number));
    harness.check_lookups("lookup", numbers, &found, expected)?;

    let ranges = harness.ranges(numbers, WIDE, (live.end - live.start) as usize)?;
    let [counted, listed] = query_ranges(harness, dictionary, &ranges)?;

    let mut out = harness.nearest_out(count)?;
    let successor = harness.time(|| backend.successor(dictionary, &keys, &mut out))?;
    let some = harness.stretch(count);
    let queried = keys.copy(some.clone())?;
    let is_same = out.keys.copy(some.clone())? == queried;
    same("successors of keys that exist", &some, &is_same, &true)?;
    let mut ranks = backend.zeroed(Kind::Count, count)?;
    let rank = harness.time(|| backend.rank(dictionary, &keys, &mut ranks))?;
    let select = harness.time(|| backend.select(dictionary, &ranks, &mut out))?;
    let is_same = out.keys.copy(some.clone())? == queried;
    same("keys at the ranks of keys", &some, &is_same, &true)?;
    harness.compared(2 * some.len() + count);
    Ok([lookup, counted, listed, successor, rank, select])
}

/// Returns the seconds of counting ranges and of listing their pairs.
fn query_ranges(
    harness: &Harness,
    dictionary: &dyn AnyDictionary,
    ranges: &RangeEnds,
) -> Outcome<[f64; 2]> {
    let backend = &harness.backend;
    let mut counts = backend.zeroed(Kind::Count, ranges.len)?;
    let counted = harness.time(|| backend.count(dictionary, ranges, &mut counts))?;
    let counts = counts.copy(0..ranges.len)?;
    let total = counts.iter().sum::<u64>() as usize;
    let mut out = harness.range_out(ranges.len, total)?;
    let listed = harness.time(|| backend.range(dictionary, ranges, &mut out))?;
    let offsets = out.offsets.copy(0..ranges.len + 1)?;
    let sizes = offsets.windows(2).map(|pair| pair[1] - pair[0]);
    same("sizes of ranges", &"all", &sizes.eq(counts), &true)?;
    let part = harness.stretch(total);
    let (keys, values) = (out.keys.copy(part.clone())?, out.values.copy(part)?);
    harness.compared(keys.len());
    harness.check_values("range", &keys, &values)?;
    Ok([counted, listed])
}
