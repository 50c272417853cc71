//! One run of `bench`: measures what its folder lacks, keeps the samples, and judges the gate.

use std::collections::HashSet;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use gpulsm_backends::backend::Backend;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::gate::{self, Bar};
use super::harness::{Case, Harness, Stopped};
use super::scale::Scale;
use super::{Bench, STOP, experiments};
use crate::experiment::Experiment;
use crate::how_started;
use crate::results::{Before, Folder, Point, Results, Row, Run, Settings, Unit};

pub struct Session<'a> {
    pub bench: &'a Bench,
    pub scale: Scale,
    pub run: Run,
    pub bars: Vec<Bar>,
}

impl Session<'_> {
    pub fn run(
        &self,
        backend: Box<dyn Backend>,
        experiments: &[Experiment],
    ) -> Result<ExitCode, Box<dyn Error>> {
        let cases = self.cases(&*backend, experiments)?;
        let rows: Vec<Row> = cases.iter().flat_map(|case| case.rows.clone()).collect();
        if self.bench.list {
            io::stdout().write_all(listing(experiments, &rows).as_bytes())?; // The reader may stop early.
            return Ok(ExitCode::SUCCESS);
        }
        gate::check_names(&self.bars, &rows)?;
        self.measure(backend, cases, &rows)
    }

    /// Returns the cases that the command line selects.
    pub fn cases(
        &self,
        backend: &dyn Backend,
        experiments: &[Experiment],
    ) -> Result<Vec<Case>, Box<dyn Error>> {
        let cases = |&experiment| experiments::cases(experiment, &self.scale, backend);
        let mut all: Vec<Case> = experiments.iter().flat_map(cases).collect();
        if !backend.has_baselines() {
            let is_ours = |row: &Row| !BASELINES.contains(&row.series.as_str());
            all.iter_mut().for_each(|case| case.rows.retain(is_ours));
            all.retain(|case| !case.rows.is_empty());
        }
        all.retain(|case| self.bench.is_wanted(&case.rows));
        if all.is_empty() {
            let texts = self.bench.only.join(" or ");
            return Err(format!("no measurement has {texts} in its name; --list names all").into());
        }
        Ok(all)
    }

    /// Returns where samples go.
    pub fn folder(&self) -> PathBuf {
        self.bench.out.clone().unwrap_or_else(|| default_folder(&self.run.settings))
    }

    /// Measures what is not measured yet, and reports the outcome.
    fn measure(
        &self,
        backend: Box<dyn Backend>,
        mut cases: Vec<Case>,
        rows: &[Row],
    ) -> Result<ExitCode, Box<dyn Error>> {
        let bench = self.bench;
        let path = self.folder();
        let before = match (bench.restart, self.bars.is_empty()) {
            (true, _) => Before::Replace,
            // A gate judges what is measured now.
            (_, false) => Before::Repeat(rows.iter().map(Row::name).collect()),
            _ => Before::Continue,
        };
        let (mut folder, existing) = Folder::open(&path, &self.run, before)?;
        let known: HashSet<String> = existing.iter().map(Row::name).collect();
        let count = cases.len();
        cases.retain(|case| case.rows.iter().any(|row| !known.contains(&row.name())));
        self.introduce(count, count - cases.len())?;
        let is_done = cases.is_empty();
        let progress = progress(cases.iter().map(|case| case.work).sum());
        let types = (bench.key_numbers(), bench.value);
        let scratch = path.join("scratch");
        let harness =
            Harness::new(backend, types, self.scale, bench.seed, progress, scratch, &STOP);
        let outcome = measure_all(&harness, cases, &known, &mut folder);
        folder.finish()?;
        let stopped = outcome?;
        self.conclude((!is_done).then(|| harness.checked.get()), &path)?;
        if stopped {
            let next = match self.bars.is_empty() {
                true => "the same command goes on from here",
                false => "no bar was judged, and the same command begins anew",
            };
            writeln!(io::stdout(), "Stopped: {next}.")?;
            return Ok(ExitCode::from(130));
        }
        judge(&self.bars, &path)
    }

    /// Prints what is measured. The reader of what is printed may stop early: that is an error here, and
    /// what was measured is kept.
    fn introduce(&self, count: usize, existing: usize) -> io::Result<()> {
        let mut out = io::stdout();
        let (bench, scale) = (self.bench, &self.scale);
        writeln!(
            out,
            "gpulsm on {}: {} keys, {} values, {} sizes (n = 2^{}, 2^{} for queries)",
            self.run.machine.device,
            bench.key_name(),
            bench.value,
            scale.name,
            scale.inserted,
            scale.queried
        )?;
        if existing > 0 {
            writeln!(out, "{existing} of {count} measurements exist already")?;
        }
        Ok(())
    }

    /// Prints how many answers were compared, if anything was measured.
    fn conclude(&self, checked: Option<u64>, path: &Path) -> io::Result<()> {
        let mut out = io::stdout();
        match checked {
            None => write!(out, "Nothing is left to measure; --restart begins anew.")?,
            Some(checked) => {
                write!(out, "\n{} answers compared, all correct.", HumanCount(checked))?
            }
        }
        let named = path.display();
        let report = format!("{} report {named}", how_started());
        writeln!(out, " All samples are in {named}; `{report}` makes a page.")
    }
}

/// Lists the names of rows below what their experiment measures and what labels in them mean.
fn listing(experiments: &[Experiment], rows: &[Row]) -> String {
    let mut text = String::new();
    for experiment in experiments {
        let own = |row: &&Row| row.experiment == experiment.name();
        let names: String = rows.iter().filter(own).map(|row| row.name() + "\n").collect();
        if names.is_empty() {
            continue;
        }
        text += &format!("# {}: {}\n", experiment.name(), experiment.about());
        for (label, meaning) in experiment.labels() {
            text += &format!("#   {label}: {meaning}\n");
        }
        text += &names;
    }
    text
}

/// The series of what the dictionary is compared with. In a case, they come after its own.
const BASELINES: [&str; 3] = ["sa", "sort", "hash"];

/// Returns where samples go by default.
fn default_folder(settings: &Settings) -> PathBuf {
    let Settings { device, key, value, scale, .. } = settings;
    let (device, key) = (device.replace(':', ""), key.replace(',', "+").replace(':', "."));
    Path::new("gpulsm-bench").join(format!("{device}-{key}-{value}-{scale}"))
}

fn progress(work: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta} left  {msg}");
    let progress = ProgressBar::new(work).with_style(style.expect("a valid template"));
    progress.enable_steady_tick(Duration::from_millis(200));
    progress
}

/// Measures case after case; returns whether the user stopped it.
fn measure_all(
    harness: &Harness,
    cases: Vec<Case>,
    known: &HashSet<String>,
    folder: &mut Folder,
) -> Result<bool, Box<dyn Error>> {
    let mut experiment = String::new();
    let mut done = 0;
    for case in cases {
        let first = &case.rows[0];
        if experiment != first.experiment {
            experiment.clone_from(&first.experiment);
            harness.progress.suspend(|| writeln!(io::stdout(), "\n{experiment}"))?;
        }
        harness.progress.set_message(first.name());
        let measured = match (case.job)(harness) {
            Ok(measured) => measured,
            Err(error) if error.is::<Stopped>() => {
                harness.progress.finish_and_clear();
                return Ok(true);
            }
            Err(error) => return Err(format!("{}: {error}", first.name()).into()),
        };
        for (row, points) in case.rows.into_iter().zip(measured) {
            let row = Row { points: points.into_iter().map(rounded).collect(), ..row };
            if !known.contains(&row.name()) {
                folder.add(&row)?;
            }
            harness.progress.suspend(|| writeln!(io::stdout(), "  {}", line(&row)))?;
        }
        done += case.work;
        harness.progress.set_position(done);
    }
    harness.progress.finish_and_clear();
    Ok(false)
}

/// Rounds samples to nanoseconds: clocks are no more precise.
fn rounded(point: Point) -> Point {
    let samples = point.samples.iter().map(|sample| (sample * 1e9).round() / 1e9).collect();
    Point { samples, ..point }
}

/// Formats a row as a line.
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

/// Prints whether each bar holds.
fn judge(bars: &[Bar], path: &Path) -> Result<ExitCode, Box<dyn Error>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_names_that_every_system_takes() {
        let settings = |key: &str| Settings {
            device: "cuda:0".into(),
            key: key.into(),
            value: "u64".into(),
            scale: "quick".into(),
            seed: 1,
        };
        let folder = |key| default_folder(&settings(key));
        assert_eq!(folder("u32"), Path::new("gpulsm-bench/cuda0-u32-u64-quick"));
        assert_eq!(folder("u32,u32"), Path::new("gpulsm-bench/cuda0-u32+u32-u64-quick"));
        assert_eq!(folder("u64:32"), Path::new("gpulsm-bench/cuda0-u64.32-u64-quick"));
    }
}
