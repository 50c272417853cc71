//! Runs of equal speed and noise, and runs that differ.

use super::*;
use crate::report::sample;
use crate::results::{Results, Run, Unit};

fn row(series: &str, experiment: &str, unit: Unit, samples: &[f64]) -> Row {
    let points = vec![Point { at: 0.0, items: 1_000_000, samples: samples.to_vec() }];
    let (series, experiment) = (series.into(), experiment.into());
    Row { experiment, series, params: Default::default(), over: None, unit, points }
}

fn ours(experiment: &str, samples: &[f64]) -> Row {
    row("gpulsm", experiment, Unit::Seconds, samples)
}

/// Three controls of an experiment that all take this long.
fn controls(experiment: &str, seconds: [f64; 3]) -> [Row; 3] {
    let control = |series, seconds| row(series, experiment, Unit::Seconds, &[seconds; 3]);
    [control("sa", seconds[0]), control("hash", seconds[1]), control("sort", seconds[2])]
}

fn run(label: &str, rows: Vec<Row>) -> Labelled {
    Labelled { label: label.into(), results: Results { rows, ..Results::default() } }
}

/// The rows of the dictionary, with their verdicts.
fn words(old: &Labelled, new: &Labelled) -> Vec<(String, &'static str)> {
    let changes = Comparison::of(old, new).changes.into_iter();
    let ours = changes.filter(|change| change.verdict != Verdict::Control);
    ours.map(|change| (change.name.clone(), change.word())).collect()
}

#[test]
fn only_what_is_beyond_noise_is_flagged() {
    let make = |label, [steady, slow, noisy]: [&[f64]; 3], once, bytes| {
        let mut rows = controls("e", [1.0; 3]).to_vec();
        let named = |name: &str, samples| {
            let params = [("of".to_string(), name.to_string())].into();
            Row { params, ..ours("e", samples) }
        };
        rows.extend([named("steady", steady), named("slow", slow), named("noisy", noisy)]);
        rows.extend([named("once", &[once]), row("gpulsm", "bytes", Unit::Bytes, &[bytes])]);
        run(label, rows)
    };
    let old = make("old", [&[1.0, 1.01, 0.99], &[1.0, 1.01, 0.99], &[1.0, 1.3, 0.7]], 1.0, 8e6);
    let new = make("new", [&[1.02, 1.01, 1.03], &[2.0, 2.01, 1.99], &[1.4, 1.0, 1.8]], 5.0, 12e6);
    let expected = [
        ("e.of-once", "measured too few times"),
        ("e.of-slow", "slower"),
        ("bytes", "larger"),
        ("e.of-noisy", "within noise"),
        ("e.of-steady", "within noise"),
    ];
    assert_eq!(words(&old, &new), expected.map(|(name, word)| (name.to_string(), word)));
    let printed = Comparison::of(&old, &new).to_string();
    let counts = "old → new: of 5 rows in both, 0 better, 2 worse, 2 within noise, 0 without a verdict, \
                  1 measured too few times; the median of the 3 controls changed by 1.00 ×\n";
    assert!(printed.starts_with(counts), "{printed}");
    assert!(printed.contains("0.50 ×  slower") && !printed.contains("steady"), "{printed}");
}

#[test]
fn a_row_is_judged_by_the_controls_of_its_experiment() {
    let old = run("old", [controls("e", [1.0; 3]).to_vec(), vec![ours("e", &[1.0; 3])]].concat());
    let word = |others: Vec<Row>, seconds: f64| {
        let new = run("new", [others, vec![ours("e", &[seconds; 3])]].concat());
        words(&old, &new)[0].1
    };
    assert_eq!(word(controls("e", [1.0; 3]).to_vec(), 1.5), "slower");
    assert_eq!(word(controls("e", [1.0, 1.01, 0.99]).to_vec(), 0.7), "faster");
    assert_eq!(word(controls("e", [1.6; 3]).to_vec(), 1.5), "within noise", "so did the machine");
    let unsteady = controls("e", [1.0, 1.3, 1.0]).to_vec();
    assert_eq!(word(unsteady.clone(), 1.5), "within noise");
    assert_eq!(word(unsteady, 9.0), "withheld: the controls disagree");
    assert_eq!(word(Vec::new(), 1.5), "withheld: no controls");
    assert_eq!(word(controls("another", [1.0; 3]).to_vec(), 1.5), "withheld: no controls");
    assert_eq!(word(Vec::new(), 1.01), "within noise");
}

#[test]
fn runs_measured_in_turns_need_no_controls() {
    let make = |label, since, seconds: f64| {
        let mut run = run(label, vec![ours("e", &[seconds; 3])]);
        run.results.run = Run { in_turns_since: since, ..Run::default() };
        run
    };
    let word = |since| words(&make("old", Some(7), 1.0), &make("new", since, 1.5))[0].1;
    assert_eq!(word(Some(7)), "slower");
    assert_eq!(word(Some(8)), "withheld: no controls", "each in turns with something else");
    assert_eq!(word(None), "withheld: no controls");
}

/// Random numbers with a standard deviation of 1, nearly normal.
fn normal(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 40) as f64 / (1u64 << 24) as f64
    };
    (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}

/// A run in which every row is slower or faster by chance, by this much: what repeats do not show.
fn noisy(label: &str, seed: u64, deviation: f64) -> Labelled {
    let mut results = sample::full(1.0, 5);
    let mut state = seed;
    for row in results.rows.iter_mut().filter(|row| row.unit == Unit::Seconds) {
        let factor = (normal(&mut state) * deviation).exp();
        for sample in row.points.iter_mut().flat_map(|point| &mut point.samples) {
            *sample *= factor;
        }
    }
    Labelled { label: label.into(), results }
}

#[test]
fn of_runs_of_equal_speed_hardly_any_row_is_called_changed() {
    for deviation in [0.01, 0.05, 0.3] {
        let (mut called, mut rows) = (0, 0);
        for seed in 0..5 {
            let (old, new) =
                (noisy("old", 2 * seed, deviation), noisy("new", 2 * seed + 1, deviation));
            let comparison = Comparison::of(&old, &new);
            called += comparison.changes.iter().filter(|change| change.counts()).count();
            rows += comparison.changes.len();
        }
        assert!(called * 100 < rows, "{called} of {rows}, each off by {deviation}");
    }
}

#[test]
fn a_real_change_is_found_among_noise() {
    for (factor, expected) in [(1.0 / 0.7, Verdict::Worse), (1.0 / 1.3, Verdict::Better)] {
        let (old, mut new) = (noisy("old", 1, 0.02), noisy("new", 2, 0.02));
        let judged = ["insert", "lookup", "count", "range"];
        let is_changed =
            |row: &&mut Row| row.series == "gpulsm" && judged.contains(&&*row.experiment);
        for row in new.results.rows.iter_mut().filter(is_changed) {
            for sample in row.points.iter_mut().flat_map(|point| &mut point.samples) {
                *sample *= factor;
            }
        }
        let comparison = Comparison::of(&old, &new);
        let is_ours = |change: &&Change| {
            judged.contains(&&*change.experiment) && change.verdict != Verdict::Control
        };
        let all: Vec<_> = comparison.changes.iter().filter(is_ours).collect();
        let found = all.iter().filter(|change| change.verdict == expected).count();
        let timed_often = all.iter().filter(|change| change.verdict != Verdict::Unknown).count();
        assert!(timed_often > 30 && found * 100 >= timed_often * 95, "{found} of {timed_often}");
    }
}
