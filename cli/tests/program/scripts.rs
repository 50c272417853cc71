//! The shell in scripts: commands as arguments, files before them, errors that stop it.

use crate::{gpulsm, printed};

#[test]
fn errors_have_codes_and_lines() {
    let input = "len\n\nlokup 1\nrank x\nimport no.csv\n";
    let answers = printed(&["shell", "--json"], input);
    let found: Vec<_> = answers
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|error| (error["code"].as_str().expect("a code").to_string(), error["line"].as_u64()))
        .collect();
    let expected = [("unknown_command", 3), ("wrong_argument", 4), ("file", 5)];
    assert_eq!(found, expected.map(|(code, line)| (code.to_string(), Some(line))));
}

#[test]
fn commands_of_the_arguments_are_executed_and_nothing_is_read() {
    let arguments = ["shell", "-c", "insert 1 10 2 20", "-c", "len\nrank 2"];
    assert_eq!(printed(&arguments, "oops\n"), "ok\n2 keys\n1 less\n");
    let output = gpulsm(&["shell", "-c", "oops", "-c", "len"], b"");
    assert_eq!(output.status.code(), Some(1), "a command failed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("error in command 1: word 1, `oops`"), "{said}");
    assert!(said.ends_with("0 keys\n"), "{said}");
}

#[test]
fn a_strict_shell_stops_at_the_first_error() {
    let input = "insert 1 10\noops\nlen\n";
    for (arguments, lines, status) in [
        (&["shell"][..], 3, 0),
        (&["shell", "--strict"], 2, 1),
        (&["shell", "--strict", "-c", "len", "-c", "oops", "-c", "len"], 2, 1),
    ] {
        let output = gpulsm(arguments, input.as_bytes());
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.lines().count(), lines, "{said}");
    }
}

#[test]
fn files_are_imported_before_the_first_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (first, second, wrong) = (path("one.csv"), path("and two.csv"), path("wrong.csv"));
    for (path, text) in [(&first, "1,10\n2,20\n"), (&second, "2,21\n"), (&wrong, "1,x\n")] {
        std::fs::write(path, text).expect("a file can be written");
    }
    let arguments = ["shell", "--import", &first, "--import", &second, "-c", "range 0 9"];
    let output = gpulsm(&arguments, b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1  10\n2  21\n");
    let reported = String::from_utf8_lossy(&output.stderr);
    assert_eq!(reported, format!("{second}: 1 row read, 1 replaced others\n"));
    let output = gpulsm(&["shell", "--json", "--import", &wrong, "-c", "len"], b"");
    assert_eq!(output.status.code(), Some(1), "nothing is executed without the file");
    let error: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(error["code"], "file", "{error}");
}

#[test]
fn what_an_import_changes_is_reported_beside_the_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    // Whatever the name: it is no part of a command.
    for name in ["two  words.csv", "a -b.csv", "\"quoted.csv", "--odd.csv", "back\\ slash.csv"] {
        let file = path(name);
        std::fs::write(&file, "1,16777217\n2,2\n").expect("a file can be written");
        for json in [&[][..], &["--json"]] {
            let arguments = [&["shell", "--value", "f32", "--import", &file], json].concat();
            let output = gpulsm(&arguments, b"len\n");
            let reported = String::from_utf8_lossy(&output.stderr);
            assert_eq!(reported, format!("{file}: 2 rows read; 1 value lost precision as f32\n"));
            assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
        }
        // Nothing is said of a file whose pairs are all there.
        assert_eq!(printed(&["shell", "--import", &file, "-c", "len"], ""), "2 keys\n");
    }
}

#[test]
fn advice_about_files_can_be_typed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv").to_str().expect("UTF-8").to_string();
    for (text, advice) in [
        ("1,10\n2,\n", "use --missing skip"),
        ("a,2\n1,10\n", "use --header yes"),
        ("1;10\n", "(--separator)"),
        ("1,2,3\n", "(--key-column)"),
    ] {
        std::fs::write(&path, text).expect("a file can be written");
        let import = format!("import {path}");
        assert!(gpulsm_said(&["shell", "-c", &import]).contains(advice), "{text}");
        let said = gpulsm_said(&["shell", "--import", &path, "-c", "len"]);
        assert!(said.contains(advice) && said.contains("the command `import FILE"), "{said}");
    }
    std::fs::write(&path, "1\n2\n").expect("a file can be written");
    let said = gpulsm_said(&["shell", "--import", &path]);
    assert!(said.contains("keys alone (`gpulsm shell --value none`)"), "{said}");
    assert_eq!(
        printed(&["shell", "--value", "none", "--import", &path, "-c", "len"], ""),
        "2 keys\n"
    );
    let said = gpulsm_said(&["shell", "-c", &format!("export {path}")]);
    assert!(said.contains("to replace it, use --force"), "{said}");
}

/// What the program answers to something that fails.
fn gpulsm_said(arguments: &[&str]) -> String {
    let output = gpulsm(arguments, b"");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_script_may_begin_with_a_byte_order_mark() {
    assert_eq!(printed(&["shell"], "\u{feff}insert 1 10\nlen\n"), "ok\n1 key\n");
    assert!(printed(&["shell"], "len\n\u{feff}len\n").contains("no such command"));
}

#[test]
fn an_unknown_option_of_a_query_is_named() {
    let said = gpulsm_said(&["shell", "-c", "range 1 9 --lmit 3"]);
    assert!(said.contains("`--lmit`: no such option; there is --limit N|all"), "{said}");
}
