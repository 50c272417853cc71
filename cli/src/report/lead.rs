//! The top of the report: where and how it was measured, the main figures, and what is missing.

use super::numbers::{date, printed, rate, times};
use super::rates::{Headline, Labelled, beside_paper};
use super::render::{Part, Section, Table};
use crate::results::Run;

pub fn title(runs: &[Labelled]) -> String {
    let mut devices: Vec<&str> = Vec::new();
    for run in runs {
        let device = run.results.run.machine.device.as_str();
        if !device.is_empty() && !devices.contains(&device) {
            devices.push(device);
        }
    }
    match devices.as_slice() {
        [] => "gpulsm, measured".into(),
        devices => format!("gpulsm on {}", devices.join(" and ")),
    }
}

pub fn parts(runs: &[Labelled], sections: &[Section], missing: &[&str]) -> Vec<Part> {
    let mut parts = vec![
        Part::Text(
            "A dynamic, ordered dictionary, measured as in the evaluation of “GPU LSM” (Ashkiani \
             et al., IPDPS 2018), whose figures, from a Tesla K40c, stand beside. All rates are in \
             millions a second (M/s); means of rates are harmonic."
                .into(),
        ),
        Part::Table(about(runs)),
    ];
    parts.extend(small(runs).map(Part::Text));
    let headlines: Vec<_> = sections.iter().flat_map(|section| &section.headlines).collect();
    if !headlines.is_empty() {
        parts.push(Part::Table(main_figures(runs, &headlines)));
    }
    if !missing.is_empty() {
        parts.push(Part::Text(format!("Not measured here: {}.", missing.join(", "))));
    }
    parts
}

/// Warns of comparing small runs with the paper, if there are some.
fn small(runs: &[Labelled]) -> Option<String> {
    let of = |run: &&Labelled| run.is_small();
    let scale = runs.iter().find(of)?.results.run.settings.scale.as_str();
    Some(format!(
        "A small run (`--{scale}`): what it measures may fit into a cache. The paper's figures, marked \
         “larger n”, are of 2^24 to 2^27 entries read from memory: the two do not compare. `--full` on a GPU has \
         the paper's sizes."
    ))
}

/// Tabulates the properties of each run, a column a run.
fn about(runs: &[Labelled]) -> Table {
    let names: Vec<&str> = match runs {
        [_] => vec!["value"],
        runs => runs.iter().map(|run| run.label.as_str()).collect(),
    };
    let mut table =
        Table { plain: true, ..Table::new("Where and how").words(["property"]).words(names) };
    let all: Vec<_> = runs.iter().map(|run| properties(&run.results.run)).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let value = |run: &Vec<(String, String)>| {
            run.iter()
                .find(|(other, _)| other == name)
                .map_or("–".into(), |(_, value)| value.clone())
        };
        table.row([name.clone()].into_iter().chain(all.iter().map(value)).collect());
    }
    table
}

fn properties(run: &Run) -> Vec<(String, String)> {
    let (machine, settings) = (&run.machine, &run.settings);
    let mut all = vec![("device".into(), format!("{} ({})", machine.device, settings.device))];
    all.extend(machine.details.iter().cloned());
    all.extend([
        ("CPU".into(), format!("{}, {} threads", machine.cpu, machine.threads)),
        ("system".into(), machine.system.clone()),
        ("version".into(), machine.version.clone()),
        ("commit".into(), machine.commit.clone().unwrap_or("–".into())),
        ("keys and values".into(), format!("{} and {}", settings.key, settings.value)),
        ("scale".into(), format!("{}, seed {}", settings.scale, settings.seed)),
        ("command".into(), format!("`{}`", run.command.replace('`', "'"))),
        ("date".into(), date(run.started)),
    ]);
    all
}

fn main_figures(runs: &[Labelled], headlines: &[&Headline]) -> Table {
    let mut table = Table::new("Main figures, M/s, means over the batch sizes that were measured")
        .words(["operation"]);
    for run in runs {
        let group = if runs.len() > 1 { run.label.as_str() } else { "gpulsm" };
        table = table.group(group, ["mean", "÷ SA", &beside_paper(runs, "÷ paper")]);
    }
    table = table.group(&beside_paper(runs, "paper"), ["mean", "÷ SA"]);
    for headline in headlines {
        let mut cells = vec![headline.what.clone()];
        for (ours, beside) in headline.ours.iter().zip(&headline.beside) {
            let ratio =
                |to: Option<f64>| ours.zip(to).map_or("–".into(), |(ours, to)| times(ours / to));
            cells.push(ours.map_or("–".into(), rate));
            cells.push(ratio(*beside));
            cells.push(ratio(headline.paper.map(|(lsm, _)| lsm * 1e6)));
        }
        let (lsm, sa) = headline.paper.unzip();
        cells.push(lsm.map_or("–".into(), |lsm| printed(lsm, if lsm < 10.0 { 2 } else { 1 })));
        cells.push(lsm.zip(sa).map_or("–".into(), |(lsm, sa)| times(lsm / sa)));
        table.row(cells);
    }
    table
}
