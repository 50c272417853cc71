//! All of the memory.

use super::of_run;
use crate::report::named::figure;
use crate::report::rates::Labelled;
use crate::report::render::{Section, Table};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "full",
        "A full device",
        "Inserts, with lookups in between, until there is no more memory, and what works when it is nearly full. The \
         paper has no figures of these.",
    );
    for run in runs {
        let caption = of_run(runs, run, "A full device: rates in M/s, or bytes for each pair");
        let mut table = Table::new(caption).words(["what", "where"]).group("", ["gpulsm"]);
        for row in run.results.of("full") {
            let place = match (row.param("fill"), row.param("run")) {
                ("", "") => String::new(),
                ("", part) => format!("one run of {part}"),
                (fill, _) => format!("{fill} % full"),
            };
            table.row(vec![row.param("op").to_string(), place, figure(row.mean(), row.unit)]);
        }
        if !table.rows.is_empty() {
            section.table(table);
        }
    }
    section
}
