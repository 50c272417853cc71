//! `gpulsm tour`: the whole dictionary in half a minute, every answer checked.

mod table;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use gpulsm::testing::script::Random;
use gpulsm::{Device, Dictionary};
use gpulsm_backends::tour::{Moment, Subject, Timed};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

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
        let mut table = Table::default();
        let settings = Dictionary::builder().device(device).batch_size(self.batch_size as usize);
        let (mut subject, built) = Subject::build(settings, self.pairs, Random::new(self.seed))?;
        table.add("build", built);
        writeln!(out, "{}\n", subject.dictionary().stats()?)?;

        writeln!(
            out,
            "{BATCHES} batches of {}, each of new keys, new values and deletes. A batch goes to the\n\
             first level that is free; on its way it is merged with the runs (sorted arrays) it meets.\n\
             One column a level, the smallest left, as high as it is full; · is an empty level:",
            HumanCount(self.batch_size)
        )?;
        let halfway = self.stream(&mut subject, &mut table)?;
        subject.check_all()?;
        writeln!(out, "\n{}\n", subject.dictionary().stats()?)?;

        writeln!(
            out,
            "A snapshot from halfway still answers as it did then, from another thread."
        )?;
        let reader = std::thread::spawn(move || halfway.check());
        subject.add_checked(reader.join().expect("the reader doesn't panic")?);

        query(&mut subject, &mut table)?;
        writeln!(out, "{table}")?;
        writeln!(out, "{} answers checked, all correct.", HumanCount(subject.answers_checked()))?;
        writeln!(
            out,
            "\nNext: `{program} shell` to talk to a dictionary, `{program} --help` for the rest.",
            program = how_started()
        )?;
        Ok(ExitCode::SUCCESS)
    }

    /// Streams batches in, with a line for each; returns what there was halfway.
    fn stream(&self, subject: &mut Subject, table: &mut Table) -> Result<Moment, Box<dyn Error>> {
        let progress = ProgressBar::new(BATCHES)
            .with_style(ProgressStyle::with_template("{bar:40} batch {pos} of {len}")?);
        let mut halfway = None;
        let mut all = Timed { items: 0, seconds: 0.0 };
        for number in 1..=BATCHES {
            let before = runs(&subject.dictionary().stats()?);
            let batch = subject.update(self.batch_size as usize)?;
            all.items += batch.items;
            all.seconds += batch.seconds;
            if number == BATCHES / 2 {
                halfway = Some(subject.moment());
            }
            let stats = subject.dictionary().stats()?;
            let merged = (before + 1).saturating_sub(runs(&stats));
            let rate = batch.rate();
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
        table.add("update in batches", all);
        Ok(halfway.expect("halfway is on the way"))
    }
}

/// Makes every kind of query over many levels, and again over one run.
fn query(subject: &mut Subject, table: &mut Table) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout();
    writeln!(out, "Every kind of query, over all these levels…")?;
    let queries = subject.draw_queries();
    subject.query(&queries, &mut |name, timed| table.add_query(name, timed))?;
    table.add("cleanup", subject.cleanup()?);
    let stats = subject.dictionary().stats()?;
    writeln!(out, "…and again after a cleanup has left one run:\n{stats}\n")?;
    subject.query(&queries, &mut |name, timed| table.add_second(name, timed))
}
