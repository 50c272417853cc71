//! Memory after different histories.

use super::words;
use crate::report::chart::Bars;
use crate::report::named::{Named, Setting, figure};
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section};

/// Not in the paper.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "memory",
        "Memory",
        "Bytes for each live pair after different histories; a pair by itself takes as many as \
         its key and value have. The paper has no figures of this.",
    );
    let named = Named {
        runs,
        caption: "Bytes for each live pair",
        experiment: "memory",
        series: "gpulsm",
        params: &[("history", "history")],
        base: None,
        whole: false,
    };
    let label = |setting: &Setting| Some(words(&named, setting, ""));
    let bars =
        named.bars("Memory by history", "bytes for each live pair", label, |results, setting| {
            let row = named.find(results, setting)?;
            Some((row.mean(), figure(row.mean(), row.unit)))
        });
    let mark = pair_bytes(runs).map(|bytes| (bytes, "a pair".into()));
    section.figures([Figure::Bars(Bars { mark, ..bars })]);
    section.table(named.table());
    section
}

/// Returns how many bytes a key and a value have, if all runs agree.
fn pair_bytes(runs: &[Labelled]) -> Option<f64> {
    let of = |run: &Labelled| {
        let settings = &run.results.run.settings;
        Some(type_bytes(&settings.key)? + type_bytes(&settings.value)?)
    };
    let first = of(runs.first()?)?;
    runs.iter().all(|run| of(run) == Some(first)).then_some(first)
}

/// Returns how many bytes a type has, whose name may tell several parts, and how many bits are used.
fn type_bytes(name: &str) -> Option<f64> {
    let (types, _) = name.split_once(':').unwrap_or((name, ""));
    let bytes = |name: &str| match name {
        "none" => Some(0.0),
        _ => name.get(1..)?.parse::<f64>().ok().map(|bits| bits / 8.0),
    };
    types.split(',').map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_sizes() {
        assert_eq!(["u32", "f64", "u128", "none"].map(type_bytes), [4.0, 8.0, 16.0, 0.0].map(Some));
        assert_eq!(["u32,u32", "u64:32"].map(type_bytes), [Some(8.0), Some(8.0)]);
        assert_eq!(["", "text"].map(type_bytes), [None, None]);
    }
}
