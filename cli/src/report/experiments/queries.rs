//! Queries: lookups, counts, ranges, and those that follow the order.

use crate::report::document::{Part, Section};
use crate::report::numbers::printed;
use crate::report::paper;
use crate::report::rates::{ByBatch, Labelled, Pick};

const QUERIES: &str = "M queries/s";

/// Picks of lookups: ours when filters are there, and the first ones after a change, which build them;
/// the sorted array, the hash table.
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
pub fn lookup(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "lookup",
        "Lookup",
        "As many lookups as there are entries, for every number of resident batches up to n/b: of \
         keys that aren't there (every level is searched), and of keys that are. Paper: Table \
         III.",
    );
    let of =
        |title, picks, paper| ByBatch { runs, title, unit: QUERIES, picks, paper: Some(paper) };
    let none = of("Lookup rate, no key exists", &NONE, paper::LOOKUP_NONE);
    let all = of("Lookup rate, all keys exist", &ALL, paper::LOOKUP_ALL);
    add(&mut section, &[none, all], &["lookup, none exist", "lookup, all exist"]);
    if !section.is_bare() {
        let (none, all) = paper::LOOKUP_HASH;
        section.text(format!(
            "In the paper, the cuckoo hash table (load 80 %) answers {} M lookups/s of keys that \
             aren't there and {} of keys that are.",
            printed(none, 1),
            printed(all, 1)
        ));
    }
    section
}

/// Plots beside each other, then tables, then why sizes differ.
fn add(section: &mut Section, all: &[ByBatch], headlines: &[&str]) {
    let filled: Vec<_> = all
        .iter()
        .zip(headlines)
        .map(|(one, what)| (one, one.table(), what))
        .filter(|(_, table, _)| !table.rows.is_empty())
        .collect();
    section.figures(filled.iter().map(|(one, ..)| one.figure()));
    for (one, table, what) in &filled {
        section.table(table.clone());
        section.headlines.push(one.headline(**what));
    }
    section.parts.extend(filled.iter().find_map(|(one, ..)| one.note()).map(Part::Text));
}

const fn ranged(
    experiment: &'static str,
    params: &'static [(&'static str, &'static str)],
) -> [Pick; 2] {
    [
        Pick { label: "gpulsm", experiment, series: "gpulsm", params, whole: true },
        Pick { label: "sorted array", experiment, series: "sa", params, whole: false },
    ]
}

const COUNT_8: [Pick; 2] = ranged("count", &[("L", "8")]);
const COUNT_1024: [Pick; 2] = ranged("count", &[("L", "1024")]);
const RANGE_8: [Pick; 2] = ranged("range", &[("L", "8")]);
const RANGE_1024: [Pick; 2] = ranged("range", &[("L", "1024")]);

/// Paper: Table IV, above.
pub fn count(runs: &[Labelled]) -> Section {
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
    add(&mut section, &[short, long], &["count, L = 8", "count, L = 1024"]);
    section
}

/// Paper: Table IV, below.
pub fn range(runs: &[Labelled]) -> Section {
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
    add(&mut section, &[short, long], &["range, L = 8", "range, L = 1024"]);
    section
}

const fn ordered(label: &'static str, params: &'static [(&'static str, &'static str)]) -> Pick {
    Pick { label, experiment: "order", series: "gpulsm", params, whole: true }
}

const ORDER: [Pick; 3] = [
    ordered("successor", &[("op", "successor")]),
    ordered("rank", &[("op", "rank")]),
    ordered("select", &[("op", "select")]),
];

/// Not in the paper.
pub fn order(runs: &[Labelled]) -> Section {
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
