//! Experiments that change the dictionary: section V-B of the paper.

use std::ops::Range;

use gpulsm::Dictionary;

use super::lab::{Case, Lab, same};
use super::numbers::{Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Outcome, Pairs, Site};
use crate::results::Point;

/// The part of all pairs that batch number r, counted from 1, has.
pub fn batch(r: usize, size: usize) -> Range<usize> {
    (r - 1) * size..r * size
}

fn points(items: u64, at: impl Iterator<Item = usize>) -> Vec<Point> {
    at.map(|at| Point { at: at as f64, items, samples: Vec::new() }).collect()
}

/// Sizes of batches as powers of two: from as many batches as in the paper down to a single one.
fn batch_sizes(scale: &Scale) -> impl Iterator<Item = u32> + use<> {
    (scale.inserted.saturating_sub(12).max(2)..=scale.inserted).rev()
}

/// Something that pairs are inserted into, batch by batch.
pub trait Growing<S: Site<K, V>, K: Number, V: Number> {
    fn insert(
        &mut self,
        lab: &Lab<S, K, V>,
        pairs: &Pairs<S, K, V>,
        part: Range<usize>,
    ) -> Outcome<()>;
    /// An error if it lacks some of the first `len` pairs.
    fn check(&self, lab: &Lab<S, K, V>, len: usize) -> Outcome<()>;
}

impl<S: Site<K, V>, K: Number, V: Number> Growing<S, K, V> for Dictionary<K, V> {
    fn insert(
        &mut self,
        lab: &Lab<S, K, V>,
        pairs: &Pairs<S, K, V>,
        part: Range<usize>,
    ) -> Outcome<()> {
        lab.site.take_in(self, pairs, part)
    }

    fn check(&self, lab: &Lab<S, K, V>, len: usize) -> Outcome<()> {
        same("length", &"the dictionary", &self.len()?, &len)?;
        let numbers = Numbers::shuffled(0..len as u64, len);
        lab.check_held("lookup", self, numbers, |number| Some(V::of(number)))
    }
}

/// The sorted array.
struct Array<S: Site<K, V>, K: Number, V: Number>(S::Sorted);

impl<S: Site<K, V>, K: Number, V: Number> Growing<S, K, V> for Array<S, K, V> {
    fn insert(
        &mut self,
        lab: &Lab<S, K, V>,
        pairs: &Pairs<S, K, V>,
        part: Range<usize>,
    ) -> Outcome<()> {
        lab.site.sorted_insert(&mut self.0, pairs, part)
    }

    fn check(&self, lab: &Lab<S, K, V>, len: usize) -> Outcome<()> {
        let numbers = Numbers::shuffled(0..len as u64, len);
        let lookup = |keys: &_, values: &mut _, found: &mut _| {
            lab.site.sorted_lookup(&self.0, keys, values, found)
        };
        let expected = |number| Some(V::of(number));
        lab.check_asked("sorted array's lookup", numbers, lookup, expected)
    }
}

/// What grows: the dictionary, or the sorted array beside it.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Gpulsm,
    Array,
}

impl What {
    fn series(self) -> &'static str {
        if self == What::Gpulsm { "gpulsm" } else { "sa" }
    }

    /// About how long it takes to grow to 2^n in batches of 2^b.
    fn work(self, n: u32, b: u32) -> u64 {
        let (len, batches) = (1u64 << n, 1u64 << (n - b));
        let calls = batches << 12;
        calls + len * if self == What::Gpulsm { 8 + u64::from(n - b) } else { 8 + batches / 4 }
    }

    /// Grows to 2^n in batches of 2^b, and says how many seconds each batch took.
    fn grow<S: Site<K, V>, K: Number, V: Number>(
        self,
        lab: &Lab<S, K, V>,
        n: u32,
        b: u32,
    ) -> Outcome<Vec<f64>> {
        let (len, size) = (1 << n, 1 << b);
        let pairs = lab.pairs(len)?;
        let mut growing: Box<dyn Growing<S, K, V>> = match self {
            What::Gpulsm => Box::new(lab.site.dictionary(size)?),
            What::Array => Box::new(Array::<S, K, V>(lab.site.sorted(len, size)?)),
        };
        let mut seconds = Vec::with_capacity(len / size);
        let work = self.work(n, b) >> (n - b);
        for r in 1..=len / size {
            seconds.push(lab.site.time(|| growing.insert(lab, &pairs, batch(r, size)))?);
            lab.done(work)?;
        }
        growing.check(lab, len)?;
        Ok(seconds)
    }
}

/// Table II: the rate of every batch on the way to n, for all sizes of batches.
pub fn insert<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.inserted;
    let mut cases = Vec::new();
    for b in batch_sizes(scale) {
        for what in [What::Gpulsm, What::Array] {
            cases.push(growth("insert", scale, what, n, b));
        }
    }
    cases
}

/// Fig. 4a: the time of every batch.
pub fn insert_time<S: Site<K, V> + 'static, K: Number, V: Number>(
    scale: &Scale,
) -> Vec<Case<S, K, V>> {
    vec![growth("insert-time", scale, What::Gpulsm, scale.inserted, scale.inserted - 8)]
}

/// Every batch on the way to 2^n, several times (a sorted array takes too long for that).
fn growth<S: Site<K, V> + 'static, K: Number, V: Number>(
    experiment: &str,
    scale: &Scale,
    what: What,
    n: u32,
    b: u32,
) -> Case<S, K, V> {
    let repeats = if what == What::Gpulsm { scale.repeats } else { 1 };
    let row = row(experiment, what.series(), &[("b", &b), ("n", &n)], Some("r"));
    let job = move |lab: &Lab<S, K, V>| {
        let mut points = points(1 << b, 1..=1 << (n - b));
        for _ in 0..repeats {
            for (point, seconds) in points.iter_mut().zip(what.grow(lab, n, b)?) {
                point.samples.push(seconds);
            }
        }
        Ok(vec![points])
    };
    Case { rows: vec![row], work: what.work(n, b) * repeats as u64, job: Box::new(job) }
}

/// Fig. 4b: all that was inserted over all the time it took, on the way.
pub fn effective<S: Site<K, V> + 'static, K: Number, V: Number>(
    scale: &Scale,
) -> Vec<Case<S, K, V>> {
    let n = scale.inserted;
    let mut cases = Vec::new();
    for b in batch_sizes(scale).filter(|b| *b + 1 < n && (n - b).is_multiple_of(3)) {
        for what in [What::Gpulsm, What::Array] {
            let params: [(&str, &dyn std::fmt::Display); 2] = [("b", &b), ("n", &n)];
            let row = row("effective", what.series(), &params, Some("elements"));
            let job = move |lab: &Lab<S, K, V>| {
                let mut total = 0.0;
                let mut points = Vec::new();
                let mut next = 1.0;
                for (batches, seconds) in (1u64..).zip(what.grow(lab, n, b)?) {
                    total += seconds;
                    // A point for every eighth more: they are seen on a logarithmic axis.
                    if batches as f64 >= next || batches == 1 << (n - b) {
                        next = (batches as f64 * 1.125).max(batches as f64 + 1.0);
                        let items = batches << b;
                        points.push(Point { at: items as f64, items, samples: vec![total] });
                    }
                }
                Ok(vec![points])
            };
            cases.push(Case { rows: vec![row], work: what.work(n, b), job: Box::new(job) });
        }
    }
    cases
}

/// Section IV-A: batches that are not full. Ours are called with what there is; the paper fills them
/// up with copies of their last pair.
pub fn partial<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    const BATCHES: usize = 63;
    const SHARES: [f64; 6] = [1.0 / 16.0, 1.0 / 8.0, 0.25, 0.5, 0.75, 1.0];
    let b = scale.inserted - 9;
    let size = 1usize << b;
    let mut cases = Vec::new();
    for (series, padded) in [("gpulsm", false), ("padded", true)] {
        let row = row("partial", series, &[("b", &b)], Some("share"));
        let job = move |lab: &Lab<S, K, V>| {
            let mut points = Vec::new();
            for share in SHARES {
                let real = (size as f64 * share) as usize;
                let stride = if padded { size } else { real };
                // Number i of all: of its batch, or a copy of the batch's last.
                let number = |i: u64| {
                    let (batch, place) = (i / stride as u64, i % stride as u64);
                    batch * real as u64 + place.min(real as u64 - 1)
                };
                let all = Numbers::counting(0..(stride * BATCHES) as u64);
                let key = lab.scatter();
                let pairs = Pairs {
                    keys: lab.site.array(all.map(|i| key(number(i))))?,
                    values: lab.site.array(all.map(|i| V::of(number(i))))?,
                };
                let mut samples = Vec::new();
                for _ in 0..lab.scale.repeats {
                    let mut dictionary = lab.site.dictionary(size)?;
                    samples.push(lab.site.time(|| {
                        (1..=BATCHES).try_for_each(|r| {
                            lab.site.insert(&mut dictionary, &pairs, batch(r, stride))
                        })?;
                        Ok(dictionary.settle()?)
                    })?);
                    Growing::<S, K, V>::check(&dictionary, lab, real * BATCHES)?;
                }
                points.push(Point { at: share, items: (real * BATCHES) as u64, samples });
                lab.done((BATCHES * size * 16) as u64)?;
            }
            Ok(vec![points])
        };
        let work = (BATCHES * size * 16 * SHARES.len()) as u64;
        cases.push(Case { rows: vec![row], work, job: Box::new(job) });
    }
    cases
}

/// Builds something from so many pairs a few times, and says how many seconds it took.
type Build<S, K, V> = fn(&Lab<S, K, V>, usize) -> Outcome<Vec<f64>>;

/// Building from pairs in any order, beside a sort of them and a hash table.
pub fn build<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let sizes = move |n: u32| (n.saturating_sub(12).max(8)..=n).step_by(2);
    let n = scale.inserted;
    let work = (1u64 << n) * 40;
    let make = |series: &str, job: Build<S, K, V>| {
        let job = move |lab: &Lab<S, K, V>| {
            let mut points = Vec::new();
            for log in sizes(n) {
                let samples = job(lab, 1 << log)?;
                points.push(Point { at: f64::from(log), items: 1 << log, samples });
                lab.done(work >> (n - log) >> 1)?;
            }
            Ok(vec![points])
        };
        Case { rows: vec![row("build", series, &[], Some("n"))], work, job: Box::new(job) }
    };
    vec![make("gpulsm", build_dictionary), make("sort", sort), make("hash", build_hash)]
}

fn build_dictionary<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    len: usize,
) -> Outcome<Vec<f64>> {
    let pairs = lab.pairs(len)?;
    let (samples, _) = lab.repeat_anew(
        || lab.site.dictionary(1 << 16),
        |dictionary| lab.site.insert(dictionary, &pairs, 0..len),
        |dictionary| Growing::<S, K, V>::check(dictionary, lab, len),
    )?;
    Ok(samples)
}

fn sort<S: Site<K, V>, K: Number, V: Number>(lab: &Lab<S, K, V>, len: usize) -> Outcome<Vec<f64>> {
    let pairs = lab.pairs(len)?;
    let mut sorting = lab.site.sorting(&pairs, len)?;
    let samples = lab.repeat(|| lab.site.sort(&mut sorting, &pairs))?;
    let part = lab.stretch(len);
    let output = S::output(&sorting);
    let keys = lab.site.copy(&output.keys, part.clone())?;
    let values = lab.site.copy(&output.values, part)?;
    same("sort", &len, &keys.is_sorted(), &true)?;
    lab.compared(keys.len());
    keys.iter()
        .zip(values)
        .try_for_each(|(key, value)| same("sorted key", &value, &lab.key(value.wide()), key))?;
    Ok(samples)
}

fn build_hash<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    len: usize,
) -> Outcome<Vec<f64>> {
    let pairs = lab.pairs(len)?;
    let mut hash = lab.site.hash(len)?;
    let samples = lab.repeat(|| lab.site.hash_build(&mut hash, &pairs, len))?;
    let numbers = Numbers::shuffled(0..len as u64, len);
    let lookup =
        |keys: &_, values: &mut _, found: &mut _| lab.site.hash_lookup(&hash, keys, values, found);
    lab.check_asked("hash table's lookup", numbers, lookup, |number| Some(V::of(number)))?;
    Ok(samples)
}

/// Section V-B: batches of deletes, and mixed ones, into a dictionary of 2^n pairs.
pub fn delete<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    const ROUNDS: usize = 16;
    let n = scale.asked;
    let b = n - 6;
    let work = ROUNDS as u64 * scale.repeats as u64 * (64 << b);
    let percents = [0u64, 25, 50, 75, 100];
    let make = |percent: u64| {
        let params: [(&str, &dyn std::fmt::Display); 3] =
            [("b", &b), ("deletes", &percent), ("n", &n)];
        let row = row("delete", "gpulsm", &params, Some("round"));
        let job = move |lab: &Lab<S, K, V>| {
            let (len, size) = (1usize << n, 1usize << b);
            let deleted = size * percent as usize / 100;
            let inserted = size - deleted;
            let pairs = lab.pairs(len)?;
            let fresh = Numbers::counting((len as u64)..(len + ROUNDS * inserted.max(1)) as u64);
            let (new, gone) =
                (lab.pairs_of(fresh)?, Numbers::shuffled(0..len as u64, ROUNDS * size));
            let gone_keys = lab.keys(gone)?;
            let mut points = points(1 << b, 1..=ROUNDS);
            let mut base = lab.site.dictionary(size)?;
            lab.site.insert(&mut base, &pairs, 0..len)?;
            for _ in 0..lab.scale.repeats {
                let mut dictionary = base.clone();
                for (round, point) in points.iter_mut().enumerate() {
                    let part = |each: usize| round * each..(round + 1) * each;
                    point.samples.push(lab.site.time(|| {
                        let (inserts, deletes) =
                            ((&new, part(inserted)), (&gone_keys, part(deleted)));
                        lab.site.update(&mut dictionary, inserts, deletes)?;
                        Ok(dictionary.settle()?)
                    })?);
                    lab.done(64 << b)?;
                }
                let live = len + ROUNDS * inserted - ROUNDS * deleted;
                same("length", &"the dictionary", &dictionary.len()?, &live)?;
                let came = |number| Some(V::of(number));
                lab.check_held("lookup", &dictionary, fresh.first(ROUNDS * inserted), came)?;
                lab.check_held("lookup", &dictionary, gone.first(ROUNDS * deleted), |_| None)?;
            }
            Ok(vec![points])
        };
        Case { rows: vec![row], work, job: Box::new(job) }
    };
    percents.into_iter().map(make).collect()
}
