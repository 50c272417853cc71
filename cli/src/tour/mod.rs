//! `gpulsm tour`: the whole dictionary in half a minute, every answer checked.

mod check;
mod queries;
mod table;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Device, Dictionary, Snapshot};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use self::check::{Checked, wrong};
use self::queries::{Queries, timed};
use self::table::{Table, picture, runs};
use crate::{batch_size, how_started};

/// The most updates that are streamed in: they are kept on the host too, to check answers.
const MAX_UPDATES: u64 = 1 << 28;

/// Batches that are streamed in: the low levels fill up, all of them at the end.
const BATCHES: u64 = 31;

const EXAMPLES: &str = "\
Examples:
  gpulsm tour                       on the best device there is
  gpulsm tour --pairs 16777216      four times as many pairs
  gpulsm tour --device cpu --batch-size 1048576";

/// Builds, streams batches, makes every kind of query, and checks every answer against the model.
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

/// A snapshot, and the model at the same moment.
type Moment = (Snapshot<u32, u32>, Model<u32, u32>);

/// A dictionary on its tour, with the model it is compared with.
struct Subject {
    dictionary: Dictionary<u32, u32>,
    model: Model<u32, u32>,
    random: Random,
    table: Table,
    checked: Checked,
}

impl Tour {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let (mut out, max) = (io::stdout(), MAX_UPDATES / BATCHES);
        if self.batch_size > max {
            return Err(format!(
                "--batch-size {}: the tour streams {BATCHES} batches of this length in, and needs memory \
                 for all of them; it takes at most {max}",
                self.batch_size
            )
            .into());
        }
        let (device, pairs) = (self.device, HumanCount(self.pairs));
        writeln!(
            out,
            "gpulsm on {device}: u32 keys and values, every answer checked against the model\n"
        )?;
        writeln!(out, "A dictionary of {pairs} random pairs, built with one sort:")?;
        let mut subject = self.build()?;
        writeln!(out, "{}\n", subject.dictionary.stats()?)?;

        writeln!(
            out,
            "{BATCHES} batches of {}, each of new keys, new values and deletes. A batch goes to the\n\
             first level that is free; on its way it is merged with the runs (sorted arrays) it meets.\n\
             One column a level, the smallest left, as high as it is full; · is an empty level:",
            HumanCount(self.batch_size)
        )?;
        let (snapshot, frozen) = self.stream(&mut subject)?;
        subject.checked.all(subject.dictionary.to_vecs(), &subject.model)?;
        writeln!(out, "\n{}\n", subject.dictionary.stats()?)?;

        writeln!(
            out,
            "A snapshot from halfway still answers as it did then, from another thread."
        )?;
        let reader = std::thread::spawn(move || {
            let mut checked = Checked::default();
            checked.all(snapshot.to_vecs(), &frozen).map(|()| checked)
        });
        subject.checked.0 += reader.join().expect("the reader doesn't panic")?.0;

        subject.query()?;
        writeln!(out, "{}", subject.table)?;
        writeln!(out, "{} answers checked, all correct.", HumanCount(subject.checked.0))?;
        writeln!(
            out,
            "\nNext: `{program} shell` to talk to a dictionary, `{program} --help` for the rest.",
            program = how_started()
        )?;
        Ok(ExitCode::SUCCESS)
    }

    /// Builds a dictionary of random pairs.
    fn build(&self) -> Result<Subject, Box<dyn Error>> {
        let mut random = Random::new(self.seed);
        let keys: Vec<u32> = (0..self.pairs).map(|_| key(&mut random)).collect();
        let values: Vec<u32> = (0..self.pairs).map(|_| key(&mut random)).collect();
        let settings =
            Dictionary::builder().device(self.device).batch_size(self.batch_size as usize);
        let (dictionary, time) = timed(|| settings.bulk_build(&keys, &values));
        let mut subject = Subject {
            dictionary: dictionary?,
            model: Model::default(),
            random,
            table: Table::default(),
            checked: Checked::default(),
        };
        subject.table.add("build", keys.len(), time);
        subject.model.update(&zip(&keys, &values), &[]);
        subject.checked.all(subject.dictionary.to_vecs(), &subject.model)?;
        Ok(subject)
    }

    /// Streams batches in, with a line for each; returns a snapshot from halfway with its model.
    fn stream(&self, subject: &mut Subject) -> Result<Moment, Box<dyn Error>> {
        let progress = ProgressBar::new(BATCHES)
            .with_style(ProgressStyle::with_template("{bar:40} batch {pos} of {len}")?);
        let mut live: Vec<u32> = subject.dictionary.to_vecs()?.0;
        let mut halfway = None;
        let (mut updates, mut time) = (0, 0.0);
        for number in 1..=BATCHES {
            let before = runs(&subject.dictionary.stats()?);
            let (items, seconds) = subject.update(&mut live, self.batch_size as usize)?;
            (updates, time) = (updates + items, time + seconds);
            if number == BATCHES / 2 {
                halfway = Some((subject.dictionary.snapshot(), subject.model.clone()));
            }
            let stats = subject.dictionary.stats()?;
            let merged = (before + 1).saturating_sub(runs(&stats));
            let rate = items as f64 / seconds / 1e6;
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
        subject.table.add("update in batches", updates, time);
        Ok(halfway.expect("halfway is on the way"))
    }
}

impl Subject {
    /// Applies a batch: half of it is new, a quarter replaces values, a quarter deletes. Returns how many
    /// updates it had, and its seconds.
    fn update(&mut self, live: &mut Vec<u32>, size: usize) -> Result<(usize, f64), Box<dyn Error>> {
        let Subject { dictionary, model, random, .. } = self;
        let quarter = size / 4;
        let replaced: Vec<u32> = (0..quarter).filter_map(|_| pick(random, live)).collect();
        let new: Vec<u32> = (0..size - quarter - replaced.len()).map(|_| key(random)).collect();
        let keys = [replaced, new].concat();
        let values: Vec<u32> = keys.iter().map(|_| key(random)).collect();
        let deletes: Vec<u32> = (0..quarter).filter_map(|_| pick(random, live)).collect();
        let batch = Batch::new().insert(&keys, &values).delete(&deletes);
        let (outcome, seconds) = timed(|| dictionary.update(batch));
        outcome?;
        model.update(&zip(&keys, &values), &deletes);
        if dictionary.len()? != model.len() as u64 {
            return Err(wrong("length", &dictionary.len()?, &model.len()));
        }
        live.extend(&keys[quarter.min(keys.len())..]);
        Ok((keys.len() + deletes.len(), seconds))
    }

    /// Makes every kind of query over many levels, and again over one run.
    fn query(&mut self) -> Result<(), Box<dyn Error>> {
        let Subject { dictionary, model, random, table, checked } = self;
        let mut out = io::stdout();
        writeln!(out, "Every kind of query, over all these levels…")?;
        let queries = Queries::new(random, model);
        queries.run(dictionary, model, checked, &mut |name, count, time| {
            table.add_query(name, count, time);
        })?;
        let (cleaned, time) = timed(|| dictionary.cleanup());
        cleaned?;
        table.add("cleanup", dictionary.len()? as usize, time);
        let stats = dictionary.stats()?;
        writeln!(out, "…and again after a cleanup has left one run:\n{stats}\n")?;
        checked.all(dictionary.to_vecs(), model)?;
        queries.run(dictionary, model, checked, &mut |name, count, time| {
            table.add_second(name, count, time);
        })
    }
}

fn key(random: &mut Random) -> u32 {
    (random.number() >> 32) as u32
}

/// Picks one of these keys, if there are any.
fn pick(random: &mut Random, keys: &[u32]) -> Option<u32> {
    let index = random.number() as usize % keys.len().max(1);
    keys.get(index).copied()
}

fn zip(left: &[u32], right: &[u32]) -> Vec<(u32, u32)> {
    left.iter().copied().zip(right.iter().copied()).collect()
}
