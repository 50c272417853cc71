//! Figure 4a of the paper: the time of each batch.

use super::of_run;
use crate::report::chart::{Drawn, Line, Plot, Scale, Slot};
use crate::report::fit::Fit;
use crate::report::numbers::{millis, percent};
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section};
use crate::results::Row;

/// How many plots of times a run gets.
const MOST_TIMES: usize = 4;

/// Paper: Figure 4a.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "insert-time",
        "Time of each batch",
        "How long the r-th batch takes: the lowest free level decides how much is merged, at once or, if \
         it is very much, deferred and spread over the batches after it. The line is the paper's formula \
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
