//! All of a GPU's memory, or, on a CPU, of a memory limit: how many pairs fit, and what works when it is nearly full.

use std::fmt::Display;

use gpulsm_backends::backend::{Outcome, Upkeep};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;

use crate::bench::harness::{Case, Harness, same};
use crate::bench::row;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;
use crate::results::{Point, Row, Unit};

/// log2 of the updates of a batch, on a GPU and on a CPU.
const BATCHES: (u32, u32) = (24, 16);

/// The memory limit on a CPU, and how it is written.
const CPU_LIMIT: (u64, &str) = (1 << 28, "256MiB");

/// Keys are looked up after as many batches, so that queries need memory as well.
const BATCHES_PER_LOOKUP: u64 = 16;

/// Per cent of the memory that pairs take while updates are measured…
const UPDATED: [(u64, u64); 2] = [(30, 45), (70, 88)];

/// …and when other things are.
const NEARLY_FULL: u64 = 85;

/// How often keys are looked up before that is measured: filters are built once they pay.
const WARM_UPS: usize = 96;

/// The parts of the memory that one run takes, at most.
const RUN_PARTS: [u64; 3] = [32, 8, 2];

pub fn cases(scale: &Scale, is_cuda: bool) -> Vec<Case> {
    let b = if is_cuda { BATCHES.0 } else { BATCHES.1 };
    let row = |params: &[(&str, &dyn Display)], unit| {
        let mut row = row(Experiment::Full, "gpulsm", params, None);
        row.params.insert("b".into(), b.to_string());
        if !is_cuda {
            row.params.insert("limit".into(), CPU_LIMIT.1.into());
        }
        Row { unit, ..row }
    };
    let case = |rows: Vec<Row>, measure: Measure| {
        let work = scale.repeats as u64 * (1000 << b);
        let job = move |harness: &Harness| {
            let points = measure(&Full::new(harness, b, is_cuda)?)?;
            harness.done(work)?;
            Ok(points)
        };
        Case { rows, work, job: Box::new(job) }
    };
    let update =
        |(from, to)| row(&[("op", &"update"), ("fill", &format!("{from}-{to}"))], Unit::Seconds);
    let mut filling = vec![row(&[("op", &"held")], Unit::Bytes)];
    filling.extend(UPDATED.map(update));
    filling.push(row(&[("op", &"lookup"), ("fill", &NEARLY_FULL)], Unit::Seconds));
    let runs = RUN_PARTS
        .map(|part| row(&[("op", &"lookup"), ("run", &format!("1/{part}"))], Unit::Seconds));
    vec![
        case(filling, fill),
        case(vec![row(&[("op", &"cleanup"), ("fill", &NEARLY_FULL)], Unit::Seconds)], cleanup),
        case(vec![row(&[("op", &"merge")], Unit::Bytes)], merge),
        case(runs.into(), look_up_in_one_run),
    ]
}

/// Returns the points of each row.
type Measure = fn(&Full<'_>) -> Outcome<Vec<Vec<Point>>>;

/// The memory that is filled.
struct Full<'a> {
    harness: &'a Harness,
    batch: u64,
    total: u64,
    is_cuda: bool,
}

impl<'a> Full<'a> {
    fn new(harness: &'a Harness, b: u32, is_cuda: bool) -> Outcome<Self> {
        let mut full = Full { harness, batch: 1 << b, total: 0, is_cuda };
        let memory = full.dictionary(full.limit())?.stats()?.memory;
        full.total = memory.ok_or("nobody knows how much memory there is")?.total;
        if full.numbers_in(100) > harness.key.max() {
            return Err("there are fewer keys than fit: add --key u64 --value u64".into());
        }
        Ok(full)
    }

    /// Returns the memory limit; none on a GPU, all of whose memory is filled.
    fn limit(&self) -> Option<u64> {
        (!self.is_cuda).then_some(CPU_LIMIT.0)
    }

    fn dictionary(&self, limit: Option<u64>) -> Outcome<Box<dyn AnyDictionary>> {
        let upkeep = limit.map_or(Upkeep::Manual, Upkeep::Limited);
        self.harness.backend.dictionary(self.batch as usize, upkeep)
    }

    fn pair_bytes(&self) -> u64 {
        self.harness.backend.pair_bytes() as u64
    }

    /// Returns how many pairs take as many per cent of the memory, in whole batches.
    fn numbers_in(&self, per_cent: u64) -> u64 {
        self.total / 100 * per_cent / self.pair_bytes() / self.batch * self.batch
    }

    /// Inserts a batch of numbers; returns how many seconds that took.
    fn insert(&self, dictionary: &mut dyn AnyDictionary, first: u64) -> Outcome<f64> {
        let pairs = self.harness.pairs_of(Numbers::counting(first..first + self.batch))?;
        let all = 0..self.batch as usize;
        self.harness.time(|| self.harness.backend.apply(dictionary, &pairs, all.clone()))
    }

    fn insert_all(&self, dictionary: &mut dyn AnyDictionary, numbers: u64) -> Outcome<()> {
        for first in (0..numbers).step_by(self.batch as usize) {
            self.insert(dictionary, first)?;
        }
        Ok(())
    }

    /// Looks up random numbers below a limit; returns how many seconds each of a few calls took.
    fn look_up(
        &self,
        dictionary: &dyn AnyDictionary,
        held: u64,
        warm_ups: usize,
    ) -> Outcome<Vec<f64>> {
        let harness = self.harness;
        let numbers = Numbers::shuffled(0..held, self.batch as usize);
        let keys = harness.keys(numbers)?;
        let mut out = harness.lookup_out(numbers.len)?;
        for _ in 0..warm_ups {
            harness.backend.lookup(dictionary, &keys, &mut out)?;
        }
        let times = harness.repeat(|| harness.backend.lookup(dictionary, &keys, &mut out))?;
        let expected = |number| Some(harness.value_of(number));
        harness.check_lookups("lookup", numbers, &out, expected)?;
        Ok(times)
    }
}

/// Inserts until there is no more memory, with lookups in between.
fn fill(full: &Full<'_>) -> Outcome<Vec<Vec<Point>>> {
    let dictionary = &mut *full.dictionary(full.limit())?;
    let (mut held, mut times, mut nearly_full) = (0, Vec::new(), Vec::new());
    loop {
        match full.insert(dictionary, held) {
            Ok(seconds) => times.push((held * full.pair_bytes() * 100 / full.total, seconds)),
            Err(error) if is_out_of_memory(&*error) => break,
            Err(error) => return Err(error),
        }
        held += full.batch;
        if nearly_full.is_empty() && held >= full.numbers_in(NEARLY_FULL) {
            nearly_full = full.look_up(dictionary, held, WARM_UPS)?;
        } else if (held / full.batch).is_multiple_of(BATCHES_PER_LOOKUP) {
            full.look_up(dictionary, held, 0)?;
        }
        full.harness.done(0)?;
    }
    // What was held before is still there.
    let sample = Numbers::shuffled(0..held, full.batch as usize);
    full.harness.check_held(dictionary, sample, |number| Some(full.harness.value_of(number)))?;
    let mean = |(from, to): (u64, u64)| {
        let times = times.iter().filter(|&&(per_cent, _)| (from..to).contains(&per_cent));
        let times: Vec<f64> = times.map(|&(_, seconds)| seconds).collect();
        Point::alone(full.batch as usize, vec![times.iter().sum::<f64>() / times.len() as f64])
    };
    let mut points = vec![Point::alone(held as usize, vec![full.total as f64])];
    points.extend(UPDATED.map(mean));
    points.push(Point::alone(full.batch as usize, nearly_full));
    Ok(points)
}

fn is_out_of_memory(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(gpulsm::Error::OutOfMemory { .. }))
}

/// Inserts everything twice, and cleans up.
fn cleanup(full: &Full<'_>) -> Outcome<Vec<Vec<Point>>> {
    let live = full.numbers_in(NEARLY_FULL / 2);
    let dictionary = &mut *full.dictionary(full.limit())?;
    for _ in 0..2 {
        full.insert_all(dictionary, live)?;
    }
    let seconds = full.harness.time(|| Ok(dictionary.cleanup()?))?;
    full.harness.check_filled(dictionary, live as usize)?;
    Ok(vec![Point::alone(2 * live as usize, vec![seconds])])
}

/// Fills a quarter of the memory under a limit that leaves no room for a merge beside its runs, up to the batch with
/// which all of them become one.
fn merge(full: &Full<'_>) -> Outcome<Vec<Vec<Point>>> {
    let numbers = (full.numbers_in(25) / full.batch + 1).next_power_of_two() / 2 * full.batch;
    let dictionary = &mut *full.dictionary(Some(numbers * full.pair_bytes() * 5 / 4))?;
    full.insert_all(dictionary, numbers)?;
    let stats = dictionary.stats()?;
    same("runs", &"after the last batch", &stats.levels.len(), &1)?;
    full.harness.check_filled(dictionary, numbers as usize)?;
    let besides = stats.bytes_peak - stats.bytes.total();
    Ok(vec![Point::alone(numbers as usize, vec![besides as f64])])
}

fn look_up_in_one_run(full: &Full<'_>) -> Outcome<Vec<Vec<Point>>> {
    let look_up = |part: u64| {
        let bytes = (full.total / part + 1).next_power_of_two() / 2;
        let numbers = (bytes / full.pair_bytes()).max(full.batch);
        let dictionary = &mut *full.dictionary(full.limit())?;
        full.insert_all(dictionary, numbers)?;
        dictionary.cleanup()?;
        Ok(Point::alone(full.batch as usize, full.look_up(dictionary, numbers, 1)?))
    };
    RUN_PARTS.into_iter().map(look_up).collect()
}
