//! Batches with deletes.

use super::{ratios, words};
use crate::report::named::{Named, Setting, worded};
use crate::report::numbers::millis;
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section, Table};
use crate::results::Row;

/// Paper: V-B, "performance does not depend on status bits".
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "delete",
        "Deletes",
        "The rate of batches of which a share are deletes, beside batches without any. The paper: \
         “performance does not depend on status bits” (V-B). Keys that are neighbours are deleted as one range, or \
         by a list of them.",
    );
    let named = Named {
        runs,
        caption: "Rate of batches with deletes, M elements/s",
        experiment: "delete",
        series: "gpulsm",
        params: &[("b", "b"), ("deletes", "deletes")],
        base: Some(("deletes", "0", "÷ no deletes")),
        whole: false,
    };
    let label = |setting: &Setting| Some(words(&named, setting, ""));
    section.figures([Figure::Bars(ratios(&named, "Rate beside batches without deletes", label))]);
    section.table(named.table());
    section.table(ranges(runs));
    section
}

/// Lists how long it takes to delete neighbours as a range, and what that stands beside.
fn ranges(runs: &[Labelled]) -> Table {
    let mut table = Table::new("Deleting keys that are neighbours, ms")
        .words(["run"])
        .group("", ["n", "deleted", "as a range", "as a list", "inserting as many"])
        .group("in a window that slides", ["as a range", "inserting as many"]);
    for run in runs {
        let time = |of: &Row, series: &str| {
            let mut rows = run.results.of("delete");
            let twin = rows.find(|row| row.series == series && row.params == of.params);
            // A window slides many times: the time of one range as long as those beside it.
            let times = twin.zip(of.points.first()).and_then(|(row, one)| {
                let point = row.points.first()?;
                Some(point.median() * one.items as f64 / point.items as f64)
            });
            times.map_or("–".into(), millis)
        };
        for row in run.results.of("delete").filter(|row| row.series == "range") {
            let series = ["range", "list", "inserts", "window-range", "window-inserts"];
            let times = series.map(|series| time(row, series));
            let params = ["n", "share"].map(|param| worded(param, row.param(param)));
            table.row([run.label.clone()].into_iter().chain(params).chain(times).collect());
        }
    }
    table
}
