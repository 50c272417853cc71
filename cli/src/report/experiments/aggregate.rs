//! Sums of the values of ranges.

use super::{beside, of_run};
use crate::report::rates::Labelled;
use crate::report::render::{Section, Table};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "aggregate",
        "Sums of ranges",
        "The sum of the values between two keys, with L expected there, beside listing their pairs; in one \
         run, in the 8 of full levels, and in 8 where half of the entries are stale. The paper has no figures \
         of these.",
    );
    for run in runs {
        let caption = of_run(runs, run, "Sums of ranges, M queries/s");
        let mut table =
            Table::new(caption).words(["L", "runs"]).group("", ["sums", "lists", "ratio"]);
        for row in run.results.of("aggregate").filter(|row| row.series == "gpulsm") {
            let list = run
                .results
                .of("aggregate")
                .find(|other| other.series == "list" && other.params == row.params);
            let stale = if row.param("stale").is_empty() { "" } else { ", half stale" };
            let words = [row.param("L").to_string(), format!("{}{stale}", row.param("runs"))];
            let rates = beside(Some(row.mean()), list.map(|list| list.mean()));
            table.row(words.into_iter().chain(rates).collect());
        }
        if !table.rows.is_empty() {
            section.table(table);
        }
    }
    section
}
