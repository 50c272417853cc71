//! Dictionaries in folders and saved files: what the program writes, reads and says of them.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::shell::check;
use crate::{gpulsm, printed, start};

const OK: &str = r#"{"ok":true}"#;

/// What the program says on standard error, and its exit status.
#[track_caller]
fn refused(arguments: &[&str], input: &str) -> (String, Option<i32>) {
    let output = gpulsm(arguments, input.as_bytes());
    assert!(!output.status.success(), "{arguments:?} succeeded");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (String::from_utf8(output.stderr).expect("UTF-8"), output.status.code())
}

/// What `info --json` says.
fn info(path: &str) -> Value {
    serde_json::from_str(&printed(&["info", "--json", path], "")).expect("JSON")
}

/// A folder for a test, and the path of something in it.
fn scratch(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name).to_str().expect("UTF-8").into();
    (folder, path)
}

#[test]
fn what_was_answered_is_there_the_next_time() {
    for durability in ["batch", "os", "checkpoint"] {
        let (_folder, path) = scratch("prices");
        let open = ["--open", &path, "--durability", durability];
        let types = ["--key", "u32,i64", "--value", "f64"];
        check(
            &[&open[..], &types].concat(),
            &[
                ("insert 7:-5 0.5 7:3 1.5 8:0 2.5", OK),
                ("update +9:1=4.5 -8:0", OK),
                ("delete_range 9 9", OK),
                ("sync", OK),
            ],
        );
        // The folder knows the types; they may be given again.
        for again in [&[][..], &types] {
            let arguments = [&open[..], again].concat();
            check(&arguments, &[("range 0 9", r#"{"pairs":[[[7,-5],0.5],[[7,3],1.5]]}"#)]);
        }
        check(&open, &[("checkpoint", OK), ("insert 1:1 1", OK), ("len", r#"{"len":3}"#)]);
        check(&open, &[("clear", OK), ("quit", OK)]);
        check(&open, &[("len", r#"{"len":0}"#), ("set 1:1 7", OK)]);
        check(&open, &[("lookup 1:1", r#"{"values":[7.0]}"#)]);
    }
}

#[test]
fn rules_sets_and_batch_sizes_are_remembered() {
    let (_folder, path) = scratch("counters");
    let open = ["--open", &*path];
    let settings = ["--combine", "add", "--batch-size", "100"];
    check(&[&open[..], &settings].concat(), &[("insert 1 1", OK), ("insert 1 2", OK)]);
    check(&open, &[("insert 1 4", OK), ("set 2 9", OK), ("insert 2 1", OK)]);
    check(&open, &[("lookup 1 2", r#"{"values":[7,10]}"#)]);
    let stats: Value =
        serde_json::from_str(&printed(&["shell", "--json", "--open", &path, "-c", "stats"], ""))
            .expect("JSON");
    assert_eq!((&stats["combine"], &stats["batch_size"]), (&json!("add"), &json!(100)));
    assert_eq!(stats["folder"], json!(path));

    let (_folder, path) = scratch("set");
    let open = ["--open", &*path];
    check(&[&open[..], &["--key", "bytes5", "--value", "none"]].concat(), &[("insert a b", OK)]);
    check(&open, &[("insert c", OK), ("contains a c d", r#"{"contains":[true,true,false]}"#)]);
}

#[test]
fn imports_are_logged_and_small_logs_are_enough() {
    let (folder, path) = scratch("pairs");
    let rows: String = (0..5000).map(|key| format!("{key},{}\n", key * 2)).collect();
    let table = folder.path().join("pairs.csv");
    fs::write(&table, rows).expect("a file");
    let open = ["shell", "--open", &path, "--log-limit", "1KB", "--import"];
    let table = table.to_str().expect("UTF-8");
    let arguments = [&open[..], &[table, "-c", "insert 9999 1"]].concat();
    assert_eq!(printed(&arguments, ""), "ok\n");
    check(&["--open", &path], &[("len", r#"{"len":5001}"#), ("lookup 7", r#"{"values":[14]}"#)]);
}

#[test]
fn options_that_contradict_the_folder_are_refused() {
    let (_folder, path) = scratch("prices");
    printed(&["shell", "--open", &path, "--key", "i64", "--value", "f32"], "insert -1 0.5");
    for (option, value, stored) in
        [("--key", "u64", "i64"), ("--value", "u32", "f32"), ("--combine", "add", "replace")]
    {
        let (said, status) = refused(&["shell", "--open", &path, option, value], "len");
        let expected = format!("was created with {option} {stored}; leave the option out");
        assert!(said.contains(&expected) && said.contains(&path), "{said}");
        assert_eq!(status, Some(1));
    }
    check(&["--open", &path, "--key", "i64"], &[("lookup -1", r#"{"values":[0.5]}"#)]);
}

#[test]
fn wrong_arguments_of_files_are_refused() {
    for arguments in [
        &["shell", "--open", "a", "--load", "b"][..],
        &["shell", "--durability", "os"],
        &["shell", "--log-limit", "100"],
        &["shell", "--open", "a", "--log-limit", "0"],
        &["check"],
        &["info"],
    ] {
        assert_eq!(refused(arguments, "").1, Some(2), "{arguments:?}");
    }
    let (said, status) = refused(&["shell", "--open", "a", "--log-limit", "1.5G"], "");
    assert!(said.contains("--log-limit") && said.contains("64M, 2G, 1T (or KiB, MiB"), "{said}");
    assert_eq!(status, Some(2));
    assert!(!Path::new("a").exists());
}

/// Starts a shell that has a folder open, and has inserted a pair. It ends when its input does.
fn shell_with_one_pair(path: &str) -> (Child, ChildStdin, Lines<BufReader<ChildStdout>>) {
    let mut child = start(&["shell", "--open", path]);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"insert 1 10\n").expect("it listens");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(answers.next().expect("an answer").expect("UTF-8"), "ok");
    (child, stdin, answers)
}

#[test]
fn a_folder_in_use_is_refused() {
    let (_folder, path) = scratch("prices");
    let (mut child, stdin, _answers) = shell_with_one_pair(&path);
    for (arguments, expected) in
        [(&["shell", "--open", &*path][..], 1), (&["check", &path], 2), (&["info", &path], 1)]
    {
        let (said, status) = refused(arguments, "len");
        assert!(said.contains("is in use: close the dictionary"), "{said}");
        assert_eq!(status, Some(expected), "{arguments:?}");
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    check(&["--open", &path], &[("len", r#"{"len":1}"#)]);
}

/// A program that reads the answer to `quit` knows whether its changes are there.
#[test]
fn quit_is_answered_after_closing() {
    for arguments in [&["--json"][..], &[], &["--json", "--strict"]] {
        let (_folder, path) = scratch("prices");
        let open = ["shell", "--open", &path, "--durability", "checkpoint"];
        let mut child = start(&[&open[..], arguments].concat());
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(b"insert 1 10\n").expect("it listens");
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut answer = || answers.next().map(|line| line.expect("UTF-8"));
        assert!(answer().is_some_and(|line| line.contains("ok")));
        let runs = Path::new(&path).join("runs");
        fs::remove_dir(&runs).expect("a folder without runs");
        stdin.write_all(b"quit\nlen\n").expect("it listens");
        let failure = answer().expect("an answer");
        assert!(failure.contains("error") && failure.contains("runs"), "{failure}");
        assert_eq!(answer(), None, "nothing is done after it");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("runs"), "{said}");
    }
}

/// Returns how many bytes a process has read so far.
#[cfg(target_os = "linux")]
fn bytes_read(child: &Child) -> u64 {
    let figures = fs::read_to_string(format!("/proc/{}/io", child.id())).expect("figures");
    let read = figures.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a figure");
    read.parse().expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn a_shell_reads_no_more_of_the_logs_than_opening_takes() {
    let (_folder, path) = scratch("prices");
    let (mut child, stdin, _answers) = shell_with_one_pair(&path);
    let empty = bytes_read(&child);
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    let pairs: String = (0..200_000).map(|key| format!(" {key} {key}")).collect();
    let script = format!("insert{pairs}\n").repeat(3);
    printed(&["shell", "--open", &path], &script);
    let logged = info(&path)["log"]["bytes"].as_u64().expect("a number");
    assert!(logged > 4_000_000, "{logged}");
    // Opening itself reads it three times.
    let (mut child, stdin, _answers) = shell_with_one_pair(&path);
    let read = bytes_read(&child) - empty;
    assert!(read < logged * 7 / 2, "{read} of {logged}");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[cfg(unix)]
#[test]
fn an_error_of_closing_is_reported() {
    let (_folder, path) = scratch("prices");
    let (child, stdin, _answers) = shell_with_one_pair(&path);
    fs::remove_dir_all(&path).expect("a folder of ours");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("gpulsm: ") && said.contains("its manifest is gone"), "{said}");
    assert!(said.contains(&path), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn acknowledged_commands_survive_kills() {
    let (_folder, path) = scratch("counters");
    let mut acknowledged = 0;
    for round in 0..5 {
        let mut child = start(&["shell", "--open", &path, "--log-limit", "2000"]);
        let mut stdin = child.stdin.take().expect("a pipe");
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let script: String = (acknowledged..acknowledged + 1000)
            .map(|key| format!("insert {key} {key}\n"))
            .collect();
        let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()).ok());
        for _ in 0..20 + 7 * round {
            assert_eq!(answers.next().expect("an answer").expect("UTF-8"), "ok");
            acknowledged += 1;
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        // What it answered before it was killed counts too.
        acknowledged += answers.map_while(Result::ok).filter(|answer| answer == "ok").count();
        writer.join().expect("no panic");
        assert!(printed(&["check", &path], "").starts_with("sound: "));
        let answers = printed(&["shell", "--json", "--open", &path], "len\nlast\n");
        let answers: Vec<Value> =
            answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let len = answers[0]["len"].as_u64().expect("a number") as usize;
        assert!(len >= acknowledged, "{len} of {acknowledged}");
        assert_eq!(answers[1]["key"], json!(len - 1), "a prefix of what was sent");
        acknowledged = len;
    }
}

#[test]
fn damage_is_found_and_named() {
    let (_folder, path) = scratch("prices");
    let pairs: String = (0..2000).map(|key| format!(" {key} {key}")).collect();
    let script = format!("insert{pairs}\ncheckpoint\ninsert 1 2\ninsert 2 3\n");
    printed(&["shell", "--open", &path], &script);
    let sound = printed(&["check", &path], "");
    assert!(sound.starts_with("sound: 2,000 pairs in runs, and 2 updates in the log; "), "{sound}");
    let run = fs::read_dir(Path::new(&path).join("runs")).expect("a folder");
    let run = run.map(|entry| entry.expect("an entry").path()).next().expect("a run");
    let log = fs::read_dir(Path::new(&path).join("log")).expect("a folder");
    let log = log.map(|entry| entry.expect("an entry").path()).next().expect("a log");
    for (file, at) in [(&run, 5000), (&log, 70), (&Path::new(&path).join("MANIFEST"), 40)] {
        let intact = fs::read(file).expect("a file");
        let mut damaged = intact.clone();
        damaged[at] ^= 1;
        fs::write(file, damaged).expect("a file");
        let (said, status) = refused(&["check", &path], "");
        let name = file.display().to_string();
        assert!(said.contains(&name) && said.contains("is damaged at byte "), "{said}");
        assert!(said.contains("restore it from a copy"), "{said}");
        assert_eq!(status, Some(1));
        assert!(refused(&["shell", "--open", &path], "len").0.contains("is damaged"));
        fs::write(file, intact).expect("a file");
    }
    assert_eq!(printed(&["check", &path], "").split("; ").next(), sound.split("; ").next());
}

#[test]
fn programs_get_the_outcome_of_a_check_in_json() {
    let (folder, path) = scratch("prices");
    let checked = |path: &str, status: i32| {
        let output = gpulsm(&["check", "--json", path], b"");
        assert_eq!(output.status.code(), Some(status), "{path}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let missing = checked(&path, 2);
    assert_eq!((&missing["sound"], &missing["code"]), (&Value::Null, &json!("io")));
    assert_eq!(missing["file"], json!(path));

    printed(&["shell", "--open", &path], "insert 1 2 3 4\ncheckpoint\ninsert 5 6");
    let mut sound = checked(&path, 0);
    let fields = sound.as_object_mut().expect("an object");
    assert_eq!(fields.shift_remove("sound"), Some(json!(true)));
    let seconds = fields.shift_remove("seconds").and_then(|seconds| seconds.as_f64());
    assert!(seconds.is_some_and(|seconds| seconds >= 0.0));
    assert_eq!(sound, info(&path), "what `info` says");

    let manifest = Path::new(&path).join("MANIFEST");
    let mut bytes = fs::read(&manifest).expect("a file");
    bytes[40] ^= 1;
    fs::write(&manifest, bytes).expect("a file");
    let damaged = checked(&path, 1);
    assert_eq!((&damaged["sound"], &damaged["code"]), (&json!(false), &json!("damaged")));
    assert_eq!(damaged["file"], json!(manifest.to_str().expect("UTF-8")));
    assert!(damaged["offset"].is_u64(), "{damaged}");
    assert!(damaged["error"].as_str().is_some_and(|text| text.contains("is damaged at byte ")));

    let notes = folder.path().join("notes.txt");
    fs::write(&notes, "no dictionary").expect("a file");
    let notes = notes.to_str().expect("UTF-8");
    let other = checked(notes, 1);
    assert_eq!((&other["sound"], &other["code"]), (&Value::Null, &json!("not_a_dictionary")));
    let output = gpulsm(&["info", "--json", notes], b"");
    assert_eq!(output.status.code(), Some(1));
    let refused: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&refused["path"], &refused["error"]), (&json!(notes), &other["error"]));
}

#[test]
fn what_is_no_dictionary_is_refused() {
    let (folder, path) = scratch("prices");
    for command in ["check", "info"] {
        let (said, status) = refused(&[command, &path], "");
        assert!(said.contains("No such file"), "{said}");
        assert_eq!(status, Some(if command == "check" { 2 } else { 1 }));
    }
    assert!(refused(&["shell", "--load", &path], "").0.contains("No such file"));
    let (said, status) = refused(&["shell", "--open", &format!("{path}/x/y")], "");
    let missing =
        format!("there is no folder `{path}/x` for `y`: create it first (mkdir -p {path}/x)");
    assert!(said.contains(&missing), "{said}");
    assert_eq!(status, Some(1));
    assert!(!Path::new(&path).exists());

    let text = folder.path().join("notes.txt");
    fs::write(&text, "some notes that nobody may lose").expect("a file");
    let text = text.to_str().expect("UTF-8");
    for (arguments, what) in [
        (&["check", text][..], "is no saved dictionary: it begins with other bytes"),
        (&["info", text], "is no saved dictionary"),
        (&["shell", "--load", text], "is no saved dictionary"),
        (&["shell", "--open", text], "is a file: name a folder"),
        (&["shell", "--open", folder.path().to_str().expect("UTF-8")], "there are other files"),
    ] {
        let (said, status) = refused(arguments, "len");
        assert!(said.contains(what), "{arguments:?}: {said}");
        assert_eq!(status, Some(1));
    }
    assert_eq!(fs::read_to_string(text).expect("a file"), "some notes that nobody may lose");
    for (command, expected) in [("check", 2), ("info", 1)] {
        let (said, status) = refused(&[command, folder.path().to_str().expect("UTF-8")], "");
        assert!(said.contains("name a folder that `gpulsm shell --open` created"), "{said}");
        assert_eq!(status, Some(expected));
    }

    printed(&["shell", "--open", &path], "insert 1 1\ncheckpoint");
    let run = fs::read_dir(Path::new(&path).join("runs")).expect("a folder").next();
    let run = run.expect("a run").expect("an entry").path();
    let (said, _) = refused(&["check", run.to_str().expect("UTF-8")], "");
    assert!(said.contains("is a part of a dictionary: name the folder"), "{said}");
    // A folder is loaded as well, into memory.
    assert!(printed(&["shell", "--load", &path], "insert 2 2\nlen").contains('2'));
    assert!(printed(&["shell", "--open", &path], "len").contains('1'));
}

#[cfg(unix)]
#[test]
fn folders_without_permission_are_refused() {
    use std::os::unix::fs::PermissionsExt;

    let (folder, path) = scratch("closed/prices");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("a folder of ours");
    // Root may do everything.
    if fs::read_dir(&closed).is_err() {
        for (command, status) in [(&["shell", "--open"][..], 1), (&["check"], 2), (&["info"], 1)] {
            let (said, found) = refused(&[command, &[&*path]].concat(), "len");
            assert!(said.contains("Permission denied") && said.contains(&path), "{said}");
            assert_eq!(found, Some(status), "{command:?}");
        }
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("a folder of ours");
}

#[test]
fn dictionaries_are_saved_and_loaded() {
    let (_folder, path) = scratch("prices.gpulsm");
    let types = ["--key", "f32", "--value", "i64"];
    let save = format!("save \"{path}\"");
    let exists = format!(
        r#"{{"error":"`{path}` exists: use --force to replace it","code":"file","line":4}}"#
    );
    let full = r#"{"error":"this dictionary has 3 pairs, which would be replaced: use --force, or `clear` first","code":"file","line":7}"#;
    check(
        &types,
        &[
            ("insert 0.5 -1 1.5 2", OK),
            (&save, r#"{"ok":true,"pairs":2,"bytes":16400}"#),
            ("insert 2.5 3", OK),
            (&save, &exists),
            ("snapshot save before", OK),
            (&format!("{save} --force"), r#"{"ok":true,"pairs":3,"bytes":16400}"#),
            (&format!("load {path}"), full),
            ("clear", OK),
            (&format!("load {path}"), r#"{"ok":true,"pairs":3}"#),
            ("set 9 9", OK),
            (&format!("load {path} --force"), r#"{"ok":true,"pairs":3}"#),
            ("last", r#"{"key":2.5,"value":3}"#),
            ("snapshot use before", OK),
            ("len", r#"{"len":3}"#),
        ],
    );
    check(&["--load", &path], &[("lookup 0.5", r#"{"values":[-1]}"#), ("delete 0.5", OK)]);
    check(&["--load", &path], &[("len", r#"{"len":3}"#)]);
    let said = printed(&["check", &path], "");
    assert!(said.starts_with("sound: 3 pairs; 16.02 KiB read in "), "{said}");
}

#[test]
fn a_folder_becomes_what_a_saved_file_has() {
    let (folder, path) = scratch("counters");
    let saved = folder.path().join("saved");
    let saved = saved.display();
    let open = ["--open", &*path, "--combine", "add"];
    check(&open, &[("insert 1 1 2 2", OK), (&format!("save {saved}"), SAVED)]);
    check(&open, &[("insert 2 5 3 3", OK), (&format!("load {saved} --force"), LOADED)]);
    check(&open, &[("range 0 9", r#"{"pairs":[[1,1],[2,2]]}"#), ("insert 1 1", OK)]);
    check(&open, &[("lookup 1 2 3", r#"{"values":[2,2,null]}"#)]);
}

const SAVED: &str = r#"{"ok":true,"pairs":2,"bytes":16400}"#;
const LOADED: &str = r#"{"ok":true,"pairs":2}"#;

#[test]
fn files_of_the_wrong_kind_are_explained() {
    let (folder, path) = scratch("prices.gpulsm");
    let table = folder.path().join("pairs.csv").display().to_string();
    fs::write(&table, "1,2\n3,4\n").expect("a file");
    printed(&["shell", "--key", "u32,i64", "--combine", "max"], &format!("save {path}"));
    let folder = folder.path().display().to_string();
    for (line, what) in [
        (format!("load {table}"), "tables (.csv, .parquet and others) are read by `import`".into()),
        (format!("import {path}"), format!("`{path}` is a saved dictionary: `load` reads it")),
        (format!("load {folder}/none"), "No such file".into()),
        (
            format!("save {folder}/a b/x"),
            format!(
                "there is no folder `{folder}/a b` for `x`: create it first (mkdir -p '{folder}/a b')"
            ),
        ),
        (format!("export {folder}/none/x.csv"), format!("there is no folder `{folder}/none` for")),
        (format!("save {folder}"), "is a folder: name a file".into()),
        ("save".into(), "arguments are missing: save FILE [--force]".into()),
        (format!("load {path} --forced"), "no such option; there are --force".into()),
        ("checkpoint".into(), "this dictionary is in memory: `save FILE` writes".into()),
        ("sync".into(), "`gpulsm shell --open DIR` keeps one in a folder".into()),
        ("chekpoint".into(), "did you mean `checkpoint`?".into()),
        ("restore x".into(), "did you mean `load`?".into()),
    ] {
        let said: String = printed(&["shell"], &line);
        let what: String = what;
        assert!(said.starts_with("error in line 1: ") && said.contains(&what), "{line}: {said}");
    }
}

#[test]
fn a_shell_without_types_takes_those_of_the_file_that_it_loads() {
    let (_folder, path) = scratch("prices.gpulsm");
    let types = ["--key", "u32,i64", "--value", "f64", "--combine", "max"];
    check(&types, &[("insert 7:-5 0.5 8:0 2.5", OK), (&format!("save {path}"), SAVED)]);
    let load = format!("load {path}");
    let loaded = r#"{"ok":true,"pairs":2,"key":"u32,i64","value":"f64","combine":"max"}"#;
    check(
        &[],
        &[
            ("insert 1 10", OK),
            ("snapshot save before", OK),
            ("clear", OK),
            (&load, loaded),
            ("insert 8:0 1.5", OK),
            ("range 0 9", r#"{"pairs":[[[7,-5],0.5],[[8,0],2.5]]}"#),
            (&format!("{load} --force"), LOADED),
            // A snapshot has the types that the dictionary had.
            ("snapshot use before", OK),
            ("range 0 9", r#"{"pairs":[[1,10]]}"#),
            ("snapshot leave", OK),
            ("lookup 8:0", r#"{"values":[2.5]}"#),
        ],
    );
    let said = printed(&["shell", "--value", "f64"], &load);
    let types = "u32,i64 keys, f64 values, combined by max";
    assert_eq!(said, format!("ok, 2 pairs; the types are now those of the file: {types}\n"));

    for (options, given) in
        [(&["--key", "i64"], "--key i64"), (&["--combine", "add"], "--combine add")]
    {
        let said = printed(&[&["shell"], &options[..]].concat(), &format!("{load}\nlen"));
        let expected = format!(
            "`{path}` holds a dictionary of --key u32,i64 --value f64 --combine max, and this shell was started \
             with {given}; `gpulsm shell --load {path}` takes the types from the file\n0 keys\n"
        );
        assert_eq!(said, format!("error in line 1: {expected}"));
    }
    // The types of a folder stay.
    let (_folder, folder) = scratch("counters");
    let said = printed(&["shell", "--open", &folder], &load);
    assert!(said.contains("and this one has other types; `gpulsm shell --load "), "{said}");
}

#[test]
fn a_damaged_saved_file_is_not_loaded() {
    let (_folder, path) = scratch("prices.gpulsm");
    printed(&["shell"], &format!("insert 1 10 2 20\nsave {path}"));
    let mut bytes = fs::read(&path).expect("a file");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&path, bytes).expect("a file");
    let (said, status) = refused(&["check", &path], "");
    assert!(said.contains("is damaged at byte "), "{said}");
    assert_eq!(status, Some(1));
    let said = printed(&["shell"], &format!("insert 5 5\nload {path} --force\nlen"));
    assert!(said.contains("is damaged at byte ") && said.ends_with("1 key\n"), "{said}");
    fs::write(&path, "GPLS").expect("a file");
    assert!(refused(&["check", &path], "").0.contains("it is too short"));
}

/// The path of a file that the Python package wrote: keys of bytes and times, values that are durations.
const OF_PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/it/data/python.gpulsm");

#[test]
fn files_of_python_are_loaded_and_keep_its_types() {
    let (_folder, path) = scratch("copy.gpulsm");
    check(
        &["--load", OF_PYTHON],
        &[
            ("len", r#"{"len":3}"#),
            ("insert XYZW:7 70", OK),
            (&format!("save {path}"), r#"{"ok":true,"pairs":4,"bytes":16400}"#),
        ],
    );
    for (path, entries) in [(OF_PYTHON, 3), (&path, 4)] {
        let said = info(path);
        assert_eq!((&said["key"], &said["value"]), (&json!("bytes4,i64"), &json!("i64")));
        assert_eq!(said["entries"], json!(entries));
        let notes = json!({ "numpy.key": "['|S4', '<M8[ns]']", "numpy.value": "'<m8[s]'" });
        assert_eq!(said["notes"], notes);
        let table = printed(&["info", path], "");
        assert!(table.contains(" numpy.key  ['|S4', '<M8[ns]']\n"), "{table}");
    }
}

#[test]
fn info_tells_what_files_contain() {
    let (_folder, path) = scratch("prices");
    printed(&["shell", "--open", &path, "--key", "u64", "--value", "none"], "insert 1 2 3");
    let said = info(&path);
    for (name, expected) in [
        ("kind", json!("folder")),
        ("version", json!(1)),
        ("key", json!("u64")),
        ("value", json!("none")),
        ("combine", json!("replace")),
        ("settings", json!({ "batch_size": 65536 })),
        ("entries", json!(0)),
        ("runs", json!([])),
        ("sequence", json!(0)),
        ("watermark", json!(1)),
    ] {
        assert_eq!(said[name], expected, "{name}");
    }
    assert_eq!((&said["log"]["updates"], &said["log"]["torn_bytes"]), (&json!(1), &json!(0)));
    printed(&["shell", "--open", &path], "checkpoint");
    let said = info(&path);
    assert_eq!((&said["entries"], &said["log"]["updates"]), (&json!(3), &json!(0)));
    assert_eq!((&said["runs"][0]["level"], &said["runs"][0]["entries"]), (&json!(0), &json!(3)));

    let table = printed(&["info", &path], "");
    for row in [
        "path  ",
        "a folder, format version 1\n",
        "       key  u64\n",
        "     pairs  3\n",
        "     value  none\n",
        "       run  level 0: 3 entries, ",
        "       log  0 updates, ",
        " watermark  update 1 of 1 is known to be on stable storage\n",
        "generation  ",
    ] {
        assert!(table.contains(row), "{row} is not in {table}");
    }
}
