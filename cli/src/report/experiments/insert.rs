//! Table II of the paper: rates of single batches.

use crate::report::numbers::printed;
use crate::report::paper;
use crate::report::rates::{ByBatch, Labelled, Pick};
use crate::report::render::{Part, Section};

const INSERT: Pick =
    Pick { label: "gpulsm", experiment: "insert", series: "gpulsm", params: &[], whole: true };
const SA: Pick = Pick { label: "sorted array", series: "sa", ..INSERT };

/// Paper: Table II.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "insert",
        "Insertion",
        "How fast a batch of b pairs goes in, for every number of resident batches on the way to \
         n entries: the slowest batch, the fastest and \
         the harmonic mean. The sorted array (SA) sorts each batch and merges it with all \
         others. Paper: Table II.",
    );
    let by_batch = ByBatch {
        runs,
        title: "Insertion rate",
        unit: "M elements/s",
        picks: &[INSERT, SA],
        paper: Some(paper::INSERT),
    };
    let table = by_batch.table();
    if table.rows.is_empty() {
        return section;
    }
    section.figures([by_batch.figure()]);
    if runs.len() == 1 {
        let area = "The area reaches from the least to the greatest rate of a batch.";
        section.parts.push(Part::OfFigures(area.into()));
    }
    section.table(table);
    section.text(format!(
        "In the paper, a cuckoo hash table is built at {} M elements/s (load 80 %), and cannot \
         grow.",
        printed(paper::BUILD_HASH, 1)
    ));
    section.parts.extend(by_batch.note().map(Part::Text));
    section.headlines.push(by_batch.headline("insert"));
    section
}
