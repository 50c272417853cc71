//! Inserting batches: the rates of single batches, and their times.

use super::of_run;
use crate::report::axis::Scale;
use crate::report::document::{Figure, Part, Section, Table};
use crate::report::fit::Fit;
use crate::report::numbers::{millis, percent, printed, rate};
use crate::report::paper;
use crate::report::plot::{Drawn, Line, Plot, Slot};
use crate::report::rates::{ByBatch, Labelled, Pick};
use crate::results::Row;

const INSERT: Pick =
    Pick { label: "gpulsm", experiment: "insert", series: "gpulsm", params: &[], whole: true };
const SA: Pick = Pick { label: "sorted array", series: "sa", ..INSERT };

/// Paper: Table II.
pub fn insert(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "insert",
        "Insertion",
        "How fast a batch of b pairs goes in, for every number of resident batches on the way to \
         n entries: the slowest batch, the fastest and \
         the harmonic mean. The sorted array (SA) sorts each batch and merges it with everything \
         there is. Paper: Table II.",
    );
    let by_batch = ByBatch {
        runs,
        title: "Insertion rate",
        unit: "M elements/s",
        picks: &[INSERT, SA],
        paper: Some(paper::INSERT),
    };
    let table = by_batch.table();
    if table.rows.is_empty() {
        return section;
    }
    section.figures([by_batch.figure()]);
    if runs.len() == 1 {
        let area = "The area reaches from the least to the greatest rate of a batch.";
        section.parts.push(Part::OfFigures(area.into()));
    }
    section.table(table);
    section.text(format!(
        "In the paper, a cuckoo hash table is built at {} M elements/s (load 80 %), and cannot \
         grow.",
        printed(paper::BUILD_HASH, 1)
    ));
    section.parts.extend(by_batch.note().map(Part::Text));
    section.headlines.push(by_batch.headline("insert"));
    section
}

/// Rates of calls that nobody waits for in between.
pub fn stream(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "stream",
        "Streams of calls",
        "All calls in one clock, the counts too where some are made, and whatever waits in the dictionary at \
         the end taken in before the clock stops. Batches wait for each other as long as nothing is \
         asked. Queries among such batches are timed by themselves.",
    );
    for run in runs {
        for (caption, queries) in [
            ("Updates of b at a time, M/s", false),
            ("Queries of a dictionary filled by b at a time, timed without its updates, M/s", true),
        ] {
            let columns = ["b", "n", "rate"];
            let mut table =
                Table::new(of_run(runs, run, caption)).words(["what"]).group("", columns);
            for row in run.results.of("stream") {
                let (what, is_query) = match row.series.as_str() {
                    "gpulsm" => ("inserts, to n entries", false),
                    "alone" => ("… each batch taken in before the next comes", false),
                    "counted" => ("… 1,024 ranges counted after every batch", false),
                    "deletes" => ("deletes of half of n entries, which are one run", false),
                    "half-deletes" => ("half deletes, half inserts, likewise", false),
                    "one-call" => ("inserts, in one call, likewise", false),
                    "lookups" => ("lookups of b keys after each of 64 batches", true),
                    "scan" => ("every pair in key order, all levels full", true),
                    other => (other, false),
                };
                let size = |name: &str| format!("2^{}", row.param(name));
                if is_query == queries {
                    table.row(vec![what.into(), size("b"), size("n"), rate(row.mean())]);
                }
            }
            section.table(table);
        }
    }
    section
}

/// How many plots of times a run gets.
const MOST_TIMES: usize = 4;

/// Paper: Figure 4a.
pub fn insert_time(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "insert-time",
        "Time of each batch",
        "How long the r-th batch takes: the lowest free level decides how much is merged, at once or, if \
         it is very much, in slices with the batches after it. The line is the paper's formula \
         T_sort + (2^ffz(r) − 1) · T_merge, where r is the number of \
         batches before and ffz(r) the lowest bit of r that is zero. Paper: Figure 4a.",
    );
    for run in runs {
        let rows =
            run.results.of("insert-time").filter(|row| row.series == "gpulsm").take(MOST_TIMES);
        let rows: Vec<_> = rows.collect();
        section.figures(rows.iter().map(|row| times_plot(runs, run, row)));
        for row in rows {
            section.text(of_run(runs, run, &fitted(row)));
        }
    }
    section
}

/// (batch number, seconds) of each point.
fn numbered(row: &Row) -> Vec<(u64, f64)> {
    row.points.iter().map(|point| (point.at.max(1.0) as u64, point.median())).collect()
}

fn times_plot(runs: &[Labelled], run: &Labelled, row: &Row) -> Figure {
    let points = numbered(row);
    let ms = |seconds: f64| seconds * 1e3;
    let measured = points.iter().map(|&(r, seconds)| (r as f64, ms(seconds))).collect();
    let mut lines = vec![Line::new("measured", Slot::Measured(0), measured).drawn(Drawn::Dots)];
    if let Some(fit) = Fit::of(&points) {
        let formula = points.iter().map(|&(r, _)| (r as f64, ms(fit.time(r)))).collect();
        lines.push(Line::new("formula, fitted", Slot::Paper(0), formula).drawn(Drawn::Plain));
    }
    Figure::Plot(Plot {
        title: of_run(runs, run, &format!("Time of each batch, b = 2^{}", row.param("b"))),
        x: ("batch number r", Scale::Numbered),
        y: ("time, ms", Scale::Log),
        lines,
    })
}

fn fitted(row: &Row) -> String {
    let points = numbered(row);
    let b = row.param("b");
    match Fit::of(&points) {
        None => format!("b = 2^{b}: too few batches to fit the formula to."),
        Some(fit) => format!(
            "b = 2^{b}: T_sort = {} ms and T_merge = {} ms by least squares of relative \
             deviations; half of all batches are within {} of the formula.",
            millis(fit.sort),
            millis(fit.merge),
            percent(fit.deviation(&points))
        ),
    }
}
