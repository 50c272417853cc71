//! Two builds of the program, run in turns: what else the machine does slows down both alike.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;

use gpulsm_backends::backend::Backend;

use super::STOP;
use super::session::Session;
use crate::experiment::Experiment;
use crate::how_started;
use crate::results::{Before, Folder, Results, Row, Run};

/// The folders of both builds' results.
const SIDES: [&str; 2] = ["old", "new"];

/// What `--against` is.
const WANTED: &str = "--against wants the file of another build of this program";

pub struct Turns<'a> {
    pub session: &'a Session<'a>,
    /// The other build.
    pub other: &'a Path,
}

impl Turns<'_> {
    /// Runs both builds, experiment by experiment and round by round, and joins what the rounds measured.
    pub fn run(
        &self,
        backend: Box<dyn Backend>,
        experiments: &[Experiment],
    ) -> Result<ExitCode, Box<dyn Error>> {
        self.expect_other()?;
        let mut measured: Vec<String> = Vec::new();
        for case in self.session.cases(&*backend, experiments)? {
            if !measured.contains(&case.rows[0].experiment) {
                measured.push(case.rows[0].experiment.clone());
            }
        }
        drop(backend); // The device belongs to the builds that are run.
        let rounds = self.session.bench.rounds;
        for round in 1..=rounds {
            for experiment in &measured {
                writeln!(io::stdout(), "round {round} of {rounds}: {experiment}")?;
                // Whoever comes first may find the machine in another state: that is each in turn.
                let order = if round % 2 == 1 { [0, 1] } else { [1, 0] };
                for side in order {
                    if !self.take_turn(SIDES[side], round, experiment)? {
                        writeln!(io::stdout(), "Stopped: the same command goes on from here.")?;
                        return Ok(ExitCode::from(130));
                    }
                }
            }
        }
        let [old, new] = SIDES.map(|side| self.session.folder().join(side));
        self.join("old", &old)?;
        self.join("new", &new)?;
        let (old, new) = (old.display(), new.display());
        let report = format!("{} report {old} {new}", how_started());
        writeln!(io::stdout(), "All samples are in {old} and {new}; `{report}` compares them.")?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns an error if the other program is none of this name.
    fn expect_other(&self) -> Result<(), Box<dyn Error>> {
        let named = self.other.display();
        let output = Command::new(self.other).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{named}: {error} ({WANTED})"))?;
        match output.status.success() && output.stdout.starts_with(b"gpulsm ") {
            true => Ok(()),
            false => Err(format!("{named} does not say that it is gpulsm ({WANTED})").into()),
        }
    }

    /// Returns the folder of one build's results of a round.
    fn folder(&self, side: &str, round: u32) -> PathBuf {
        self.session.folder().join("rounds").join(format!("{side}-{round}"))
    }

    /// Runs one build on one experiment: it measures what its folder lacks. Returns whether to go on.
    fn take_turn(&self, side: &str, round: u32, experiment: &str) -> Result<bool, Box<dyn Error>> {
        let this = std::env::current_exe()?;
        let program = if side == "old" { self.other } else { &this };
        let bench = self.session.bench;
        let settings = &self.session.run.settings;
        let mut command = Command::new(program);
        command.args(["bench", experiment, "--device", &settings.device]);
        command.args(["--key", &bench.key.to_string(), "--value", &settings.value]);
        command.args(bench.key_bits.iter().flat_map(|bits| ["--key-bits", bits]));
        command.args(["--seed", &settings.seed.to_string()]);
        if settings.scale != "normal" {
            command.arg(format!("--{}", settings.scale));
        }
        command.args(bench.only.iter().flat_map(|text| ["--only", text]));
        command.arg("--out").arg(self.folder(side, round));
        let named = program.display();
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| {
            let hint = match side {
                "old" => WANTED,
                _ => "was this program built again while it is measured? Copy it first",
            };
            format!("{named}: {error} ({hint})")
        })?;
        if STOP.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if output.status.success() {
            return Ok(true);
        }
        Err(format!(
            "{named} bench {experiment}: {} (its message is above); name the experiments that both builds \
             know, or another folder with --out",
            output.status
        )
        .into())
    }

    /// Joins the rounds of a build: the samples of each row, one round after the other.
    fn join(&self, side: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
        let rounds = (1..=self.session.bench.rounds)
            .map(|round| Results::read(&self.folder(side, round)))
            .collect::<Result<Vec<_>, _>>()?;
        // A run that goes on has the time of its first command.
        let first = Results::read(&self.folder(SIDES[0], 1))?.run;
        let run = Run {
            command: self.session.run.command.clone(),
            in_turns_since: Some(first.started),
            ..rounds[0].run.clone()
        };
        let (mut folder, _) = Folder::open(folder, &run, Before::Replace)?;
        for row in joined(rounds) {
            folder.add(&row)?;
        }
        folder.finish()
    }
}

/// Joins the rows of the same name, in the order of the first round.
fn joined(rounds: Vec<Results>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut places = BTreeMap::new();
    for row in rounds.into_iter().flat_map(|results| results.rows) {
        let place = *places.entry(row.name()).or_insert(rows.len());
        if place == rows.len() {
            rows.push(row);
            continue;
        }
        for point in row.points {
            match rows[place].points.iter_mut().find(|same| same.at == point.at) {
                Some(same) => same.samples.extend(point.samples),
                None => rows[place].points.push(point),
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Point, Unit};

    #[test]
    fn rounds_are_joined_sample_by_sample() {
        let round = |seconds: f64| {
            let points =
                [1.0, 2.0].map(|at| Point { at, items: 1, samples: vec![seconds * at; 2] });
            let row = |experiment: &str| Row {
                experiment: experiment.into(),
                series: "gpulsm".into(),
                params: Default::default(),
                over: None,
                unit: Unit::Seconds,
                points: points.to_vec(),
            };
            Results { rows: vec![row("insert"), row("build")], ..Results::default() }
        };
        let rows = joined(vec![round(1.0), round(3.0)]);
        let names: Vec<String> = rows.iter().map(Row::name).collect();
        assert_eq!(names, ["insert", "build"]);
        let samples: Vec<&[f64]> = rows[1].points.iter().map(|point| &point.samples[..]).collect();
        assert_eq!(samples, [[1.0, 1.0, 3.0, 3.0], [2.0, 2.0, 6.0, 6.0]]);
    }
}
