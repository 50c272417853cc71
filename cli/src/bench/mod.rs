//! `gpulsm bench`: the paper's evaluation, and more, on one's own machine. Every answer that is timed is
//! compared with what it should be, in part or whole.

mod cleanup;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod dead;
#[cfg(feature = "cuda")]
mod ffi;
mod gate;
mod lab;
mod machine;
mod numbers;
mod queries;
mod scale;
mod site;
mod skew;
mod stream;
mod updates;
mod upkeep;

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use gpulsm::Device;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::results::{Before, Folder, Point, Results, Row, Run, Settings, Unit};
use lab::{Case, Lab, Stopped};
use numbers::Number;
use scale::Scale;
use site::Site;

const EXAMPLES: &str = "\
Examples:
  gpulsm bench --quick                        everything, small: less than a minute
  gpulsm bench insert lookup                  two experiments, as large as the device deserves
  gpulsm bench --list                         the names of all measurements
  gpulsm bench --full --device cuda --out h200
  gpulsm report h200                          the page and tables of it
  gpulsm bench --quick --gate bars.txt        whether it is still as fast as it was

A gate is a text file with a bar a line: `insert.b16 >= 1.5 * sa.insert.b16`; # begins a comment. Names
are those that are printed with the figures, and .n24 may be left out where it is clear; without .min or
.max they stand for the (harmonic) mean. Numbers alone are a second's: `build.max >= 50e6`, or bytes for
each pair. If a bar fails, the exit status is 1.";

/// Measures what the paper measures, checks every answer, and keeps all samples.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    /// What to measure; everything if nothing is named
    #[arg(value_enum, value_name = "EXPERIMENT")]
    experiments: Vec<Experiment>,

    /// Only measurements whose name has this in it, and those that are made along with them: `b16`,
    /// `stream.b18`; may be given again
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,

    /// Name the measurements, and measure nothing
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

    /// The type of keys. Others are mapped to one of these widths, at the cost of a pass
    #[arg(long, value_enum, default_value = "u32")]
    key: Width,

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
}

/// Widths of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Width {
    U32,
    U64,
}

impl Display for Width {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Width::U32 { "u32" } else { "u64" })
    }
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Table II: the rate of every batch on the way to n, all batch sizes; a sorted array beside it
    Insert,
    /// Fig. 4a: the time of every batch
    InsertTime,
    /// Streams of calls that nobody waits for: inserts, deletes, with counts between, one long call
    Stream,
    /// Fig. 4b: the effective rate against n
    Effective,
    /// Section IV-A: batches that are not full
    Partial,
    /// Building from pairs in any order; a sort and a hash table beside it
    Build,
    /// Table III: lookups of keys that are all there, or none; a sorted array and a hash table beside it
    Lookup,
    /// Table IV: counts of ranges of 8 and of 1,024
    Count,
    /// Table IV: the pairs of such ranges
    Range,
    /// Successors, ranks, selections
    Order,
    /// Section V-B: deletes, and mixed batches
    Delete,
    /// Ranges, scans and successors across areas of deleted keys, beside areas without deletions
    Dead,
    /// Section V-D: cleanup, against rebuilding, and lookups before and after
    Cleanup,
    /// A steady state of updates and queries, with memory, over time
    Mixed,
    /// Sorted, reversed, dense, narrow-band, Zipf and equal keys beside random ones
    Skew,
    /// Bytes per live pair after different histories
    Memory,
}

impl Experiment {
    fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_string()
    }

    fn cases<S: Site<K, V> + 'static, K: Number, V: Number>(
        self,
        scale: &Scale,
    ) -> Vec<Case<S, K, V>> {
        match self {
            Experiment::Insert => updates::insert(scale),
            Experiment::InsertTime => updates::insert_time(scale),
            Experiment::Stream => stream::stream(scale),
            Experiment::Effective => updates::effective(scale),
            Experiment::Partial => updates::partial(scale),
            Experiment::Build => updates::build(scale),
            Experiment::Lookup => queries::lookup(scale),
            Experiment::Count => queries::count(scale),
            Experiment::Range => queries::range(scale),
            Experiment::Order => queries::order(scale),
            Experiment::Delete => updates::delete(scale),
            Experiment::Dead => dead::dead(scale),
            Experiment::Cleanup => cleanup::cleanup(scale),
            Experiment::Mixed => upkeep::mixed(scale),
            Experiment::Skew => skew::skew(scale),
            Experiment::Memory => upkeep::memory(scale),
        }
    }
}

/// A device in words.
pub fn describe(device: Device) -> Result<String, Box<dyn Error>> {
    let (name, details) = machine::name(device)?;
    let details: Vec<String> =
        details.iter().map(|(name, what)| format!("{name} {what}")).collect();
    Ok(format!("{name}: {}", details.join("; ")))
}

/// A row without points.
fn row(experiment: &str, series: &str, params: &[(&str, &dyn Display)], over: Option<&str>) -> Row {
    Row {
        experiment: experiment.into(),
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
                std::process::exit(130); // Asked twice.
            }
        })?;
        match (self.key, self.value) {
            (Width::U32, Width::U32) => self.run_on::<u32, u32>(&experiments, &bars),
            (Width::U32, Width::U64) => self.run_on::<u32, u64>(&experiments, &bars),
            (Width::U64, Width::U32) => self.run_on::<u64, u32>(&experiments, &bars),
            (Width::U64, Width::U64) => self.run_on::<u64, u64>(&experiments, &bars),
        }
    }

    fn bars(&self) -> Result<Vec<gate::Bar>, Box<dyn Error>> {
        let Some(file) = &self.gate else { return Ok(Vec::new()) };
        let named = |error: &dyn Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
        Ok(gate::parse(&text).map_err(|error| named(&error))?)
    }

    /// Those named, those that the gate needs, or all.
    fn experiments(&self, bars: &[gate::Bar]) -> Result<Vec<Experiment>, String> {
        if !self.experiments.is_empty() {
            return Ok(self.experiments.clone());
        }
        let all = Experiment::value_variants();
        let names: Vec<String> = all.iter().map(|experiment| experiment.name()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let needed: Vec<Vec<String>> =
            bars.iter().map(|bar| bar.experiments(&names)).collect::<Result<_, _>>()?;
        let is_needed = |name: &String| needed.iter().any(|some| some.contains(name));
        let wanted = |experiment: &&Experiment| bars.is_empty() || is_needed(&experiment.name());
        Ok(all.iter().filter(wanted).copied().collect())
    }

    /// Whether any of these rows is asked for.
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

    fn run_on<K: Number, V: Number>(
        &self,
        experiments: &[Experiment],
        bars: &[gate::Bar],
    ) -> Result<ExitCode, Box<dyn Error>> {
        match self.device.is_cuda() {
            #[cfg(feature = "cuda")]
            true => self.measure::<_, K, V>(cuda::Cuda::new(self.device)?, experiments, bars),
            _ => self.measure::<_, K, V>(cpu::Cpu, experiments, bars),
        }
    }

    /// Where and how this run is made.
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
                key: self.key.to_string(),
                value: self.value.to_string(),
                scale: scale.name.into(),
                seed: self.seed,
            },
            machine: machine::describe(self.device)?,
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        })
    }

    /// Measures what is not measured yet, and says how it went.
    fn measure<S: Site<K, V> + 'static, K: Number, V: Number>(
        &self,
        site: S,
        experiments: &[Experiment],
        bars: &[gate::Bar],
    ) -> Result<ExitCode, Box<dyn Error>> {
        let scale = self.scale();
        let run = self.describe(&scale)?;
        let path = self.out.clone().unwrap_or_else(|| default_folder(&run.settings));
        let mut all: Vec<Case<S, K, V>> =
            experiments.iter().flat_map(|experiment| experiment.cases(&scale)).collect();
        all.retain(|case| self.is_wanted(&case.rows));
        let rows: Vec<Row> = all.iter().flat_map(|case| case.rows.clone()).collect();
        if rows.is_empty() {
            let texts = self.only.join(" or ");
            return Err(format!("no measurement has {texts} in its name; --list names all").into());
        }
        if self.list {
            let names: String = rows.iter().map(|row| row.name() + "\n").collect();
            io::stdout().write_all(names.as_bytes())?; // Whoever reads this may stop early.
            return Ok(ExitCode::SUCCESS);
        }
        gate::check_names(bars, &rows)?;
        let before = match (self.restart, bars.is_empty()) {
            (true, _) => Before::Replace,
            // A gate judges what is measured now.
            (_, false) => Before::Repeat(rows.iter().map(Row::name).collect()),
            _ => Before::Continue,
        };
        let (mut folder, there) = Folder::open(&path, &run, before)?;
        let known: HashSet<String> = there.iter().map(Row::name).collect();
        let count = all.len();
        let cases: Vec<_> = all
            .into_iter()
            .filter(|case| case.rows.iter().any(|row| !known.contains(&row.name())))
            .collect();
        // Whoever reads what is printed may stop early: that is an error here, and what was measured stays.
        let mut to = io::stdout();
        writeln!(
            to,
            "gpulsm on {}: {} keys, {} values, {} sizes (n = 2^{}, 2^{} for queries)",
            run.machine.device, self.key, self.value, scale.name, scale.inserted, scale.asked
        )?;
        if cases.len() < count {
            writeln!(to, "{} of {count} measurements are there already", count - cases.len())?;
        }
        let is_done = cases.is_empty();
        let progress = progress(cases.iter().map(|case| case.work).sum());
        let lab = Lab::new(site, scale, self.seed, progress, &STOP);
        let outcome = measure_all(&lab, cases, &known, &mut folder);
        folder.finish()?;
        let stopped = outcome?;
        match is_done {
            true => write!(to, "Nothing is left to measure; --restart begins anew.")?,
            false => {
                write!(to, "\n{} answers compared, all right.", HumanCount(lab.checked.get()))?
            }
        }
        let named = path.display();
        writeln!(to, " All samples are in {named}; `gpulsm report {named}` makes a page.")?;
        if stopped {
            let next = match bars.is_empty() {
                true => "the same command goes on from here",
                false => "no bar was judged, and the same command begins anew",
            };
            writeln!(to, "Stopped: {next}.")?;
            return Ok(ExitCode::from(130));
        }
        judge(bars, &path)
    }
}

/// Where samples go if nothing else is said.
fn default_folder(settings: &Settings) -> PathBuf {
    let Settings { device, key, value, scale, .. } = settings;
    Path::new("gpulsm-bench").join(format!("{}-{key}-{value}-{scale}", device.replace(':', "")))
}

fn progress(work: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta} left  {msg}");
    let progress = ProgressBar::new(work).with_style(style.expect("the template is right"));
    progress.enable_steady_tick(Duration::from_millis(200));
    progress
}

/// Measures case after case; true if the user stopped it.
fn measure_all<S: Site<K, V>, K: Number, V: Number>(
    lab: &Lab<S, K, V>,
    cases: Vec<Case<S, K, V>>,
    known: &HashSet<String>,
    folder: &mut Folder,
) -> Result<bool, Box<dyn Error>> {
    let mut experiment = String::new();
    let mut done = 0;
    for case in cases {
        let first = &case.rows[0];
        if experiment != first.experiment {
            experiment.clone_from(&first.experiment);
            lab.progress.suspend(|| writeln!(io::stdout(), "\n{experiment}"))?;
        }
        lab.progress.set_message(first.name());
        let measured = match (case.job)(lab) {
            Ok(measured) => measured,
            Err(error) if error.is::<Stopped>() => {
                lab.progress.finish_and_clear();
                return Ok(true);
            }
            Err(error) => return Err(format!("{}: {error}", first.name()).into()),
        };
        for (row, points) in case.rows.into_iter().zip(measured) {
            let row = Row { points: points.into_iter().map(rounded).collect(), ..row };
            if !known.contains(&row.name()) {
                folder.add(&row)?;
            }
            lab.progress.suspend(|| writeln!(io::stdout(), "  {}", line(&row)))?;
        }
        done += case.work;
        lab.progress.set_position(done);
    }
    lab.progress.finish_and_clear();
    Ok(false)
}

/// Samples to the billionth: clocks say no more.
fn rounded(point: Point) -> Point {
    let samples = point.samples.iter().map(|sample| (sample * 1e9).round() / 1e9).collect();
    Point { samples, ..point }
}

/// A row in a line.
fn line(row: &Row) -> String {
    let name = row.name();
    let (min, max) = row.extremes();
    let rate = |rate: f64| match rate / 1e6 {
        million if million >= 100.0 => format!("{million:.0}"),
        million if million >= 1.0 => format!("{million:.1}"),
        million => format!("{million:.3}"),
    };
    match row.unit {
        Unit::Bytes => format!("{name:<44}{:>9.2} bytes per pair", row.mean()),
        Unit::Seconds if row.points.len() == 1 => format!("{name:<44}{:>9} M/s", rate(row.mean())),
        Unit::Seconds => {
            let extremes = format!("{} to {}", rate(min), rate(max));
            format!("{name:<44}{:>9} M/s   ({extremes})", rate(row.mean()))
        }
    }
}

/// Whether all bars hold.
fn judge(bars: &[gate::Bar], path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let rows = Results::read(path)?.rows;
    let mut failed = 0;
    for bar in bars {
        let verdict = bar.check(&rows)?;
        writeln!(io::stdout(), "{verdict}")?;
        failed += usize::from(!verdict.holds);
    }
    if failed > 0 {
        writeln!(io::stdout(), "{failed} of {} bars fail", bars.len())?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
