//! Section V-D of the paper: how fast cleanups are, and when they pay.

use crate::report::chart::{Bar, Bars, Group, Slot};
use crate::report::named::{Named, Setting, worded};
use crate::report::numbers::{millis, printed, rate, times};
use crate::report::paper;
use crate::report::rates::{Labelled, beside_paper};
use crate::report::render::{Figure, Section, Table};
use crate::results::{Results, Row};

/// Paper: V-D.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "cleanup",
        "Cleanup",
        "How fast a cleanup drops stale entries, counted by the entries it starts with, beside \
         a rebuild; and how much faster lookups are after one. Paper: section V-D.",
    );
    let named = Named {
        runs,
        caption: "",
        experiment: "cleanup",
        series: "gpulsm",
        params: &[("batches", "batches"), ("b", "b"), ("stale", "stale")],
        base: None,
        whole: false,
    };
    section.figures([bars(&named)]);
    section.table(rates(&named));
    section.table(payoff(runs));
    if !section.is_bare() {
        section.text(
            "The paper's rates are of 63 batches of 2^20 and 127 of 2^19; runs with other batch \
             sizes stand beside as many batches.",
        );
    }
    section
}

/// Returns the row of another series with the same parameters.
fn twin<'a>(results: &'a Results, series: &str, setting: &Setting) -> Option<&'a Row> {
    let same = |row: &&Row| {
        ["batches", "b", "stale"]
            .iter()
            .zip(setting)
            .all(|(param, value)| row.param(param) == value)
    };
    results.rows.iter().filter(|row| row.experiment == "cleanup" && row.series == series).find(same)
}

/// Returns the paper's rate for as many batches and the same stale share; its batch size may differ.
fn paper_rate(setting: &Setting) -> Option<f64> {
    let [batches, _, stale] = setting.as_slice() else { return None };
    let found = paper::CLEANUP
        .iter()
        .find(|(of, _, share, _)| batches.parse() == Ok(*of) && stale.parse() == Ok(*share));
    found.map(|(.., rate)| *rate)
}

fn described(setting: &Setting) -> String {
    let [batches, b, stale] = setting.as_slice() else { return String::new() };
    format!("{batches} · {}, {}", worded("b", b), worded("stale", stale))
}

fn bars(named: &Named) -> Figure {
    let group = |setting: Setting| {
        let mut bars = Vec::new();
        let mut bar = |label: String, slot, value: f64| {
            bars.push(Bar { label, slot, value: value / 1e6, written: rate(value) });
        };
        for (place, run) in named.runs.iter().enumerate() {
            let several = named.runs.len() > 1;
            for (number, (series, name)) in
                [("gpulsm", "cleanup"), ("rebuild", "rebuild")].into_iter().enumerate()
            {
                let Some(row) = twin(&run.results, series, &setting) else { continue };
                let label = if several { format!("{}: {name}", run.label) } else { name.into() };
                bar(label, Slot::Measured(2 * place + number), row.mean());
            }
        }
        if let Some(rate) = paper_rate(&setting) {
            bar(beside_paper(named.runs, "paper"), Slot::Paper(0), rate * 1e6);
        }
        Group { label: described(&setting), bars }
    };
    Figure::Bars(Bars {
        title: "Cleanup rate: batches, and how much of them is stale".into(),
        axis: "M entries/s",
        groups: named.settings().into_iter().map(group).collect(),
        mark: None,
    })
}

fn rates(named: &Named) -> Table {
    let mut table = Table::new("Cleanup rate, M entries/s").group("", ["batches", "b", "stale"]);
    for run in named.runs {
        let group = if named.runs.len() > 1 { run.label.as_str() } else { "" };
        table = table.group(
            group,
            ["cleanup", "rebuild", "÷ rebuild", &beside_paper(named.runs, "÷ paper")],
        );
    }
    table = table.group("", [beside_paper(named.runs, "paper").as_str()]);
    for setting in named.settings() {
        let paper = paper_rate(&setting);
        let words =
            named.params.iter().zip(&setting).map(|((param, _), value)| worded(param, value));
        let mut cells: Vec<String> = words.collect();
        for run in named.runs {
            let of = |series| twin(&run.results, series, &setting).map(Row::mean);
            let (ours, rebuild) = (of("gpulsm"), of("rebuild"));
            let ratio =
                |to: Option<f64>| ours.zip(to).map_or("–".into(), |(ours, to)| times(ours / to));
            cells.extend([ours.map_or("–".into(), rate), rebuild.map_or("–".into(), rate)]);
            cells.extend([ratio(rebuild), ratio(paper.map(|rate| rate * 1e6))]);
        }
        cells.push(paper.map_or("–".into(), |rate| printed(rate, 1)));
        table.row(cells);
    }
    table
}

/// The seconds that a cleanup and lookups took.
struct Payoff {
    what: String,
    lookups: u64,
    before: f64,
    cleanup: f64,
    after: f64,
}

fn payoff(runs: &[Labelled]) -> Table {
    let mut table = Table::new("Lookups before and after a cleanup, ms")
        .words(["run"])
        .group("", ["lookups", "before", "cleanup", "after", "cleanup + after", "faster in all"]);
    for run in runs {
        for Payoff { what, lookups, before, cleanup, after } in payoffs(run) {
            let mut cells = vec![what, format!("{} M", rate(lookups as f64))];
            cells.extend([before, cleanup, after, cleanup + after].map(millis));
            cells.push(times(before / (cleanup + after)));
            table.row(cells);
        }
    }
    if !table.rows.is_empty() {
        let all = paper::CLEANED_IN + paper::LOOKED_UP_IN;
        let cells = ["paper: 127 · 2^18, 10 %", "32 M", "–", "19.23", "132.5", &millis(all)]
            .map(String::from);
        table.row(cells.into_iter().chain([format!("{} ×", paper::CLEANUP_PAYS)]).collect());
    }
    table
}

fn payoffs(run: &Labelled) -> Vec<Payoff> {
    let before = run.results.of("cleanup").filter(|row| row.series == "lookup-before");
    let found = before.filter_map(|row| {
        let setting = ["batches", "b", "stale"].map(|param| row.param(param).to_string()).to_vec();
        let time = |row: &Row| row.points.first().map(|point| point.median());
        Some(Payoff {
            what: format!("{}: {}", run.label, described(&setting)),
            lookups: row.points.first()?.items,
            before: time(row)?,
            cleanup: time(twin(&run.results, "gpulsm", &setting)?)?,
            after: time(twin(&run.results, "lookup-after", &setting)?)?,
        })
    });
    found.collect()
}
