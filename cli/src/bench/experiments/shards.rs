//! Dictionaries divided among several shards of one device, beside one without shards.

use gpulsm_backends::backend::{Outcome, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use super::growth::batch;
use crate::bench::harness::{Case, Harness};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::{Point, Row};

/// log2 of the updates of a batch, on a GPU and on a CPU, unless there are fewer in all.
const BATCHES: (&[u32], &[u32]) = (&[20, 22], &[20]);

/// How many batches are inserted: more than the write buffer of a dictionary without shards takes.
const ROUNDS: usize = 32;

/// How many shards a dictionary has.
const SHARDS: [usize; 3] = [1, 2, 4];

/// The series of the dictionary without shards.
const WITHOUT: &str = "one";

pub fn cases(scale: &Scale, is_cuda: bool) -> Vec<Case> {
    let sizes = if is_cuda { BATCHES.0 } else { BATCHES.1 };
    let mut sizes: Vec<u32> = sizes.iter().map(|&b| b.min(scale.inserted)).collect();
    sizes.dedup();
    sizes.into_iter().map(|b| case(scale, b)).collect()
}

fn case(scale: &Scale, b: u32) -> Case {
    let rows_of = |op: &'static str| -> Vec<Row> {
        let without = row(Experiment::Shards, WITHOUT, &[("op", &op), ("b", &b)], None);
        let with = SHARDS.map(|shards| {
            let params: [(&str, &dyn std::fmt::Display); 3] =
                [("op", &op), ("b", &b), ("shards", &shards)];
            row(Experiment::Shards, "gpulsm", &params, None)
        });
        with.into_iter().chain([without]).collect()
    };
    let rows: Vec<Row> = ["update", "lookup"].into_iter().flat_map(rows_of).collect();
    let work = (scale.repeats * SHARDS.len() * ROUNDS) as u64 * (1 << b);
    let job = move |harness: &Harness| {
        let (updates, lookups) = measure(harness, 1 << b)?;
        harness.done(work)?;
        let point = |items: usize| move |samples| Point::alone(items, samples);
        let updates = updates.into_iter().map(point(ROUNDS << b));
        Ok(updates.chain(lookups.into_iter().map(point(1 << b))).collect())
    };
    Case { rows, work, job: Box::new(job) }
}

/// The seconds of each repeat, for each number of shards and then without any.
type Samples = Vec<Vec<f64>>;

/// Measures updates and lookups in turns, so that all meet the machine in the same states, after a round that does not
/// count.
fn measure(harness: &Harness, batch_size: usize) -> Outcome<(Samples, Samples)> {
    let variants: Vec<Option<usize>> = SHARDS.map(Some).into_iter().chain([None]).collect();
    let count = variants.len();
    let (mut updates, mut lookups) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for round in 0..=harness.scale.repeats.next_multiple_of(count) {
        // Each is as often the first of a round as any other.
        for turn in 0..count {
            let variant = (round + turn) % count;
            let (update, lookup) = measure_one(harness, batch_size, variants[variant])?;
            if round > 0 {
                updates[variant].push(update);
                lookups[variant].push(lookup);
            }
        }
    }
    Ok((updates, lookups))
}

/// Times inserts batch by batch, and then lookups of keys that exist.
fn measure_one(harness: &Harness, batch_size: usize, shards: Option<usize>) -> Outcome<(f64, f64)> {
    let (backend, len) = (&harness.backend, ROUNDS * batch_size);
    let pairs = harness.pairs(len)?;
    let mut dictionary: Box<dyn AnyDictionary> = match shards {
        Some(shards) => backend.sharded(batch_size, shards)?,
        None => backend.dictionary(batch_size, Upkeep::Automatic)?,
    };
    let update = harness.time(|| {
        for r in 1..=ROUNDS {
            backend.insert(&mut *dictionary, &pairs, batch(r, batch_size))?;
        }
        Ok(dictionary.synchronize()?)
    })?;
    let numbers = Numbers::shuffled(0..len as u64, len).first(batch_size);
    let (keys, mut out) = (harness.keys(numbers)?, harness.lookup_out(batch_size)?);
    backend.lookup(&*dictionary, &keys, &mut out)?;
    let lookup = harness.time(|| {
        backend.lookup(&*dictionary, &keys, &mut out)?;
        Ok(dictionary.synchronize()?)
    })?;
    harness.check_filled(&*dictionary, len)?;
    harness.check_lookups("lookup", numbers, &out, |number| Some(harness.value_of(number)))?;
    Ok((update, lookup))
}
