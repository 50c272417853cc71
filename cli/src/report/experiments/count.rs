//! Table IV of the paper, above: counts.

use super::{QUERIES, add_by_batch, ranged};
use crate::report::paper;
use crate::report::rates::{ByBatch, Labelled, Pick};
use crate::report::render::Section;

const COUNT_8: [Pick; 2] = ranged("count", &[("L", "8")]);
const COUNT_1024: [Pick; 2] = ranged("count", &[("L", "1024")]);

/// Paper: Table IV, above.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "count",
        "Count",
        "How many keys lie between two, with L keys expected there, over all numbers of resident \
         batches. Paper: Table IV.",
    );
    let of =
        |title, picks, paper| ByBatch { runs, title, unit: QUERIES, picks, paper: Some(paper) };
    let short = of("Count rate, L = 8", &COUNT_8, paper::COUNT_8);
    let long = of("Count rate, L = 1024", &COUNT_1024, paper::COUNT_1024);
    add_by_batch(&mut section, &[short, long], &["count, L = 8", "count, L = 1024"]);
    section
}
