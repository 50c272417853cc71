//! Dictionaries divided among shards.

use super::{beside, of_run};
use crate::report::rates::Labelled;
use crate::report::render::{Section, Table};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "shards",
        "Several shards on one device",
        "Inserts batch by batch, and lookups, in dictionaries that are divided among several shards of the same device, \
         beside one without shards: what dividing costs. On a CPU the shards share its threads. The paper has no figures \
         of these.",
    );
    for run in runs {
        let caption = of_run(runs, run, "Shards of one device, M/s");
        let mut table = Table::new(caption)
            .words(["what", "batch", "shards"])
            .group("", ["gpulsm"])
            .group("without shards", ["one", "ratio"]);
        for row in run.results.of("shards").filter(|row| row.series == "gpulsm") {
            let is_beside = |param: &str, other: &crate::results::Row| {
                other.series == "one" && other.param(param) == row.param(param)
            };
            let mut rows = run.results.of("shards");
            let one = rows.find(|other| is_beside("op", other) && is_beside("b", other));
            let words = [
                row.param("op").to_string(),
                format!("2^{}", row.param("b")),
                row.param("shards").to_string(),
            ];
            let figures = beside(Some(row.mean()), one.map(|one| one.mean()));
            table.row(words.into_iter().chain(figures).collect());
        }
        if !table.rows.is_empty() {
            section.table(table);
        }
    }
    section
}
