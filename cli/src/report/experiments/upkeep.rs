//! A dictionary in use: deletes, everything mixed, unusual keys, and memory.

use super::of_run;
use crate::report::axis::Scale;
use crate::report::bars::Bars;
use crate::report::document::{Figure, Section};
use crate::report::named::{Named, Setting, figure, worded};
use crate::report::numbers::times;
use crate::report::plot::{Line, MOST_LINES, Plot, Slot};
use crate::report::rates::Labelled;
use crate::results::{Row, Unit};

/// Paper: V-B, "performance does not depend on status bits".
pub fn delete(runs: &[Labelled]) -> Section {
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

/// The setting in words, without one parameter.
fn words(named: &Named, setting: &Setting, without: &str) -> String {
    let all = named.params.iter().zip(setting).filter(|((param, _), _)| *param != without);
    all.map(|((param, _), value)| worded(param, value)).collect::<Vec<_>>().join(", ")
}

/// Bars of the ratios to the base.
fn ratios(named: &Named, title: &str, label: impl Fn(&Setting) -> Option<String>) -> Bars {
    let bars = named.bars(title, "ratio", label, |results, setting| {
        let ratio = named.ratio(results, setting)?;
        Some((ratio, times(ratio)))
    });
    Bars { mark: Some((1.0, "as fast".into())), ..bars }
}

/// Not in the paper.
pub fn mixed(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "mixed",
        "Everything in turn",
        "Rounds of updates, every kind of query, and what memory they leave: does anything get \
         slower, or larger, as time goes by? The paper has no figures of this.",
    );
    for run in runs {
        section.figures([rates_over_rounds(runs, run), memory_over_rounds(runs, run)]);
    }
    let named = Named {
        runs,
        caption: "Rates over all rounds, M/s",
        experiment: "mixed",
        series: "gpulsm",
        params: &[("op", "operation"), ("b", "b"), ("n", "n")],
        base: None,
        whole: true,
    };
    section.table(named.table());
    let caption = "Bytes for each live pair";
    let params = &[("b", "b"), ("n", "n")];
    section.table(Named { caption, series: "memory", params, ..named }.table());
    section
}

fn over_rounds(rows: Vec<&Row>, label: impl Fn(&Row) -> String) -> Vec<Line> {
    let line = |(number, row): (usize, &&Row)| {
        let scaled = |value| if row.unit == Unit::Seconds { value / 1e6 } else { value };
        let points = row.points.iter().map(|point| (point.at, scaled(point.figure(row.unit))));
        Line::new(label(row), Slot::Measured(number), points.collect())
    };
    rows.iter().enumerate().map(line).collect()
}

fn rates_over_rounds(runs: &[Labelled], run: &Labelled) -> Figure {
    let rows: Vec<_> = run.results.of("mixed").filter(|row| row.series == "gpulsm").collect();
    let sizes = |row: &Row| (row.param("b").to_string(), row.param("n").to_string());
    let first = rows.first().map(|row| sizes(row));
    let rows = rows.into_iter().filter(|row| Some(sizes(row)) == first).take(MOST_LINES).collect();
    Figure::Plot(Plot {
        title: of_run(runs, run, "Rates over time"),
        x: ("round", Scale::Numbered),
        y: ("M operations/s", Scale::Log),
        lines: over_rounds(rows, |row| row.param("op").to_string()),
    })
}

fn memory_over_rounds(runs: &[Labelled], run: &Labelled) -> Figure {
    let rows = run.results.of("mixed").filter(|row| row.series == "memory").take(MOST_LINES);
    Figure::Plot(Plot {
        title: of_run(runs, run, "Memory over time"),
        x: ("round", Scale::Numbered),
        y: ("bytes for each live pair", Scale::Linear),
        lines: over_rounds(rows.collect(), |row| {
            format!("b = 2^{}, n = 2^{}", row.param("b"), row.param("n"))
        }),
    })
}

/// Not in the paper.
pub fn skew(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "skew",
        "Keys of all kinds",
        "The same operations with keys that are not random: in order, in reverse, without gaps, \
         in a narrow band, with a few that come up all the time (zipf), or one alone (equal). The paper has random \
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

/// Not in the paper.
pub fn memory(runs: &[Labelled]) -> Section {
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

/// How many bytes a key and a value have, if all runs agree on it.
fn pair_bytes(runs: &[Labelled]) -> Option<f64> {
    let of = |run: &Labelled| {
        let settings = &run.results.run.settings;
        Some(type_bytes(&settings.key)? + type_bytes(&settings.value)?)
    };
    let first = of(runs.first()?)?;
    runs.iter().all(|run| of(run) == Some(first)).then_some(first)
}

fn type_bytes(name: &str) -> Option<f64> {
    match name {
        "none" => Some(0.0),
        _ => name.get(1..)?.parse::<f64>().ok().map(|bits| bits / 8.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_sizes() {
        assert_eq!(["u32", "f64", "u128", "none"].map(type_bytes), [4.0, 8.0, 16.0, 0.0].map(Some));
        assert_eq!(["", "text"].map(type_bytes), [None, None]);
    }
}
