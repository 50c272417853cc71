//! Experiments over longer lives: cleanup (section V-D of the paper), a steady mixture, keys that are not
//! random, and memory.

use gpulsm::{Dictionary, Snapshot};

use super::lab::{Case, Lab, same};
use super::numbers::{Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Ends, Listed, Nearest, Outcome, Pairs, Site};
use crate::results::{Point, Row, Unit};

/// One thing, measured a few times.
fn single(items: usize, samples: Vec<f64>) -> Vec<Point> {
    vec![Point { at: 0.0, items: items as u64, samples }]
}

/// A row in bytes.
fn bytes(row: Row) -> Row {
    Row { unit: Unit::Bytes, ..row }
}

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
            lab.site.insert(&mut dictionary, pairs, r * self.size..(r + 1) * self.size)?;
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
        let mut cleaned = dictionary.clone();
        let mut samples = Vec::new();
        for time in 0..=lab.scale.repeats {
            cleaned = dictionary.clone();
            let seconds = lab.site.time(|| Ok(cleaned.cleanup()?))?;
            if time > 0 {
                samples.push(seconds);
            }
        }
        let stats = cleaned.stats()?;
        same(
            "entries",
            &"the clean dictionary",
            &(stats.entries, stats.stale),
            &(stale.live() as u64, 0),
        )?;
        let numbers = Numbers::shuffled(0..stale.live() as u64, stale.live());
        lab.check_held("lookup", &cleaned, numbers, |number| Some(stale.value(number)))?;
        let mut points = vec![single(stale.entries(), samples)];
        points.push(single(stale.entries(), rebuild(lab, &stale, &pairs)?));
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
    let mut samples = Vec::new();
    for time in 0..=lab.scale.repeats {
        let mut anew = lab.site.dictionary(stale.size)?;
        let seconds = lab.site.time(|| lab.site.insert(&mut anew, pairs, 0..stale.entries()))?;
        same("length", &"the dictionary built anew", &anew.len()?, &stale.live())?;
        if time > 0 {
            samples.push(seconds);
        }
    }
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
    Ok(single(many, samples))
}

/// What is asked in every round of `mixed`.
const KINDS: [&str; 7] = ["update", "lookup", "count", "range", "successor", "rank", "select"];

/// A steady state: every round a batch replaces, adds and deletes, then every kind of query is asked.
/// The dictionary cleans itself up as it sees fit.
pub fn mixed<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let b = n - 6;
    let rounds = if scale.name == "tiny" { 4 } else { 48 };
    let mut rows: Vec<Row> = KINDS
        .iter()
        .map(|op| {
            let params: [(&str, &dyn std::fmt::Display); 3] = [("b", &b), ("n", &n), ("op", op)];
            row("mixed", "gpulsm", &params, Some("round"))
        })
        .collect();
    rows.push(bytes(row("mixed", "memory", &[("b", &b), ("n", &n)], Some("round"))));
    let work = rounds << (b + 7);
    let job = move |lab: &Lab<S, K, V>| {
        let (len, size) = (1usize << n, 1usize << b);
        let pairs = lab.pairs(len)?;
        let mut dictionary = lab.site.build(Dictionary::builder().batch_size(size))?;
        lab.site.insert(&mut dictionary, &pairs, 0..len)?;
        let mut points: Vec<Vec<Point>> = vec![Vec::new(); KINDS.len() + 1];
        // Numbers from `oldest` to `newest` are there. Each round a quarter of a batch comes, as many go,
        // and half replaces what is there.
        let (mut oldest, mut newest) = (0u64, len as u64);
        for round in 0..rounds {
            let quarter = size as u64 / 4;
            let come = Numbers::counting(newest..newest + quarter);
            let stay = Numbers::shuffled(oldest + quarter..newest, size / 2);
            let go = Numbers::counting(oldest..oldest + quarter);
            let mut numbers = come.map(|number| number);
            numbers.extend(stay.map(|number| number));
            let batch = Pairs {
                keys: lab.site.array(numbers.iter().map(|&number| lab.key(number)).collect())?,
                values: lab.site.array(numbers.iter().map(|&number| V::of(number)).collect())?,
            };
            let gone = lab.keys(go)?;
            let updated = lab.site.time(|| {
                let (inserts, deletes) = ((&batch, 0..numbers.len()), (&gone, 0..go.len));
                lab.site.update(&mut dictionary, inserts, deletes)
            })?;
            (oldest, newest) = (oldest + quarter, newest + quarter);
            same("length", &"the dictionary", &dictionary.len()?, &len)?;
            lab.check_held("lookup", &dictionary, go, |_| None)?;
            let asked = ask_all(lab, &dictionary, oldest..newest, size)?;
            let at = (round + 1) as f64;
            let times = std::iter::once(updated).chain(asked);
            for (points, (items, seconds)) in points.iter_mut().zip(times.map(|t| (size, t))) {
                points.push(Point { at, items: items as u64, samples: vec![seconds] });
            }
            let taken = dictionary.stats()?.bytes.total() as f64;
            points[KINDS.len()].push(Point { at, items: len as u64, samples: vec![taken] });
            lab.done(1 << (b + 7))?;
        }
        Ok(points)
    };
    vec![Case { rows, work, job: Box::new(job) }]
}

/// Seconds for each kind of query, `many` of each, of a dictionary of these numbers.
fn ask_all<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    dictionary: &Dictionary<K, V>,
    live: std::ops::Range<u64>,
    many: usize,
) -> Outcome<[f64; 6]> {
    const WIDE: u64 = 8;
    let numbers = Numbers::shuffled(live.clone(), many);
    let keys = lab.keys(numbers)?;
    let site = &lab.site;
    let mut answers: Nearest<S, K, V> =
        Nearest { keys: site.zeroed(many)?, values: site.zeroed(many)?, found: site.found(many)? };
    let lookup =
        site.time(|| site.lookup(dictionary, &keys, &mut answers.values, &mut answers.found))?;
    let expected = |number| Some(V::of(number));
    lab.check_lookups("lookup", numbers, &answers.values, &answers.found, expected)?;

    let ranges: Ends<S, K, V> = lab.ranges(numbers, WIDE, (live.end - live.start) as usize)?;
    let mut counts = site.zeroed(many)?;
    let count = site.time(|| site.count(dictionary, &ranges, &mut counts))?;
    let counted = site.copy(&counts, 0..many)?;
    let total = counted.iter().sum::<u64>() as usize;
    let mut listed = Listed {
        offsets: site.zeroed(many + 1)?,
        keys: site.zeroed(total)?,
        values: site.zeroed(total)?,
    };
    let range = site.time(|| site.range(dictionary, &ranges, &mut listed))?;
    let offsets = site.copy(&listed.offsets, 0..many + 1)?;
    let sizes = offsets.windows(2).map(|pair| pair[1] - pair[0]);
    same("sizes of ranges", &"all", &sizes.eq(counted), &true)?;

    let successor = site.time(|| site.successor(dictionary, &keys, &mut answers))?;
    let some = lab.stretch(many);
    let same_keys = site.copy(&answers.keys, some.clone())? == site.copy(&keys, some.clone())?;
    same("successors of keys that are there", &some, &same_keys, &true)?;
    let mut ranks = site.zeroed(many)?;
    let rank = site.time(|| site.rank(dictionary, &keys, &mut ranks))?;
    let select = site.time(|| site.select(dictionary, &ranks, &mut answers))?;
    let same_keys = site.copy(&answers.keys, some.clone())? == site.copy(&keys, some.clone())?;
    same("keys at the ranks of keys", &some, &same_keys, &true)?;
    lab.compared(2 * some.len() + many);
    Ok([lookup, count, range, successor, rank, select])
}

/// Keys that are not random, beside those that are.
const SHAPES: [&str; 6] = ["random", "sorted", "reversed", "dense", "band", "zipf"];

/// Keys of one shape, in the order they come.
fn shaped<K: Number>(shape: &str, len: usize) -> Vec<K> {
    let all = Numbers::counting(0..len as u64);
    let last = len as u64 - 1;
    let spacing = (K::MAX.wide() / len as u64).max(1);
    let mixed = |number: u64| Numbers::shuffled(0..len as u64, len).at(number as usize);
    match shape {
        "sorted" => all.map(|number| K::of(number * spacing)),
        "reversed" => all.map(|number| K::of((last - number) * spacing)),
        "dense" => all.map(|number| K::of(mixed(number))),
        // A few in the middle of all keys there are.
        "band" => all.map(|number| K::of(K::MAX.wide() / 2 + 3 * mixed(number))),
        // The k-th of n comes about n / k times as often as the last: the inverse of a harmonic sum.
        "zipf" => all.map(|number| {
            let share = f64::from(u32::scattered(number)) / f64::from(u32::MAX);
            K::scattered((len as f64).powf(share) as u64)
        }),
        _ => all.map(K::scattered),
    }
}

/// Inserts, lookups and counts of keys of every shape.
pub fn skew<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let b = n - 8;
    let make = |shape: &'static str| {
        let rows = ["insert", "lookup", "count"].map(|op| {
            let params: [(&str, &dyn std::fmt::Display); 4] =
                [("b", &b), ("keys", &shape), ("n", &n), ("op", &op)];
            row("skew", "gpulsm", &params, None)
        });
        let work = scale.repeats as u64 * (40 << n);
        let job = move |lab: &Lab<S, K, V>| {
            let points = ask_shaped(lab, shape, 1 << n, 1 << b)?;
            lab.done(work)?;
            Ok(points)
        };
        Case { rows: rows.into(), work, job: Box::new(job) }
    };
    SHAPES.into_iter().map(make).collect()
}

fn ask_shaped<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    shape: &str,
    len: usize,
    size: usize,
) -> Outcome<Vec<Vec<Point>>> {
    let all: Vec<K> = shaped(shape, len);
    let value = |key: &K| V::of(key.wide() ^ 0x5555);
    let site = &lab.site;
    let pairs = Pairs {
        keys: site.array(all.clone())?,
        values: site.array(all.iter().map(value).collect())?,
    };
    let mut dictionary = site.dictionary(size)?;
    let mut inserts = Vec::new();
    for time in 0..=lab.scale.repeats {
        dictionary = site.dictionary(size)?;
        let seconds = site.time(|| {
            let mut starts = (0..len).step_by(size);
            starts.try_for_each(|start| site.insert(&mut dictionary, &pairs, start..start + size))
        })?;
        if time > 0 {
            inserts.push(seconds);
        }
    }
    let mut sorted = all.clone();
    sorted.sort_unstable();
    sorted.dedup();
    same("length", &shape, &dictionary.len()?, &sorted.len())?;

    let order = Numbers::shuffled(0..len as u64, len);
    let asked = order.map(|index| all[index as usize]);
    let lo = site.array(asked.clone())?;
    let (mut values, mut found) = (site.zeroed(len)?, site.found(len)?);
    let lookups = lab.repeat(|| site.lookup(&dictionary, &lo, &mut values, &mut found))?;
    let some = lab.stretch(len);
    let answers = site.copy(&values, some.clone())?;
    let there = site.copy_found(&found, some.clone())?;
    for ((key, answer), there) in asked[some.clone()].iter().zip(answers).zip(there) {
        same("lookup", key, &there.then_some(answer), &Some(value(key)))?;
    }

    let upper: Vec<K> = asked.iter().map(|key| key.plus(1 << 10)).collect();
    let ranges: Ends<S, K, V> = Ends { lo, hi: site.array(upper.clone())?, len };
    let mut counts = site.zeroed(len)?;
    let counting = lab.repeat(|| site.count(&dictionary, &ranges, &mut counts))?;
    let counted = site.copy(&counts, some.clone())?;
    lab.compared(2 * counted.len());
    for (at, count) in some.zip(counted) {
        let start = sorted.partition_point(|key| *key < asked[at]);
        let end = sorted.partition_point(|key| *key <= upper[at]);
        same("count", &(asked[at], upper[at]), &count, &((end - start) as u64))?;
    }
    Ok([inserts, lookups, counting].map(|samples| single(len, samples)).into())
}

/// Bytes for each live pair after different lives.
pub fn memory<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let histories = [
        "built-at-once",
        "inserted-in-batches",
        "replaced-once",
        "half-deleted",
        "half-deleted-and-cleaned",
        "built-and-looked-up",
        "replaced-with-a-snapshot-held",
    ];
    let rows = histories
        .iter()
        .map(|history| bytes(row("memory", "gpulsm", &[("history", history), ("n", &n)], None)))
        .collect();
    let work = 200 << n;
    let job = move |lab: &Lab<S, K, V>| {
        let len = 1usize << n;
        let points = histories.iter().map(|history| {
            let (bytes, live) = taken_after(lab, history, len)?;
            lab.done(work / histories.len() as u64)?;
            Ok(single(live, vec![bytes as f64]))
        });
        points.collect()
    };
    vec![Case { rows, work, job: Box::new(job) }]
}

/// Bytes that a dictionary, with its snapshots, takes after a history of `len` pairs, and live pairs.
fn taken_after<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    history: &str,
    len: usize,
) -> Outcome<(u64, usize)> {
    let site = &lab.site;
    let size = (len >> 8).max(1);
    let pairs = lab.pairs(len)?;
    // As it comes from the library: it cleans itself up where that pays.
    let mut dictionary = site.build(Dictionary::builder().batch_size(size))?;
    let insert = |dictionary: &mut Dictionary<K, V>| {
        let mut starts = (0..len).step_by(size);
        starts.try_for_each(|start| site.insert(dictionary, &pairs, start..start + size))
    };
    match history {
        "built-at-once" | "built-and-looked-up" => site.insert(&mut dictionary, &pairs, 0..len)?,
        _ => insert(&mut dictionary)?,
    }
    let mut snapshot = None;
    if history == "replaced-with-a-snapshot-held" {
        snapshot = Some(dictionary.snapshot());
    }
    if history.starts_with("replaced") {
        insert(&mut dictionary)?;
    }
    let mut live = len;
    if history.starts_with("half-deleted") {
        live = len / 2;
        let gone = lab.keys(Numbers::counting(0..live as u64))?;
        for start in (0..live).step_by(size) {
            site.update(&mut dictionary, (&pairs, 0..0), (&gone, start..start + size))?;
        }
    }
    if history.ends_with("cleaned") {
        dictionary.cleanup()?;
    }
    if history.ends_with("looked-up") {
        for _ in 0..3 {
            let missing =
                Numbers::counting(super::numbers::MISSING..super::numbers::MISSING + len as u64);
            let keys = lab.keys(missing)?;
            let (mut values, mut found) = (site.zeroed(len)?, site.found(len)?);
            site.lookup(&dictionary, &keys, &mut values, &mut found)?;
        }
    }
    same("length", &history, &dictionary.len()?, &live)?;
    let left = Numbers::shuffled((len - live) as u64..len as u64, live);
    lab.check_held("lookup", &dictionary, left, |number| Some(V::of(number)))?;
    let taken = dictionary.stats()?.bytes_shared;
    drop(snapshot);
    Ok((taken, live))
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

    #[test]
    fn keys_have_the_shape_they_are_named_after() {
        let keys = |shape| shaped::<u32>(shape, 1 << 12);
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
    }
}
