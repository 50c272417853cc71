//! Keys that are not random, beside those that are.

use std::fmt::Display;

use gpulsm_backends::backend::{Kind, Outcome, Pairs, RangeEnds, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::{Numbers, Width};

use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

/// Kinds of keys.
const SHAPES: [&str; 7] = ["random", "sorted", "reversed", "dense", "band", "zipf", "equal"];

/// How far a range reaches.
const REACH: u64 = 1 << 10;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let b = n - 8;
    let make = |shape: &'static str| {
        let rows = ["insert", "lookup", "count"].map(|op| {
            let params: [(&str, &dyn Display); 4] =
                [("b", &b), ("keys", &shape), ("n", &n), ("op", &op)];
            row(Experiment::Skew, "gpulsm", &params, None)
        });
        let work = scale.repeats as u64 * (40 << n);
        let job = move |harness: &Harness| {
            let points = measure(harness, shape, 1 << n, 1 << b)?;
            harness.done(work)?;
            Ok(points)
        };
        Case { rows: rows.into(), work, job: Box::new(job) }
    };
    SHAPES.map(make).into()
}

/// Returns keys of one shape, in the order they are inserted; the seed varies the pseudo-random ones.
pub fn shaped(key: Width, shape: &str, len: usize, seed: u64) -> Vec<u64> {
    let all = Numbers::counting(0..len as u64);
    let last = len as u64 - 1;
    let scattered = |number: u64| key.scatter(number.wrapping_add(seed));
    let spacing = (key.max() / len as u64).max(1);
    let mixed = |number: u64| Numbers::shuffled(0..len as u64, len).at(number as usize);
    match shape {
        "sorted" => all.map(&|number| number * spacing),
        "reversed" => all.map(&|number| (last - number) * spacing),
        "dense" => all.map(&mixed),
        // A few in the middle of all keys there are.
        "band" => all.map(&|number| key.truncate(key.max() / 2 + 3 * mixed(number))),
        // The k-th of n occurs about n / k times as often as the last: the inverse of a harmonic sum.
        "zipf" => all.map(&|number| {
            let uniform = Width::U32.scatter(number.wrapping_add(seed)) as f64;
            scattered((len as f64).powf(uniform / f64::from(u32::MAX)) as u64)
        }),
        "equal" => all.map(&|_| scattered(7)),
        "few" => all.map(&|number| scattered(scattered(number) % 64)),
        "composite" => all.map(&|number| {
            let random = scattered(number);
            (random % 64) << (key.bits() - 8) | (random >> 6 & 0xf_ffff)
        }),
        "40-bit" => all.map(&|number| scattered(number) >> (3 * key.bits() / 8)),
        "times" => all.map(&|number| {
            let (step, random) = ((spacing / 4).max(1), scattered(number));
            key.truncate(key.max() / 2 + (number + random % 16) * step + (random >> 4) % step)
        }),
        "ends" => all.map(&|number| {
            let near = mixed(number);
            if number % 2 == 0 { near } else { key.max() - near }
        }),
        _ => all.map(&scattered),
    }
}

/// Keys, what they are looked up in, and what their values are.
struct Subject<'a> {
    harness: &'a Harness,
    dictionary: Box<dyn AnyDictionary>,
    /// Distinct keys in order.
    sorted: Vec<u64>,
    /// Keys to query, in a scattered order.
    queried: Vec<u64>,
}

fn value_of(harness: &Harness, key: u64) -> u64 {
    harness.value_of(key ^ 0x5555)
}

fn measure(harness: &Harness, shape: &str, len: usize, size: usize) -> Outcome<Vec<Vec<Point>>> {
    let keys = shaped(harness.key, shape, len, harness.seed);
    let backend = &harness.backend;
    let values = backend.array(Kind::Value, len, &|i| keys[i] ^ 0x5555)?;
    let pairs = Pairs { keys: harness.array(Kind::Key, &keys)?, values };
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let (inserts, dictionary) = harness.repeat_anew(
        || backend.dictionary(size, Upkeep::Manual),
        |dictionary| {
            let mut starts = (0..len).step_by(size);
            starts.try_for_each(|start| {
                backend.insert(&mut **dictionary, &pairs, start..start + size)
            })?;
            Ok(dictionary.flush()?)
        },
        |dictionary| same("length", &shape, &dictionary.len()?, &sorted.len()),
    )?;
    let order = Numbers::shuffled(0..len as u64, len);
    let queried = order.map(&|index| keys[index as usize]);
    let subject = Subject { harness, dictionary, sorted, queried };
    let samples = [inserts, subject.lookups()?, subject.counts()?];
    Ok(samples.map(|samples| Point::alone(len, samples)).into())
}

impl Subject<'_> {
    fn lookups(&self) -> Outcome<Vec<f64>> {
        let Subject { harness, dictionary, queried, .. } = self;
        let keys = harness.array(Kind::Key, queried)?;
        let mut out = harness.lookup_out(queried.len())?;
        let samples = harness.repeat(|| harness.backend.lookup(&**dictionary, &keys, &mut out))?;
        let some = harness.stretch(queried.len());
        let values = out.values.copy(some.clone())?;
        let found = out.found.copy(some.clone())?;
        for ((&key, value), found) in queried[some].iter().zip(values).zip(found) {
            let expected = Some(value_of(harness, key));
            same("lookup", &key, &(found != 0).then_some(value), &expected)?;
        }
        Ok(samples)
    }

    fn counts(&self) -> Outcome<Vec<f64>> {
        let Subject { harness, dictionary, sorted, queried } = self;
        let (len, key) = (queried.len(), harness.key);
        let upper: Vec<u64> = queried.iter().map(|&lo| key.saturating_add(lo, REACH)).collect();
        let lo = harness.array(Kind::Key, queried)?;
        let ranges = RangeEnds { lo, hi: harness.array(Kind::Key, &upper)?, len };
        let mut counts = harness.backend.zeroed(Kind::Count, len)?;
        let samples =
            harness.repeat(|| harness.backend.count(&**dictionary, &ranges, &mut counts))?;
        let some = harness.stretch(len);
        let counted = counts.copy(some.clone())?;
        harness.compared(2 * counted.len());
        for (at, count) in some.zip(counted) {
            let start = sorted.partition_point(|key| *key < queried[at]);
            let end = sorted.partition_point(|key| *key <= upper[at]);
            same("count", &(queried[at], upper[at]), &count, &((end - start) as u64))?;
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_shape_they_are_named_after() {
        let keys = |shape| shaped(Width::U32, shape, 1 << 12, 1);
        assert!(keys("sorted").is_sorted());
        assert!(keys("reversed").iter().rev().is_sorted());
        let mut dense = keys("dense");
        dense.sort_unstable();
        assert!(dense.into_iter().eq(0..1 << 12));
        let band = keys("band");
        assert!(band.iter().max().unwrap() - band.iter().min().unwrap() < 3 << 12);
        let mut zipf = keys("zipf");
        zipf.sort_unstable();
        zipf.dedup();
        assert!(zipf.len() < 3 << 10, "some come often");
        assert!(keys("equal").iter().all(|key| *key == keys("equal")[0]));
        let mut few = keys("few");
        few.sort_unstable();
        few.dedup();
        assert_eq!(few.len(), 64);
        assert!(keys("composite").iter().all(|key| key & 0xf0_0000 == 0));
        assert!(keys("40-bit").iter().all(|key| *key < 1 << 20));
        assert!(!keys("times").is_sorted() && keys("times")[0] < keys("times")[100]);
        assert!(
            keys("ends")
                .chunks(2)
                .all(|two| two[0] < 1 << 12 && two[1] > u64::from(u32::MAX - (1 << 12)))
        );
        for shape in ["random", "zipf", "equal"] {
            assert_ne!(keys(shape), shaped(Width::U32, shape, 1 << 12, 2), "{shape}");
        }
    }
}
