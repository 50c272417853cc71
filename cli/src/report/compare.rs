//! What changed from one run to another, and what of it is more than noise.

use std::fmt;

use super::chart::{Bar, Bars, Group, Slot};
use super::named::figure;
use super::numbers::{percent, times};
use super::rates::Labelled;
use super::render::{Figure, Part, Section, Table};
use crate::results::{Point, Row, Unit};

/// Smaller changes are noise.
const LEAST: f64 = 0.03;

/// A change must exceed this multiple of both rows' spreads.
const SPREADS: f64 = 1.5;

/// How many repeats, or points, are needed to know the spread.
const LEAST_SAMPLES: usize = 3;
const LEAST_POINTS: usize = 8;

/// A row that both runs have.
#[derive(Debug)]
pub struct Change {
    pub name: String,
    pub unit: Unit,
    pub old: f64,
    pub new: f64,
    /// How far the ratio may be from 1 by chance; `None` where that is unknown.
    pub noise: Option<f64>,
}

/// Returns a row with only the points that another row has too.
fn shared(row: &Row, other: &Row) -> Row {
    let mut row = row.clone();
    row.points.retain(|point| other.points.iter().any(|same| same.at == point.at));
    row
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Better,
    Worse,
    Same,
    /// Measured too few times.
    Unknown,
}

/// Returns the median ratio of the baselines; 1 where there are none.
fn drift(changes: &[Change]) -> f64 {
    let beside =
        |change: &&Change| BASELINES.contains(&change.name.split('.').next().unwrap_or_default());
    let samples: Vec<f64> = changes.iter().filter(beside).map(Change::ratio).collect();
    if samples.is_empty() { 1.0 } else { Point { at: 0.0, items: 1, samples }.median() }
}

/// Returns how far the ratio of two rows with the same points may be from 1 by chance: by the spread of
/// repeats or, where there are none, by how much the ratio differs from point to point.
fn noise(old: &Row, new: &Row) -> Option<f64> {
    if new.unit == Unit::Bytes {
        return Some(LEAST); // Bytes are counted, not timed.
    }
    let repeated = |row: &Row| row.points.iter().all(|point| point.samples.len() >= LEAST_SAMPLES);
    if repeated(old) && repeated(new) {
        return Some(LEAST.max(SPREADS * (old.spread() + new.spread())));
    }
    let ratio = |one: &Point| {
        let other = old.points.iter().find(|other| other.at == one.at)?;
        Some(one.figure(new.unit) / other.figure(old.unit))
    };
    let ratios: Vec<f64> = new.points.iter().filter_map(ratio).collect();
    let all = Point { at: 0.0, items: 1, samples: ratios };
    (all.samples.len() >= LEAST_POINTS).then(|| LEAST.max(SPREADS * all.spread()))
}

impl Change {
    /// Compares the points that both rows have; `None` if they share no point.
    fn of(old: &Row, new: &Row) -> Option<Self> {
        let (old, new) = (shared(old, new), shared(new, old));
        if old.points.is_empty() || old.unit != new.unit {
            return None;
        }
        let noise = noise(&old, &new);
        Some(Change { name: new.name(), unit: new.unit, old: old.mean(), new: new.mean(), noise })
    }

    pub fn ratio(&self) -> f64 {
        self.new / self.old
    }

    pub fn verdict(&self) -> Verdict {
        // Rates are better if they are greater, bytes if they are less.
        let ratio = self.ratio();
        let (above, below) = match self.unit {
            Unit::Seconds => (Verdict::Better, Verdict::Worse),
            Unit::Bytes => (Verdict::Worse, Verdict::Better),
        };
        match self.noise {
            None => Verdict::Unknown,
            Some(noise) if ratio > 1.0 + noise => above,
            Some(noise) if ratio < 1.0 - noise => below,
            Some(_) => Verdict::Same,
        }
    }

    /// Returns whether it is more than noise.
    fn counts(&self) -> bool {
        matches!(self.verdict(), Verdict::Better | Verdict::Worse)
    }

    fn word(&self) -> &'static str {
        match (self.verdict(), self.unit) {
            (Verdict::Same, _) => "within noise",
            (Verdict::Unknown, _) => "measured too few times",
            (Verdict::Better, Unit::Seconds) => "faster",
            (Verdict::Worse, Unit::Seconds) => "slower",
            (Verdict::Better, Unit::Bytes) => "smaller",
            (Verdict::Worse, Unit::Bytes) => "larger",
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            figure(self.old, self.unit),
            figure(self.new, self.unit),
            times(self.ratio()),
            self.noise.map_or("?".into(), percent),
            self.word().into(),
        ]
    }
}

/// All that changed from one run to the next.
pub struct Comparison<'a> {
    pub old: &'a Labelled,
    pub new: &'a Labelled,
    /// What changed most comes first.
    pub changes: Vec<Change>,
    /// By how much the machine itself differs: the median ratio of the baselines.
    pub drift: f64,
}

/// The series of baselines.
const BASELINES: [&str; 3] = ["sa", "hash", "sort"];

impl<'a> Comparison<'a> {
    pub fn of(old: &'a Labelled, new: &'a Labelled) -> Self {
        let pair = |row: &Row| {
            let name = row.name();
            Change::of(old.results.rows.iter().find(|other| other.name() == name)?, row)
        };
        let mut changes: Vec<_> = new.results.rows.iter().filter_map(pair).collect();
        changes.retain(|change| change.ratio().is_finite() && change.ratio() > 0.0);
        let drift = drift(&changes);
        for change in &mut changes {
            let timed = change.unit == Unit::Seconds;
            change.noise = change
                .noise
                .map(|noise| if timed { noise.max((1.0 - drift).abs()) } else { noise });
        }
        changes.sort_by(|one, other| other.ratio().ln().abs().total_cmp(&one.ratio().ln().abs()));
        Comparison { old, new, changes, drift }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.changes.iter().filter(|change| change.verdict() == verdict).count()
    }

    /// Makes the tables of a pair of runs: what changed, and what did not.
    fn tables(&self) -> [Table; 2] {
        let (old, new) = (&self.old.label, &self.new.label);
        let caption =
            |what: &str| format!("From {old} to {new}: {what} (M/s, or bytes for each pair)");
        let table = |what| {
            Table::new(caption(what))
                .words(["row"])
                .group("", [old.as_str(), new.as_str(), "ratio", "noise"])
                .words(["verdict"])
        };
        let (mut beyond, mut within) = (table("beyond noise"), table("within noise, or unknown"));
        for change in &self.changes {
            let table = if change.counts() { &mut beyond } else { &mut within };
            table.row(change.cells());
        }
        [beyond, within]
    }

    /// Draws the greatest changes as bars of their ratios.
    fn bars(&self) -> Bars {
        let changed = self.changes.iter().filter(|change| change.counts());
        let group = |change: &Change| {
            let slot = Slot::Measured(usize::from(change.verdict() == Verdict::Worse));
            let (value, written) =
                (change.ratio(), format!("{} {}", times(change.ratio()), change.word()));
            let bars = vec![Bar { label: String::new(), slot, value, written }];
            Group { label: change.name.clone(), bars }
        };
        Bars {
            title: format!("{} beside {}: the greatest changes", self.new.label, self.old.label),
            axis: "ratio of means, new/old",
            groups: changed.take(MOST_PRINTED).map(group).collect(),
            mark: Some((1.0, "as before".into())),
        }
    }

    fn counts(&self) -> String {
        let Labelled { label: old, .. } = self.old;
        let Labelled { label: new, .. } = self.new;
        format!(
            "{old} → {new}: of {} rows in both, {} better, {} worse, {} within noise, {} measured too \
             few times; the baselines changed by {}",
            self.changes.len(),
            self.count(Verdict::Better),
            self.count(Verdict::Worse),
            self.count(Verdict::Same),
            self.count(Verdict::Unknown),
            times(self.drift)
        )
    }

    /// Returns what makes the runs hard to compare, if anything.
    fn caution(&self) -> Option<String> {
        let (old, new) = (&self.old.results.run, &self.new.results.run);
        let differ: Vec<&str> = [
            ("device", old.machine.device != new.machine.device),
            ("key", old.settings.key != new.settings.key),
            ("value", old.settings.value != new.settings.value),
            ("scale", old.settings.scale != new.settings.scale),
        ]
        .into_iter()
        .filter_map(|(what, differs)| differs.then_some(what))
        .collect();
        (!differ.is_empty())
            .then(|| format!("The runs differ in {}, which changes rates too.", differ.join(", ")))
    }
}

/// How many changes the terminal shows, and the page draws.
const MOST_PRINTED: usize = 20;

/// For the terminal: the counts, and the greatest changes.
impl fmt::Display for Comparison<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "{}", self.counts())?;
        if let Some(caution) = self.caution() {
            writeln!(out, "  {caution}")?;
        }
        let changed: Vec<_> = self.changes.iter().filter(|change| change.counts()).collect();
        let wide =
            changed.iter().take(MOST_PRINTED).map(|change| change.name.len()).max().unwrap_or(0);
        for change in changed.iter().take(MOST_PRINTED) {
            let (ratio, noise) = (times(change.ratio()), change.noise.map_or("?".into(), percent));
            writeln!(
                out,
                "  {:wide$}  {ratio:>8}  {:7}  (noise {noise})",
                change.name,
                change.word()
            )?;
        }
        match changed.len().saturating_sub(MOST_PRINTED) {
            0 => Ok(()),
            more => writeln!(out, "  … and {more} more in the report"),
        }
    }
}

/// Makes the section of all comparisons: of every later run with the first.
pub fn section(comparisons: &[Comparison]) -> Section {
    let mut section = Section::new(
        "comparison",
        "Comparison",
        &format!(
            "Every row that both runs have, by its mean over the points that both have, as a \
             ratio new/old, the greatest change first. A change counts if the ratio is further \
             from 1 than {} or {SPREADS} times the spreads of both rows together (a spread is the \
             distance between the quartiles of repeats, as a share of the median), whichever is \
             more. Where a row was measured only once or twice at a point, the spread is that of \
             the ratios at its points; of fewer than {LEAST_POINTS} points nothing is said. Baselines \
             (sorted array, sort, hash table) are no part of the dictionary: the median ratio of \
             their rows is the machine's own change, and a change must be greater.",
            percent(LEAST)
        ),
    );
    for comparison in comparisons {
        section.text(comparison.counts() + ".");
        section.parts.extend(comparison.caution().map(Part::Text));
        section.figures([Figure::Bars(comparison.bars())]);
        for table in comparison.tables() {
            section.table(table);
        }
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Results;

    fn row(name: &str, unit: Unit, samples: &[f64]) -> Row {
        let points = vec![Point { at: 0.0, items: 1_000_000, samples: samples.to_vec() }];
        Row {
            experiment: name.into(),
            series: "gpulsm".into(),
            params: Default::default(),
            over: None,
            unit,
            points,
        }
    }

    fn run(rows: Vec<Row>, label: &str) -> Labelled {
        Labelled { label: label.into(), results: Results { rows, ..Results::default() } }
    }

    #[test]
    fn only_what_is_beyond_noise_is_flagged() {
        let seconds = Unit::Seconds;
        let old = run(
            vec![
                row("steady", seconds, &[1.0, 1.01, 0.99]),
                row("slow", seconds, &[1.0, 1.01, 0.99]),
                row("noisy", seconds, &[1.0, 1.3, 0.7]),
                row("gone", seconds, &[1.0]),
                row("once", seconds, &[1.0]),
                row("bytes", Unit::Bytes, &[8e6]),
            ],
            "old",
        );
        let new = run(
            vec![
                row("steady", seconds, &[1.02, 1.01, 1.03]),
                row("slow", seconds, &[2.0, 2.01, 1.99]),
                row("noisy", seconds, &[1.4, 1.0, 1.8]),
                row("fresh", seconds, &[1.0]),
                row("once", seconds, &[5.0]),
                row("bytes", Unit::Bytes, &[12e6]),
            ],
            "new",
        );
        let comparison = Comparison::of(&old, &new);
        let found: Vec<_> =
            comparison.changes.iter().map(|change| (change.name.as_str(), change.word())).collect();
        assert_eq!(
            found,
            [
                ("once", "measured too few times"),
                ("slow", "slower"),
                ("bytes", "larger"),
                ("noisy", "within noise"),
                ("steady", "within noise")
            ]
        );
        let printed = comparison.to_string();
        assert!(printed.contains("baselines changed by 1.00 ×"), "{printed}");
        assert!(
            printed
                .starts_with("old → new: of 5 rows in both, 0 better, 2 worse, 2 within noise, 1 "),
            "{printed}"
        );
        assert!(printed.contains("0.50 ×  slower"), "{printed}");
        assert!(!printed.contains("steady"), "{printed}");
    }

    #[test]
    fn what_the_machine_itself_changed_by_is_no_change() {
        let beside = |seconds: f64| Row {
            series: "sa".into(),
            ..row("insert", Unit::Seconds, &[seconds, seconds, seconds])
        };
        let ours = |seconds: f64| row("insert", Unit::Seconds, &[seconds, seconds, seconds]);
        let old = run(vec![beside(1.0), ours(1.0)], "old");
        let words = |new: &Labelled| -> Vec<&'static str> {
            Comparison::of(&old, new).changes.iter().map(Change::word).collect()
        };
        assert_eq!(words(&run(vec![beside(1.6), ours(1.5)], "new")), ["within noise"; 2]);
        assert_eq!(words(&run(vec![beside(1.0), ours(1.5)], "new")), ["slower", "within noise"]);
    }
}
