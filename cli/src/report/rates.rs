//! Experiments that go through batch sizes: rates over all numbers of resident batches, beside
//! other structures and beside the paper.

use std::cmp::Reverse;

use super::chart::{Line, MOST_LINES, Plot, Scale, Slot};
use super::numbers::{printed, rate, times};
use super::paper;
use super::render::{Figure, Table};
use crate::results::{Results, Row};

/// A run and its label in the report.
pub struct Labelled {
    pub label: String,
    pub results: Results,
}

impl Labelled {
    /// Returns whether it is so small that a cache may hold what it measures.
    pub fn is_small(&self) -> bool {
        ["quick", "tiny"].contains(&self.results.run.settings.scale.as_str())
    }
}

/// Returns a heading of the paper's figures, which says so where they are of much more than a run had.
pub fn beside_paper(runs: &[Labelled], heading: &str) -> String {
    let mark = if runs.iter().any(Labelled::is_small) { ", larger n" } else { "" };
    format!("{heading}{mark}")
}

/// A batch size and a number of entries, both as powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sizes {
    pub n: u32,
    pub b: u32,
}

impl Sizes {
    pub fn of(row: &Row) -> Option<Self> {
        Some(Sizes { n: row.param("n").parse().ok()?, b: row.param("b").parse().ok()? })
    }
}

/// Which rows make a column, or a line of a plot.
#[derive(Clone, Copy)]
pub struct Pick {
    pub label: &'static str,
    pub experiment: &'static str,
    pub series: &'static str,
    pub params: &'static [(&'static str, &'static str)],
    /// Whether the least and the greatest rate are shown too.
    pub whole: bool,
}

impl Pick {
    pub fn rows(self, results: &Results) -> impl Iterator<Item = &Row> {
        results.rows.iter().filter(move |row| {
            row.experiment == self.experiment
                && row.series == self.series
                && self.params.iter().all(|(name, value)| row.param(name) == *value)
        })
    }

    /// Returns the row of these sizes; a row without a batch size stands for all.
    fn at(self, results: &Results, sizes: Sizes) -> Option<&Row> {
        let fits = |param: &str, size: u32| param.is_empty() || param.parse() == Ok(size);
        self.rows(results)
            .find(|row| fits(row.param("b"), sizes.b) && fits(row.param("n"), sizes.n))
    }

    /// Returns whether there is a row of exactly these sizes.
    fn has(self, results: &Results, sizes: Sizes) -> bool {
        self.rows(results).any(|row| Sizes::of(row) == Some(sizes))
    }

    fn columns(self) -> &'static [&'static str] {
        if self.whole { &["min", "max", "mean"] } else { &["mean"] }
    }

    fn cells(self, row: Option<&Row>) -> Vec<String> {
        match row {
            None => vec!["–".into(); self.columns().len()],
            Some(row) if self.whole => {
                let (min, max) = row.extremes();
                vec![rate(min), rate(max), rate(row.mean())]
            }
            Some(row) => vec![rate(row.mean())],
        }
    }
}

/// A figure for the table at the top: what, each run's mean rate and that of the sorted array, and
/// the paper's.
pub struct Headline {
    pub what: String,
    pub ours: Vec<Option<f64>>,
    pub beside: Vec<Option<f64>>,
    pub paper: Option<(f64, f64)>,
}

/// An experiment over batch sizes. The first pick is the one that is compared.
pub struct ByBatch<'a> {
    pub runs: &'a [Labelled],
    pub title: &'static str,
    pub unit: &'static str,
    pub picks: &'a [Pick],
    pub paper: Option<paper::Table>,
}

impl ByBatch<'_> {
    /// Returns all sizes that some run has, large batches first.
    fn sizes(&self) -> Vec<Sizes> {
        let rows = |run| self.picks.iter().flat_map(move |pick| pick.rows(run));
        let mut all: Vec<_> =
            self.runs.iter().flat_map(|run| rows(&run.results)).filter_map(Sizes::of).collect();
        all.sort_by_key(|sizes| Reverse(*sizes));
        all.dedup();
        all
    }

    /// Returns the picks that some run has rows of.
    fn present(&self) -> Vec<Pick> {
        let there =
            |pick: &&Pick| self.runs.iter().any(|run| pick.rows(&run.results).next().is_some());
        self.picks.iter().filter(there).copied().collect()
    }

    fn name(&self, run: &Labelled, pick: Pick) -> String {
        match self.runs {
            [_] => pick.label.into(),
            _ => format!("{}: {}", run.label, pick.label),
        }
    }

    pub fn table(&self) -> Table {
        let (sizes, picks) = (self.sizes(), self.present());
        let mut table = self.columns(&picks);
        for &sizes in &sizes {
            table.row(self.line(sizes, &picks));
        }
        if sizes.len() > 1 && sizes.iter().all(|one| one.n == sizes[0].n) {
            table.row(self.means(&sizes, &picks));
            table.means = 1;
        }
        table
    }

    fn columns(&self, picks: &[Pick]) -> Table {
        let mut table =
            Table::new(format!("{}, {}", self.title, self.unit)).group("", ["b", "batches"]);
        for run in self.runs {
            for &pick in picks {
                table = table.group(&self.name(run, pick), pick.columns().iter().copied());
            }
        }
        if self.paper.is_some() {
            let heading = |heading| beside_paper(self.runs, heading);
            table = table.group(&heading("paper: GPU LSM"), ["min", "max", "mean"]);
            table = table.group(&heading("paper: SA"), ["mean"]);
            let names: Vec<&str> = match self.runs {
                [_] => vec!["mean"],
                runs => runs.iter().map(|run| run.label.as_str()).collect(),
            };
            table = table.group(&heading("÷ paper"), names);
        }
        table
    }

    fn line(&self, sizes: Sizes, picks: &[Pick]) -> Vec<String> {
        let mut cells =
            vec![format!("2^{}", sizes.b), format!("2^{}", sizes.n.saturating_sub(sizes.b))];
        for run in self.runs {
            cells.extend(picks.iter().flat_map(|pick| pick.cells(pick.at(&run.results, sizes))));
        }
        if let Some(paper) = self.paper {
            let line = paper.line(sizes);
            let of = |figure: Option<f64>| {
                figure.map_or("–".into(), |figure| printed(figure, paper.decimals))
            };
            let lsm = line.map(|line| line.lsm);
            cells.extend(
                [lsm.map(|lsm| lsm.min), lsm.map(|lsm| lsm.max), lsm.map(|lsm| lsm.mean)].map(of),
            );
            cells.push(of(line.map(|line| line.sa)));
            cells.extend(self.runs.iter().map(|run| {
                let ours = self.picks[0].at(&run.results, sizes).map(Row::mean);
                ours.zip(lsm).map_or("–".into(), |(ours, lsm)| times(ours / 1e6 / lsm.mean))
            }));
        }
        cells
    }

    /// Formats the harmonic means over all batch sizes.
    fn means(&self, sizes: &[Sizes], picks: &[Pick]) -> Vec<String> {
        let mut cells = vec!["mean".to_string(), String::new()];
        for run in self.runs {
            for pick in picks {
                cells.extend(pick.columns()[1..].iter().map(|_| String::new()));
                cells.push(mean_over(*pick, &run.results, sizes).map_or("–".into(), rate));
            }
        }
        if let Some(table) = self.paper {
            let paper = self.paper_means(sizes);
            let of = |figure| printed(figure, table.decimals);
            cells.extend([String::new(), String::new()]);
            cells.push(paper.map_or("–".into(), |(lsm, _)| of(lsm)));
            cells.push(paper.map_or("–".into(), |(_, sa)| of(sa)));
            cells.extend(self.runs.iter().map(|run| {
                let ours = mean_over(self.picks[0], &run.results, sizes);
                ours.zip(paper).map_or("–".into(), |(ours, (lsm, _))| times(ours / 1e6 / lsm))
            }));
        }
        cells
    }

    /// Returns the paper's means over the same batch sizes, if it has all of them.
    fn paper_means(&self, sizes: &[Sizes]) -> Option<(f64, f64)> {
        let paper = self.paper?;
        let lines: Option<Vec<_>> = sizes.iter().map(|&sizes| paper.line(sizes)).collect();
        let mut lines = lines?;
        // Runs of other sizes stand beside the same lines.
        lines.sort_by_key(|line| line.b);
        lines.dedup();
        paper.means(&lines)
    }

    pub fn headline(&self, what: impl Into<String>) -> Headline {
        let sizes = self.sizes();
        let shared: Vec<_> = match self.paper {
            Some(paper) => {
                sizes.iter().copied().filter(|&sizes| paper.line(sizes).is_some()).collect()
            }
            None => sizes,
        };
        let of = |pick: Option<Pick>| {
            let mean = |run: &Labelled| mean_over(pick?, &run.results, &shared);
            self.runs.iter().map(mean).collect()
        };
        Headline {
            what: what.into(),
            ours: of(self.picks.first().copied()),
            beside: of(self.picks.iter().find(|pick| pick.series == "sa").copied()),
            paper: self.paper_means(&shared),
        }
    }

    /// Explains why figures of different sizes stand side by side, if they do.
    pub fn note(&self) -> Option<String> {
        let paper = self.paper?;
        let sizes = self
            .sizes()
            .into_iter()
            .rfind(|sizes| sizes.n != paper.n && paper.line(*sizes).is_some())?;
        let line = paper.line(sizes)?;
        Some(format!(
            "The paper ends with n = 2^{} entries. Where a run is smaller or larger, its line \
             stands beside the paper's with as many batches, and so as many levels: b = 2^{} of n \
             = 2^{} beside the paper's b = 2^{} of n = 2^{}.",
            paper.n, sizes.b, sizes.n, line.b, paper.n
        ))
    }

    /// Plots mean rates against batch sizes; of a single run also the area from least to greatest.
    pub fn figure(&self) -> Figure {
        let mut picks = self.present();
        let room = MOST_LINES - if self.paper.is_some() { 2 } else { 0 };
        if picks.len() * self.runs.len() > room {
            picks.truncate((room / self.runs.len()).max(1));
        }
        let mut lines = Vec::new();
        for (place, run) in self.runs.iter().enumerate() {
            for (number, &pick) in picks.iter().enumerate() {
                let slot = Slot::Measured(place * picks.len() + number);
                lines.push(self.plotted(run, pick, slot, number == 0 && self.runs.len() == 1));
            }
        }
        lines.truncate(MOST_LINES);
        lines.extend(self.paper_lines());
        Figure::Plot(Plot {
            title: self.title.into(),
            x: ("batch size b", Scale::Powers),
            y: (self.unit, Scale::Log),
            lines,
        })
    }

    /// Returns a run's sizes with the most entries: one line can show only those.
    fn largest(&self, run: &Labelled) -> Vec<Sizes> {
        let mut sizes = self.sizes();
        sizes.retain(|&sizes| self.picks.iter().any(|pick| pick.has(&run.results, sizes)));
        sizes.iter().copied().filter(|one| one.n == sizes[0].n).collect()
    }

    fn plotted(&self, run: &Labelled, pick: Pick, slot: Slot, banded: bool) -> Line {
        let rows: Vec<_> = self
            .largest(run)
            .into_iter()
            .rev()
            .filter_map(|sizes| Some((f64::from(sizes.b), pick.at(&run.results, sizes)?)))
            .collect();
        let points = rows.iter().map(|(b, row)| (*b, row.mean() / 1e6)).collect();
        let line = Line::new(self.name(run, pick), slot, points);
        if !banded || !pick.whole {
            return line;
        }
        let extent = |(b, row): &(f64, &Row)| {
            let (min, max) = row.extremes();
            (*b, min / 1e6, max / 1e6)
        };
        line.band(rows.iter().map(extent).collect())
    }

    fn paper_lines(&self) -> Vec<Line> {
        let Some(paper) = self.paper else { return Vec::new() };
        let Some(sizes) = self.runs.iter().map(|run| self.largest(run)).find(|all| !all.is_empty())
        else {
            return Vec::new();
        };
        let found = |of: fn(&paper::Line) -> f64| {
            let point = |sizes: &Sizes| Some((f64::from(sizes.b), of(paper.line(*sizes)?)));
            sizes.iter().rev().filter_map(point).collect()
        };
        let heading = |heading| beside_paper(self.runs, heading);
        vec![
            Line::new(heading("paper: GPU LSM"), Slot::Paper(0), found(|line| line.lsm.mean)),
            Line::new(heading("paper: SA"), Slot::Paper(1), found(|line| line.sa)),
        ]
    }
}

/// Returns the harmonic mean over all of these sizes that have rows.
fn mean_over(pick: Pick, results: &Results, sizes: &[Sizes]) -> Option<f64> {
    harmonic(sizes.iter().filter_map(|&sizes| Some(pick.at(results, sizes)?.mean())))
}

/// Returns the harmonic mean; `None` of nothing.
pub fn harmonic(rates: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = rates.fold((0, 0.0), |(count, sum), rate| (count + 1, sum + 1.0 / rate));
    (count > 0).then(|| f64::from(count) / sum)
}
