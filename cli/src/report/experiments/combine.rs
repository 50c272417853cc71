//! Values that combine.

use super::{beside, of_run};
use crate::report::rates::Labelled;
use crate::report::render::{Section, Table};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "combine",
        "Values that combine",
        "Inserts that add to the value their key has, beside inserts that replace it, and lookups in both kinds of \
         dictionary. A stream is of 256 batches; tenfold keys come ten times in each batch. Lookups go over one \
         run, or over the 8 of full levels. The paper has no figures of these.",
    );
    for run in runs {
        let caption = of_run(runs, run, "Values that combine, M/s");
        let mut table =
            Table::new(caption).words(["what", "keys"]).group("", ["add", "replace", "ratio"]);
        for row in run.results.of("combine").filter(|row| row.series == "gpulsm") {
            let replace = run
                .results
                .of("combine")
                .find(|other| other.series == "replace" && other.params == row.params);
            let words = match row.param("op") {
                "lookup" => [format!("lookup, {} runs", row.param("runs")), "random".into()],
                op => [op.to_string(), row.param("keys").to_string()],
            };
            let rates = beside(Some(row.mean()), replace.map(|replace| replace.mean()));
            table.row(words.into_iter().chain(rates).collect());
        }
        if !table.rows.is_empty() {
            section.table(table);
        }
    }
    section
}
