//! What the report says of each experiment, in the order of the paper's evaluation.

mod cleanup;
mod dead;
mod growth;
mod insert;
mod queries;
mod upkeep;

use super::document::{Section, Table};
use super::named::figure;
use super::rates::Labelled;
use crate::results::Row;

type Experiment = fn(&[Labelled]) -> Section;

/// What `bench` calls an experiment, and how it is told.
const ALL: [(&str, Experiment); 16] = [
    ("insert", insert::insert),
    ("insert-time", insert::insert_time),
    ("stream", insert::stream),
    ("effective", growth::effective),
    ("partial", growth::partial),
    ("build", growth::build),
    ("lookup", queries::lookup),
    ("count", queries::count),
    ("range", queries::range),
    ("order", queries::order),
    ("delete", upkeep::delete),
    ("dead", dead::dead),
    ("cleanup", cleanup::cleanup),
    ("mixed", upkeep::mixed),
    ("skew", upkeep::skew),
    ("memory", upkeep::memory),
];

/// The sections of all experiments that some run has, and the names of those that none has.
pub fn sections(runs: &[Labelled]) -> (Vec<Section>, Vec<&'static str>) {
    let (mut sections, mut missing) = (Vec::new(), Vec::new());
    for (name, experiment) in ALL {
        let section = experiment(runs);
        if section.is_bare() { missing.push(name) } else { sections.push(section) }
    }
    let others = others(runs);
    sections.extend((!others.is_bare()).then_some(others));
    (sections, missing)
}

/// Rows that no experiment above knows: nothing measured is left out.
fn others(runs: &[Labelled]) -> Section {
    let mut section = Section::new("others", "Other rows", "What else the runs hold.");
    for run in runs {
        let unknown = |row: &&Row| ALL.iter().all(|(name, _)| row.experiment != *name);
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

/// Before a run's name where there are several.
fn of_run(runs: &[Labelled], run: &Labelled, text: &str) -> String {
    if runs.len() > 1 { format!("{}: {text}", run.label) } else { text.into() }
}
