//! Table III of the paper: lookups.

use super::{QUERIES, add_by_batch};
use crate::report::numbers::printed;
use crate::report::paper;
use crate::report::rates::{ByBatch, Labelled, Pick};
use crate::report::render::Section;

/// Picks lookups: ours with filters, and the first ones after a change, which build them; the sorted
/// array; the hash table.
macro_rules! lookups {
    ($existing:literal) => {
        [
            lookup_pick("gpulsm, warm", "gpulsm", &[("existing", $existing), ("state", "warm")]),
            Pick {
                whole: false,
                ..lookup_pick(
                    "gpulsm, cold",
                    "gpulsm",
                    &[("existing", $existing), ("state", "cold")],
                )
            },
            lookup_pick("sorted array", "sa", &[("existing", $existing)]),
            lookup_pick("hash table", "hash", &[("existing", $existing)]),
        ]
    };
}

const NONE: [Pick; 4] = lookups!("none");
const ALL: [Pick; 4] = lookups!("all");

const fn lookup_pick(
    label: &'static str,
    series: &'static str,
    params: &'static [(&'static str, &'static str)],
) -> Pick {
    // The least and the greatest are shown of our own lookups, like in the paper.
    let whole = params.len() == 2;
    Pick { label, experiment: "lookup", series, params, whole }
}

/// Paper: Table III.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "lookup",
        "Lookup",
        "As many lookups as there are entries, for every number of resident batches up to n/b: of \
         missing keys (every level is searched), and of existing keys. Paper: Table \
         III.",
    );
    let of =
        |title, picks, paper| ByBatch { runs, title, unit: QUERIES, picks, paper: Some(paper) };
    let none = of("Lookup rate, no key exists", &NONE, paper::LOOKUP_NONE);
    let all = of("Lookup rate, all keys exist", &ALL, paper::LOOKUP_ALL);
    add_by_batch(&mut section, &[none, all], &["lookup, none exist", "lookup, all exist"]);
    if !section.is_bare() {
        let (none, all) = paper::LOOKUP_HASH;
        section.text(format!(
            "In the paper, the cuckoo hash table (load 80 %) answers {} M lookups/s of missing \
             keys and {} of existing keys.",
            printed(none, 1),
            printed(all, 1)
        ));
    }
    section
}
