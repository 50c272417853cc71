//! What the tour prints of its measurements: rates, and a picture of the levels.

use std::fmt;

use gpulsm::Stats;
use gpulsm_backends::tour::Timed;

/// Rates, in two columns where something was measured twice.
#[derive(Default)]
pub struct Table(Vec<(&'static str, Option<f64>, Option<f64>)>);

impl Table {
    /// Adds something measured once.
    pub fn add(&mut self, name: &'static str, timed: Timed) {
        self.0.push((name, None, Some(timed.rate())));
    }

    /// Adds a query over many levels.
    pub fn add_query(&mut self, name: &'static str, timed: Timed) {
        self.0.push((name, Some(timed.rate()), None));
    }

    /// Adds the same query over one run.
    pub fn add_second(&mut self, name: &'static str, timed: Timed) {
        if let Some(row) = self.0.iter_mut().find(|(other, ..)| *other == name) {
            row.2 = Some(timed.rate());
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.1}"));
        let (queries, changes): (Vec<_>, Vec<_>) = self.0.iter().partition(|row| row.1.is_some());
        writeln!(f, "{:<36}{:>14}", "million a second", "")?;
        for &(name, _, once) in changes {
            writeln!(f, "  {name:<34}{:>14}", rate(once))?;
        }
        writeln!(f, "{:<36}{:>14}{:>14}", "", "many levels", "one run")?;
        for &(name, many, one) in queries {
            writeln!(f, "  {name:<34}{:>14}{:>14}", rate(many), rate(one))?;
        }
        Ok(())
    }
}

/// Returns how many levels hold a run.
pub fn runs(stats: &Stats) -> usize {
    stats.levels.len()
}

/// Draws the levels as a row of bars, as high as they are full, the newest first.
pub fn picture(stats: &Stats) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = stats.levels.last().map_or(0, |level| level.level);
    let bar = |index: usize| {
        let level = stats.levels.iter().find(|level| level.level == index)?;
        let height = (level.entries * 8).div_ceil(level.capacity).clamp(1, 8);
        Some(HEIGHTS[height as usize - 1])
    };
    (0..=top).map(|index| bar(index).unwrap_or('·')).collect()
}
