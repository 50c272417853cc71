//! What the report says of each experiment: a file for each, named as in `bench`.

mod aggregate;
mod build;
mod cleanup;
mod combine;
mod count;
mod dead;
mod delete;
mod effective;
mod files;
mod flushed;
mod full;
mod insert;
mod insert_time;
mod lookup;
mod memory;
mod mixed;
mod order;
mod partial;
mod range;
mod shards;
mod skew;
mod stream;

use super::chart::Bars;
use super::named::{Named, Setting, figure, worded};
use super::numbers::{rate, times};
use super::rates::{ByBatch, Labelled, Pick};
use super::render::{Part, Section, Table};
use crate::experiment::Experiment;
use crate::results::{Results, Row};

/// The unit of rates of queries.
const QUERIES: &str = "M queries/s";

/// Makes the section of an experiment.
fn section(experiment: Experiment, runs: &[Labelled]) -> Section {
    match experiment {
        Experiment::Insert => insert::section(runs),
        Experiment::InsertTime => insert_time::section(runs),
        Experiment::Stream => stream::section(runs),
        Experiment::Flushed => flushed::section(runs),
        Experiment::Effective => effective::section(runs),
        Experiment::Partial => partial::section(runs),
        Experiment::Build => build::section(runs),
        Experiment::Lookup => lookup::section(runs),
        Experiment::Count => count::section(runs),
        Experiment::Range => range::section(runs),
        Experiment::Aggregate => aggregate::section(runs),
        Experiment::Combine => combine::section(runs),
        Experiment::Order => order::section(runs),
        Experiment::Delete => delete::section(runs),
        Experiment::Dead => dead::section(runs),
        Experiment::Cleanup => cleanup::section(runs),
        Experiment::Mixed => mixed::section(runs),
        Experiment::Skew => skew::section(runs),
        Experiment::Memory => memory::section(runs),
        Experiment::Files => files::section(runs),
        Experiment::Shards => shards::section(runs),
        Experiment::Full => full::section(runs),
    }
}

/// Returns the sections of all experiments that some run has, and the names of those that none has.
pub fn sections(runs: &[Labelled]) -> (Vec<Section>, Vec<&'static str>) {
    let (mut sections, mut missing) = (Vec::new(), Vec::new());
    for &experiment in Experiment::all() {
        let section = section(experiment, runs);
        match section.is_bare() {
            true if experiment.must_be_named() => {}
            true => missing.push(experiment.name()),
            false => sections.push(section),
        }
    }
    let others = others(runs);
    sections.extend((!others.is_bare()).then_some(others));
    (sections, missing)
}

/// Lists the rows of unknown experiments, so that nothing measured is left out.
fn others(runs: &[Labelled]) -> Section {
    let mut section = Section::new("others", "Other rows", "What else the runs hold.");
    for run in runs {
        let unknown =
            |row: &&Row| Experiment::all().iter().all(|known| row.experiment != known.name());
        let caption = format!("{}: M/s, or bytes for each pair", run.label);
        let mut table = Table::new(caption).words(["row"]).group("", ["min", "max", "mean"]);
        for row in run.results.rows.iter().filter(unknown) {
            let (min, max) = row.extremes();
            let figures = [min, max, row.mean()].map(|value| figure(value, row.unit));
            table.row([row.name()].into_iter().chain(figures).collect());
        }
        section.table(table);
    }
    section
}

/// Prefixes a text with the run's name where there are several.
fn of_run(runs: &[Labelled], run: &Labelled, text: &str) -> String {
    if runs.len() > 1 { format!("{}: {text}", run.label) } else { text.into() }
}

/// Returns the rows of a series, large batches first.
fn series<'a>(results: &'a Results, experiment: &'a str, series: &'a str) -> Vec<&'a Row> {
    let mut rows: Vec<_> = results.of(experiment).filter(|row| row.series == series).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.param("b").parse::<u32>().unwrap_or(0)));
    rows
}

/// Formats two rates and their ratio.
fn beside(ours: Option<f64>, theirs: Option<f64>) -> [String; 3] {
    let ratio = ours.zip(theirs).map_or("–".into(), |(ours, theirs)| times(ours / theirs));
    [ours.map_or("–".into(), rate), theirs.map_or("–".into(), rate), ratio]
}

/// Adds plots side by side, then tables, then why sizes differ.
fn add_by_batch(section: &mut Section, all: &[ByBatch], headlines: &[&str]) {
    let filled: Vec<_> = all
        .iter()
        .zip(headlines)
        .map(|(one, what)| (one, one.table(), what))
        .filter(|(_, table, _)| !table.rows.is_empty())
        .collect();
    section.figures(filled.iter().map(|(one, ..)| one.figure()));
    for (one, table, what) in &filled {
        section.table(table.clone());
        section.headlines.push(one.headline(**what));
    }
    section.parts.extend(filled.iter().find_map(|(one, ..)| one.note()).map(Part::Text));
}

/// Picks the rows of the dictionary and of the sorted array, for ranges of a width.
const fn ranged(
    experiment: &'static str,
    params: &'static [(&'static str, &'static str)],
) -> [Pick; 2] {
    [
        Pick { label: "gpulsm", experiment, series: "gpulsm", params, whole: true },
        Pick { label: "sorted array", experiment, series: "sa", params, whole: false },
    ]
}

/// Describes a setting, without one parameter.
fn words(named: &Named, setting: &Setting, without: &str) -> String {
    let all = named.params.iter().zip(setting).filter(|((param, _), _)| *param != without);
    all.map(|((param, _), value)| worded(param, value)).collect::<Vec<_>>().join(", ")
}

/// Draws bars of the ratios to the base.
fn ratios(named: &Named, title: &str, label: impl Fn(&Setting) -> Option<String>) -> Bars {
    let bars = named.bars(title, "ratio", label, |results, setting| {
        let ratio = named.ratio(results, setting)?;
        Some((ratio, times(ratio)))
    });
    Bars { mark: Some((1.0, "as fast".into())), ..bars }
}
