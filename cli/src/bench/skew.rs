//! Keys that are not random, beside those that are.

use super::lab::{Case, Lab, same};
use super::numbers::{Number, Numbers};
use super::row;
use super::scale::Scale;
use super::site::{Ends, Outcome, Pairs, Site};
use crate::results::Point;

/// What keys are like.
const SHAPES: [&str; 7] = ["random", "sorted", "reversed", "dense", "band", "zipf", "equal"];

/// Keys of one shape, in the order they come; the seed says where the pseudo-random ones start.
fn shaped<K: Number>(shape: &str, len: usize, seed: u64) -> Vec<K> {
    let all = Numbers::counting(0..len as u64);
    let last = len as u64 - 1;
    let scattered = |number: u64| K::scattered(number.wrapping_add(seed));
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
            let share = f64::from(u32::scattered(number.wrapping_add(seed))) / f64::from(u32::MAX);
            scattered((len as f64).powf(share) as u64)
        }),
        "equal" => all.map(|_| scattered(7)),
        _ => all.map(scattered),
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
    let all: Vec<K> = shaped(shape, len, lab.seed);
    let value = |key: &K| V::of(key.wide() ^ 0x5555);
    let site = &lab.site;
    let pairs = Pairs {
        keys: site.array(all.clone())?,
        values: site.array(all.iter().map(value).collect())?,
    };
    let mut sorted = all.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let (inserts, dictionary) = lab.repeat_anew(
        || site.dictionary(size),
        |dictionary| {
            let mut starts = (0..len).step_by(size);
            starts.try_for_each(|start| site.insert(dictionary, &pairs, start..start + size))?;
            Ok(dictionary.settle()?)
        },
        |dictionary| same("length", &shape, &dictionary.len()?, &sorted.len()),
    )?;

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
    Ok([inserts, lookups, counting].map(|samples| Point::alone(len, samples)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_shape_they_are_named_after() {
        let keys = |shape| shaped::<u32>(shape, 1 << 12, 1);
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
        for shape in ["random", "zipf", "equal"] {
            assert_ne!(keys(shape), shaped::<u32>(shape, 1 << 12, 2), "{shape}");
        }
    }
}
