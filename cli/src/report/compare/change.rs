//! A row that two runs have, and whether it differs by more than noise.

use super::noise::{self, Controls};
use crate::report::named::figure;
use crate::report::numbers::{percent, times};
use crate::results::{Row, Unit};

/// A row that both runs have.
#[derive(Debug)]
pub struct Change {
    pub name: String,
    pub experiment: String,
    pub unit: Unit,
    pub old: f64,
    pub new: f64,
    /// How far the logarithm of the ratio may be from 0 by chance; `None` where that is unknown.
    pub noise: Option<f64>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Better,
    Worse,
    Same,
    /// Measured too few times.
    Unknown,
    /// Beyond its own noise, but nothing tells of the machine's.
    NoControls,
    /// The machine was too unsteady to tell.
    ControlsDisagree,
    /// No part of the dictionary: it only tells of the machine.
    Control,
}

/// Returns a row with only the points that another row has too.
fn shared(row: &Row, other: &Row) -> Row {
    let mut row = row.clone();
    row.points.retain(|point| other.points.iter().any(|same| same.at == point.at));
    row
}

impl Change {
    /// Compares the points that both rows have; `None` if they share none, or have no ratio. The verdict
    /// is by the row alone.
    pub fn of(old: &Row, new: &Row) -> Option<Self> {
        let (old, new) = (shared(old, new), shared(new, old));
        if old.points.is_empty() || old.unit != new.unit {
            return None;
        }
        let mut change = Change {
            name: new.name(),
            experiment: new.experiment.clone(),
            unit: new.unit,
            old: old.mean(),
            new: new.mean(),
            noise: noise::of_repeats(&old, &new),
            verdict: Verdict::Control,
        };
        if !noise::is_control(&new) {
            change.verdict = change.verdict_alone();
        }
        (change.ratio().is_finite() && change.ratio() > 0.0).then_some(change)
    }

    pub fn ratio(&self) -> f64 {
        self.new / self.old
    }

    fn verdict_alone(&self) -> Verdict {
        let Some(noise) = self.noise else { return Verdict::Unknown };
        let change = self.ratio().ln();
        // Rates are better if they are greater, bytes if they are less.
        match change.abs() > noise {
            false => Verdict::Same,
            true if (change > 0.0) == (self.unit == Unit::Seconds) => Verdict::Better,
            true => Verdict::Worse,
        }
    }

    /// Judges it by the controls of its experiment too. Runs that were measured in turns need none:
    /// whatever the machine did, it did to both.
    pub fn judge(&mut self, controls: Option<&Controls>, in_turns: bool) {
        if !self.counts() || self.unit == Unit::Bytes {
            return;
        }
        match controls {
            None if in_turns => {}
            None => self.verdict = Verdict::NoControls,
            Some(controls) => {
                self.noise = self.noise.map(|noise| noise.max(controls.margin()));
                self.verdict = self.verdict_alone();
                if self.counts() && controls.disagree() {
                    self.verdict = Verdict::ControlsDisagree;
                }
            }
        }
    }

    /// Returns whether it is more than noise.
    pub fn counts(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }

    pub fn word(&self) -> &'static str {
        match (self.verdict, self.unit) {
            (Verdict::Same, _) => "within noise",
            (Verdict::Unknown, _) => "measured too few times",
            (Verdict::NoControls, _) => "withheld: no controls",
            (Verdict::ControlsDisagree, _) => "withheld: the controls disagree",
            (Verdict::Control, _) => "control",
            (Verdict::Better, Unit::Seconds) => "faster",
            (Verdict::Worse, Unit::Seconds) => "slower",
            (Verdict::Better, Unit::Bytes) => "smaller",
            (Verdict::Worse, Unit::Bytes) => "larger",
        }
    }

    /// Formats how much is noise.
    pub fn noise(&self) -> String {
        self.noise.map_or("?".into(), percent)
    }

    pub fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            figure(self.old, self.unit),
            figure(self.new, self.unit),
            times(self.ratio()),
            self.noise(),
            self.word().into(),
        ]
    }
}
