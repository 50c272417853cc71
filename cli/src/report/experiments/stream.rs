//! Streams of calls without waiting in between.

use super::of_run;
use crate::report::numbers::rate;
use crate::report::rates::Labelled;
use crate::report::render::{Section, Table};

pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "stream",
        "Streams of calls",
        "One clock for all calls, counts included; batches that are still buffered at the end are applied \
         before the clock stops. The dictionary buffers batches until a query needs them. Queries among \
         such batches are timed by themselves.",
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
                    "alone" => ("… each batch applied before the next", false),
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
