//! Snapshots of the shell.

use crate::printed;
use crate::shell::check;

#[test]
fn snapshots_are_saved_used_left_and_dropped() {
    let read_only = r#"{"error":"the snapshot `a` is in use, and a snapshot never changes: `snapshot leave` goes back to the dictionary","code":"read_only","line":9}"#;
    check(
        &[],
        &[
            ("snapshot", r#"{"snapshots":[]}"#),
            ("insert 1 10", r#"{"ok":true}"#),
            ("snapshot save a", r#"{"ok":true}"#),
            ("insert 2 20", r#"{"ok":true}"#),
            ("snapshot save b", r#"{"ok":true}"#),
            ("clear", r#"{"ok":true}"#),
            ("snapshot use a", r#"{"ok":true}"#),
            ("range 0 9", r#"{"pairs":[[1,10]]}"#),
            ("insert 3 30", read_only),
            ("snapshot use b", r#"{"ok":true}"#),
            ("len", r#"{"len":2}"#),
            (
                "snapshot",
                r#"{"snapshots":[{"name":"a","len":1,"in_use":false},{"name":"b","len":2,"in_use":true}]}"#,
            ),
            ("snapshot drop a", r#"{"ok":true}"#),
            ("snapshot leave", r#"{"ok":true}"#),
            ("len", r#"{"len":0}"#),
            ("insert 4 40", r#"{"ok":true}"#),
            ("snapshot use b", r#"{"ok":true}"#),
            ("contains 1 2 4", r#"{"contains":[true,true,false]}"#),
        ],
    );
}

#[test]
fn what_is_wrong_with_a_snapshot_is_said() {
    for (line, code, what) in [
        ("snapshot use b", "snapshot", "word 3, `b`: no such snapshot; there are `a`"),
        ("snapshot drop b", "snapshot", "no such snapshot"),
        ("snapshot save a", "snapshot", "choose another, or `snapshot drop a` first"),
        ("snapshot leave", "snapshot", "no snapshot is in use"),
        ("snapshot save", "wrong_argument", "the name is missing: snapshot save NAME"),
        ("snapshot take b", "wrong_argument", "expected save NAME, use NAME, leave or drop NAME"),
        ("snapshot leave a", "wrong_argument", "word 3, `a`: one argument too many"),
    ] {
        let answers = printed(&["shell", "--json"], &format!("snapshot save a\n{line}\n"));
        let error = answers.lines().nth(1).expect("an answer");
        let error: serde_json::Value = serde_json::from_str(error).expect("JSON");
        assert_eq!(error["code"], code, "{line}");
        assert!(error["error"].as_str().is_some_and(|said| said.contains(what)), "{error}");
    }
    let input = "snapshot save a\nsnapshot use a\n";
    for (line, what) in [
        ("snapshot drop a", "this snapshot is in use: `snapshot leave` first"),
        ("snapshot save b", "`snapshot leave` goes back"),
        ("cleanup", "`snapshot leave` goes back"),
        ("import pairs.csv", "`snapshot leave` goes back"),
    ] {
        let said = printed(&["shell"], &format!("{input}{line}\n"));
        assert!(said.contains(what), "{line}: {said}");
    }
}
