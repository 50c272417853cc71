//! Tables with a line for every setting that was measured, run beside run.

use super::chart::{Bar, Bars, Group, Slot};
use super::numbers::{number, rate, times};
use super::rates::Labelled;
use super::render::Table;
use crate::results::{Results, Row, Unit};

/// Which rows, and the parameters that distinguish them.
pub struct Named<'a> {
    pub runs: &'a [Labelled],
    pub caption: &'static str,
    pub experiment: &'static str,
    pub series: &'static str,
    /// Parameters, with their headings.
    pub params: &'static [(&'static str, &'static str)],
    /// A parameter, the value of it that others are to be compared with, and the heading of the
    /// ratio.
    pub base: Option<(&'static str, &'static str, &'static str)>,
    /// Whether the least and the greatest figure are shown too.
    pub whole: bool,
}

/// The values of the parameters.
pub type Setting = Vec<String>;

impl Named<'_> {
    pub fn rows<'a>(&'a self, results: &'a Results) -> impl Iterator<Item = &'a Row> {
        results.of(self.experiment).filter(|row| row.series == self.series)
    }

    fn setting(&self, row: &Row) -> Setting {
        self.params.iter().map(|(param, _)| row.param(param).to_string()).collect()
    }

    /// Returns all settings that some run has, in the order of measurement.
    pub fn settings(&self) -> Vec<Setting> {
        let mut all = Vec::new();
        for row in self.runs.iter().flat_map(|run| self.rows(&run.results)) {
            let setting = self.setting(row);
            if !all.contains(&setting) {
                all.push(setting);
            }
        }
        all
    }

    pub fn find<'a>(&'a self, results: &'a Results, setting: &Setting) -> Option<&'a Row> {
        self.rows(results).find(|row| self.setting(row) == *setting)
    }

    /// Returns the row's figure divided by that of the base.
    pub fn ratio(&self, results: &Results, setting: &Setting) -> Option<f64> {
        let (param, base, _) = self.base?;
        let index = self.params.iter().position(|(name, _)| *name == param)?;
        let mut other = setting.clone();
        other[index] = base.into();
        Some(self.find(results, setting)?.mean() / self.find(results, &other)?.mean())
    }

    pub fn table(&self) -> Table {
        let mut table =
            Table::new(self.caption).words(self.params.iter().map(|(_, heading)| *heading));
        for run in self.runs {
            let group = if self.runs.len() > 1 { run.label.as_str() } else { "" };
            table = table.group(group, self.figures());
        }
        for setting in self.settings() {
            let mut cells: Vec<_> = self
                .params
                .iter()
                .zip(&setting)
                .map(|((param, _), value)| worded(param, value))
                .collect();
            cells.extend(self.runs.iter().flat_map(|run| self.cells(&run.results, &setting)));
            table.row(cells);
        }
        table
    }

    fn figures(&self) -> Vec<&'static str> {
        let mut names = if self.whole { vec!["min", "max", "mean"] } else { vec!["mean"] };
        names.extend(self.base.map(|(_, _, heading)| heading));
        names
    }

    fn cells(&self, results: &Results, setting: &Setting) -> Vec<String> {
        let row = self.find(results, setting);
        let mut cells = Vec::new();
        if self.whole {
            let extremes = row.map(|row| (row.extremes(), row.unit));
            cells.push(extremes.map_or("–".into(), |((min, _), unit)| figure(min, unit)));
            cells.push(extremes.map_or("–".into(), |((_, max), unit)| figure(max, unit)));
        }
        cells.push(row.map_or("–".into(), |row| figure(row.mean(), row.unit)));
        if self.base.is_some() {
            cells.push(self.ratio(results, setting).map_or("–".into(), times));
        }
        cells
    }
}

/// Formats a rate in millions a second, or bytes as they are.
pub fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => rate(value),
        Unit::Bytes => number(value),
    }
}

/// Formats the value of a parameter for readers.
pub fn worded(param: &str, value: &str) -> String {
    match param {
        _ if value.is_empty() => "–".into(),
        "b" | "dead" | "n" => format!("2^{value}"),
        "deletes" | "share" | "stale" => format!("{value} %"),
        "history" => value.replace('-', " "),
        _ => value.into(),
    }
}

impl Named<'_> {
    /// Makes bars of a value for each setting that has a label, run beside run.
    pub fn bars(
        &self,
        title: &str,
        axis: &'static str,
        label: impl Fn(&Setting) -> Option<String>,
        value: impl Fn(&Results, &Setting) -> Option<(f64, String)>,
    ) -> Bars {
        let several = self.runs.len() > 1;
        let bars = |setting: &Setting| {
            let bar = |(place, run): (usize, &Labelled)| {
                let (value, written) = value(&run.results, setting)?;
                let label = if several { run.label.clone() } else { String::new() };
                Some(Bar { label, slot: Slot::Measured(place), value, written })
            };
            self.runs.iter().enumerate().filter_map(bar).collect()
        };
        let group = |setting: &Setting| Some(Group { label: label(setting)?, bars: bars(setting) });
        let settings = self.settings();
        let groups = settings.iter().filter_map(group).filter(|group| !group.bars.is_empty());
        Bars { title: title.into(), axis, groups: groups.collect(), mark: None }
    }
}
