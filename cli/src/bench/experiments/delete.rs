//! Section V-B of the paper: batches of deletes, and mixed ones, applied to a dictionary of 2^n pairs. And neighbours
//! that are deleted by their range, or by a list of their keys, beside as many inserts.

use std::fmt::Display;
use std::ops::Range;

use gpulsm_backends::backend::{Kind, Outcome, Pairs, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use super::growth::points;
use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::Point;

const ROUNDS: usize = 16;

/// How much of a batch deletes; the rest inserts.
const PERCENTS: [usize; 5] = [0, 25, 50, 75, 100];

/// How much of a dictionary one range holds.
const SHARES: [usize; 2] = [1, 30];

/// How its keys are deleted; or as many others are inserted.
const RANGE_SERIES: [&str; 3] = ["range", "list", "inserts"];

/// A dictionary of the last keys: what comes at one end, and goes at the other.
const WINDOW_SERIES: [&str; 2] = ["window-range", "window-inserts"];

/// How often such a window slides by a hundredth of its length.
const SLIDES: usize = 100;

/// The batch size of the dictionaries whose ranges are deleted.
const RANGE_BATCH: usize = 1 << 16;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let ranges = SHARES.map(|percent| range_case(scale, percent));
    batch_cases(scale).into_iter().chain(ranges).chain([window_case(scale)]).collect()
}

fn batch_cases(scale: &Scale) -> Vec<Case> {
    let n = scale.queried;
    let b = n - 6;
    let work = ROUNDS as u64 * scale.repeats as u64 * (64 << b);
    let make = |percent: usize| {
        let params: [(&str, &dyn Display); 3] = [("b", &b), ("deletes", &percent), ("n", &n)];
        let row = row(Experiment::Delete, "gpulsm", &params, Some("round"));
        let job = move |harness: &Harness| Ok(vec![measure(harness, n, b, percent)?]);
        Case { rows: vec![row], work, job: Box::new(job) }
    };
    PERCENTS.map(make).into()
}

fn measure(harness: &Harness, n: u32, b: u32, percent: usize) -> Outcome<Vec<Point>> {
    let (len, size) = (1usize << n, 1usize << b);
    let deleted = size * percent / 100;
    let inserted = size - deleted;
    let backend = &harness.backend;
    let pairs = harness.pairs(len)?;
    let new = Numbers::counting((len as u64)..(len + ROUNDS * inserted.max(1)) as u64);
    let gone = Numbers::shuffled(0..len as u64, ROUNDS * size);
    let (new_pairs, gone_keys) = (harness.pairs_of(new)?, harness.keys(gone)?);
    let mut points = points(1 << b, 1..=ROUNDS);
    let mut base = backend.dictionary(size, Upkeep::Manual)?;
    backend.insert(&mut *base, &pairs, 0..len)?;
    for _ in 0..harness.scale.repeats {
        let mut dictionary = base.fork();
        for (round, point) in points.iter_mut().enumerate() {
            let part = |each: usize| round * each..(round + 1) * each;
            point.samples.push(harness.time(|| {
                let inserts = (&new_pairs, part(inserted));
                backend.update(&mut *dictionary, inserts, (&gone_keys, part(deleted)))?;
                Ok(dictionary.flush()?)
            })?);
            harness.done(64 << b)?;
        }
        let live = len + ROUNDS * inserted - ROUNDS * deleted;
        same("length", &"the dictionary", &dictionary.len()?, &live)?;
        let inserted = new.first(ROUNDS * inserted);
        harness.check_held(&*dictionary, inserted, |number| Some(harness.value_of(number)))?;
        harness.check_held(&*dictionary, gone.first(ROUNDS * deleted), |_| None)?;
    }
    Ok(points)
}

fn range_case(scale: &Scale, percent: usize) -> Case {
    let n = scale.inserted - 2;
    let params: [(&str, &dyn Display); 2] = [("n", &n), ("share", &percent)];
    let rows = RANGE_SERIES.map(|series| row(Experiment::Delete, series, &params, None));
    let job = move |harness: &Harness| measure_ranges(harness, 1 << n, percent);
    let work = RANGE_SERIES.len() as u64 * (scale.repeats as u64 + 1) * (1 << n);
    Case { rows: rows.into(), work, job: Box::new(job) }
}

/// Deletes a share of the keys, all neighbours, from a dictionary of `len` pairs in one run.
fn measure_ranges(harness: &Harness, len: usize, percent: usize) -> Outcome<Vec<Vec<Point>>> {
    let (backend, sorted) = (&harness.backend, harness.sorted(len));
    let doomed = len * percent / 100;
    let area = &sorted[len / 2 - doomed / 2..][..doomed];
    let ends @ (lo, hi) = (area[0].0, area[doomed - 1].0);
    let keys = backend.array(Kind::Key, doomed, &|i| area[i].0)?;
    let new = Numbers::counting(len as u64..(len + doomed) as u64);
    let (pairs, new_pairs) = (harness.pairs(len)?, harness.pairs_of(new)?);
    let mut base = backend.dictionary(RANGE_BATCH, Upkeep::Automatic)?;
    backend.apply(&mut *base, &pairs, 0..len)?;
    base.cleanup()?;

    let is_doomed = |number: u64| (lo..=hi).contains(&harness.key_of(number));
    let check = |dictionary: &dyn AnyDictionary, deletes: bool| {
        let live = if deletes { len - doomed } else { len + doomed };
        same("length", &"the dictionary", &dictionary.len()?, &live)?;
        let numbers = Numbers::shuffled(0..(len + doomed) as u64, len + doomed);
        harness.check_held(dictionary, numbers, |number| {
            let is_held = !deletes || number < len as u64 && !is_doomed(number);
            is_held.then(|| harness.value_of(number))
        })
    };
    let measure = |series: &str| {
        let job = |dictionary: &mut Box<dyn AnyDictionary>| match series {
            "range" => backend.delete_range(&mut **dictionary, ends),
            "list" => {
                backend.update(&mut **dictionary, (&pairs, 0..0), (&keys, 0..doomed))?;
                Ok(dictionary.flush()?)
            }
            _ => backend.apply(&mut **dictionary, &new_pairs, 0..doomed),
        };
        let deletes = series != "inserts";
        let (samples, _) =
            harness.repeat_anew(|| Ok(base.fork()), job, |d| check(&**d, deletes))?;
        harness.done((harness.scale.repeats as u64 + 1) * len as u64)?;
        Ok(Point::alone(doomed, samples))
    };
    RANGE_SERIES.into_iter().map(measure).collect()
}

fn window_case(scale: &Scale) -> Case {
    let n = scale.inserted - 2;
    let params: [(&str, &dyn Display); 2] = [("n", &n), ("share", &1)];
    let rows = WINDOW_SERIES.map(|series| row(Experiment::Delete, series, &params, None));
    let job = move |harness: &Harness| measure_window(harness, 1 << n);
    let work = 3 * scale.repeats as u64 * (1 << n);
    Case { rows: rows.into(), work, job: Box::new(job) }
}

/// Slides a window over ascending keys: each time the next keys are inserted, and then as many of the lowest are
/// deleted as a range.
fn measure_window(harness: &Harness, len: usize) -> Outcome<Vec<Vec<Point>>> {
    let (backend, step) = (&harness.backend, len / 100);
    let number = |i: usize| i as u64;
    let pairs = Pairs {
        keys: backend.array(Kind::Key, len + SLIDES * step, &number)?,
        values: backend.array(Kind::Value, len + SLIDES * step, &number)?,
    };
    let mut base = backend.dictionary(RANGE_BATCH, Upkeep::Automatic)?;
    backend.apply(&mut *base, &pairs, 0..len)?;
    let (mut ranges, mut inserts) = (Vec::new(), Vec::new());
    for _ in 0..harness.scale.repeats {
        let mut dictionary = base.fork();
        let (mut deleting, mut inserting) = (0.0, 0.0);
        for slide in 0..SLIDES {
            let (first, end) = (slide * step, len + slide * step);
            inserting +=
                harness.time(|| backend.apply(&mut *dictionary, &pairs, end..end + step))?;
            let gone = (first as u64, (first + step - 1) as u64);
            deleting += harness.time(|| backend.delete_range(&mut *dictionary, gone))?;
        }
        ranges.push(deleting);
        inserts.push(inserting);
        check_window(harness, &*dictionary, SLIDES * step..SLIDES * step + len)?;
        harness.done(3 * len as u64)?;
    }
    Ok([ranges, inserts].map(|samples| Point::alone(SLIDES * step, samples)).into())
}

/// Checks that a dictionary holds these keys, of those up to the last, with themselves as values.
fn check_window(
    harness: &Harness,
    dictionary: &dyn AnyDictionary,
    live: Range<usize>,
) -> Outcome<()> {
    same("length", &"the window", &dictionary.len()?, &live.len())?;
    // A stretch of all, and where the window begins.
    let begin = live.start.saturating_sub(64)..live.start + 64;
    for queried in [harness.stretch(live.end), begin] {
        let (len, mut out) = (queried.len(), harness.lookup_out(queried.len())?);
        let keys = harness.backend.array(Kind::Key, len, &|i| (queried.start + i) as u64)?;
        harness.backend.lookup(dictionary, &keys, &mut out)?;
        let (values, found) = (out.values.copy(0..len)?, out.found.copy(0..len)?);
        harness.compared(len);
        for (key, (value, found)) in queried.zip(values.into_iter().zip(found)) {
            let expected = live.contains(&key).then(|| harness.value_of(key as u64));
            same("window", &key, &(found != 0).then_some(value), &expected)?;
        }
    }
    Ok(())
}
