//! Batches with deletes.

use super::{ratios, words};
use crate::report::named::{Named, Setting};
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section};

/// Paper: V-B, "performance does not depend on status bits".
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "delete",
        "Deletes",
        "The rate of batches of which a share are deletes, beside batches without any. The paper: \
         “performance does not depend on status bits” (V-B).",
    );
    let named = Named {
        runs,
        caption: "Rate of batches with deletes, M elements/s",
        experiment: "delete",
        series: "gpulsm",
        params: &[("b", "b"), ("deletes", "deletes")],
        base: Some(("deletes", "0", "÷ no deletes")),
        whole: false,
    };
    let label = |setting: &Setting| Some(words(&named, setting, ""));
    section.figures([Figure::Bars(ratios(&named, "Rate beside batches without deletes", label))]);
    section.table(named.table());
    section
}
