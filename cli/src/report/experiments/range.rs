//! Table IV of the paper, below: the pairs of ranges.

use super::{QUERIES, add_by_batch, ranged};
use crate::report::paper;
use crate::report::rates::{ByBatch, Labelled, Pick};
use crate::report::render::Section;

const RANGE_8: [Pick; 2] = ranged("range", &[("L", "8")]);
const RANGE_1024: [Pick; 2] = ranged("range", &[("L", "1024")]);

/// Paper: Table IV, below.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "range",
        "Range",
        "All pairs between two keys, with L expected there, over all numbers of resident batches. \
         Paper: Table IV.",
    );
    let of =
        |title, picks, paper| ByBatch { runs, title, unit: QUERIES, picks, paper: Some(paper) };
    let short = of("Range rate, L = 8", &RANGE_8, paper::RANGE_8);
    let long = of("Range rate, L = 1024", &RANGE_1024, paper::RANGE_1024);
    add_by_batch(&mut section, &[short, long], &["range, L = 8", "range, L = 1024"]);
    section
}
