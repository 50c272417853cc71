//! Streams of calls: one clock for all of them, without waiting in between. Batches that are still buffered
//! at the end are applied before the clock stops.

use std::ops::Range;

use gpulsm_backends::backend::{Backend, Kind, Outcome, Pairs, RangeEnds, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use super::growth::batch;
use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

/// How many ranges are counted after every batch of `counted`.
const COUNTED: usize = 1 << 10;

/// Batches of the streams of deletes.
const DELETING: usize = 32;

/// Batches of `lookups`, with lookups after each.
const ALTERNATING: usize = 64;

/// A stream of calls to a dictionary of 2^n pairs in the end, in batches of 2^b.
struct Stream {
    series: &'static str,
    n: u32,
    b: u32,
}

/// Returns the seconds of each repeat. Dictionaries are made and checked outside the clock.
type Measure = fn(&Harness, &Stream) -> Outcome<Vec<f64>>;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let (n, larger) = (scale.queried, scale.inserted);
    let least = |n: u32, less: u32| n.saturating_sub(less).max(1);
    let mut cases = Vec::new();
    for (n, b) in [(n, 8), (n, 6), (n, 4), (larger, 12), (larger, 8), (larger, 4)] {
        let stream = Stream { series: "gpulsm", n, b: least(n, b) };
        cases.push(stream.case(scale, 1 << n, buffered_inserts));
    }
    for (series, measure) in [("counted", counted as Measure), ("alone", applied_inserts)] {
        cases.push(Stream { series, n, b: least(n, 8) }.case(scale, 1 << n, measure));
    }
    for (series, measure) in [("deletes", deletes as Measure), ("half-deletes", half_deletes)] {
        let b = least(n, 6);
        cases.push(Stream { series, n, b }.case(scale, DELETING << b, measure));
    }
    let one_call_stream = Stream { series: "one-call", n, b: least(n, 2) };
    cases.push(one_call_stream.case(scale, 1 << (n - 2), one_call));
    let b = least(n, 8);
    cases.push(Stream { series: "lookups", n, b }.case(scale, 1 << b, lookups_between));
    cases.push(Stream { series: "scan", n, b }.case(scale, (1 << n) - (1 << b), scan));
    cases
}

impl Stream {
    fn size(&self) -> usize {
        1 << self.b
    }

    fn case(self, scale: &Scale, items: usize, measure: Measure) -> Case {
        let params: [(&str, &dyn std::fmt::Display); 2] = [("b", &self.b), ("n", &self.n)];
        let rows = vec![row(Experiment::Stream, self.series, &params, None)];
        let work = scale.repeats as u64 * (32 << self.n);
        let job = move |harness: &Harness| {
            let samples = measure(harness, &self)?;
            harness.done(work)?;
            Ok(vec![Point::alone(items, samples)])
        };
        Case { rows, work, job: Box::new(job) }
    }
}

/// Inserts batches, without queries in between.
fn buffered_inserts(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    grow(harness, stream, |backend, dictionary, pairs, part| {
        backend.insert(dictionary, pairs, part)
    })
}

/// Inserts batches, each of which is applied before the next.
fn applied_inserts(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    grow(harness, stream, |backend, dictionary, pairs, part| backend.apply(dictionary, pairs, part))
}

/// Inserts the pairs of one batch.
type Insert = fn(&dyn Backend, &mut dyn AnyDictionary, &Pairs, Range<usize>) -> Outcome<()>;

/// Inserts batches one by one, until there are 2^n pairs.
fn grow(harness: &Harness, stream: &Stream, insert: Insert) -> Outcome<Vec<f64>> {
    let (len, backend) = (1 << stream.n, &*harness.backend);
    let pairs = harness.pairs(len)?;
    let (samples, _) = harness.repeat_anew(
        || backend.dictionary(stream.size(), Upkeep::Manual),
        |dictionary| {
            for r in 1..=len / stream.size() {
                insert(backend, &mut **dictionary, &pairs, batch(r, stream.size()))?;
            }
            Ok(dictionary.flush()?)
        },
        |dictionary| harness.check_filled(&**dictionary, len),
    )?;
    Ok(samples)
}

/// Inserts batches, and counts some ranges after each.
fn counted(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    let (len, backend) = (1usize << stream.n, &harness.backend);
    let pairs = harness.pairs(len)?;
    let numbers = Numbers::shuffled(0..len as u64, COUNTED.min(len));
    let ranges = harness.ranges(numbers, 1024, len)?;
    let sorted = harness.sorted(len);
    let make = || {
        let dictionary = backend.dictionary(stream.size(), Upkeep::Manual)?;
        Ok((dictionary, backend.zeroed(Kind::Count, ranges.len)?))
    };
    let (samples, _) = harness.repeat_anew(
        make,
        |(dictionary, counts)| {
            for r in 1..=len / stream.size() {
                backend.insert(&mut **dictionary, &pairs, batch(r, stream.size()))?;
                backend.count(&**dictionary, &ranges, counts)?;
            }
            Ok(())
        },
        |(dictionary, counts)| {
            let counts = counts.copy(0..ranges.len)?;
            harness.check_counts("count", &ranges, &counts, 0, (&sorted, len as u64))?;
            harness.check_filled(&**dictionary, len)
        },
    )?;
    Ok(samples)
}

/// Applies batches that delete existing keys.
fn deletes(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    delete(harness, stream, stream.size())
}

/// Applies batches of which half deletes existing keys, and half inserts new ones.
fn half_deletes(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    delete(harness, stream, stream.size() / 2)
}

/// Applies batches to a built dictionary, each of which deletes `deleted` keys and is filled up with new
/// ones.
fn delete(harness: &Harness, stream: &Stream, deleted: usize) -> Outcome<Vec<f64>> {
    let len = 1usize << stream.n;
    let inserted = stream.size() - deleted;
    let built = built(harness, stream)?;
    let new = Numbers::counting(len as u64..(len + DELETING * inserted.max(1)) as u64);
    let gone = Numbers::shuffled(0..len as u64, DELETING * deleted);
    let (pairs, keys) = (harness.pairs_of(new)?, harness.keys(gone)?);
    let (samples, _) = harness.repeat_anew(
        || Ok(built.fork()),
        |dictionary| {
            for round in 0..DELETING {
                let part = |each: usize| round * each..(round + 1) * each;
                let (inserts, deletes) = ((&pairs, part(inserted)), (&keys, part(deleted)));
                harness.backend.update(&mut **dictionary, inserts, deletes)?;
            }
            Ok(dictionary.flush()?)
        },
        |dictionary| {
            let live = len + DELETING * inserted - DELETING * deleted;
            same("length", &"the dictionary", &dictionary.len()?, &live)?;
            let inserted = new.first(DELETING * inserted);
            let expected = |number| Some(harness.value_of(number));
            harness.check_held(&**dictionary, inserted, expected)?;
            harness.check_held(&**dictionary, gone, |_| None)
        },
    )?;
    Ok(samples)
}

/// Inserts many pairs into a built dictionary in one call.
fn one_call(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    let (len, more) = (1usize << stream.n, stream.size());
    let built = built(harness, stream)?;
    let new = Numbers::counting(len as u64..(len + more) as u64);
    let pairs = harness.pairs_of(new)?;
    let (samples, _) = harness.repeat_anew(
        || Ok(built.fork()),
        |dictionary| harness.backend.apply(&mut **dictionary, &pairs, 0..more),
        |dictionary| {
            same("length", &"the dictionary", &dictionary.len()?, &(len + more))?;
            harness.check_held(&**dictionary, new, |number| Some(harness.value_of(number)))
        },
    )?;
    Ok(samples)
}

/// Looks up as many keys as a batch has after every batch that a built dictionary applies. Only the
/// lookups are timed.
fn lookups_between(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    let (len, size) = (1usize << stream.n, stream.size());
    let mut dictionary = built(harness, stream)?;
    let rounds = ALTERNATING.min(len / size);
    let new = harness.pairs_of(Numbers::counting(len as u64..(len + rounds * size) as u64))?;
    let queried = Numbers::shuffled(0..len as u64, size);
    let keys = harness.keys(queried)?;
    let mut out = harness.lookup_out(size)?;
    let mut samples = Vec::new();
    for r in 1..=rounds {
        harness.backend.apply(&mut *dictionary, &new, batch(r, size))?;
        samples.push(harness.time(|| harness.backend.lookup(&*dictionary, &keys, &mut out))?);
        harness.check_lookups("lookup", queried, &out, |number| Some(harness.value_of(number)))?;
    }
    Ok(samples)
}

/// Lists every pair in key order, of a dictionary whose levels are all full.
fn scan(harness: &Harness, stream: &Stream) -> Outcome<Vec<f64>> {
    let (size, backend) = (stream.size(), &harness.backend);
    let len = (1usize << stream.n) - size;
    let pairs = harness.pairs(len)?;
    let mut dictionary = backend.dictionary(size, Upkeep::Manual)?;
    for r in 1..=len / size {
        backend.apply(&mut *dictionary, &pairs, batch(r, size))?;
    }
    let end = |key| harness.array(Kind::Key, &[key]);
    let all = RangeEnds { lo: end(0)?, hi: end(harness.key.max())?, len: 1 };
    let mut out = harness.range_out(1, len)?;
    let samples = harness.repeat(|| backend.range(&*dictionary, &all, &mut out))?;
    harness.check_ranges("scan", &all, &out, (&harness.sorted(len), len as u64))?;
    Ok(samples)
}

/// Makes a dictionary of 2^n pairs in one run, with a batch size that is 2^8 times smaller.
fn built(harness: &Harness, stream: &Stream) -> Outcome<Box<dyn AnyDictionary>> {
    let len = 1usize << stream.n;
    let pairs = harness.pairs(len)?;
    let mut dictionary = harness.backend.dictionary((len >> 8).max(1), Upkeep::Manual)?;
    harness.backend.apply(&mut *dictionary, &pairs, 0..len)?;
    Ok(dictionary)
}
