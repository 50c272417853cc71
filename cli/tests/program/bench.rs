//! `gpulsm bench`: what it measures, keeps, goes on with and judges.

use std::fs;
use std::path::Path;

use super::{gpulsm, printed};

/// The arguments of a tiny run into a folder, with more.
fn tiny<'a>(folder: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let folder = folder.to_str().expect("UTF-8");
    let mut arguments = vec!["bench", "--tiny", "--device", "cpu", "--out", folder];
    arguments.extend(more);
    arguments
}

#[test]
fn wide_keys_and_keys_of_two_parts_are_measured_and_checked() {
    for (arguments, key) in [
        (&["--key", "u128", "--value", "u64"][..], "u128"),
        (&["--key", "u32,u32", "--value", "u64"], "u32,u32"),
        (&["--key", "u64", "--key-bits", "32"], "u64:32"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let said = printed(&tiny(folder.path(), arguments), "");
        assert!(said.contains("answers compared, all correct."), "{key}: {said}");
        assert!(said.contains(&format!("{key} keys, ")), "{said}");
        let run = fs::read_to_string(folder.path().join("run.json")).expect("a description");
        assert!(run.contains(&format!("\"key\": \"{key}\"")), "{run}");
        let page = printed(&["report", folder.path().to_str().expect("UTF-8")], "");
        assert!(!page.contains("NaN"), "{page}");
    }
}

#[test]
fn types_that_are_not_measured_together_are_refused() {
    for (arguments, what) in [
        (
            &["bench", "--key", "u128"][..],
            "keys of u128 are measured with values of u64: add --value u64",
        ),
        (&["bench", "--key", "u32,u32"], "keys of u32,u32 are measured with values of u64"),
        (&["bench", "--key-bits", "32"], "--key-bits is for keys of u64: add --key u64"),
    ] {
        let output = gpulsm(arguments, b"");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(what), "{arguments:?}: {errors}");
    }
}

#[test]
fn every_experiment_is_measured_checked_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = printed(&tiny(folder.path(), &[]), "");
    assert!(said.contains("answers compared, all correct."), "{said}");
    let rows = fs::read_to_string(folder.path().join("rows.jsonl")).expect("rows");
    let experiments = [
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
        "order",
        "delete",
        "dead",
        "cleanup",
        "mixed",
        "skew",
        "memory",
        "files",
    ];
    for experiment in experiments {
        let named = format!("\"experiment\":\"{experiment}\"");
        assert!(rows.contains(&named), "{experiment} is missing");
    }
    for beside in [
        "sa",
        "counted",
        "half-deletes",
        "list",
        "inserts",
        "hash",
        "sort",
        "rebuild",
        "padded",
        "alive",
        "lookup-after",
        "memory",
        "plain",
    ] {
        assert!(rows.contains(&format!("\"series\":\"{beside}\"")), "{beside} is missing");
    }
    let table = fs::read_to_string(folder.path().join("samples.csv")).expect("a table");
    assert!(table.starts_with("experiment,series,params,"), "{table}");
    let run = fs::read_to_string(folder.path().join("run.json")).expect("a description");
    assert!(run.contains("\"scale\": \"tiny\"") && run.contains("\"seed\": 1"), "{run}");

    // A page can be made of it, with a drawing for almost everything.
    printed(&["report", folder.path().to_str().expect("UTF-8")], "");
    let page = fs::read_to_string(folder.path().join("report.html")).expect("a page");
    assert!(page.matches("<svg").count() >= experiments.len() - 4, "{page}");

    // Again: nothing is left to do, and nothing is lost.
    let again = printed(&tiny(folder.path(), &[]), "");
    assert!(again.contains("measurements exist already"), "{again}");
    assert!(again.contains("Nothing is left to measure") && !again.contains("compared"), "{again}");
    assert_eq!(fs::read_to_string(folder.path().join("rows.jsonl")).expect("rows"), rows);
}

#[test]
fn single_measurements_are_picked_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let only = ["insert", "stream", "--only", "insert.b7", "--only", "counted"];
    let said = printed(&tiny(folder.path(), &only), "");
    assert!(said.contains(" insert.b7.") && said.contains("counted.stream"), "{said}");
    assert!(!said.contains("insert.b8") && !said.contains("half-deletes"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let output = gpulsm(&tiny(folder.path(), &["insert", "--only", "nothing"]), b"");
    assert_eq!(output.status.code(), Some(1));
    let refused = String::from_utf8_lossy(&output.stderr);
    assert!(refused.contains("no measurement has nothing in its name; --list"), "{refused}");
}

#[test]
fn measurements_are_listed_and_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let said = printed(&tiny(&out, &["stream", "build", "--only", "counted", "--list"]), "");
    let about = "# stream: Streams of calls without waiting in between: ";
    assert!(said.starts_with(about) && said.ends_with("\ncounted.stream.b5.n13\n"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    let said = printed(&tiny(&out, &["dead", "--list"]), "");
    assert!(said.contains("\n#   op-long: ranges of 1,024 pairs\n"), "{said}");
    for label in said.lines().filter_map(|line| line.strip_prefix("#   ")) {
        let label = label.split([':', 'N']).next().unwrap_or_default();
        let named = |line: &str| !line.starts_with('#') && line.contains(label);
        assert!(said.lines().any(named), "{label} is in no name");
    }
    assert!(printed(&["bench", "--help"], "").contains("ranges of 1,024 pairs"));
    let said = printed(&tiny(&out, &["--list"]), "");
    assert!(said.lines().count() > 100 && said.contains("\nsa.range.L1024."), "{said}");
    assert!(!out.exists());
}

#[test]
fn keys_and_values_of_other_widths_are_measured_too() {
    for (key, value) in [("u64", "u64"), ("u32", "u64"), ("u64", "u32")] {
        let folder = tempfile::tempdir().expect("a folder");
        let more = ["build", "lookup", "range", "dead", "cleanup", "--key", key, "--value", value];
        assert!(printed(&tiny(folder.path(), &more), "").contains("all correct."), "{key} {value}");
    }
}

#[test]
fn a_run_that_broke_off_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    printed(&tiny(folder.path(), &["insert"]), "");
    let path = folder.path().join("rows.jsonl");
    let rows = fs::read_to_string(&path).expect("rows");
    let first = rows.lines().next().expect("a row");
    // One row, and half of the next.
    let cut = &rows[..first.len() + 1 + 40];
    fs::write(&path, cut).expect("written");
    printed(&tiny(folder.path(), &["insert"]), "");
    let whole = fs::read_to_string(&path).expect("rows");
    assert_eq!(whole.lines().count(), rows.lines().count());
    assert_eq!(whole.lines().next(), Some(first), "what was there stays");
}

#[test]
fn a_folder_of_another_run_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    printed(&tiny(folder.path(), &["memory"]), "");
    let before = fs::read(folder.path().join("rows.jsonl")).expect("rows");
    let output = gpulsm(&tiny(folder.path(), &["memory", "--seed", "2"]), b"");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("--restart"), "{errors}");
    assert_eq!(fs::read(folder.path().join("rows.jsonl")).expect("rows"), before);
    printed(&tiny(folder.path(), &["memory", "--seed", "2", "--restart"]), "");
}

#[test]
fn two_builds_are_measured_in_turns() {
    let folder = tempfile::tempdir().expect("a folder");
    let this = env!("CARGO_BIN_EXE_gpulsm");
    let more = ["lookup", "build", "--only", "b8", "--only", "build", "--against", this];
    let more = [&more[..], &["--rounds", "2"]].concat();
    let said = printed(&tiny(folder.path(), &more), "");
    assert!(
        said.starts_with("round 1 of 2: lookup\nround 1 of 2: build\nround 2 of 2: "),
        "{said}"
    );
    let rows = |side: &str| {
        let rows = fs::read_to_string(folder.path().join(side).join("rows.jsonl")).expect("rows");
        let row = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        rows.lines().map(row).collect::<Vec<_>>()
    };
    let (old, new) = (rows("old"), rows("new"));
    assert!(old.len() > 3 && old.len() == new.len());
    let build = old.iter().find(|row| row["experiment"] == "build").expect("a row");
    let samples = build["points"][0]["samples"].as_array().map(Vec::len);
    assert_eq!(samples, Some(4), "two rounds of two samples");
    let [old, new] = ["old", "new"].map(|side| folder.path().join(side).display().to_string());
    let compared = printed(&["report", &old, &new], "");
    assert!(compared.contains(" 0 without a verdict"), "{compared}");
}

#[test]
fn turns_are_taken_with_another_build_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let others = ["no/such/program", if cfg!(windows) { "cmd" } else { "/bin/true" }];
    for other in others {
        let output = gpulsm(&tiny(folder.path(), &["build", "--against", other]), b"");
        let refused = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && refused.contains("another build of this program"),
            "{refused}"
        );
        assert!(!String::from_utf8_lossy(&output.stdout).contains("round 1"));
    }
}

#[test]
fn a_gate_measures_anew_what_it_judges_and_leaves_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, out) = (folder.path().join("bars.txt"), folder.path().join("run"));
    printed(&tiny(&out, &["insert", "build"]), "");
    let rows = || fs::read_to_string(out.join("rows.jsonl")).expect("rows");
    let of = |rows: &str, experiment: &str| -> Vec<String> {
        let named = format!("\"experiment\":\"{experiment}\"");
        rows.lines().filter(|line| line.contains(&named)).map(String::from).collect()
    };
    let before = rows();
    fs::write(&gate, "build.max >= 1\n").expect("written");
    printed(&tiny(&out, &["--gate", gate.to_str().expect("UTF-8")]), "");
    let after = rows();
    assert_eq!(of(&after, "insert"), of(&before, "insert"));
    assert_eq!(of(&after, "build").len(), of(&before, "build").len());
    assert_ne!(of(&after, "build"), of(&before, "build"));
}

#[test]
fn a_gate_decides_the_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let gate = folder.path().join("bars.txt");
    let out = folder.path().join("run");
    let status = |bars: &str| {
        fs::write(&gate, bars).expect("written");
        let more = ["--gate", gate.to_str().expect("UTF-8")];
        let output = gpulsm(&tiny(&out, &more), b"");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, said) = status("memory.history-built-at-once <= 20 # bytes\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("holds") && !said.contains("\ninsert\n"), "only what it needs: {said}");
    let (code, said) = status("memory.history-built-at-once >= 1000\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("FAILS") && said.contains("1 of 1 bars fail"), "{said}");
    let (code, said) = status("memory.history-of-nothing <= 1\nmemory.b7 <= 1\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("there are memory.history-built-at-once"), "{said}");
    assert!(said.contains("memory.b7") && !said.contains("compared"), "before any work: {said}");
    let (code, said) = status("memroy.history-built-at-once <= 20\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("memroy.history-built-at-once belongs to no experiment"), "{said}");
    let (code, said) = status("memory is small\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("bars.txt: line 1"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_keeps_what_it_has() {
    use std::io::{BufRead, BufReader};

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let mut child = super::start(&["bench", "--full", "insert", "--device", "cpu", "--out", path]);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("M/s")));
    assert!(first.is_some(), "a row is printed");
    let mut kill = std::process::Command::new("kill");
    let sent = kill.args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(rest.iter().any(|line| line.contains("goes on from here")), "{rest:?}");
    let rows = fs::read_to_string(folder.path().join("rows.jsonl")).expect("rows");
    assert!(rows.lines().count() >= 1 && rows.ends_with("}\n"), "{rows}");
}
