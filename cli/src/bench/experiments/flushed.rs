//! Every batch by itself: applied before the next is inserted, as in the paper's own experiments; with keys of many
//! shapes, and in a window that slides. And calls for single keys.

use std::fmt::Display;

use gpulsm_backends::backend::{Kind, Outcome, Pairs, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use super::growth::batch;
use super::skew::shaped;
use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::{Point, Row};

/// Shapes of keys beside random ones. Of `presorted` ones each batch is sorted, but batches are not in order.
const SHAPES: [&str; 9] =
    ["sorted", "reversed", "presorted", "equal", "few", "composite", "40-bit", "times", "ends"];

/// Batches of random keys, and of keys of other shapes, hold this many powers of two less than all pairs.
const RANDOM: [u32; 9] = [12, 10, 8, 7, 6, 5, 4, 3, 2];
const SHAPED: [u32; 4] = [10, 8, 6, 4];

/// Calls for single keys in a sample.
const CALLS: usize = 1 << 10;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases = vec![shape_case(scale, "random", &RANDOM)];
    cases.extend(SHAPES.map(|shape| shape_case(scale, shape, &SHAPED)));
    cases.extend(SHAPED.map(|less| window_case(scale, less)));
    cases.push(single_case(scale));
    cases
}

fn row_of(op: &str, keys: &str, b: u32, n: u32) -> Row {
    let params: [(&str, &dyn Display); 4] = [("b", &b), ("keys", &keys), ("n", &n), ("op", &op)];
    row(Experiment::Flushed, "gpulsm", &params, None)
}

fn shape_case(scale: &Scale, shape: &'static str, less: &'static [u32]) -> Case {
    let n = scale.queried;
    let sizes = move || less.iter().map(move |less| n.saturating_sub(*less));
    let rows = sizes().map(|b| row_of("insert", shape, b, n)).collect();
    let each = (scale.repeats as u64 + 1) * (8 << n);
    let job = move |harness: &Harness| {
        let mut keys = shaped(harness.key, shape, 1 << n, harness.seed);
        let (mut inserts, mut points) = (Inserts::new(harness, &keys)?, Vec::new());
        for b in sizes() {
            if shape == "presorted" {
                keys.chunks_mut(1 << b).for_each(<[u64]>::sort_unstable);
                inserts = Inserts::new(harness, &keys)?;
            }
            points.push(Point::alone(1 << n, inserts.measure(harness, 1 << b)?));
            harness.done(each)?;
        }
        Ok(points)
    };
    Case { rows, work: each * less.len() as u64, job: Box::new(job) }
}

/// Pairs to insert, whose values are their places.
struct Inserts {
    pairs: Pairs,
    len: usize,
    /// Distinct keys in order, with their last places.
    last: Vec<(u64, u64)>,
}

impl Inserts {
    fn new(harness: &Harness, keys: &[u64]) -> Outcome<Self> {
        let values = harness.backend.array(Kind::Value, keys.len(), &|i| i as u64)?;
        let pairs = Pairs { keys: harness.array(Kind::Key, keys)?, values };
        let mut last: Vec<(u64, u64)> = (0..).zip(keys).map(|(index, &key)| (key, index)).collect();
        last.sort_unstable();
        last.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 = later.1;
            }
            is_same
        });
        Ok(Inserts { pairs, len: keys.len(), last })
    }

    /// Inserts them in batches, each of which is applied before the next.
    fn measure(&self, harness: &Harness, size: usize) -> Outcome<Vec<f64>> {
        let backend = &harness.backend;
        let (samples, _) = harness.repeat_anew(
            || backend.dictionary(size, Upkeep::Manual),
            |dictionary| {
                let mut rounds = 1..=self.len / size;
                rounds
                    .try_for_each(|r| backend.apply(&mut **dictionary, &self.pairs, batch(r, size)))
            },
            |dictionary| check(harness, &**dictionary, &self.last),
        )?;
        Ok(samples)
    }
}

/// Checks that a dictionary holds these pairs and nothing else.
fn check(harness: &Harness, dictionary: &dyn AnyDictionary, held: &[(u64, u64)]) -> Outcome<()> {
    same("length", &"the dictionary", &dictionary.len()?, &held.len())?;
    let some = harness.stretch(held.len());
    let keys = harness.backend.array(Kind::Key, some.len(), &|i| held[some.start + i].0)?;
    let mut out = harness.lookup_out(some.len())?;
    harness.backend.lookup(dictionary, &keys, &mut out)?;
    let (values, found) = (out.values.copy(0..some.len())?, out.found.copy(0..some.len())?);
    harness.compared(some.len());
    for ((key, index), (value, found)) in held[some].iter().zip(values.into_iter().zip(found)) {
        let answer = (found != 0).then_some(value);
        same("lookup", key, &answer, &Some(harness.value_of(*index)))?;
    }
    Ok(())
}

fn window_case(scale: &Scale, less: u32) -> Case {
    let n = scale.queried;
    let b = n.saturating_sub(less);
    let work = (scale.repeats as u64 + 1) * (32 << n);
    let job = move |harness: &Harness| {
        let samples = window(harness, 1 << (n - 1), 1 << b)?;
        harness.done(work)?;
        Ok(vec![Point::alone(1 << (n - 1), samples)])
    };
    Case { rows: vec![row_of("window", "random", b, n - 1)], work, job: Box::new(job) }
}

/// Replaces all pairs of a dictionary, batch by batch: inserts one, deletes the oldest, and waits.
fn window(harness: &Harness, len: usize, size: usize) -> Outcome<Vec<f64>> {
    let backend = &harness.backend;
    let pairs = harness.pairs(2 * len)?;
    let mut base = backend.dictionary(size, Upkeep::Automatic)?;
    for r in 1..=len / size {
        backend.insert(&mut *base, &pairs, batch(r, size))?;
    }
    base.flush()?;
    let keys = harness.keys(Numbers::counting(0..len as u64))?;
    let (samples, _) = harness.repeat_anew(
        || Ok(base.fork()),
        |dictionary| {
            for r in 1..=len / size {
                let (oldest, newest) = (batch(r, size), batch(len / size + r, size));
                backend.update(&mut **dictionary, (&pairs, newest), (&keys, oldest))?;
                dictionary.synchronize()?;
            }
            Ok(())
        },
        |dictionary| {
            same("length", &"the dictionary", &dictionary.len()?, &len)?;
            let all = Numbers::shuffled(0..2 * len as u64, 2 * len);
            harness.check_held(&**dictionary, all, |number| {
                (number >= len as u64).then(|| harness.value_of(number))
            })
        },
    )?;
    Ok(samples)
}

fn single_case(scale: &Scale) -> Case {
    let n = scale.queried;
    let rows = ["lookup-one", "insert-lookup-one"].map(|op| row_of(op, "random", 0, n));
    let work = (scale.repeats as u64 + 1) * (8 << n);
    let job = move |harness: &Harness| {
        let points = singles(harness, 1 << n)?;
        harness.done(work)?;
        Ok(points)
    };
    Case { rows: rows.into(), work, job: Box::new(job) }
}

/// Makes calls for single keys, from the host's memory: lookups, then an insert before each lookup.
fn singles(harness: &Harness, len: usize) -> Outcome<Vec<Vec<Point>>> {
    let pairs = harness.pairs(len)?;
    let mut dictionary = harness.backend.dictionary(len >> 8, Upkeep::Automatic)?;
    harness.backend.apply(&mut *dictionary, &pairs, 0..len)?;
    let calls = CALLS.min(len) as u64;
    let lookup = |dictionary: &dyn AnyDictionary, number: u64, expected: u64| {
        let answer = harness.backend.lookup_one(dictionary, harness.key_of(number))?;
        same("lookup", &number, &answer, &Some(harness.value_of(expected)))
    };
    let lookups = harness
        .repeat(|| (0..calls).try_for_each(|number| lookup(&*dictionary, number, number)))?;
    let both = harness.repeat(|| {
        (0..calls).try_for_each(|number| {
            let pair = (harness.key_of(number), number + 1);
            harness.backend.insert_one(&mut *dictionary, pair)?;
            lookup(&*dictionary, number, number + 1)
        })
    })?;
    harness.compared(2 * (harness.scale.repeats + 1) * calls as usize);
    Ok([lookups, both].map(|samples| Point::alone(calls as usize, samples)).into())
}
