//! `gpulsm report`: a page and tables of the results of `gpulsm bench`.

mod chart;
mod compare;
mod experiments;
mod fit;
mod lead;
mod named;
mod numbers;
mod paper;
mod rates;
mod render;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use self::compare::Comparison;
use self::rates::Labelled;
use self::render::{Document, html, markdown};
use crate::results::Results;

const EXAMPLES: &str = "\
Examples:
  gpulsm report results                 results/report.html and results/report.md, beside the paper
  gpulsm report before after            after/comparison.html and .md: two runs, and what changed
  gpulsm report before after --out site";

/// Makes a page and tables of what `bench` measured, beside the paper's figures.
///
/// Of several folders, each has its columns, and all are compared with the first.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    /// Folders that `gpulsm bench --out` wrote
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Where to write report.html and report.md (of several runs comparison.html and .md), instead of
    /// into the last folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Report {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let runs = read(&self.folders)?;
        let comparisons: Vec<_> =
            runs[1..].iter().map(|new| Comparison::of(&runs[0], new)).collect();
        let document = document(&runs, &comparisons);
        let out = self.out.as_deref().or(self.folders.last().map(PathBuf::as_path));
        let out = out.expect("there is a folder");
        let name = if self.folders.len() == 1 { "report" } else { "comparison" };
        fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
        let mut printed = String::new();
        for comparison in &comparisons {
            printed += &format!("{comparison}\n");
        }
        let page = format!("{name}.html");
        for (name, text) in [
            (&page, html::page(&document)),
            (&format!("{name}.md"), markdown::text(&document, &page)),
        ] {
            let path = out.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            printed += &format!("wrote {}\n", path.display());
        }
        // Printed last: the reader may stop early, but the files are written.
        io::stdout().write_all(printed.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads all folders, and labels each.
fn read(folders: &[PathBuf]) -> Result<Vec<Labelled>, Box<dyn Error>> {
    let labels = labels(folders);
    let mut runs = Vec::new();
    for (folder, label) in folders.iter().zip(labels) {
        let mut results = Results::read(folder)?;
        // A row without samples has no mean.
        for row in &mut results.rows {
            row.points.retain(|point| !point.samples.is_empty() && point.items > 0);
        }
        results.rows.retain(|row| !row.points.is_empty());
        runs.push(Labelled { label, results });
    }
    Ok(runs)
}

/// Returns the last part of each folder's path; the whole path where that is ambiguous.
fn labels(folders: &[PathBuf]) -> Vec<String> {
    let short = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let short: Vec<_> = folders.iter().map(|folder| short(folder)).collect();
    let mut labels: Vec<String> = Vec::new();
    for (folder, name) in folders.iter().zip(&short) {
        let unique = short.iter().filter(|other| *other == name).count() == 1;
        let label = name.clone().filter(|_| unique).unwrap_or(folder.display().to_string());
        let again = labels.iter().filter(|other| **other == label).count();
        labels.push(if again == 0 { label } else { format!("{label} ({})", again + 1) });
    }
    labels
}

/// Composes the report of these runs.
fn document(runs: &[Labelled], comparisons: &[Comparison]) -> Document {
    let (mut sections, missing) = experiments::sections(runs);
    if !comparisons.is_empty() {
        sections.insert(0, compare::section(comparisons));
    }
    let lead = lead::parts(runs, &sections, &missing);
    Document { title: lead::title(runs), lead, sections }
}
