//! Streams of calls: all in one clock, and nobody waits in between. What waits in the dictionary at the
//! end is taken in inside the clock too.

use std::ops::Range;

use gpulsm::Dictionary;

use super::lab::{Case, Lab, same};
use super::numbers::{Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Ends, Listed, Outcome, Pairs, Site};
use super::updates::{Growing, batch};
use crate::results::Point;

/// How many ranges are counted after every batch of `counted`.
const COUNTED: usize = 1 << 10;

/// Batches of the streams of deletes.
const DELETING: usize = 32;

/// Batches that are looked up in between.
const ALTERNATING: usize = 64;

/// A stream of calls, and what must be true afterwards.
struct Stream {
    series: &'static str,
    n: u32,
    b: u32,
}

pub fn stream<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let (n, larger) = (scale.asked, scale.inserted);
    let least = |n: u32, less: u32| n.saturating_sub(less).max(1);
    let mut cases = Vec::new();
    for (n, b) in [(n, 8), (n, 6), (n, 4), (larger, 12), (larger, 8), (larger, 4)] {
        let stream = Stream { series: "gpulsm", n, b: least(n, b) };
        cases.push(stream.case(scale, 1 << n, inserted));
    }
    for (series, job) in [("counted", counted as Job<S, K, V>), ("alone", each_alone)] {
        cases.push(Stream { series, n, b: least(n, 8) }.case(scale, 1 << n, job));
    }
    for (series, job) in [("deletes", deletes as Job<S, K, V>), ("half-deletes", half_deletes)] {
        let b = least(n, 6);
        cases.push(Stream { series, n, b }.case(scale, DELETING << b, job));
    }
    cases.push(Stream { series: "one-call", n, b: least(n, 2) }.case(
        scale,
        1 << (n - 2),
        one_call,
    ));
    let b = least(n, 8);
    cases.push(Stream { series: "lookups", n, b }.case(scale, 1 << b, lookups_between));
    cases.push(Stream { series: "scan", n, b }.case(scale, (1 << n) - (1 << b), scanned));
    cases
}

/// Seconds of each time, with a dictionary made and checked outside the clock.
type Job<S, K, V> = fn(&Lab<S, K, V>, &Stream) -> Outcome<Vec<f64>>;

impl Stream {
    fn size(&self) -> usize {
        1 << self.b
    }

    fn case<S: Site<K, V> + 'static, K: Number, V: Number>(
        self,
        scale: &Scale,
        items: usize,
        job: Job<S, K, V>,
    ) -> Case<S, K, V> {
        let rows = vec![row("stream", self.series, &[("b", &self.b), ("n", &self.n)], None)];
        let work = scale.repeats as u64 * (32 << self.n);
        let job = move |lab: &Lab<S, K, V>| {
            let samples = job(lab, &self)?;
            lab.done(work)?;
            Ok(vec![Point::alone(items, samples)])
        };
        Case { rows, work, job: Box::new(job) }
    }
}

/// Batches of inserts, nothing asked in between.
fn inserted<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    growing(lab, stream, S::insert)
}

/// Batches of inserts, each taken in before the next comes.
fn each_alone<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    growing(lab, stream, S::take_in)
}

/// Puts in batches, one by one, until there are 2^n pairs.
fn growing<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
    put: impl Fn(&S, &mut Dictionary<K, V>, &Pairs<S, K, V>, Range<usize>) -> Outcome<()>,
) -> Outcome<Vec<f64>> {
    let len = 1 << stream.n;
    let pairs = lab.pairs(len)?;
    let (samples, _) = lab.repeat_anew(
        || lab.site.dictionary(stream.size()),
        |dictionary| {
            for r in 1..=len / stream.size() {
                put(&lab.site, dictionary, &pairs, batch(r, stream.size()))?;
            }
            Ok(dictionary.settle()?)
        },
        |dictionary| Growing::<S, K, V>::check(dictionary, lab, len),
    )?;
    Ok(samples)
}

/// Batches of inserts, and some ranges counted after each.
fn counted<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    let len = 1usize << stream.n;
    let pairs = lab.pairs(len)?;
    let ranges: Ends<S, K, V> =
        lab.ranges(Numbers::shuffled(0..len as u64, COUNTED.min(len)), 1024, len)?;
    let sorted = lab.sorted(len);
    let make = || Ok((lab.site.dictionary(stream.size())?, lab.site.zeroed(ranges.len)?));
    let (samples, _) = lab.repeat_anew(
        make,
        |(dictionary, counts)| {
            for r in 1..=len / stream.size() {
                lab.site.insert(dictionary, &pairs, batch(r, stream.size()))?;
                lab.site.count(dictionary, &ranges, counts)?;
            }
            Ok(())
        },
        |(dictionary, counts)| {
            let counts = lab.site.copy(counts, 0..ranges.len)?;
            lab.check_counts("count", &ranges, &counts, 0, (&sorted, len as u64))?;
            Growing::<S, K, V>::check(dictionary, lab, len)
        },
    )?;
    Ok(samples)
}

/// Batches of deletes of what is there.
fn deletes<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    deleting(lab, stream, stream.size())
}

/// Batches of which half deletes what is there, and half is new.
fn half_deletes<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    deleting(lab, stream, stream.size() / 2)
}

/// Batches that delete so many keys of a dictionary that was built, and fill up with new ones.
fn deleting<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
    deleted: usize,
) -> Outcome<Vec<f64>> {
    let len = 1usize << stream.n;
    let inserted = stream.size() - deleted;
    let built = built(lab, stream)?;
    let fresh = Numbers::counting(len as u64..(len + DELETING * inserted.max(1)) as u64);
    let gone = Numbers::shuffled(0..len as u64, DELETING * deleted);
    let (new, keys) = (lab.pairs_of(fresh)?, lab.keys(gone)?);
    let (samples, _) = lab.repeat_anew(
        || Ok(built.clone()),
        |dictionary| {
            for round in 0..DELETING {
                let part = |each: usize| round * each..(round + 1) * each;
                lab.site.update(dictionary, (&new, part(inserted)), (&keys, part(deleted)))?;
            }
            Ok(dictionary.settle()?)
        },
        |dictionary| {
            let live = len + DELETING * inserted - DELETING * deleted;
            same("length", &"the dictionary", &dictionary.len()?, &live)?;
            let came = |number| Some(V::of(number));
            lab.check_held("lookup", dictionary, fresh.first(DELETING * inserted), came)?;
            lab.check_held("lookup", dictionary, gone, |_| None)
        },
    )?;
    Ok(samples)
}

/// One long call, into a dictionary that was built.
fn one_call<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    let (len, more) = (1usize << stream.n, stream.size());
    let built = built(lab, stream)?;
    let fresh = Numbers::counting(len as u64..(len + more) as u64);
    let new = lab.pairs_of(fresh)?;
    let (samples, _) = lab.repeat_anew(
        || Ok(built.clone()),
        |dictionary| lab.site.take_in(dictionary, &new, 0..more),
        |dictionary| {
            same("length", &"the dictionary", &dictionary.len()?, &(len + more))?;
            lab.check_held("lookup", dictionary, fresh, |number| Some(V::of(number)))
        },
    )?;
    Ok(samples)
}

/// Lookups of as many keys as a batch has, after every batch that a dictionary of n pairs takes in; they
/// alone are in the clock.
fn lookups_between<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    let (len, size) = (1usize << stream.n, stream.size());
    let mut dictionary = built(lab, stream)?;
    let rounds = ALTERNATING.min(len / size);
    let new = lab.pairs_of(Numbers::counting(len as u64..(len + rounds * size) as u64))?;
    let asked = Numbers::shuffled(0..len as u64, size);
    let keys = lab.keys(asked)?;
    let (mut values, mut found) = (lab.site.zeroed(size)?, lab.site.found(size)?);
    let mut samples = Vec::new();
    for r in 1..=rounds {
        lab.site.take_in(&mut dictionary, &new, batch(r, size))?;
        samples
            .push(lab.site.time(|| lab.site.lookup(&dictionary, &keys, &mut values, &mut found))?);
        lab.check_lookups("lookup", asked, &values, &found, |number| Some(V::of(number)))?;
    }
    Ok(samples)
}

/// Every pair in key order, of a dictionary whose levels are all full.
fn scanned<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Vec<f64>> {
    let size = stream.size();
    let len = (1usize << stream.n) - size;
    let pairs = lab.pairs(len)?;
    let mut dictionary = lab.site.dictionary(size)?;
    for r in 1..=len / size {
        lab.site.take_in(&mut dictionary, &pairs, batch(r, size))?;
    }
    let ends = |key| lab.site.array(vec![key]);
    let all = Ends { lo: ends(K::of(0))?, hi: ends(K::MAX)?, len: 1 };
    let mut answers = Listed {
        offsets: lab.site.zeroed(2)?,
        keys: lab.site.zeroed(len)?,
        values: lab.site.zeroed(len)?,
    };
    let samples = lab.repeat(|| lab.site.range(&dictionary, &all, &mut answers))?;
    lab.check_listed("scan", &all, &answers, (&lab.sorted(len), len as u64))?;
    Ok(samples)
}

/// A dictionary of 2^n pairs in one run, with the batch size that is 2^8 times smaller.
fn built<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    stream: &Stream,
) -> Outcome<Dictionary<K, V>> {
    let len = 1usize << stream.n;
    let pairs = lab.pairs(len)?;
    let mut dictionary = lab.site.dictionary((len >> 8).max(1))?;
    lab.site.take_in(&mut dictionary, &pairs, 0..len)?;
    Ok(dictionary)
}
