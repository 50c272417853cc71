//! Queries across deleted neighbours.

use super::of_run;
use crate::experiment::Experiment;
use crate::report::chart::{Line, MOST_LINES, Plot, Scale, Slot};
use crate::report::named::{Named, Setting, worded};
use crate::report::numbers::{rate, times};
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section, Table};
use crate::results::{Results, Row};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let labels = Experiment::Dead
        .labels()
        .iter()
        .filter_map(|(label, meaning)| Some(format!("{}: {meaning}", label.strip_prefix("op-")?)));
    let labels: Vec<String> = labels.collect();
    let mut section = Section::new(
        "dead",
        "Deleted neighbours",
        &format!(
            "Queries across an area of deleted keys, whose entries and tombstones stay in the runs until \
             a cleanup, beside the same queries in another area of a dictionary where those keys were \
             replaced instead. Operations: {}. The paper has no figures of this.",
            labels.join("; ")
        ),
    );
    let named = Named {
        runs,
        caption: "",
        experiment: "dead",
        series: "gpulsm",
        params: &[("op", "operation"), ("dead", "deleted"), ("n", "n")],
        base: None,
        whole: false,
    };
    section.figures(runs.iter().map(|run| plot(&named, run)));
    section.table(table(&named));
    section
}

/// Returns the row without deletions that a row stands beside.
fn alive<'a>(named: &Named, results: &'a Results, setting: &Setting) -> Option<&'a Row> {
    let same = |row: &&Row| {
        named.params.iter().zip(setting).all(|((param, _), value)| row.param(param) == value)
    };
    results.of("dead").filter(|row| row.series == "alive").find(same)
}

/// Returns the rate across the deleted keys over the rate without deletions.
fn ratio(named: &Named, results: &Results, setting: &Setting) -> Option<f64> {
    Some(named.find(results, setting)?.mean() / alive(named, results, setting)?.mean())
}

fn plot(named: &Named, run: &Labelled) -> Figure {
    let settings = named.settings();
    let mut operations: Vec<&String> = Vec::new();
    for setting in &settings {
        if !operations.contains(&&setting[0]) {
            operations.push(&setting[0]);
        }
    }
    let point =
        |setting: &Setting| Some((setting[1].parse().ok()?, ratio(named, &run.results, setting)?));
    let line = |(number, operation): (usize, &&String)| {
        let own = settings.iter().filter(|setting| setting[0] == **operation);
        Line::new(*operation, Slot::Measured(number), own.filter_map(point).collect())
    };
    Figure::Plot(Plot {
        title: of_run(named.runs, run, "Rate beside the same queries without deletions"),
        x: ("keys deleted", Scale::Powers),
        y: ("ratio", Scale::Log),
        lines: operations.iter().enumerate().take(MOST_LINES).map(line).collect(),
    })
}

fn table(named: &Named) -> Table {
    let mut table = Table::new("Rates across deleted neighbours, M/s")
        .words(named.params.iter().map(|(_, heading)| *heading));
    for run in named.runs {
        let group = if named.runs.len() > 1 { run.label.as_str() } else { "" };
        table = table.group(group, ["across", "no deletions", "÷ no deletions"]);
    }
    for setting in named.settings() {
        let words =
            named.params.iter().zip(&setting).map(|((param, _), value)| worded(param, value));
        let mut cells: Vec<String> = words.collect();
        for run in named.runs {
            let across = named.find(&run.results, &setting).map(Row::mean);
            let beside = alive(named, &run.results, &setting).map(Row::mean);
            cells.extend([across, beside].map(|mean| mean.map_or("–".into(), rate)));
            cells.push(ratio(named, &run.results, &setting).map_or("–".into(), times));
        }
        table.row(cells);
    }
    table
}
