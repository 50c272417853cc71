//! Longer lives: a steady mixture of updates and queries, and memory after different histories.

use gpulsm::Dictionary;

use super::lab::{Case, Lab, same};
use super::numbers::{MISSING, Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Ends, Listed, Nearest, Outcome, Pairs, Site};
use crate::results::{Point, Row, Unit};

/// A row in bytes.
fn bytes(row: Row) -> Row {
    Row { unit: Unit::Bytes, ..row }
}

/// What is asked in every round of `mixed`.
const KINDS: [&str; 7] = ["update", "lookup", "count", "range", "successor", "rank", "select"];

/// A steady state: every round a batch replaces, adds and deletes, then every kind of query is asked.
/// The dictionary cleans itself up as it sees fit.
pub fn mixed<S: Site<K, V> + 'static, K: Number, V: Number>(scale: &Scale) -> Vec<Case<S, K, V>> {
    let n = scale.asked;
    let b = n - 6;
    // Each round leaves a batch more of entries: after 64 there are twice as many as live ones, and the
    // dictionary cleans up.
    let rounds = 144;
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
                lab.site.update(&mut dictionary, inserts, deletes)?;
                Ok(dictionary.settle()?)
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
    let part = lab.stretch(total);
    let (listed_keys, listed_values) =
        (site.copy(&listed.keys, part.clone())?, site.copy(&listed.values, part)?);
    listed_keys.iter().zip(listed_values).try_for_each(|(key, value)| {
        same("range", key, &lab.key(value.wide()), key) // The value is the number of the key.
    })?;

    let successor = site.time(|| site.successor(dictionary, &keys, &mut answers))?;
    let some = lab.stretch(many);
    let same_keys = site.copy(&answers.keys, some.clone())? == site.copy(&keys, some.clone())?;
    same("successors of keys that are there", &some, &same_keys, &true)?;
    let mut ranks = site.zeroed(many)?;
    let rank = site.time(|| site.rank(dictionary, &keys, &mut ranks))?;
    let select = site.time(|| site.select(dictionary, &ranks, &mut answers))?;
    let same_keys = site.copy(&answers.keys, some.clone())? == site.copy(&keys, some.clone())?;
    same("keys at the ranks of keys", &some, &same_keys, &true)?;
    lab.compared(2 * some.len() + many + listed_keys.len());
    Ok([lookup, count, range, successor, rank, select])
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
        "most-while-inserted-in-batches",
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
            Ok(Point::alone(live, vec![bytes as f64]))
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
    let is_peak = history.starts_with("most-while");
    let insert = |dictionary: &mut Dictionary<K, V>| {
        let mut starts = (0..len).step_by(size);
        starts.try_for_each(|start| {
            site.insert(dictionary, &pairs, start..start + size)?;
            // What waits would be sorted and merged as one batch, where working space depends on its length.
            if is_peak {
                dictionary.settle()?;
            }
            Outcome::Ok(())
        })
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
            let missing = Numbers::counting(MISSING..MISSING + len as u64);
            let keys = lab.keys(missing)?;
            let (mut values, mut found) = (site.zeroed(len)?, site.found(len)?);
            site.lookup(&dictionary, &keys, &mut values, &mut found)?;
        }
    }
    same("length", &history, &dictionary.len()?, &live)?;
    let left = Numbers::shuffled((len - live) as u64..len as u64, live);
    lab.check_held("lookup", &dictionary, left, |number| Some(V::of(number)))?;
    let stats = dictionary.stats()?;
    let taken = if is_peak { stats.bytes_peak } else { stats.bytes_shared };
    drop(snapshot);
    Ok((taken, live))
}
