//! Input that nobody meant well: errors, never a panic.

use std::io::{Read, Write};

use crate::{gpulsm, start};

/// The shell's answers to any bytes: it must end well and say nothing on standard error.
fn answers(input: &[u8]) -> String {
    let output = gpulsm(&["shell", "--json"], input);
    assert!(output.status.success(), "{}", output.status);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8, whatever went in")
}

#[test]
fn bytes_that_are_no_text_are_an_error_for_their_line_alone() {
    let answers = answers(b"insert 1 10\n\xff\xfe\x00 1\nlen\nlookup 1\x00\n\x80\n");
    let lines: Vec<&str> = answers.lines().collect();
    assert_eq!(lines[0], r#"{"ok":true}"#);
    assert_eq!(
        lines[1],
        r#"{"error":"not UTF-8 text from byte 0 on","code":"unreadable_line","line":2}"#
    );
    assert_eq!(lines[2], r#"{"len":1}"#);
    assert!(lines[3].contains(r#"word 2, `1\\u{0}`: not an integer"#), "{}", lines[3]);
    assert!(lines[4].contains("not UTF-8"), "{}", lines[4]);
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_megabyte_of_anything_gets_short_errors() {
    let long_word = format!("lookup {}\nlen\n", "x".repeat(1 << 20));
    let said = answers(long_word.as_bytes());
    assert!(said.len() < 300 && said.ends_with("{\"len\":0}\n"), "{said}");
    let long_command = format!("{}\nlen\n", "y".repeat(1 << 20));
    assert!(answers(long_command.as_bytes()).len() < 300);

    let pairs: String = (0..100_000).map(|key| format!(" {key} {}", key * 2)).collect();
    let said = answers(format!("insert{pairs}\nlen\nlookup 99999\n").as_bytes());
    assert_eq!(said, "{\"ok\":true}\n{\"len\":100000}\n{\"values\":[199998]}\n");
}

#[test]
fn random_bytes_are_survived() {
    let mut state = 7u64;
    let mut byte = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    for _ in 0..20 {
        let bytes: Vec<u8> = (0..10_000).map(|_| byte()).collect();
        for line in answers(&bytes).lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        }
        // The same among words that mean something.
        let words = [
            "insert", "update", "range", "count", "sum", "1", "-5", "+3=4", "--1", "\n", "\r\n",
            "=", "+",
        ];
        let text: String =
            (0..2000).map(|_| format!("{} ", words[usize::from(byte()) % words.len()])).collect();
        for line in answers(text.as_bytes()).lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        }
    }
}

#[test]
fn the_last_line_needs_no_end() {
    assert_eq!(answers(b"insert 1 10\r\nlookup 1"), "{\"ok\":true}\n{\"values\":[10]}\n");
    assert_eq!(answers(b""), "");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = start(&["shell", "--json"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"insert 1 10\n").expect("it listens");
    let mut first = [0; 12];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"{\"ok\":true}\n");
    // Nobody reads from here on.
    for _ in 0..10_000 {
        if stdin.write_all(b"lookup 1\n").is_err() {
            break;
        }
    }
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    assert!(output.status.success(), "{}", output.status);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn no_command_panics_when_nobody_reads_what_it_prints() {
    for arguments in [
        &["tour", "--pairs", "1000", "--batch-size", "100"][..],
        &["verify", "--ops", "200"],
        &["man"],
        &["completions", "bash"],
    ] {
        let mut child = start(arguments);
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{arguments:?}: {errors}");
    }
}

#[test]
fn an_answer_comes_before_the_next_question() {
    let mut child = start(&["shell", "--json"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    for _ in 0..3 {
        stdin.write_all(b"len\n").expect("it listens");
        let mut answer = [0; 10];
        stdout.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"{\"len\":0}\n");
    }
    drop(stdin);
    assert!(child.wait().expect("the program ends").success());
}
