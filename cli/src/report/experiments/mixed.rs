//! Updates and queries in turn, over time.

use super::of_run;
use crate::report::chart::{Line, MOST_LINES, Plot, Scale, Slot};
use crate::report::named::Named;
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section};
use crate::results::{Row, Unit};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "mixed",
        "Everything in turn",
        "Rounds of updates, every kind of query, and the memory in use: does anything get \
         slower, or larger, over time? The paper has no figures of this.",
    );
    for run in runs {
        section.figures([rates_over_rounds(runs, run), memory_over_rounds(runs, run)]);
    }
    let named = Named {
        runs,
        caption: "Rates over all rounds, M/s",
        experiment: "mixed",
        series: "gpulsm",
        params: &[("op", "operation"), ("b", "b"), ("n", "n")],
        base: None,
        whole: true,
    };
    section.table(named.table());
    let caption = "Bytes for each live pair";
    let params = &[("b", "b"), ("n", "n")];
    section.table(Named { caption, series: "memory", params, ..named }.table());
    section
}

fn over_rounds(rows: Vec<&Row>, label: impl Fn(&Row) -> String) -> Vec<Line> {
    let line = |(number, row): (usize, &&Row)| {
        let scaled = |value| if row.unit == Unit::Seconds { value / 1e6 } else { value };
        let points = row.points.iter().map(|point| (point.at, scaled(point.figure(row.unit))));
        Line::new(label(row), Slot::Measured(number), points.collect())
    };
    rows.iter().enumerate().map(line).collect()
}

fn rates_over_rounds(runs: &[Labelled], run: &Labelled) -> Figure {
    let rows: Vec<_> = run.results.of("mixed").filter(|row| row.series == "gpulsm").collect();
    let sizes = |row: &Row| (row.param("b").to_string(), row.param("n").to_string());
    let first = rows.first().map(|row| sizes(row));
    let rows = rows.into_iter().filter(|row| Some(sizes(row)) == first).take(MOST_LINES).collect();
    Figure::Plot(Plot {
        title: of_run(runs, run, "Rates over time"),
        x: ("round", Scale::Numbered),
        y: ("M operations/s", Scale::Log),
        lines: over_rounds(rows, |row| row.param("op").to_string()),
    })
}

fn memory_over_rounds(runs: &[Labelled], run: &Labelled) -> Figure {
    let rows = run.results.of("mixed").filter(|row| row.series == "memory").take(MOST_LINES);
    Figure::Plot(Plot {
        title: of_run(runs, run, "Memory over time"),
        x: ("round", Scale::Numbered),
        y: ("bytes for each live pair", Scale::Linear),
        lines: over_rounds(rows.collect(), |row| {
            format!("b = 2^{}, n = 2^{}", row.param("b"), row.param("n"))
        }),
    })
}
