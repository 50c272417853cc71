//! The program as a whole: what goes in, what comes out, and with which status.

mod bench;
mod files;
mod folders;
mod hostile;
mod keys;
mod report;
// The made-up run and the folder it goes to are the program's own: not all of them is wanted here.
#[allow(dead_code)]
#[path = "../../src/results.rs"]
mod results;
#[path = "../../src/report/sample.rs"]
mod sample;
mod scripts;
mod shell;
mod snapshots;
#[cfg(unix)]
mod terminal;

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

/// Runs the program with these arguments and this input.
fn gpulsm(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = start(arguments);
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // It may stop reading early: that is no error.
        scope.spawn(move || stdin.write_all(input).ok());
        child.wait_with_output().expect("the program ends")
    })
}

/// Starts the program, with pipes to all of its ends.
fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_gpulsm"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// What the program prints, once it has ended well.
fn printed(arguments: &[&str], input: &str) -> String {
    let output = gpulsm(arguments, input.as_bytes());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} ended with {}: {errors}", output.status);
    assert!(errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What is said of a GPU that no machine has.
const NO_CUDA_99: &str =
    if cfg!(feature = "cuda") { "no CUDA device 99: " } else { "built without CUDA" };

#[test]
fn verify_says_how_many_passed() {
    let printed = printed(&["verify", "--ops", "250", "--seed", "9", "--key", "f32"], "");
    assert_eq!(printed.lines().last(), Some("250 passed, 0 failed"));
    let arguments = ["verify", "--ops", "250", "--value", "f64", "--combine", "min"];
    assert_eq!(crate::printed(&arguments, "").lines().last(), Some("250 passed, 0 failed"));
}

#[test]
fn every_pair_of_types_can_be_verified() {
    for key in ["u32", "u64", "u128", "i32", "i64", "i128", "f32", "f64", "u32,u32", "u32,i64"] {
        for value in ["none", "u32", "u64", "i32", "i64", "f32", "f64", "u128"] {
            let arguments = ["verify", "--ops", "20", "--key", key, "--value", value];
            assert!(printed(&arguments, "").ends_with("\n20 passed, 0 failed\n"), "{key} {value}");
        }
    }
}

#[test]
fn the_tour_checks_everything_and_shows_rates() {
    let printed = printed(&["tour", "--pairs", "20000", "--batch-size", "1000"], "");
    assert!(printed.contains("answers checked, all correct."), "{printed}");
    for word in ["build", "lookup", "count", "successor", "rank", "select", "cleanup", "level", "█"]
    {
        assert!(printed.contains(word), "{word} is not in {printed}");
    }
    assert!(printed.contains("is merged with 3 runs"), "{printed}");
}

#[test]
fn the_tour_ends_with_commands_that_exist() {
    let program = env!("CARGO_BIN_EXE_gpulsm");
    let end = |by_cargo: bool| {
        let mut command = Command::new(program);
        command.args(["tour", "--pairs", "10", "--batch-size", "10"]);
        match by_cargo {
            true => command.env("CARGO", "cargo").env("CARGO_MANIFEST_DIR", "."),
            false => command.env_remove("CARGO").env_remove("CARGO_MANIFEST_DIR"),
        };
        let output = command.output().expect("the program starts");
        String::from_utf8(output.stdout).expect("UTF-8").lines().last().map(String::from)
    };
    let next = |program: &str| {
        format!("Next: `{program} shell` to talk to a dictionary, `{program} --help` for the rest.")
    };
    assert_eq!(end(false), Some(next(program)));
    assert!(end(true).is_some_and(|end| end.starts_with("Next: `cargo run ")));
}

#[test]
fn the_tour_works_with_hardly_any_pairs() {
    for (pairs, batch_size) in [("1", "1"), ("3", "2"), ("10", "100000")] {
        let printed = printed(&["tour", "--pairs", pairs, "--batch-size", batch_size], "");
        assert!(printed.contains("all correct."), "{printed}");
    }
}

#[test]
fn the_tour_refuses_batches_that_fill_the_memory() {
    let output = gpulsm(&["tour", "--batch-size", "1099511627776", "--pairs", "10"], b"");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("at most 8659208"), "{errors}");
}

#[test]
fn wrong_arguments_are_refused_with_a_reason() {
    for (arguments, reason) in [
        (
            &["shell", "--key", "u16"][..],
            "no type of keys is named `u16`; types are u32, u64, u128",
        ),
        (&["shell", "--key", "u64,u64,u32"], "at most 16 bytes, and these parts have 20"),
        (&["shell", "--batch-size", "0"], "--batch-size"),
        (&["shell", "--device", "cuda:99"], NO_CUDA_99),
        (&["verify", "--ops", "0"], "--ops"),
        (&["verify", "--device", "gpu"], "names no device"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&[], "Usage"),
    ] {
        let output = gpulsm(arguments, b"");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(errors.contains(reason), "{arguments:?}: {errors}");
    }
}

#[test]
fn the_devices_are_listed_and_one_is_best() {
    let listed = printed(&["devices"], "");
    assert!(listed.starts_with("cpu "), "{listed}");
    assert_eq!(listed.matches("(best)").count(), 1, "{listed}");
    assert!(listed.lines().nth(1).is_some_and(|line| line.starts_with("cuda")), "{listed}");
}

#[test]
fn help_has_examples() {
    for arguments in [
        &["--help"][..],
        &["tour", "--help"],
        &["shell", "--help"],
        &["verify", "--help"],
        &["bench", "--help"],
        &["report", "--help"],
        &["info", "--help"],
        &["check", "--help"],
    ] {
        assert!(printed(arguments, "").contains("Examples:"), "{arguments:?}");
    }
}

#[test]
fn completions_and_manual_pages_are_made_from_the_arguments() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell], "");
        assert!(script.contains("batch-size") && script.contains("tour"), "{shell}: {script}");
        if shell != "powershell" && shell != "elvish" {
            assert!(script.contains("i128"), "the types of keys, for {shell}: {script}");
        }
    }
    let page = printed(&["man"], "");
    assert!(page.contains(".TH gpulsm") && page.contains("verify"), "{page}");

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pages");
    printed(&["man", "--out", path.to_str().expect("UTF-8")], "");
    let output = gpulsm(&["man", "--out", "/dev/null/x"], b"");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/null/x: "));
    let page = std::fs::read_to_string(path.join("gpulsm-shell.1")).expect("a page per command");
    assert!(page.contains("batch\\-size"), "{page}");
}
