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
    assert_eq!(printed(&arguments, ""), "1  10\n2  21\n");
    let output = gpulsm(&["shell", "--json", "--import", &wrong, "-c", "len"], b"");
    assert_eq!(output.status.code(), Some(1), "nothing is executed without the file");
    let error: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(error["code"], "file", "{error}");
}
