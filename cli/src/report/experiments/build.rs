//! Building at once.

use super::{of_run, series};
use crate::report::chart::{Drawn, Line, Plot, Scale, Slot};
use crate::report::numbers::{number_short, rate, times};
use crate::report::paper;
use crate::report::rates::{Labelled, beside_paper};
use crate::report::render::{Figure, Section, Table};
use crate::results::{Results, Unit};

/// What `build` measures: the series, its name, and the paper's rate.
const BUILDS: [(&str, &str, f64); 3] = [
    ("gpulsm", "gpulsm", paper::BUILD),
    ("sort", "sort alone", paper::BUILD_SORT),
    ("hash", "hash table", paper::BUILD_HASH),
];

/// Paper: V-B, "Bulk build".
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "build",
        "Building at once",
        "Building from n random pairs with one sort, beside the sort alone and a hash table. \
         Paper: section V-B.",
    );
    section.figures([build_plot(runs)]);
    section.table(build_table(runs));
    if !section.is_bare() {
        let [ours, sort, hash] = BUILDS.map(|(_, _, figure)| number_short(figure));
        section.text(format!(
            "In the paper: {ours} M elements/s for the GPU LSM, {sort} for the radix sort of \
             pairs, {hash} for the cuckoo hash table."
        ));
    }
    section
}

fn build_plot(runs: &[Labelled]) -> Figure {
    let mut lines = Vec::new();
    let shown = if runs.len() > 2 { &BUILDS[..1] } else { &BUILDS[..] };
    for run in runs {
        for (which, name, _) in shown {
            for row in series(&run.results, "build", which).into_iter().take(1) {
                let points =
                    row.points.iter().map(|point| (point.at, point.figure(row.unit) / 1e6));
                lines.push(Line::new(
                    of_run(runs, run, name),
                    Slot::Measured(lines.len()),
                    points.collect(),
                ));
            }
        }
    }
    let ends = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
    let (low, high) =
        ends.fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    if low <= high {
        let level = vec![(low, paper::BUILD), (high, paper::BUILD)];
        lines.push(
            Line::new(beside_paper(runs, "paper: GPU LSM"), Slot::Paper(0), level)
                .drawn(Drawn::Plain),
        );
    }
    Figure::Plot(Plot {
        title: "Build rate".into(),
        x: ("pairs n", Scale::Powers),
        y: ("M elements/s", Scale::Log),
        lines,
    })
}

fn build_table(runs: &[Labelled]) -> Table {
    let mut table = Table::new("Build rate, M elements/s").group("", ["n"]);
    let mut sizes: Vec<u32> = Vec::new();
    for run in runs {
        let group = if runs.len() > 1 { run.label.as_str() } else { "" };
        table = table
            .group(group, ["gpulsm", "sort alone", "hash table", "÷ sort", "÷ hash"])
            .group(group, [beside_paper(runs, "÷ paper").as_str()]);
        sizes.extend(
            run.results.of("build").flat_map(|row| &row.points).map(|point| point.at as u32),
        );
    }
    sizes.sort_unstable();
    sizes.dedup();
    for n in sizes.into_iter().rev() {
        let mut cells = vec![format!("2^{n}")];
        cells.extend(runs.iter().flat_map(|run| build_cells(&run.results, f64::from(n))));
        table.row(cells);
    }
    table
}

fn build_cells(results: &Results, n: f64) -> Vec<String> {
    let rates = BUILDS.map(|(which, _, _)| {
        let rows = series(results, "build", which);
        let point = rows.iter().flat_map(|row| &row.points).find(|point| point.at == n);
        point.map(|point| point.figure(Unit::Seconds))
    });
    let ratio =
        |to: Option<f64>| rates[0].zip(to).map_or("–".into(), |(ours, to)| times(ours / to));
    let mut cells: Vec<String> = rates.iter().map(|found| found.map_or("–".into(), rate)).collect();
    cells.extend([ratio(rates[1]), ratio(rates[2]), ratio(Some(paper::BUILD * 1e6))]);
    cells
}
