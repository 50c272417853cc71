//! Growing as a whole: effective rates, batches that are not full, and building at once.

use super::of_run;
use crate::report::axis::Scale;
use crate::report::document::{Figure, Section, Table};
use crate::report::numbers::{number_short, percent, rate, times};
use crate::report::paper;
use crate::report::plot::{Drawn, Line, Plot, Slot};
use crate::report::rates::Labelled;
use crate::results::{Results, Row, Unit};

/// Lines that one plot of effective rates has room for.
const MOST_SIZES: usize = 6;

/// Paper: Figure 4b.
pub fn effective(runs: &[Labelled]) -> Section {
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

fn series<'a>(results: &'a Results, experiment: &'a str, series: &'a str) -> Vec<&'a Row> {
    let mut rows: Vec<_> = results.of(experiment).filter(|row| row.series == series).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.param("b").parse::<u32>().unwrap_or(0)));
    rows
}

/// Evenly chosen, the first and the last among them.
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

/// The rate when all is in.
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

/// Two rates and how many times as fast the first is.
fn beside(ours: Option<f64>, theirs: Option<f64>) -> [String; 3] {
    let ratio = ours.zip(theirs).map_or("–".into(), |(ours, theirs)| times(ours / theirs));
    [ours.map_or("–".into(), rate), theirs.map_or("–".into(), rate), ratio]
}

/// Paper: IV-A, "a batch that is not full".
pub fn partial(runs: &[Labelled]) -> Section {
    let mut section = Section::new(
        "partial",
        "Batches that are not full",
        "The effective rate of batches with only a share b′/b of the batch size. “Padded” fills \
         them up with copies first, as the paper does (IV-A).",
    );
    section.figures(runs.iter().map(|run| partial_plot(runs, run)));
    for run in runs {
        for row in series(&run.results, "partial", "gpulsm") {
            section.table(partial_table(runs, run, row));
        }
    }
    section
}

fn partial_plot(runs: &[Labelled], run: &Labelled) -> Figure {
    let mut lines = Vec::new();
    for (which, name) in [("gpulsm", "gpulsm"), ("padded", "padded")] {
        for row in series(&run.results, "partial", which).into_iter().take(3) {
            let points = row.points.iter().map(|point| (point.at, point.figure(row.unit) / 1e6));
            let label = format!("{name}, b = 2^{}", row.param("b"));
            lines.push(Line::new(label, Slot::Measured(lines.len()), points.collect()));
        }
    }
    Figure::Plot(Plot {
        title: of_run(runs, run, "Rate of batches that are not full"),
        x: ("share of the batch size, b′/b", Scale::Percent),
        y: ("M elements/s", Scale::Log),
        lines,
    })
}

fn partial_table(runs: &[Labelled], run: &Labelled, row: &Row) -> Table {
    let caption = format!("Batches that are not full, b = 2^{}, M elements/s", row.param("b"));
    let mut table =
        Table::new(of_run(runs, run, &caption)).group("", ["b′/b", "gpulsm", "padded", "÷ padded"]);
    let padded = series(&run.results, "partial", "padded")
        .into_iter()
        .find(|other| other.params == row.params);
    for point in &row.points {
        let same = padded.and_then(|row| row.points.iter().find(|other| other.at == point.at));
        let figures =
            beside(Some(point.figure(row.unit)), same.map(|point| point.figure(row.unit)));
        table.row([percent(point.at)].into_iter().chain(figures).collect());
    }
    table
}

/// What `build` measures: the series, its name, and the paper's rate.
const BUILDS: [(&str, &str, f64); 3] = [
    ("gpulsm", "gpulsm", paper::BUILD),
    ("sort", "sort alone", paper::BUILD_SORT),
    ("hash", "hash table", paper::BUILD_HASH),
];

/// Paper: V-B, "Bulk build".
pub fn build(runs: &[Labelled]) -> Section {
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
        lines.push(Line::new("paper: GPU LSM", Slot::Paper(0), level).drawn(Drawn::Plain));
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
            .group(group, ["gpulsm", "sort alone", "hash table", "÷ sort", "÷ hash", "÷ paper"]);
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
