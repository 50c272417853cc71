//! Dictionaries in files.

use super::{beside, of_run};
use crate::report::rates::Labelled;
use crate::report::render::{Section, Table};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "files",
        "Dictionaries in files",
        "Whole dictionaries written to a file and read from it, beside a plain file of as many bytes; and \
         inserts that are logged, beside a plain file to which as many bytes are appended, and beside inserts \
         in memory. Files that are read were dropped from the system's cache. The paper has no figures of these.",
    );
    for run in runs {
        let caption = of_run(runs, run, "Dictionaries in files, M pairs/s");
        let mut table = Table::new(caption)
            .words(["what", "pairs"])
            .group("", ["gpulsm"])
            .group("beside a plain file", ["plain", "ratio"])
            .group("beside memory", ["memory", "ratio"]);
        for row in run.results.of("files").filter(|row| row.series == "gpulsm") {
            let beside_series = |series: &str| {
                let mut rows = run.results.of("files");
                let other = rows.find(|other| other.series == series && other.params == row.params);
                beside(Some(row.mean()), other.map(|other| other.mean()))
            };
            let words = [row.param("op").to_string(), format!("2^{}", row.param("n"))];
            let [ours, plain, to_plain] = beside_series("plain");
            let [_, memory, to_memory] = beside_series("memory");
            table
                .row(words.into_iter().chain([ours, plain, to_plain, memory, to_memory]).collect());
        }
        if !table.rows.is_empty() {
            section.table(table);
        }
    }
    section
}
