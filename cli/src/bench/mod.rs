//! `gpulsm bench`: the paper's evaluation, and more, on the user's machine. Answers that are timed are
//! compared with what they should be, in part or whole.

mod disk;
mod experiments;
mod gate;
mod harness;
mod machine;
mod scale;
mod session;
mod turns;

use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use gpulsm::Device;
use gpulsm_backends::backend::{self, Backend, Outcome};
use gpulsm_backends::numbers::{MeasuredKey, Width};

use self::scale::Scale;
use self::session::Session;
use crate::experiment::Experiment;
use crate::results::{Row, Run, Settings, Unit};

const EXAMPLES: &str = "\
Examples:
  gpulsm bench --quick                        everything, small: less than a minute
  gpulsm bench insert lookup                  two experiments, as large as the device deserves
  gpulsm bench --list                         the names of all measurements
  gpulsm bench --full --device cuda --out h200
  gpulsm report h200                          the page and tables of it
  gpulsm bench --quick --gate bars.txt        whether it is still as fast as it was
  gpulsm bench --against ../old/gpulsm        this build and another in turns, for `report`

A gate is a text file with a bar a line: `insert.b16 >= 1.5 * sa.insert.b16`; # begins a comment. Names
are those that are printed with the figures, and .n24 may be left out where it is clear; without .min or
.max they stand for the (harmonic) mean. Numbers alone are a second's: `build.max >= 50e6`, or bytes for
each pair. If a bar fails, the exit status is 1.";

/// Returns examples, what gates are, and what labels mean.
fn notes() -> String {
    let label = |(label, meaning): &(&str, &str)| format!("\n  {label:<14}{meaning}");
    let labels: String = Experiment::Dead.labels().iter().map(label).collect();
    format!("{EXAMPLES}\n\nLabels of `dead` (--list explains others):{labels}")
}

/// Measures what the paper measures, checks every answer, and keeps all samples.
#[derive(Args)]
#[command(after_help = notes())]
pub struct Bench {
    /// What to measure; everything if nothing is named
    #[arg(value_enum, value_name = "EXPERIMENT")]
    experiments: Vec<Experiment>,

    /// Only measurements whose name has this in it, and those that are made along with them: `b16`,
    /// `stream.b18`; may be given again
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,

    /// Name the measurements, and measure nothing. Lines that begin with # explain them
    #[arg(long)]
    list: bool,

    /// Where the dictionary lives: best, cpu, cuda or cuda:N
    #[arg(long, default_value = "best")]
    device: Device,

    /// Small sizes: less than a minute
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The paper's sizes and every number of batches (on a CPU fewer), more repeats
    #[arg(long)]
    full: bool,

    /// Sizes that say nothing of speed: a check that all works
    #[arg(long, hide = true, conflicts_with_all = ["quick", "full"])]
    tiny: bool,

    /// The type of keys. Others are mapped to one of these widths, at the cost of a pass. Values of u128 and
    /// u32,u32 are u64
    #[arg(long, value_enum, default_value = "u32")]
    key: MeasuredKey,

    /// Draw keys of u64 below 2^32 instead of from all there are
    #[arg(long, value_name = "N", value_parser = ["32"])]
    key_bits: Option<String>,

    /// The type of values
    #[arg(long, value_enum, default_value = "u32")]
    value: Width,

    /// Where the pseudo-random keys start
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The folder that keeps all samples; a run that was stopped goes on where it was
    /// [default: gpulsm-bench/DEVICE-KEY-VALUE-SIZE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Begin anew if the folder has a run
    #[arg(long)]
    restart: bool,

    /// A file of bars that must hold, judged by what is measured now. If no experiment is named, those
    /// that it needs are run
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,

    /// Another build of this program: both are run in turns, so that whatever else the machine does slows
    /// down both alike. Their results go to the folders `old` (the other build) and `new` in --out
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["gate", "list", "restart"])]
    against: Option<PathBuf>,

    /// How often each of the two builds is run
    #[arg(long, value_name = "N", default_value_t = 3, requires = "against",
        value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
}

/// Describes a device in a line.
pub fn describe(device: Device) -> Result<String, Box<dyn Error>> {
    let (name, details) = machine::name(device)?;
    let details: Vec<String> =
        details.iter().map(|(name, what)| format!("{name} {what}")).collect();
    Ok(format!("{name}: {}", details.join("; ")))
}

/// Makes a row without points.
fn row(
    experiment: Experiment,
    series: &str,
    params: &[(&str, &dyn Display)],
    over: Option<&str>,
) -> Row {
    Row {
        experiment: experiment.name().into(),
        series: series.into(),
        params: params.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        over: over.map(String::from),
        unit: Unit::Seconds,
        points: Vec::new(),
    }
}

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

impl Bench {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let bars = self.bars()?;
        let experiments = self.experiments(&bars)?;
        ctrlc::set_handler(|| {
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(130); // The second Ctrl-C.
            }
        })?;
        let scale = self.scale();
        let run = self.describe(&scale)?;
        let session = Session { bench: self, scale, run, bars };
        match &self.against {
            Some(other) => {
                turns::Turns { session: &session, other }.run(self.backend()?, &experiments)
            }
            None => session.run(self.backend()?, &experiments),
        }
    }

    fn bars(&self) -> Result<Vec<gate::Bar>, Box<dyn Error>> {
        let Some(file) = &self.gate else { return Ok(Vec::new()) };
        let named = |error: &dyn Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
        Ok(gate::parse(&text).map_err(|error| named(&error))?)
    }

    /// Returns the experiments named, those that the gate needs, or all.
    fn experiments(&self, bars: &[gate::Bar]) -> Result<Vec<Experiment>, String> {
        if !self.experiments.is_empty() {
            return Ok(self.experiments.clone());
        }
        let all = Experiment::all();
        let names: Vec<&str> = all.iter().map(|experiment| experiment.name()).collect();
        let needed: Vec<Vec<String>> =
            bars.iter().map(|bar| bar.experiments(&names)).collect::<Result<_, _>>()?;
        let is_needed = |name: &str| needed.iter().flatten().any(|needed| needed == name);
        let wanted = |experiment: &&Experiment| match bars.is_empty() {
            true => !experiment.must_be_named(),
            false => is_needed(experiment.name()),
        };
        Ok(all.iter().filter(wanted).copied().collect())
    }

    /// Returns whether any of these rows is to be measured.
    fn is_wanted(&self, rows: &[Row]) -> bool {
        let has = |text: &String| rows.iter().any(|row| row.name().contains(text));
        self.only.is_empty() || self.only.iter().any(has)
    }

    fn scale(&self) -> Scale {
        let is_cuda = self.device.is_cuda();
        match (self.tiny, self.quick, self.full) {
            (true, ..) => Scale::TINY,
            (_, true, _) => Scale::quick(is_cuda),
            (.., true) => Scale::full(is_cuda),
            _ => Scale::normal(is_cuda),
        }
    }

    /// Returns the width of the numbers that keys are made of.
    fn key_numbers(&self) -> Width {
        if self.key_bits.is_some() { Width::U32 } else { self.key.numbers() }
    }

    /// Returns the name of the type of keys, with how many bits are used if not all of them are.
    fn key_name(&self) -> String {
        match &self.key_bits {
            Some(bits) => format!("{}:{bits}", self.key),
            None => self.key.to_string(),
        }
    }

    fn backend(&self) -> Outcome<Box<dyn Backend>> {
        if self.key_bits.is_some() && self.key != MeasuredKey::U64 {
            return Err("--key-bits is for keys of u64: add --key u64".into());
        }
        backend::open(self.device, self.key, self.value)
    }

    /// Describes where and how this run is made.
    fn describe(&self, scale: &Scale) -> Result<Run, Box<dyn Error>> {
        let device = match self.device.to_string().as_str() {
            "cuda" => "cuda:0".to_string(),
            name => name.to_string(),
        };
        let mut command = vec!["gpulsm".to_string()];
        command.extend(std::env::args().skip(1));
        Ok(Run {
            command: command.join(" "),
            settings: Settings {
                device,
                key: self.key_name(),
                value: self.value.to_string(),
                scale: scale.name.into(),
                seed: self.seed,
            },
            machine: machine::describe(self.device)?,
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            in_turns_since: None,
        })
    }
}
