//! Keys that are not random.

use super::{ratios, words};
use crate::report::named::{Named, Setting};
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "skew",
        "Keys of all kinds",
        "The same operations with keys that are not random: in order, in reverse, without gaps, \
         in a narrow band, with a few that are very frequent (zipf), or all equal (equal). The paper has random \
         keys only.",
    );
    let named = Named {
        runs,
        caption: "Rates by kind of keys, M/s",
        experiment: "skew",
        series: "gpulsm",
        params: &[("op", "operation"), ("keys", "keys")],
        base: Some(("keys", "random", "÷ random")),
        whole: false,
    };
    let mut operations: Vec<String> = Vec::new();
    for setting in named.settings() {
        if !operations.contains(&setting[0]) {
            operations.push(setting[0].clone());
        }
    }
    let figure = |operation: &String| {
        let label =
            |setting: &Setting| (setting[0] == *operation).then(|| words(&named, setting, "op"));
        Figure::Bars(ratios(&named, &format!("{operation}, beside random keys"), label))
    };
    section.figures(operations.iter().map(figure));
    section.table(named.table());
    section
}
