//! Figure 4b of the paper: effective insertion rates.

use super::{beside, of_run, series};
use crate::report::chart::{Line, Plot, Scale, Slot};
use crate::report::rates::Labelled;
use crate::report::render::{Figure, Section, Table};
use crate::results::{Row, Unit};

/// Lines that one plot of effective rates has room for.
const MOST_SIZES: usize = 6;

/// Paper: Figure 4b.
pub fn section(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "effective",
        "Effective insertion rate",
        "All elements inserted so far over all the time it took, from an empty dictionary on. The \
         sorted array falls with 1/n, a dictionary of levels with 1/log n. Paper: Figure 4b.",
    );
    for run in runs {
        let plot = |series, name: &str| effective_plot(run, series, &of_run(runs, run, name));
        section.figures([plot("gpulsm", "gpulsm"), plot("sa", "sorted array")]);
    }
    section.table(effective_table(runs));
    section
}

/// Chooses evenly, the first and the last included.
fn chosen<T: Copy>(all: &[T], most: usize) -> Vec<T> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|number| all[number * (all.len() - 1) / (most - 1)]).collect()
}

fn effective_plot(run: &Labelled, which: &str, title: &str) -> Figure {
    let rows = chosen(&series(&run.results, "effective", which), MOST_SIZES);
    let line = |(number, row): (usize, &&Row)| {
        let points = row
            .points
            .iter()
            .map(|point| ((point.items as f64).log2(), point.figure(Unit::Seconds) / 1e6));
        Line::new(format!("b = 2^{}", row.param("b")), Slot::Measured(number), points.collect())
    };
    Figure::Plot(Plot {
        title: format!("Effective rate: {title}"),
        x: ("elements inserted", Scale::Powers),
        y: ("M elements/s", Scale::Log),
        lines: rows.iter().enumerate().map(line).collect(),
    })
}

/// Returns the rate at the end.
fn last(row: &Row) -> Option<f64> {
    row.points.last().map(|point| point.figure(row.unit))
}

fn effective_table(runs: &[Labelled]) -> Table {
    let mut table = Table::new("Effective rate at the end, M elements/s").group("", ["b", "n"]);
    let mut sizes: Vec<(u32, u32)> = Vec::new();
    for run in runs {
        let group = if runs.len() > 1 { run.label.as_str() } else { "" };
        table = table.group(group, ["gpulsm", "sorted array", "÷ SA"]);
        let size = |row: &Row| Some((row.param("b").parse().ok()?, row.param("n").parse().ok()?));
        sizes.extend(run.results.of("effective").filter_map(size));
    }
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    sizes.dedup();
    for (b, n) in sizes {
        let mut cells = vec![format!("2^{b}"), format!("2^{n}")];
        for run in runs {
            let (b, n) = (b.to_string(), n.to_string());
            let find = |which| {
                let rows = series(&run.results, "effective", which);
                rows.into_iter()
                    .find(|row| row.param("b") == b && row.param("n") == n)
                    .and_then(last)
            };
            cells.extend(beside(find("gpulsm"), find("sa")));
        }
        table.row(cells);
    }
    table
}
