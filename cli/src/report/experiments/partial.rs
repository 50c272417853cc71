//! Section IV-A of the paper: batches that are not full.

use super::{beside, of_run, series};
use crate::report::chart::{Line, Plot, Scale, Slot};
use crate::report::numbers::percent;
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section, Table};
use crate::results::Row;

/// Paper: IV-A, "a batch that is not full".
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "partial",
        "Batches that are not full",
        "The effective rate of batches with only a share b′/b of the batch size. “Padded” fills \
         them up with copies first, as the paper does (IV-A).",
    );
    section.figures(runs.iter().map(|run| partial_plot(runs, run)));
    for run in runs {
        for row in series(&run.results, "partial", "gpulsm") {
            section.table(partial_table(runs, run, row));
        }
    }
    section
}

fn partial_plot(runs: &[Labelled], run: &Labelled) -> Figure {
    let mut lines = Vec::new();
    for (which, name) in [("gpulsm", "gpulsm"), ("padded", "padded")] {
        for row in series(&run.results, "partial", which).into_iter().take(3) {
            let points = row.points.iter().map(|point| (point.at, point.figure(row.unit) / 1e6));
            let label = format!("{name}, b = 2^{}", row.param("b"));
            lines.push(Line::new(label, Slot::Measured(lines.len()), points.collect()));
        }
    }
    Figure::Plot(Plot {
        title: of_run(runs, run, "Rate of batches that are not full"),
        x: ("share of the batch size, b′/b", Scale::Percent),
        y: ("M elements/s", Scale::Log),
        lines,
    })
}

fn partial_table(runs: &[Labelled], run: &Labelled, row: &Row) -> Table {
    let caption = format!("Batches that are not full, b = 2^{}, M elements/s", row.param("b"));
    let mut table =
        Table::new(of_run(runs, run, &caption)).group("", ["b′/b", "gpulsm", "padded", "÷ padded"]);
    let padded = series(&run.results, "partial", "padded")
        .into_iter()
        .find(|other| other.params == row.params);
    for point in &row.points {
        let same = padded.and_then(|row| row.points.iter().find(|other| other.at == point.at));
        let figures =
            beside(Some(point.figure(row.unit)), same.map(|point| point.figure(row.unit)));
        table.row([percent(point.at)].into_iter().chain(figures).collect());
    }
    table
}
