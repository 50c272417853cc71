//! Successors, ranks and selections.

use std::fmt::Display;

use gpulsm_backends::backend::{Array, Kind, NearestOut, Outcome};
use gpulsm_backends::dictionary::AnyDictionary;

use super::filling::{fill, queries, work};
use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let make = |b: u32| {
        let rows = ["successor", "rank", "select"].map(|op| {
            let params: [(&str, &dyn Display); 3] = [("b", &b), ("n", &n), ("op", &op)];
            row(Experiment::Order, "gpulsm", &params, Some("r"))
        });
        let work = work(scale, n, b, 40);
        let job = move |harness: &Harness| {
            let mut points = vec![Vec::new(), Vec::new(), Vec::new()];
            let sorted = harness.sorted(1 << n);
            fill(harness, (n, b), work, |filling| {
                let samples = measure(harness, filling.dictionary, filling.len, &sorted)?;
                for (points, samples) in points.iter_mut().zip(samples) {
                    points.push(filling.point(filling.len, samples));
                }
                Ok(())
            })?;
            Ok(points)
        };
        Case { rows: rows.into(), work, job: Box::new(job) }
    };
    [n, n - 4, n.saturating_sub(8)].map(make).into()
}

/// Returns the seconds of successors, ranks and selections of as many keys as there are.
fn measure(
    harness: &Harness,
    dictionary: &dyn AnyDictionary,
    len: usize,
    sorted: &[(u64, u64)],
) -> Outcome<[Vec<f64>; 3]> {
    let backend = &harness.backend;
    let mut out = harness.nearest_out(len)?;
    let missing = harness.keys(queries("none", len).0)?;
    let successor = harness.repeat(|| backend.successor(dictionary, &missing, &mut out))?;
    check_successors(harness, &missing, &out, (sorted, len))?;

    let hits = queries("all", len).0;
    let keys = harness.keys(hits)?;
    let mut ranks = backend.zeroed(Kind::Count, len)?;
    let rank = harness.repeat(|| backend.rank(dictionary, &keys, &mut ranks))?;
    let some = harness.stretch(len);
    for at in [some.start, some.end - 1] {
        let key = harness.key_of(hits.at(at));
        let below = sorted.iter().take_while(|(other, _)| *other < key);
        let expected = below.filter(|&&(_, number)| number < len as u64).count() as u64;
        same("rank", &key, &ranks.copy(at..at + 1)?[0], &expected)?;
    }

    // The key at a key's rank is the key itself.
    let select = harness.repeat(|| backend.select(dictionary, &ranks, &mut out))?;
    let selected = out.keys.copy(some.clone())?;
    harness.compared(selected.len() + 2);
    for (at, key) in some.zip(selected) {
        same("select", &at, &key, &harness.key_of(hits.at(at)))?;
    }
    Ok([successor, rank, select])
}

fn check_successors(
    harness: &Harness,
    queried: &Array,
    out: &NearestOut,
    (sorted, len): (&[(u64, u64)], usize),
) -> Outcome<()> {
    let part = harness.stretch(len);
    let (queried, keys) = (queried.copy(part.clone())?, out.keys.copy(part.clone())?);
    let found = out.found.copy(part)?;
    harness.compared(keys.len());
    for ((key, answer), found) in queried.iter().zip(keys).zip(found) {
        let from = sorted.partition_point(|(other, _)| other < key);
        let next = sorted[from..].iter().find(|&&(_, number)| number < len as u64);
        same("successor", key, &(found != 0).then_some(answer), &next.map(|&(key, _)| key))?;
    }
    Ok(())
}
