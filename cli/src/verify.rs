//! `gpulsm verify`: random operation lists against the model.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use gpulsm::Devices;
use gpulsm_backends::types::{Rule, ValueType};
use gpulsm_verify::{Check, KEYS, List, check_of};
use indicatif::{ProgressBar, ProgressStyle};

use crate::batch_size;

/// Operations in one list, each of which starts from an empty dictionary.
const LIST: u64 = 100;

const EXAMPLES: &str = "\
Examples:
  gpulsm verify                                    a quick check on the best device
  gpulsm verify --ops 1000000 --seed 7             a longer one, with another seed
  gpulsm verify --seconds 60 --scale 50            for a minute, with long batches
  gpulsm verify --key f64 --value u128 --batch-size 8
  gpulsm verify --key u32,i64                      keys of two parts
  gpulsm verify --value f64 --combine max          values of which the greatest stays";

/// Checks random operation lists against the model.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// How many operations to do in all, in lists of 100
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,

    /// Begin no list after this many seconds, and until then as many as there is time for
    #[arg(long, value_name = "T", conflicts_with = "ops", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// Batches and queries this many times as long, of keys that spread as much
    #[arg(long, value_name = "X", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    scale: u64,

    /// Where the pseudo-random lists start; the same seed gives the same lists
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The type of keys; a comma stands between the parts of keys of several
    #[arg(long, value_name = "TYPE[,TYPE…]", value_parser = KEYS, default_value = "u32")]
    key: String,

    /// The type of values; none for a set
    #[arg(long, value_enum, default_value_t = ValueType::U32)]
    value: ValueType,

    /// What an insert does to a key that is already there; drawn for each list if not given, and with it the
    /// type of number that the bits of values are read as
    #[arg(long, value_enum, value_name = "RULE")]
    combine: Option<Rule>,

    /// The batch size b of every dictionary; drawn for each list if not given
    #[arg(long, value_name = "B", value_parser = batch_size())]
    batch_size: Option<u64>,

    /// Where the dictionaries live: best, cpu, cuda or cuda:N; with a comma between several, each is divided among them
    #[arg(long, value_name = "DEVICE[,DEVICE…]", default_value = "best")]
    device: Devices,
}

impl Verify {
    /// Prints which lists fail and, last, how many operations passed and failed. The operations of a list
    /// after a failed one are not executed, and count as neither.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut out = io::stdout();
        let (ops, amount) = match self.seconds {
            None => (self.ops, format!("{} operations", self.ops)),
            Some(seconds) => (u64::MAX, format!("{seconds} seconds of operations")),
        };
        writeln!(out, "{amount} in lists of {LIST} on {}, seed {}", self.device, self.seed)?;
        let progress = self.progress(ops)?;
        let end = self.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let check = self.check();
        let (mut passed, mut failed) = (0, 0);
        for (list, start) in (0..ops).step_by(LIST as usize).enumerate() {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let len = LIST.min(ops - start);
            match check(&self.list(list as u64, len))? {
                Ok(()) => passed += len,
                Err(mismatch) => {
                    passed += mismatch.index as u64;
                    failed += 1;
                    progress.suspend(|| eprintln!("list {list} of seed {}: {mismatch}", self.seed));
                }
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        writeln!(out, "{passed} passed, {failed} failed")?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn progress(&self, ops: u64) -> Result<ProgressBar, Box<dyn Error>> {
        let (progress, style) = match self.seconds {
            None => {
                (ProgressBar::new(ops.div_ceil(LIST)), "{bar:40} {pos} of {len} lists, {eta} to go")
            }
            Some(_) => (ProgressBar::no_length(), "{spinner} {pos} lists, {elapsed}"),
        };
        Ok(progress.with_style(ProgressStyle::with_template(style)?))
    }

    /// Returns the check for the types that the command line names. Of a value, a dictionary knows only the
    /// width.
    fn check(&self) -> Check {
        check_of(&self.key, self.value.width()).expect("the program offers these types only")
    }

    fn list(&self, number: u64, len: u64) -> List {
        List {
            seed: self.seed.wrapping_add(number << 32),
            len,
            scale: self.scale as usize,
            batch_size: self.batch_size.map(|size| size as usize),
            combine: self.combine.map(|rule| (rule.into(), self.value.element())),
            devices: self.device.clone(),
        }
    }
}
