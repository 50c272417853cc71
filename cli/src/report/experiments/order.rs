//! Queries that follow the order.

use super::QUERIES;
use crate::report::rates::{ByBatch, Labelled, Pick};
use crate::report::render::Section;

const fn ordered(label: &'static str, params: &'static [(&'static str, &'static str)]) -> Pick {
    Pick { label, experiment: "order", series: "gpulsm", params, whole: true }
}

const ORDER: [Pick; 3] = [
    ordered("successor", &[("op", "successor")]),
    ordered("rank", &[("op", "rank")]),
    ordered("select", &[("op", "select")]),
];

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "order",
        "Successor, rank and select",
        "Queries that follow the order: the next key, how many keys are smaller, and the k-th \
         key; over all numbers of resident batches. The paper has no figures of these.",
    );
    let title = "Rate of ordered queries";
    let by_batch = ByBatch { runs, title, unit: QUERIES, picks: &ORDER, paper: None };
    let table = by_batch.table();
    if !table.rows.is_empty() {
        section.figures([by_batch.figure()]);
        section.table(table);
    }
    section
}
