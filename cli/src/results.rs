//! Results of `gpulsm bench` in a folder: `run.json` describes where and how, `rows.jsonl` has a row a line
//! with every raw sample, `samples.csv` the same for a spreadsheet.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where and how a run was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The command line.
    pub command: String,
    pub settings: Settings,
    pub machine: Machine,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// When two runs began that were measured in turns: the same in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_turns_since: Option<u64>,
}

/// What makes two runs the same experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `cpu`, or `cuda:0`.
    pub device: String,
    pub key: String,
    pub value: String,
    /// `tiny`, `quick`, `normal` or `full`.
    pub scale: String,
    pub seed: u64,
}

/// What it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The device in words: the GPU's name, or the CPU's.
    pub device: String,
    /// Other properties of the device, in the order to show: driver, clocks, memory.
    pub details: Vec<(String, String)>,
    pub cpu: String,
    pub threads: usize,
    pub system: String,
    pub version: String,
    /// The commit the program was built from, if that is known.
    pub commit: Option<String>,
    /// A hash of the program's file: other builds have another.
    #[serde(default)]
    pub build: String,
}

/// One line of a plot, or one line of a table: the same thing measured at one or at many points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `insert`, `lookup`, …
    pub experiment: String,
    /// What was measured: `gpulsm` itself, or a baseline: `sa`, `hash`, `sort`, `rebuild`, …
    pub series: String,
    /// What else distinguishes this row from others of the experiment: `b` = "16", `L` = "8", `existing` = "all".
    /// Sizes are powers of two, and only the power is here.
    pub params: BTreeMap<String, String>,
    /// What varies from point to point: `r` (batches), `n` (log₂ of entries), `share`, `round`; none if
    /// there is one point.
    pub over: Option<String>,
    pub unit: Unit,
    pub points: Vec<Point>,
}

/// What samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// How long `items` took: a rate is items over seconds.
    Seconds,
    /// How many bytes `items` live pairs take.
    Bytes,
}

/// One measurement, repeated a few times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The position on the axis that the row's `over` names; 0 without one.
    pub at: f64,
    pub items: u64,
    /// Raw: a repeat each, in the order they were made.
    pub samples: Vec<f64>,
}

impl Point {
    /// Makes the only point of a row.
    pub fn alone(items: usize, samples: Vec<f64>) -> Vec<Self> {
        vec![Point { at: 0.0, items: items as u64, samples }]
    }

    /// Returns the median sample.
    pub fn median(&self) -> f64 {
        quantile(&self.samples, 0.5)
    }

    /// Returns items per second, or bytes per item, by the median sample.
    pub fn figure(&self, unit: Unit) -> f64 {
        match unit {
            Unit::Seconds => self.items as f64 / self.median(),
            Unit::Bytes => self.median() / self.items as f64,
        }
    }

    /// Returns the interquartile range as a share of the median; 0 for fewer than 3 samples.
    pub fn spread(&self) -> f64 {
        if self.samples.len() < 3 {
            return 0.0;
        }
        (quantile(&self.samples, 0.75) - quantile(&self.samples, 0.25)) / self.median()
    }
}

/// Returns a quantile, interpolated between neighbours.
fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[index.floor() as usize], sorted[index.ceil() as usize]);
    low + (high - low) * index.fract()
}

impl Row {
    /// Returns the least and the greatest figure of all points.
    pub fn extremes(&self) -> (f64, f64) {
        let figures = self.points.iter().map(|point| point.figure(self.unit));
        figures.fold((f64::INFINITY, 0.0), |(min, max), figure| (min.min(figure), max.max(figure)))
    }

    /// Returns the mean of all points; of rates the harmonic mean, as in the paper.
    pub fn mean(&self) -> f64 {
        let figures = self.points.iter().map(|point| point.figure(self.unit));
        match self.unit {
            Unit::Seconds => {
                self.points.len() as f64 / figures.map(|figure| 1.0 / figure).sum::<f64>()
            }
            Unit::Bytes => figures.sum::<f64>() / self.points.len() as f64,
        }
    }

    /// Returns how much this row varies from repeat to repeat: the median spread of its points.
    pub fn spread(&self) -> f64 {
        quantile(&self.points.iter().map(Point::spread).collect::<Vec<_>>(), 0.5)
    }

    /// Returns the name of this row, as in gates: `insert.b16`, `sa.lookup.existing-all.b16`.
    pub fn name(&self) -> String {
        let mut name = match self.series.as_str() {
            "gpulsm" => self.experiment.clone(),
            series => format!("{series}.{}", self.experiment),
        };
        for (param, value) in &self.params {
            let number = value.starts_with(|first: char| first.is_ascii_digit());
            name += &format!(".{param}{}{value}", if number { "" } else { "-" });
        }
        name
    }

    /// Returns a parameter, or an empty text.
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }
}

/// A run with all its rows.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub run: Run,
    pub rows: Vec<Row>,
}

impl Results {
    /// Reads a folder. A last line that a crash cut short is ignored.
    pub fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let named = |error: &dyn Error, name: &str| {
            format!(
                "{}: {error} (is it a folder that `gpulsm bench --out` wrote?)",
                folder.join(name).display()
            )
        };
        let run = fs::read(folder.join("run.json")).map_err(|error| named(&error, "run.json"))?;
        let run = serde_json::from_slice(&run).map_err(|error| named(&error, "run.json"))?;
        let mut rows = Vec::new();
        if let Ok(text) = fs::read_to_string(folder.join("rows.jsonl")) {
            for (number, line) in (1..).zip(text.split_inclusive('\n')) {
                match serde_json::from_str(line) {
                    Ok(row) => rows.push(row),
                    Err(_) if !line.ends_with('\n') => {}
                    Err(error) => {
                        return Err(named(&error, &format!("rows.jsonl, line {number}")).into());
                    }
                }
            }
        }
        Ok(Results { run, rows })
    }

    /// Returns the rows of an experiment.
    pub fn of<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.experiment == experiment)
    }
}

/// What happens to a run that the folder already has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// Rows of the same run are kept, and others added; another run is an error.
    Continue,
    /// The same, but rows of these names are measured again.
    Repeat(HashSet<String>),
    /// It is replaced.
    Replace,
}

/// A folder to which rows are added as they are measured.
pub struct Folder {
    path: PathBuf,
    rows: File,
}

impl Folder {
    /// Opens a folder, new or with a run of the same program and settings to be continued. Returns the
    /// rows that it has.
    pub fn open(
        path: &Path,
        run: &Run,
        before: Before,
    ) -> Result<(Self, Vec<Row>), Box<dyn Error>> {
        let named = |error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(path).map_err(named)?;
        let (mut run, mut rows) = (run.clone(), Vec::new());
        if path.join("run.json").exists() && before != Before::Replace {
            let existing = Results::read(path)?;
            let old = &existing.run;
            if old.settings != run.settings || old.machine != run.machine {
                return Err(format!(
                    "{} holds a run with other settings, or of another build of the program ({}): name \
                     another folder with --out, or --restart",
                    path.display(),
                    old.command
                )
                .into());
            }
            run.started = old.started;
            let again = old.command.split("; ").any(|command| command == run.command);
            run.command = if again {
                old.command.clone()
            } else {
                format!("{}; {}", old.command, run.command)
            };
            rows = existing.rows;
            if let Before::Repeat(names) = before {
                rows.retain(|row| !names.contains(&row.name()));
            }
        }
        let description = serde_json::to_string_pretty(&run)? + "\n";
        fs::write(path.join("run.json"), description).map_err(named)?;
        // Rewritten without a line that a crash cut short, then renamed.
        let new = path.join("rows.jsonl.new");
        let mut folder = Folder { path: path.into(), rows: File::create(&new).map_err(named)? };
        for row in &rows {
            folder.add(row)?;
        }
        fs::rename(new, path.join("rows.jsonl")).map_err(named)?;
        Ok((folder, rows))
    }

    /// Appends a row: after a crash, either all of it is there or none.
    pub fn add(&mut self, row: &Row) -> Result<(), Box<dyn Error>> {
        let mut line = serde_json::to_vec(row)?;
        line.push(b'\n');
        self.rows.write_all(&line)?;
        Ok(self.rows.flush()?)
    }

    /// Writes the table of all samples.
    pub fn finish(&self) -> Result<(), Box<dyn Error>> {
        let results = Results::read(&self.path)?;
        let mut table = csv::Writer::from_path(self.path.join("samples.csv"))?;
        table.write_record([
            "experiment",
            "series",
            "params",
            "over",
            "at",
            "items",
            "unit",
            "sample",
            "value",
        ])?;
        for row in &results.rows {
            let params: Vec<String> =
                row.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            for point in &row.points {
                for (number, value) in point.samples.iter().enumerate() {
                    table.write_record([
                        &row.experiment,
                        &row.series,
                        &params.join(" "),
                        row.over.as_deref().unwrap_or_default(),
                        &point.at.to_string(),
                        &point.items.to_string(),
                        &format!("{:?}", row.unit).to_lowercase(),
                        &number.to_string(),
                        &value.to_string(),
                    ])?;
                }
            }
        }
        Ok(table.flush()?)
    }
}
