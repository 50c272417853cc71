//! The report as a whole, of made-up runs.

use super::*;
use crate::results::Row;

fn labelled(label: &str, results: Results) -> Labelled {
    Labelled { label: label.into(), results }
}

fn both(runs: &[Labelled]) -> (String, String) {
    let comparisons: Vec<_> = runs[1..].iter().map(|new| Comparison::of(&runs[0], new)).collect();
    let document = document(runs, &comparisons);
    (html::page(&document), markdown::text(&document, "report.html"))
}

/// Nothing to fetch or run, nothing that is no number, and a title for every drawing.
fn check(page: &str) {
    for word in ["http", "<script", "NaN", "inf", "src=", "url("] {
        assert!(!page.contains(word), "{word} is in the page");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("<title id=").count());
    assert_eq!(page.matches("<svg").count(), page.matches("<desc id=").count());
    assert_eq!(page.matches("<table").count(), page.matches("<caption>").count());
    let ids: Vec<_> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "an id is there twice");
}

#[test]
fn a_full_run_has_every_section_and_the_papers_figures() {
    let runs = [labelled("full", sample::full(1.0, 0))];
    let (page, text) = both(&runs);
    check(&page);
    for (place, id) in [
        "insert",
        "insert-time",
        "stream",
        "flushed",
        "effective",
        "partial",
        "build",
        "lookup",
        "count",
        "range",
        "aggregate",
        "combine",
        "order",
        "files",
        "shards",
    ]
    .iter()
    .enumerate()
    {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{place}: {id}");
    }
    assert!(!page.contains("Not measured here"));
    for figure in
        ["727.8", "225.3", "16.7", "361.7", "498.9", "758.0", "1,870.2", "19.23", "132.5", "4.8 ×"]
    {
        assert!(page.contains(figure), "{figure} is not in the page");
        assert!(text.contains(figure), "{figure} is not in the tables");
    }
    let insert = runs[0].results.of("insert").next().expect("a row");
    let mean = numbers::rate(insert.mean());
    assert!(page.contains(&format!("<td>{mean}</td>")), "{mean}");
    assert!(text.contains(&format!("| 2^27 | 2^0 | {mean} | {mean} | {mean} |")), "{mean}");
    assert!(page.contains("Intel Xeon &lt;Platinum&gt; &amp; more"));
}

#[test]
fn a_smaller_run_stands_beside_the_same_number_of_batches() {
    let (page, text) = both(&[labelled("small", sample::full(0.01, 5))]);
    check(&page);
    let note = "b = 2^10 of n = 2^22 beside the paper's b = 2^15 of n = 2^27";
    assert!(text.contains(note), "{text}");
    assert!(text.contains("225.3"));
}

#[test]
fn the_papers_figures_beside_a_small_run_say_that_they_are_of_more() {
    let marked = |scale: &str| {
        let mut results = sample::full(0.01, 8);
        results.run.settings.scale = scale.into();
        let (page, text) = both(&[labelled("run", results)]);
        check(&page);
        let count = |mark: &str| text.matches(mark).count();
        assert_eq!(count("÷ paper,") > 0, count("A small run (`--") > 0, "{text}");
        (count("÷ paper, larger n"), count("÷ paper"))
    };
    let (quick, full) = (marked("quick"), marked("full"));
    assert!(quick.0 > 5 && quick.0 == quick.1, "{quick:?}");
    assert!(full.0 == 0 && full.1 == quick.1, "{full:?}");
}

#[test]
fn two_runs_are_compared() {
    let (old, mut new) = (sample::full(1.0, 5), sample::full(1.0, 5));
    let slower = |row: &&mut Row| row.experiment == "build" && row.series == "gpulsm";
    for point in &mut new.rows.iter_mut().find(slower).expect("a row").points {
        point.samples.iter_mut().for_each(|sample| *sample *= 2.0);
    }
    let runs = [labelled("old", old), labelled("new", new)];
    let (page, text) = both(&runs);
    check(&page);
    assert!(text.contains("0 better, 1 worse"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("| build |")
        && line.contains("| 0.50 × |")
        && line.ends_with("| slower |")));
    assert!(page.contains("new: gpulsm"));
}

#[test]
fn any_experiment_may_be_missing() {
    let all = sample::full(1.0, 8);
    let mut names: Vec<_> = all.rows.iter().map(|row| row.experiment.clone()).collect();
    names.dedup();
    for name in &names {
        let only = |row: &&Row| row.experiment == *name;
        let rows: Vec<_> = all.rows.iter().filter(only).cloned().collect();
        let one = Results { rows, run: all.run.clone() };
        // Without all others, and with a second run that has none of it.
        let (page, text) = both(&[labelled("one", one), labelled("none", Results::default())]);
        check(&page);
        assert!(text.contains("Not measured here: "), "{text}");
    }
    let (page, _) = both(&[labelled("empty", Results::default())]);
    check(&page);
}

#[test]
fn rows_with_one_point_or_odd_parameters_are_no_trouble() {
    let mut odd = sample::full(1.0, 8);
    for row in &mut odd.rows {
        row.points.truncate(1);
        row.points[0].samples.truncate(1);
        row.params.remove("b");
    }
    odd.rows[0].experiment = "something-new".into();
    let (page, text) = both(&[labelled("odd", odd)]);
    check(&page);
    assert!(text.contains("something-new"), "{text}");
}

#[test]
fn no_time_at_all_is_no_number() {
    let mut quick = sample::full(1.0, 8);
    for point in quick.rows.iter_mut().flat_map(|row| &mut row.points) {
        point.samples.fill(0.0);
    }
    let (page, _) = both(&[labelled("quick", quick), labelled("usual", sample::full(1.0, 8))]);
    check(&page);
}

#[test]
fn folders_with_the_same_name_are_told_apart() {
    let paths = ["a/run", "b/run", "c", "c"].map(PathBuf::from);
    assert_eq!(labels(&paths), ["a/run", "b/run", "c", "c (2)"]);
}
