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
         run, and in the 8 of full levels. The paper has no figures of these.",
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
            let words = [row.param("L"), row.param("runs")].map(str::to_string);
            let rates = beside(Some(row.mean()), list.map(|list| list.mean()));
            table.row(words.into_iter().chain(rates).collect());
        }
        if !table.rows.is_empty() {
            section.table(table);
        }
    }
    section
}
