//! `gpulsm tour`: the whole dictionary in half a minute, every answer checked.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Device, Dictionary, Snapshot, Stats};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::batch_size;

/// Batches that are streamed in: the low levels fill up, all of them at the end.
const BATCHES: u64 = 31;

/// Queries of each kind (fewer of those that are slow, or long), and how many keys a range has.
const QUERIES: usize = 1 << 20;
const RANGES: usize = 1 << 12;
const SELECTS: usize = 1 << 17;
const WIDE: u64 = 1024;

const EXAMPLES: &str = "\
Examples:
  gpulsm tour                       on the best device there is
  gpulsm tour --pairs 16777216      four times as many pairs
  gpulsm tour --device cpu --batch-size 1048576";

/// Builds, streams batches, asks everything, and checks every answer against the model.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Tour {
    /// How many pairs to build from
    #[arg(long, value_name = "N", default_value_t = 1 << 22, value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    pairs: u64,

    /// The batch size b of the dictionary, and the length of the batches that are streamed in
    #[arg(long, value_name = "B", value_parser = batch_size(), default_value_t = 1 << 16)]
    batch_size: u64,

    /// Where the pseudo-random keys start
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Where the dictionary lives: best, cpu, cuda or cuda:N
    #[arg(long, default_value = "best")]
    device: Device,
}

type Pairs = (Vec<u32>, Vec<u32>);

/// A dictionary at one moment, and what it should hold.
type Moment = (Snapshot<u32, u32>, Model<u32, u32>);

impl Tour {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let batch = self.batch_size as usize;
        let (device, pairs) = (self.device, HumanCount(self.pairs));
        let mut random = Random::new(self.seed);
        let mut table = Table::default();
        let mut out = io::stdout();
        writeln!(
            out,
            "gpulsm on {device}: u32 keys and values, every answer checked against the model\n"
        )?;

        writeln!(out, "A dictionary of {pairs} random pairs, built with one sort:")?;
        let keys: Vec<u32> = (0..self.pairs).map(|_| key(&mut random)).collect();
        let values: Vec<u32> = (0..self.pairs).map(|_| key(&mut random)).collect();
        let settings = Dictionary::builder().device(device).batch_size(batch);
        let (dictionary, time) = timed(|| settings.bulk_build(&keys, &values));
        let mut dictionary = dictionary?;
        table.add("build", keys.len(), time);
        let mut model = Model::<u32, u32>::default();
        model.update(&zip(&keys, &values), &[]);
        let mut checked = Checked::default();
        checked.all(&dictionary, &model)?;
        writeln!(out, "{}\n", dictionary.stats()?)?;

        writeln!(
            out,
            "{BATCHES} batches of {}, each of new keys, new values and deletes. A batch goes to the\n\
             first level that is free; on its way it is merged with the runs (sorted arrays) it meets.\n\
             One column a level, the smallest left, as high as it is full; · is an empty level:",
            HumanCount(self.batch_size)
        )?;
        let (snapshot, frozen) =
            self.stream(&mut dictionary, &mut model, &mut random, &mut table)?;
        checked.all(&dictionary, &model)?;
        writeln!(out, "\n{}\n", dictionary.stats()?)?;

        writeln!(
            out,
            "A snapshot from halfway still answers as it did then, from another thread."
        )?;
        let reader = std::thread::spawn(move || {
            let mut checked = Checked::default();
            checked.all(&snapshot, &frozen).map(|()| checked)
        });
        checked.0 += reader.join().expect("the reader doesn't panic")?.0;

        writeln!(out, "Every kind of query, over all these levels…")?;
        let queries = Queries::new(&mut random, &model);
        ask(&dictionary, &queries, &model, &mut checked, |name, count, time| {
            table.add_query(name, count, time)
        })?;
        let (cleaned, time) = timed(|| dictionary.cleanup());
        cleaned?;
        table.add("cleanup", dictionary.len()?, time);
        let stats = dictionary.stats()?;
        writeln!(out, "…and again after a cleanup has left one run:\n{stats}\n")?;
        checked.all(&dictionary, &model)?;
        ask(&dictionary, &queries, &model, &mut checked, |name, count, time| {
            table.add_second(name, count, time)
        })?;

        writeln!(out, "{table}")?;
        writeln!(out, "{} answers checked, all correct.", HumanCount(checked.0))?;
        writeln!(
            out,
            "\nNext: `gpulsm shell` to talk to a dictionary, `gpulsm --help` for the rest."
        )?;
        Ok(ExitCode::SUCCESS)
    }

    /// Streams batches in, with a line for each; returns a snapshot from halfway with its model.
    fn stream(
        &self,
        dictionary: &mut Dictionary<u32, u32>,
        model: &mut Model<u32, u32>,
        random: &mut Random,
        table: &mut Table,
    ) -> Result<Moment, Box<dyn Error>> {
        let progress = ProgressBar::new(BATCHES)
            .with_style(ProgressStyle::with_template("{bar:40} batch {pos} of {len}")?);
        let mut live: Vec<u32> = dictionary.to_vecs()?.0;
        let mut halfway = None;
        let (mut updates, mut time) = (0, 0.0);
        for number in 1..=BATCHES {
            // Half of the batch is new, a quarter replaces values, a quarter deletes.
            let quarter = self.batch_size as usize / 4;
            let replaced: Vec<u32> = (0..quarter).filter_map(|_| pick(random, &live)).collect();
            let fresh = self.batch_size as usize - quarter - replaced.len();
            let new: Vec<u32> = (0..fresh).map(|_| key(random)).collect();
            let keys = [replaced, new].concat();
            let values: Vec<u32> = keys.iter().map(|_| key(random)).collect();
            let deletes: Vec<u32> = (0..quarter).filter_map(|_| pick(random, &live)).collect();

            let before = runs(&dictionary.stats()?);
            let batch = Batch::inserting(&keys, &values).deleting(&deletes);
            let (outcome, spent) = timed(|| dictionary.update(batch));
            outcome?;
            (updates, time) = (updates + keys.len() + deletes.len(), time + spent);
            model.update(&zip(&keys, &values), &deletes);
            if dictionary.len()? != model.len() {
                return Err(wrong("length", &dictionary.len()?, &model.len()));
            }
            live.extend(&keys[quarter.min(keys.len())..]);
            if number == BATCHES / 2 {
                halfway = Some((dictionary.snapshot(), model.clone()));
            }

            let stats = dictionary.stats()?;
            let merged = (before + 1).saturating_sub(runs(&stats));
            let rate = (keys.len() + deletes.len()) as f64 / spent / 1e6;
            let carry = match merged {
                0 => "goes to a free level".into(),
                1 => "is merged with 1 run".into(),
                _ => format!("is merged with {merged} runs"),
            };
            let line = format!("{number:>4}  {}  {rate:5.1} M/s  {carry}", picture(&stats));
            progress.suspend(|| writeln!(io::stdout(), "{line}"))?;
            progress.inc(1);
        }
        progress.finish_and_clear();
        table.add("update in batches", updates, time);
        Ok(halfway.expect("halfway is on the way"))
    }
}

/// What is asked.
struct Queries {
    /// Some of these are there.
    keys: Vec<u32>,
    lo: Vec<u32>,
    hi: Vec<u32>,
    indices: Vec<u64>,
}

impl Queries {
    fn new(random: &mut Random, model: &Model<u32, u32>) -> Self {
        let len = model.len() as u64;
        let live: Vec<u32> = model.range(0, u32::MAX).map(|(key, _)| key).collect();
        let draw = |at: usize, random: &mut Random| match at % 2 {
            0 => pick(random, &live).unwrap_or(0),
            _ => key(random),
        };
        let keys = (0..QUERIES).map(|at| draw(at, random)).collect();
        let width = ((1u64 << 32) * WIDE / len.max(1)).min(u32::MAX.into()) as u32;
        let lo: Vec<u32> = (0..QUERIES).map(|_| key(random)).collect();
        let hi = lo.iter().map(|lo| lo.saturating_add(width)).collect();
        // One in sixteen asks for a place past the end.
        let indices = (0..SELECTS).map(|_| random.number() % (len + len / 16 + 1)).collect();
        Queries { keys, lo, hi, indices }
    }
}

/// Asks every kind of query, three times each, and says how long the fastest took; checks all answers.
fn ask(
    dictionary: &Dictionary<u32, u32>,
    queries: &Queries,
    model: &Model<u32, u32>,
    checked: &mut Checked,
    mut report: impl FnMut(&'static str, usize, f64),
) -> Result<(), Box<dyn Error>> {
    let Queries { keys, lo, hi, indices } = queries;
    let sorted: Pairs = model.range(0, u32::MAX).unzip();
    let rank = |key: u32| sorted.0.partition_point(|&other| other < key);
    let up_to = |key: u32| sorted.0.partition_point(|&other| other <= key);
    let pair = |at: usize| Some((*sorted.0.get(at)?, sorted.1[at]));

    let (values, time) = fastest(|| dictionary.lookup(keys))?;
    report("lookup, half of them there", keys.len(), time);
    checked.each("lookup", keys, &values, |&key| model.lookup(key))?;

    let (counts, time) = fastest(|| dictionary.count(lo, hi))?;
    report("count, ranges of about 1,024", lo.len(), time);
    let ranges: Vec<(u32, u32)> = zip(lo, hi);
    checked.each("count", &ranges, &counts, |&(lo, hi)| (up_to(hi) - rank(lo)) as u64)?;

    let (found, time) = fastest(|| dictionary.range(&lo[..RANGES], &hi[..RANGES]))?;
    report("pairs, from ranges of about 1,024", found.keys.len(), time);
    let found: Vec<_> = found.iter().collect();
    checked.each("range", &ranges[..RANGES], &found, |&(lo, hi)| {
        let window = rank(lo)..up_to(hi);
        (&sorted.0[window.clone()], &sorted.1[window])
    })?;
    checked.0 += found.iter().map(|(keys, _)| keys.len() as u64).sum::<u64>();

    let (pairs, time) = fastest(|| dictionary.successor(keys))?;
    report("successor", keys.len(), time);
    checked.each("successor", keys, &pairs, |&key| pair(rank(key)))?;

    let (pairs, time) = fastest(|| dictionary.predecessor(keys))?;
    report("predecessor", keys.len(), time);
    checked.each("predecessor", keys, &pairs, |&key| pair(up_to(key).checked_sub(1)?))?;

    let (ranks, time) = fastest(|| dictionary.rank(keys))?;
    report("rank", keys.len(), time);
    checked.each("rank", keys, &ranks, |&key| rank(key) as u64)?;

    let (pairs, time) = fastest(|| dictionary.select(indices))?;
    report("select", indices.len(), time);
    checked.each("select", indices, &pairs, |&index| pair(index as usize))?;

    let (all, time) = fastest(|| dictionary.to_vecs())?;
    report("every pair in key order", all.0.len(), time);
    checked.each("every pair", &[()], &[all], |()| sorted.clone())?;
    Ok(())
}

/// How many answers were compared.
#[derive(Default)]
struct Checked(u64);

impl Checked {
    /// Compares every answer with what it should be.
    fn each<Q: std::fmt::Debug, A: PartialEq + std::fmt::Debug>(
        &mut self,
        name: &str,
        queries: &[Q],
        answers: &[A],
        expected: impl Fn(&Q) -> A,
    ) -> Result<(), Box<dyn Error>> {
        if answers.len() != queries.len() {
            return Err(wrong(name, &answers.len(), &queries.len()));
        }
        for (query, answer) in queries.iter().zip(answers) {
            let expected = expected(query);
            if *answer != expected {
                return Err(wrong(&format!("{name} of {query:?}"), answer, &expected));
            }
        }
        self.0 += queries.len() as u64;
        Ok(())
    }

    /// Compares everything there is.
    fn all(
        &mut self,
        snapshot: &Snapshot<u32, u32>,
        model: &Model<u32, u32>,
    ) -> Result<(), WrongAnswer> {
        let (keys, values) = snapshot.to_vecs().map_err(|error| WrongAnswer(error.to_string()))?;
        let pairs = keys.into_iter().zip(values);
        if !pairs.eq(model.range(0, u32::MAX)) {
            return Err(WrongAnswer("the pairs are not those of the model".into()));
        }
        self.0 += model.len() as u64;
        Ok(())
    }
}

/// What an answer was, and what it should have been.
#[derive(Debug)]
struct WrongAnswer(String);

impl std::fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongAnswer {}

fn wrong(
    name: &str,
    answer: &dyn std::fmt::Debug,
    expected: &dyn std::fmt::Debug,
) -> Box<dyn Error> {
    let short =
        |what: &dyn std::fmt::Debug| format!("{what:?}").chars().take(100).collect::<String>();
    Box::new(WrongAnswer(format!(
        "{name}: the dictionary says {}, the model {}",
        short(answer),
        short(expected)
    )))
}

/// Rates, in two columns where something was measured twice.
#[derive(Default)]
struct Table(Vec<(&'static str, Option<f64>, Option<f64>)>);

impl Table {
    /// Something measured once.
    fn add(&mut self, name: &'static str, count: usize, seconds: f64) {
        self.0.push((name, None, Some(count as f64 / seconds / 1e6)));
    }

    /// A query over many levels.
    fn add_query(&mut self, name: &'static str, count: usize, seconds: f64) {
        self.0.push((name, Some(count as f64 / seconds / 1e6), None));
    }

    /// The same query over one run.
    fn add_second(&mut self, name: &'static str, count: usize, seconds: f64) {
        if let Some(row) = self.0.iter_mut().find(|(other, ..)| *other == name) {
            row.2 = Some(count as f64 / seconds / 1e6);
        }
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.1}"));
        let (queries, changes): (Vec<_>, Vec<_>) = self.0.iter().partition(|row| row.1.is_some());
        writeln!(f, "{:<36}{:>14}", "million a second", "")?;
        for &(name, _, once) in changes {
            writeln!(f, "  {name:<34}{:>14}", rate(once))?;
        }
        writeln!(f, "{:<36}{:>14}{:>14}", "", "many levels", "one run")?;
        for &(name, many, one) in queries {
            writeln!(f, "  {name:<34}{:>14}{:>14}", rate(many), rate(one))?;
        }
        Ok(())
    }
}

/// How many levels hold a run.
fn runs(stats: &Stats) -> usize {
    stats.levels.len()
}

/// The levels as a row of bars, as high as they are full; the newest first.
fn picture(stats: &Stats) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = stats.levels.last().map_or(0, |level| level.level);
    let bar = |index: usize| {
        let level = stats.levels.iter().find(|level| level.level == index)?;
        let height = (level.entries * 8).div_ceil(level.capacity).clamp(1, 8);
        Some(HEIGHTS[height as usize - 1])
    };
    (0..=top).map(|index| bar(index).unwrap_or('·')).collect()
}

fn key(random: &mut Random) -> u32 {
    (random.number() >> 32) as u32
}

/// One of these keys, if there are any.
fn pick(random: &mut Random, keys: &[u32]) -> Option<u32> {
    let index = random.number() as usize % keys.len().max(1);
    keys.get(index).copied()
}

fn timed<T>(job: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let done = job();
    (done, start.elapsed().as_secs_f64())
}

/// The answers, and the shortest time of three.
fn fastest<T>(job: impl Fn() -> Result<T, gpulsm::Error>) -> Result<(T, f64), gpulsm::Error> {
    let (first, mut best) = timed(&job);
    let mut answers = first?;
    for _ in 0..2 {
        let (again, time) = timed(&job);
        answers = again?;
        best = best.min(time);
    }
    Ok((answers, best))
}

fn zip(left: &[u32], right: &[u32]) -> Vec<(u32, u32)> {
    left.iter().copied().zip(right.iter().copied()).collect()
}
