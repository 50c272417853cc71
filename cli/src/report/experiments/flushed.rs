//! Every batch by itself.

use super::{ratios, words};
use crate::report::named::{Named, Setting};
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section};

/// Table II of the paper, with keys that are not random besides.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "flushed",
        "Every batch by itself",
        "Batches that are each applied before the next is inserted, with random keys and others: in order, in reverse, \
         sorted batch by batch, equal, few, composite, of 40 bits, times, and at two far ends. In a window, every batch \
         also deletes the oldest. Then calls for single keys from the host's memory. The paper has random keys only.",
    );
    let named = Named {
        runs,
        caption: "Every batch by itself, M/s",
        experiment: "flushed",
        series: "gpulsm",
        params: &[("op", "operation"), ("b", "batch"), ("keys", "keys")],
        base: Some(("keys", "random", "÷ random")),
        whole: false,
    };
    let label = |setting: &Setting| (setting[0] == "insert").then(|| words(&named, setting, "op"));
    section.figures([Figure::Bars(ratios(&named, "Inserts, beside random keys", label))]);
    section.table(named.table());
    section
}
