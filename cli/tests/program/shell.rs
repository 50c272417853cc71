//! The shell: commands in, answers out.

use std::collections::BTreeMap;

use crate::{gpulsm, printed};

/// Checks that each line gets its answer in JSON.
#[track_caller]
pub fn check(arguments: &[&str], lines: &[(&str, &str)]) {
    let input: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    let answers = printed(&[&["shell", "--json"], arguments].concat(), &input);
    let answers: Vec<&str> = answers.lines().collect();
    for (index, &(line, expected)) in lines.iter().enumerate() {
        assert_eq!(answers.get(index), Some(&expected), "answer to line {index}: {line}");
    }
    assert_eq!(answers.len(), lines.len());
}

#[test]
fn every_command_answers_in_json() {
    check(
        &[],
        &[
            ("first", r#"{"key":null}"#),
            ("len", r#"{"len":0}"#),
            ("insert 1 10 3 30 5 50", r#"{"ok":true}"#),
            ("lookup 1 2 1", r#"{"values":[10,null,10]}"#),
            ("count 0 10 2 3 9 1", r#"{"counts":[3,1,0]}"#),
            ("sum 0 10 2 3 9 1", r#"{"sums":[90,30,0]}"#),
            ("min 0 10 2 3 9 1", r#"{"minima":[10,30,null]}"#),
            ("max 0 10 2 3 9 1", r#"{"maxima":[50,30,null]}"#),
            ("range 1 4", r#"{"pairs":[[1,10],[3,30]]}"#),
            ("range 4 1", r#"{"pairs":[]}"#),
            ("range", r#"{"pairs":[[1,10],[3,30],[5,50]]}"#),
            ("range --limit 1", r#"{"pairs":[[1,10]],"more":2}"#),
            ("successor 2 6", r#"{"pairs":[[3,30],null]}"#),
            ("predecessor 2 0 9", r#"{"pairs":[[1,10],null,[5,50]]}"#),
            ("first", r#"{"key":1,"value":10}"#),
            ("last", r#"{"key":5,"value":50}"#),
            ("select 0 3 2", r#"{"pairs":[[1,10],null,[5,50]]}"#),
            ("rank 5 0", r#"{"ranks":[2,0]}"#),
            ("contains 5 4", r#"{"contains":[true,false]}"#),
            ("update +7=70 -1 +3=31", r#"{"ok":true}"#),
            ("range 0 9", r#"{"pairs":[[3,31],[5,50],[7,70]]}"#),
            ("write -3..5 +5=50 -7 +3=31 -9..8 +7=70", r#"{"ok":true}"#),
            ("range 0 9", r#"{"pairs":[[3,31],[5,50],[7,70]]}"#),
            ("update +9=90 -9", r#"{"ok":true}"#),
            ("lookup 9", r#"{"values":[null]}"#),
            ("delete 5 6", r#"{"ok":true}"#),
            ("len", r#"{"len":2}"#),
            ("delete_range 4 4294967295", r#"{"ok":true}"#),
            ("cleanup", r#"{"ok":true}"#),
            (
                "levels",
                r#"{"levels":[{"level":0,"capacity":64,"entries":1,"tombstones":0,"bytes":68}]}"#,
            ),
            ("range 0 9", r#"{"pairs":[[3,31]]}"#),
            ("clear", r#"{"ok":true}"#),
            ("len", r#"{"len":0}"#),
            ("range", r#"{"pairs":[]}"#),
            ("levels", r#"{"levels":[]}"#),
            ("quit", r#"{"ok":true}"#),
        ],
    );
}

#[test]
fn inserts_combine_by_the_rule_and_set_replaces() {
    let ok = r#"{"ok":true}"#;
    check(
        &["--combine", "add"],
        &[
            ("insert 1 10 3 30 1 5", ok),
            ("update +1=1 +3=3 -3", ok),
            ("range 0 9", r#"{"pairs":[[1,16]]}"#),
            ("insert 3 4", ok),
            ("set 1 100 2 7", ok),
            ("insert 1 1", ok),
            ("lookup 1 2 3", r#"{"values":[101,7,4]}"#),
            ("sum 0 9", r#"{"sums":[112]}"#),
        ],
    );
    let max = ["--value", "f64", "--combine", "max"];
    let maxima = r#"{"values":[2.5]}"#;
    check(&max, &[("insert 1 -3 1 2.5", ok), ("insert 1 2", ok), ("lookup 1", maxima)]);
    check(&[], &[("set 1 10", ok), ("set 1 11", ok), ("lookup 1", r#"{"values":[11]}"#)]);
    let answers =
        printed(&["shell", "--combine", "xor"], "insert 1 6\ninsert 1 3\nlookup 1\nstats\n");
    assert!(answers.contains("combine") && answers.contains("xor"), "{answers}");
}

#[test]
fn values_that_cannot_combine_are_refused() {
    for (value, rule, reason) in [
        ("f32", "or", "floats have no bitwise operations; use `add`, `min` or `max`"),
        ("none", "add", "not made of numbers of 4 or 8 bytes"),
        ("u128", "min", "not made of numbers of 4 or 8 bytes"),
    ] {
        let output = gpulsm(&["shell", "--value", value, "--combine", rule], b"len\n");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(reason), "{value} {rule}: {errors}");
    }
}

#[test]
fn help_tells_of_one_command_or_of_all() {
    let all = printed(&["shell"], "help\n");
    assert!(all.contains("insert") && all.contains("cleanup"), "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
    let one = printed(&["shell"], "help count rank\n");
    assert!(one.contains("LO to HI, inclusive") && one.contains("rank K [K …]"), "{one}");
    assert!(!one.contains("cleanup"), "{one}");
    let output = gpulsm(&["shell"], b"help cuont\n");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("word 2, `cuont`") && said.contains("count"), "{said}");
}

#[test]
fn stats_and_help_are_objects() {
    let arguments = ["shell", "--json", "--key", "i64", "--value", "f64", "--batch-size", "128"];
    let answers = printed(&arguments, "insert -1 2.5\nstats\nhelp\n");
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let stats = &answers[1];
    assert_eq!(stats["key"], "i64");
    assert_eq!(stats["value"], "f64");
    assert_eq!(stats["batch_size"], 128);
    assert_eq!(stats["len"], 1);
    assert_eq!(stats["entries"], 1);
    assert!(stats["bytes"]["total"].as_u64() >= Some(16), "{stats}");
    assert!(answers[2]["commands"]["insert"]["meaning"].is_string(), "{}", answers[2]);
}

#[test]
fn a_memory_limit_refuses_what_does_not_fit_and_is_shown() {
    let arguments = ["shell", "--json", "--device", "cpu", "--memory-limit", "100KB"];
    let numbers: String = (0..8000).map(|key| format!(" {key} 1")).collect();
    let answers = printed(&arguments, &format!("insert 1 2\ninsert{numbers}\nlen\nstats\n"));
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers[1]["code"], "dictionary", "{}", answers[1]);
    assert_eq!(answers[2]["len"], 1);
    let memory = &answers[3]["memory"];
    assert_eq!(memory["total"], 100_000);
    assert!(memory["free"].as_u64() > Some(50_000), "{memory}");
    let people = printed(&["shell", "--device", "cpu", "--memory-limit", "2MiB"], "stats\n");
    assert!(people.contains("2097152 (free "), "{people}");
}

#[test]
fn nothing_after_quit_is_done_and_lines_that_say_nothing_have_no_answer() {
    let answers = printed(&["shell", "--json"], "\n   \n# insert 1 1\nlen\nquit\nlen\n");
    assert_eq!(answers, "{\"len\":0}\n{\"ok\":true}\n");
}

#[test]
fn a_set_has_no_values() {
    check(
        &["--value", "none"],
        &[
            ("insert 5 3 4", r#"{"ok":true}"#),
            ("lookup 3 6", r#"{"values":[true,null]}"#),
            ("range 0 9", r#"{"pairs":[[3,true],[4,true],[5,true]]}"#),
            ("update +8 -3", r#"{"ok":true}"#),
            ("first", r#"{"key":4,"value":true}"#),
            (
                "update +8=1",
                r#"{"error":"word 2, `+8=1`: a set has no values: an insert is +K","code":"wrong_argument","line":6}"#,
            ),
        ],
    );
    let script = "insert 5 30 4\nrange 0 99\nlast\nsuccessor 6\nselect 0 9\nlookup 4 6\n";
    let expected = "ok\n 4\n 5\n30\n30\n30\n0  4\n9  nothing\n4  found\n6  not found\n";
    assert_eq!(printed(&["shell", "--value", "none"], script), expected);
}

#[test]
fn negative_keys_are_told_from_deletes() {
    check(
        &["--key", "i32", "--value", "i64"],
        &[
            ("insert -5 -50 5 50", r#"{"ok":true}"#),
            ("update +-7=-70 --5", r#"{"ok":true}"#),
            ("range -2147483648 2147483647", r#"{"pairs":[[-7,-70],[5,50]]}"#),
            ("rank 5", r#"{"ranks":[1]}"#),
        ],
    );
}

#[test]
fn floats_that_json_has_no_number_for_are_text() {
    check(
        &["--key", "f64", "--value", "f32"],
        &[
            ("insert NaN 0.1 inf inf -inf -inf -0 1.5 1e300 NaN", r#"{"ok":true}"#),
            (
                "range -inf NaN",
                r#"{"pairs":[["-inf","-inf"],[0.0,1.5],[1e+300,"NaN"],["inf","inf"],["NaN",0.1]]}"#,
            ),
            ("lookup 0 -NaN", r#"{"values":[1.5,0.1]}"#),
            ("last", r#"{"key":"NaN","value":0.1}"#),
        ],
    );
}

#[test]
fn wide_numbers_keep_every_digit() {
    check(
        &["--key", "u64", "--value", "u128"],
        &[
            (
                "insert 18446744073709551615 340282366920938463463374607431768211455",
                r#"{"ok":true}"#,
            ),
            (
                "last",
                r#"{"key":18446744073709551615,"value":340282366920938463463374607431768211455}"#,
            ),
        ],
    );
}

#[test]
fn errors_say_which_word_and_change_nothing() {
    let wrong = [
        ("insert 7", "word 2, `7`: this key has no value"),
        ("insert 7 70 8", "word 4, `8`: this key has no value"),
        ("insert 7 x", "word 3, `x`: not an integer (expected u32)"),
        ("insert 7 70 1.5 1", "word 4, `1.5`: not an integer"),
        (
            "insert 4294967296 1",
            "word 2, `4294967296`: out of range: u32 goes from 0 to 4294967295",
        ),
        ("insert 7 -1", "word 3, `-1`: out of range"),
        ("insert 7 99999999999999999999999999999999999999999999", "out of range"),
        ("insert", "word 1, `insert`: arguments are missing: insert K V [K V …]"),
        ("delete", "arguments are missing"),
        ("delete 1 y", "word 3, `y`"),
        ("update +7=70 8", "word 3, `8`: an insert begins with +"),
        ("update +7=70 +8", "word 3, `+8`: an insert is +K=V"),
        ("update +7=70 -z", "word 3, `-z`: the key is not an integer"),
        ("update +7=q", "word 2, `+7=q`: the value is not an integer"),
        ("update +=1", "word 2, `+=1`: the key is missing"),
        ("update +1=", "word 2, `+1=`: the value is missing"),
        ("delete_range 1", "arguments are missing: delete_range LO HI"),
        ("delete_range 1 2 3", "word 4, `3`: one argument too many"),
        ("lookup", "arguments are missing"),
        ("count 1", "word 2, `1`: this range has no end"),
        ("count 1 2 3", "word 4, `3`: this range has no end"),
        ("sum", "arguments are missing: sum LO HI [LO HI …]"),
        ("min 1", "word 2, `1`: this range has no end"),
        ("max 1 x", "word 3, `x`: not an integer"),
        ("range 1 2 3", "word 4, `3`: one argument too many: range [LO HI]"),
        ("successor", "arguments are missing"),
        ("select -1", "word 2, `-1`: out of range"),
        ("select x", "word 2, `x`"),
        ("select 0 1.5", "word 3, `1.5`: not an integer"),
        ("rank 1 x", "word 3, `x`: not an integer"),
        ("contains", "arguments are missing: contains K [K …]"),
        (
            "range 1 2 --limit",
            "word 4, `--limit`: a limit is a number of pairs from 1 on, or `all`",
        ),
        ("range 1 --limit 0 2", "word 4, `0`: a limit is a number of pairs from 1 on"),
        ("first 1", "word 2, `1`: unexpected: this command takes no arguments"),
        ("clear everything", "word 2, `everything`: unexpected"),
        ("quit now", "word 2, `now`: unexpected"),
        ("lokup 1", "word 1, `lokup`: no such command; did you mean `lookup`?"),
        ("list", "no such command; did you mean `range`?"),
        (
            "open prices",
            "no such command; `gpulsm shell --open DIR` keeps a dictionary in a folder",
        ),
        ("range 1", "arguments are missing: range [LO HI]"),
        ("insert 1 1.5", "(expected u32); `gpulsm shell --value TYPE` chooses another type"),
        ("lookup a", "(expected u32); `gpulsm shell --key TYPE` chooses another type"),
        ("save pairs.csv", "is the name of a table, which `export` writes"),
        ("INSERT 1 2", "no such command"),
        ("import", "arguments are missing: import FILE"),
        ("export pairs.json", "must end in .csv or .parquet"),
    ];
    for (line, what) in wrong {
        let input = format!("insert 1 10 2 20\n{line}\nrange 0 4294967295\n");
        let answers = printed(&["shell", "--json"], &input);
        let answers: Vec<&str> = answers.lines().collect();
        let error: serde_json::Value = serde_json::from_str(answers[1]).expect("JSON");
        assert!(
            error["error"].as_str().is_some_and(|error| error.contains(what)),
            "{line}: {error}"
        );
        assert_eq!(answers[2], r#"{"pairs":[[1,10],[2,20]]}"#, "after {line}");
    }
}

#[test]
fn people_get_columns_and_no_colour_in_a_pipe() {
    let answers =
        printed(&["shell"], "insert 1 10 300 7\nlookup 1 300 5\nrange 0 999\nlen\noops\n");
    assert_eq!(
        answers,
        "ok\n  1  10\n300  7\n  5  not found\n  1  10\n300  7\n2 keys\n\
         error in line 5: word 1, `oops`: no such command; `help` lists them\n"
    );
}

#[test]
fn many_random_commands_answer_as_a_map_does() {
    let mut state = 1u64;
    let mut draw = move |most: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % most
    };
    let mut map = BTreeMap::new();
    let mut lines = Vec::new();
    let pair = |pair: Option<(&u64, &u64)>| match pair {
        Some((key, value)) => format!(r#"{{"pairs":[[{key},{value}]]}}"#),
        None => r#"{"pairs":[null]}"#.into(),
    };
    let ok = || r#"{"ok":true}"#.to_string();
    for _ in 0..3000 {
        let (a, b) = (draw(200), draw(200));
        lines.push(match draw(13) {
            0..=2 => {
                map.extend([(a, b), (b, a)]);
                (format!("insert {a} {b} {b} {a}"), ok())
            }
            3 => {
                map.remove(&a);
                (format!("delete {a}"), ok())
            }
            4 => {
                map.insert(a, 7);
                map.remove(&b);
                (format!("update -{b} +{a}=7"), ok())
            }
            5 => {
                map.retain(|&key, _| key < a || key > a + 3);
                (format!("delete_range {a} {}", a + 3), ok())
            }
            6 => (
                format!("lookup {a}"),
                format!(
                    r#"{{"values":[{}]}}"#,
                    map.get(&a).map_or("null".into(), |value| value.to_string())
                ),
            ),
            7 => {
                let count = map.keys().filter(|&&key| a <= key && key <= b).count();
                (format!("count {a} {b}"), format!(r#"{{"counts":[{count}]}}"#))
            }
            12 => {
                let values = map.iter().filter(|&(&key, _)| a <= key && key <= b);
                let sum: u64 = values.map(|(_, value)| value).sum();
                (format!("sum {a} {b}"), format!(r#"{{"sums":[{sum}]}}"#))
            }
            8 => (format!("successor {a}"), pair(map.range(a..).next())),
            9 => (format!("predecessor {a}"), pair(map.range(..=a).next_back())),
            10 => (format!("rank {a}"), format!(r#"{{"ranks":[{}]}}"#, map.range(..a).count())),
            _ => (format!("select {a}"), pair(map.iter().nth(a as usize))),
        });
    }
    let lines: Vec<(&str, &str)> =
        lines.iter().map(|(line, answer)| (&**line, &**answer)).collect();
    check(&["--batch-size", "16"], &lines);
}

#[test]
fn several_queries_are_a_table_and_one_is_a_line() {
    let input = "insert 1 10 300 7\nsuccessor 2\nsuccessor 2 999\nselect 1 0\nrank 5\nrank 5 999\n\
                 contains 1 2\n";
    assert_eq!(
        printed(&["shell"], input),
        "ok\n300  7\n  2  300  7\n999  nothing\n1  300  7\n0  1  10\n1 less\n  5  1 less\n\
         999  2 less\n1  yes\n2  no\n"
    );
}

#[test]
fn sums_minima_and_maxima_of_each_type() {
    let check_of = |value: &str, lines: &[(&str, &str)]| check(&["--value", value], lines);
    let ok = r#"{"ok":true}"#;
    check_of(
        "u32",
        &[("insert 1 4294967295 2 4294967295", ok), ("sum 0 9", r#"{"sums":[8589934590]}"#)],
    );
    check_of(
        "i32",
        &[
            ("insert 1 -5 2 3 3 -7", ok),
            ("sum 0 9 2 2", r#"{"sums":[-9,3]}"#),
            ("min 0 2", r#"{"minima":[-5]}"#),
            ("max 0 9", r#"{"maxima":[3]}"#),
        ],
    );
    check_of("u64", &[("insert 1 18446744073709551615 2 3", ok), ("sum 0 9", r#"{"sums":[2]}"#)]);
    check_of(
        "i64",
        &[
            ("insert 1 -9223372036854775808 2 1", ok),
            ("min 0 9", r#"{"minima":[-9223372036854775808]}"#),
        ],
    );
    check_of(
        "f32",
        &[
            ("insert 1 0.5 2 -1.25", ok),
            ("sum 0 9 5 9", r#"{"sums":[-0.75,0.0]}"#),
            ("min 0 9", r#"{"minima":[-1.25]}"#),
            ("max 0 9 5 9", r#"{"maxima":[0.5,null]}"#),
        ],
    );
    check_of(
        "f64",
        &[("insert 1 1e300 2 -1e300 3 0.25", ok), ("sum 1 2 3 3", r#"{"sums":[0.0,0.25]}"#)],
    );
    let people = printed(&["shell"], "insert 1 10 300 7\nsum 0 999 2 3\nmax 2 3 0 999\n");
    assert_eq!(people, "ok\n0 to 999  17\n  2 to 3  0\n  2 to 3  nothing\n0 to 999  10\n");
}

#[test]
fn values_that_are_no_numbers_have_no_sum() {
    for (value, what) in [
        (
            "none",
            "word 1, `sum`: a set has no values; values can be u32, u64, i32, i64, f32 or f64",
        ),
        ("u128", "word 1, `sum`: there is no sum of u128; values can be u32,"),
    ] {
        let answer = printed(&["shell", "--json", "--value", value], "sum 0 9\n");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(what)), "{answer}");
        assert_eq!(answer["code"], "wrong_argument");
    }
}

#[test]
fn exit_and_the_question_mark_are_other_names() {
    assert_eq!(printed(&["shell", "--json"], "exit\nlen\n"), "{\"ok\":true}\n");
    assert_eq!(printed(&["shell"], "? len\n"), printed(&["shell"], "help len\n"));
}

#[test]
fn a_range_has_as_many_pairs_as_its_limit_and_says_how_many_more_there_are() {
    let more = r#"{"pairs":[[3,30],[5,50]],"more":1}"#;
    let all = r#"{"pairs":[[3,30],[5,50],[7,70]]}"#;
    check(
        &[],
        &[
            ("insert 1 10 3 30 5 50 7 70", r#"{"ok":true}"#),
            ("range 2 9 --limit 2", more),
            ("range --limit 2 2 9", more),
            ("range 2 9 --limit 3", all),
            ("range 2 9 --limit all", all),
            ("range 2 9", all),
            ("range 9 2 --limit 1", r#"{"pairs":[]}"#),
        ],
    );
    let said = printed(&["shell"], "insert 1 10 3 30 5 50\nrange 0 9 --limit 1\n");
    let last =
        "… and 2 pairs more; add --limit N to see the first N, --limit all to see every one\n";
    assert_eq!(said, format!("ok\n1  10\n{last}"));
    // Without a terminal there is no limit.
    let pairs: String = (0..1500).map(|key| format!(" {key} 0")).collect();
    let said = printed(&["shell"], &format!("insert{pairs}\nrange 0 9999\n"));
    assert_eq!(said.lines().count(), 1501);
}
