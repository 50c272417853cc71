//! What changed from one run to another, and what of it is more than noise.

mod change;
mod noise;

use std::collections::BTreeMap;
use std::fmt;

use self::change::{Change, Verdict};
use self::noise::{Controls, LEAST, LEAST_POINTS, SPREADS, UNSTEADY};
use super::chart::{Bar, Bars, Group, Slot};
use super::numbers::{percent, times};
use super::rates::Labelled;
use super::render::{Figure, Part, Section, Table};
use crate::results::{Point, Row};

/// All that changed from one run to the next.
pub struct Comparison<'a> {
    pub old: &'a Labelled,
    pub new: &'a Labelled,
    /// What changed most comes first.
    pub changes: Vec<Change>,
    /// The controls of each experiment that has some.
    controls: BTreeMap<String, Controls>,
}

/// Collects the controls of each experiment.
fn controls(changes: &[Change]) -> BTreeMap<String, Controls> {
    let mut all = BTreeMap::<String, Controls>::new();
    for change in changes.iter().filter(|change| change.verdict == Verdict::Control) {
        all.entry(change.experiment.clone()).or_default().ratios.push(change.ratio());
    }
    all
}

impl<'a> Comparison<'a> {
    pub fn of(old: &'a Labelled, new: &'a Labelled) -> Self {
        let pair = |row: &Row| {
            let name = row.name();
            Change::of(old.results.rows.iter().find(|other| other.name() == name)?, row)
        };
        let mut changes: Vec<_> = new.results.rows.iter().filter_map(pair).collect();
        let controls = controls(&changes);
        let in_turns = in_turns(old, new);
        for change in &mut changes {
            change.judge(controls.get(&change.experiment), in_turns);
        }
        changes.sort_by(|one, other| other.ratio().ln().abs().total_cmp(&one.ratio().ln().abs()));
        Comparison { old, new, changes, controls }
    }

    /// Returns by how much the machine itself differs: the median ratio of the controls.
    fn drift(&self) -> Option<f64> {
        let samples: Vec<f64> =
            self.controls.values().flat_map(|controls| &controls.ratios).copied().collect();
        (!samples.is_empty()).then(|| Point { at: 0.0, items: 1, samples }.median())
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.changes.iter().filter(|change| change.verdict == verdict).count()
    }

    /// Makes the tables of a pair of runs: what changed, what did not, and the controls.
    fn tables(&self) -> [Table; 3] {
        let (old, new) = (&self.old.label, &self.new.label);
        let caption =
            |what: &str| format!("From {old} to {new}: {what} (M/s, or bytes for each pair)");
        let table = |what| {
            Table::new(caption(what))
                .words(["row"])
                .group("", [old.as_str(), new.as_str(), "ratio", "noise"])
                .words(["verdict"])
        };
        let (mut beyond, mut within) =
            (table("beyond noise"), table("within noise, or no verdict"));
        for change in &self.changes {
            let table = if change.counts() { &mut beyond } else { &mut within };
            table.row(change.cells());
        }
        [beyond, within, self.table_of_controls()]
    }

    fn table_of_controls(&self) -> Table {
        let (old, new) = (&self.old.label, &self.new.label);
        let mut table = Table::new(format!("From {old} to {new}: the controls, by experiment"))
            .words(["experiment"])
            .group("", ["controls", "least ratio", "greatest ratio", "a change must exceed"])
            .words(["verdicts"]);
        for (experiment, controls) in &self.controls {
            let (min, max) = controls.extremes();
            table.row(vec![
                experiment.clone(),
                controls.ratios.len().to_string(),
                times(min),
                times(max),
                percent(controls.margin().max(LEAST)),
                if controls.disagree() { "withheld: they disagree" } else { "given" }.into(),
            ]);
        }
        table
    }

    /// Draws the greatest changes as bars of their ratios.
    fn bars(&self) -> Bars {
        let changed = self.changes.iter().filter(|change| change.counts());
        let group = |change: &Change| {
            let slot = Slot::Measured(usize::from(change.verdict == Verdict::Worse));
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
        let controls = self.count(Verdict::Control);
        let drift = match self.drift() {
            Some(drift) => {
                format!("the median of the {controls} controls changed by {}", times(drift))
            }
            None => "there are no controls".into(),
        };
        format!(
            "{old} → {new}: of {} rows in both, {} better, {} worse, {} within noise, {} without a \
             verdict, {} measured too few times; {drift}",
            self.changes.len() - controls,
            self.count(Verdict::Better),
            self.count(Verdict::Worse),
            self.count(Verdict::Same),
            self.count(Verdict::NoControls) + self.count(Verdict::ControlsDisagree),
            self.count(Verdict::Unknown),
        )
    }

    /// Returns why verdicts are withheld, if some are, and what to do.
    fn withheld(&self) -> Option<String> {
        let without = self.count(Verdict::NoControls);
        let disagree = self.count(Verdict::ControlsDisagree);
        (without + disagree > 0).then(|| {
            format!(
                "The verdict is withheld on {without} rows whose experiments have no controls and on \
                 {disagree} whose controls disagree: they differ by more than their repeats do, which \
                 may be the machine. `gpulsm bench --against` measures two builds in turns."
            )
        })
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
        if let Some(withheld) = self.withheld() {
            writeln!(out, "  {withheld}")?;
        }
        let changed: Vec<_> = self.changes.iter().filter(|change| change.counts()).collect();
        let wide =
            changed.iter().take(MOST_PRINTED).map(|change| change.name.len()).max().unwrap_or(0);
        for change in changed.iter().take(MOST_PRINTED) {
            let (ratio, noise) = (times(change.ratio()), change.noise());
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

/// Returns whether the runs were measured in turns, by `bench --against`.
fn in_turns(old: &Labelled, new: &Labelled) -> bool {
    let of = |run: &Labelled| run.results.run.in_turns_since;
    of(old).is_some() && of(old) == of(new)
}

/// Makes the section of all comparisons: of every later run with the first.
pub fn section(comparisons: &[Comparison]) -> Section {
    let mut section = Section::new(
        "comparison",
        "Comparison",
        &format!(
            "Every row that both runs have, by its mean over the points that both have, as a \
             ratio new/old, the greatest change first. Differences are of the ratio's logarithm. A change \
             counts if it is more than {}, than {SPREADS} times the spreads of both rows together (a \
             spread is the distance between the quartiles of repeats, as a share of the median), and \
             than the controls of the same experiment allow. Controls (sorted array, sort, hash table) are \
             no part of the dictionary: what they differ by is the machine's doing. One in 200 rows \
             of equal code would differ by more, if it varies as they do. Where they differ by more than \
             {} among each other, or there are none, no verdict is given, unless the runs were measured \
             in turns (`bench --against`). Where a row was measured only once or twice at a point, \
             the spread is that of the ratios at its points; of fewer than {LEAST_POINTS} points nothing \
             is said. Bytes are counted, not timed: they need no controls.",
            percent(LEAST),
            percent(UNSTEADY)
        ),
    );
    for comparison in comparisons {
        section.text(comparison.counts() + ".");
        section.parts.extend(comparison.caution().map(Part::Text));
        section.parts.extend(comparison.withheld().map(Part::Text));
        section.figures([Figure::Bars(comparison.bars())]);
        for table in comparison.tables() {
            section.table(table);
        }
    }
    section
}

#[cfg(test)]
mod tests;
