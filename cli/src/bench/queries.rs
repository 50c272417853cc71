//! Experiments that ask the dictionary: section V-C of the paper. For each number of batches there are
//! as many queries as entries.

use gpulsm::Dictionary;

use super::lab::{Case, Lab, same};
use super::numbers::{MISSING, Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Ends, Listed, Nearest, Outcome, Site};
use crate::results::Point;

fn point(batches: usize, items: usize, samples: Vec<f64>) -> Point {
    Point { at: batches as f64, items: items as u64, samples }
}

/// Fills a dictionary of batches of 2^b, and a sorted array with it, and calls `ask` at every filling
/// that is to be asked.
fn fill<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    (n, b): (u32, u32),
    work: u64,
    mut ask: impl FnMut(&mut Dictionary<K, V>, &mut S::Sorted, usize, usize) -> Outcome<()>,
) -> Outcome<()> {
    let (len, size) = (1usize << n, 1usize << b);
    let pairs = lab.pairs(len)?;
    let mut dictionary = lab.site.levels(size)?;
    let mut sorted = lab.site.sorted(len, len)?;
    let fillings = lab.scale.fillings(len / size);
    let mut filled = 0;
    for &batches in &fillings {
        for r in filled..batches {
            lab.site.take_in(&mut dictionary, &pairs, r * size..(r + 1) * size)?;
        }
        lab.site.sorted_insert(&mut sorted, &pairs, filled * size..batches * size)?;
        filled = batches;
        ask(&mut dictionary, &mut sorted, batches, batches * size)?;
        lab.done(work / fillings.len() as u64)?;
    }
    Ok(())
}

/// About how much work it is to ask at all fillings, `cost` for a query of one level.
fn work(scale: &Scale, n: u32, b: u32, cost: u64) -> u64 {
    let most = 1usize << (n - b);
    let batches: usize = scale.fillings(most).iter().sum();
    ((batches as u64) << b) * cost * (2 + u64::from(n - b) / 2) * scale.repeats as u64
}

/// Table III: lookups of keys that are there, and of keys that are not.
pub fn lookup<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let mut cases = Vec::new();
    for existing in ["none", "all"] {
        for b in (n.saturating_sub(8)..=n).rev() {
            cases.push(lookup_filling(scale, existing, n, b));
        }
        let row = row("lookup", "hash", &[("existing", &existing), ("n", &n)], None);
        let job = move |lab: &Lab<S, K, V>| lookup_in_hash(lab, existing, n);
        cases.push(Case { rows: vec![row], work: 8 << n, job: Box::new(job) });
    }
    cases
}

/// Queries, and what each should find.
fn queries(existing: &str, len: usize) -> (Numbers, bool) {
    match existing {
        "all" => (Numbers::shuffled(0..len as u64, len), true),
        _ => (Numbers::shuffled(MISSING..MISSING + len as u64, len), false),
    }
}

fn lookup_filling<S: Site<K, V> + 'static, K: Number, V: Number>(
    scale: &Scale,
    existing: &'static str,
    n: u32,
    b: u32,
) -> Case<S, K, V> {
    let params: [(&str, &dyn std::fmt::Display); 3] =
        [("b", &b), ("existing", &existing), ("n", &n)];
    let rows = [("gpulsm", Some("cold")), ("gpulsm", Some("warm")), ("sa", None)];
    let rows = rows.map(|(series, state)| {
        let mut row = row("lookup", series, &params, Some("r"));
        row.params.extend(state.map(|state| ("state".into(), state.into())));
        row
    });
    let work = work(scale, n, b, 4);
    let job = move |lab: &Lab<S, K, V>| {
        let mut points = vec![Vec::new(), Vec::new(), Vec::new()];
        fill(lab, (n, b), work, |dictionary, sorted, batches, len| {
            let (numbers, there) = queries(existing, len);
            let keys = lab.keys(numbers)?;
            let (mut values, mut found) = (lab.site.zeroed(len)?, lab.site.found(len)?);
            let expected = |number| there.then_some(V::of(number));
            // The first time, filters are made where there are any; then they are there.
            let cold =
                lab.site.time(|| lab.site.lookup(dictionary, &keys, &mut values, &mut found))?;
            lab.check_lookups("lookup", numbers, &values, &found, expected)?;
            let warm =
                lab.repeat(|| lab.site.lookup(dictionary, &keys, &mut values, &mut found))?;
            lab.check_lookups("lookup", numbers, &values, &found, expected)?;
            let beside =
                lab.repeat(|| lab.site.sorted_lookup(sorted, &keys, &mut values, &mut found))?;
            lab.check_lookups("sorted array's lookup", numbers, &values, &found, expected)?;
            for (points, samples) in points.iter_mut().zip([vec![cold], warm, beside]) {
                points.push(point(batches, len, samples));
            }
            Ok(())
        })?;
        Ok(points)
    };
    Case { rows: rows.into(), work, job: Box::new(job) }
}

fn lookup_in_hash<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    existing: &str,
    n: u32,
) -> Outcome<Vec<Vec<Point>>> {
    let len = 1usize << n;
    let pairs = lab.pairs(len)?;
    let mut hash = lab.site.hash(len)?;
    lab.site.hash_build(&mut hash, &pairs, len)?;
    let (numbers, there) = queries(existing, len);
    let keys = lab.keys(numbers)?;
    let (mut values, mut found) = (lab.site.zeroed(len)?, lab.site.found(len)?);
    let samples = lab.repeat(|| lab.site.hash_lookup(&hash, &keys, &mut values, &mut found))?;
    let expected = |number| there.then_some(V::of(number));
    lab.check_lookups("hash table's lookup", numbers, &values, &found, expected)?;
    lab.done(8 << n)?;
    Ok(vec![Point::alone(len, samples)])
}

/// Sizes of batches that ranges are asked over, and widths of ranges.
fn range_cases(scale: &Scale) -> impl Iterator<Item = (u64, u32)> + use<> {
    let n = scale.asked;
    [8, 1024]
        .into_iter()
        .flat_map(move |wide| (n.saturating_sub(8)..=n - 4).rev().map(move |b| (wide, b)))
}

fn rows_beside(experiment: &str, wide: u64, b: u32, n: u32) -> Vec<crate::results::Row> {
    let params: [(&str, &dyn std::fmt::Display); 3] = [("L", &wide), ("b", &b), ("n", &n)];
    ["gpulsm", "sa"].map(|series| row(experiment, series, &params, Some("r"))).into()
}

/// Table IV: how many keys there are in ranges of about L.
pub fn count<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let make = |(wide, b)| {
        let work = work(scale, n, b, 6);
        let job = move |lab: &Lab<S, K, V>| {
            let mut points = vec![Vec::new(), Vec::new()];
            let keys = lab.sorted(1 << n);
            fill(lab, (n, b), work, |dictionary, sorted, batches, len| {
                let ranges = lab.ranges(Numbers::shuffled(0..len as u64, len), wide, len)?;
                let mut counts = lab.site.zeroed(len)?;
                let ours = lab.repeat(|| lab.site.count(dictionary, &ranges, &mut counts))?;
                check_counts(lab, "count", &ranges, &counts, (&keys, len as u64))?;
                let beside = lab.repeat(|| lab.site.sorted_count(sorted, &ranges, &mut counts))?;
                check_counts(lab, "sorted array's count", &ranges, &counts, (&keys, len as u64))?;
                points[0].push(point(batches, len, ours));
                points[1].push(point(batches, len, beside));
                Ok(())
            })?;
            Ok(points)
        };
        Case { rows: rows_beside("count", wide, b, n), work, job: Box::new(job) }
    };
    range_cases(scale).map(make).collect()
}

/// Compares a few counts.
fn check_counts<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    what: &str,
    ranges: &Ends<S, K, V>,
    counts: &S::Array<u64>,
    held: (&[(K, u64)], u64),
) -> Outcome<()> {
    let part = lab.stretch(ranges.len);
    let part = part.start..part.end.min(part.start + 64);
    let counts = lab.site.copy(counts, part.clone())?;
    lab.check_counts(what, ranges, &counts, part.start, held)
}

/// Table IV: the pairs of ranges of about L; fewer ranges where their pairs would not fit.
pub fn range<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let make = |(wide, b): (u64, u32)| {
        let most = ((S::LISTED << n) / wide).min(1 << n);
        let work = (work(scale, n, b, 8 + wide / 8) >> n) * most;
        let job = move |lab: &Lab<S, K, V>| {
            let most = most.min(lab.site.most_listed() / wide);
            let mut points = vec![Vec::new(), Vec::new()];
            let held = lab.sorted(1 << n);
            fill(lab, (n, b), work, |dictionary, sorted, batches, len| {
                let asked = len.min(most as usize);
                let ranges = lab.ranges(Numbers::shuffled(0..len as u64, asked), wide, len)?;
                let mut counts = lab.site.zeroed(asked)?;
                lab.site.count(dictionary, &ranges, &mut counts)?;
                let total = lab.site.copy(&counts, 0..asked)?.iter().sum::<u64>() as usize;
                let mut answers = Listed {
                    offsets: lab.site.zeroed(asked + 1)?,
                    keys: lab.site.zeroed(total)?,
                    values: lab.site.zeroed(total)?,
                };
                let held = (&held[..], len as u64);
                let ours = lab.repeat(|| lab.site.range(dictionary, &ranges, &mut answers))?;
                lab.check_listed("range", &ranges, &answers, held)?;
                let beside = lab.repeat(|| lab.site.sorted_range(sorted, &ranges, &mut answers))?;
                lab.check_listed("sorted array's range", &ranges, &answers, held)?;
                points[0].push(point(batches, asked, ours));
                points[1].push(point(batches, asked, beside));
                Ok(())
            })?;
            Ok(points)
        };
        Case { rows: rows_beside("range", wide, b, n), work, job: Box::new(job) }
    };
    range_cases(scale).map(make).collect()
}

/// Successors, ranks and selections.
pub fn order<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let make = |b: u32| {
        let rows = ["successor", "rank", "select"].map(|op| {
            let params: [(&str, &dyn std::fmt::Display); 3] = [("b", &b), ("n", &n), ("op", &op)];
            row("order", "gpulsm", &params, Some("r"))
        });
        let work = work(scale, n, b, 40);
        let job = move |lab: &Lab<S, K, V>| {
            let mut points = vec![Vec::new(), Vec::new(), Vec::new()];
            let held = lab.sorted(1 << n);
            fill(lab, (n, b), work, |dictionary, _, batches, len| {
                for (points, samples) in
                    points.iter_mut().zip(ask_order(lab, dictionary, len, &held)?)
                {
                    points.push(point(batches, len, samples));
                }
                Ok(())
            })?;
            Ok(points)
        };
        Case { rows: rows.into(), work, job: Box::new(job) }
    };
    [n, n - 4, n.saturating_sub(8)].into_iter().map(make).collect()
}

/// Seconds of successors, ranks and selections of as many keys as there are.
fn ask_order<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    dictionary: &Dictionary<K, V>,
    len: usize,
    held: &[(K, u64)],
) -> Outcome<[Vec<f64>; 3]> {
    let (keys, values) = (lab.site.zeroed(len)?, lab.site.zeroed(len)?);
    let mut answers: Nearest<S, K, V> = Nearest { keys, values, found: lab.site.found(len)? };
    let missing = lab.keys(queries("none", len).0)?;
    let successor = lab.repeat(|| lab.site.successor(dictionary, &missing, &mut answers))?;
    check_successors(lab, &missing, &answers, (held, len))?;

    let hits = queries("all", len).0;
    let asked = lab.keys(hits)?;
    let mut ranks = lab.site.zeroed(len)?;
    let rank = lab.repeat(|| lab.site.rank(dictionary, &asked, &mut ranks))?;
    let some = lab.stretch(len);
    for at in [some.start, some.end - 1] {
        let key = lab.key(hits.at(at));
        let below = held.iter().take_while(|(other, _)| *other < key);
        let expected = below.filter(|&&(_, number)| number < len as u64).count() as u64;
        same("rank", &key, &lab.site.copy(&ranks, at..at + 1)?[0], &expected)?;
    }

    // What stands at a key's rank is the key.
    let select = lab.repeat(|| lab.site.select(dictionary, &ranks, &mut answers))?;
    let selected = lab.site.copy(&answers.keys, some.clone())?;
    lab.compared(selected.len() + 2);
    for (at, key) in some.zip(selected) {
        same("select", &at, &key, &lab.key(hits.at(at)))?;
    }
    Ok([successor, rank, select])
}

fn check_successors<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    asked: &S::Array<K>,
    answers: &Nearest<S, K, V>,
    (held, len): (&[(K, u64)], usize),
) -> Outcome<()> {
    let part = lab.stretch(len);
    let (asked, keys) =
        (lab.site.copy(asked, part.clone())?, lab.site.copy(&answers.keys, part.clone())?);
    let found = lab.site.copy_found(&answers.found, part)?;
    lab.compared(keys.len());
    for ((key, answer), found) in asked.iter().zip(keys).zip(found) {
        let from = held.partition_point(|(other, _)| other < key);
        let next = held[from..].iter().find(|&&(_, number)| number < len as u64);
        same("successor", key, &found.then_some(answer), &next.map(|&(key, _)| key))?;
    }
    Ok(())
}
