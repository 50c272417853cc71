//! Wide keys, bytes, and keys of several parts, in the shell and in files.

use crate::shell::check;
use crate::{gpulsm, printed};

const OK: &str = r#"{"ok":true}"#;

#[test]
fn keys_of_two_parts_go_through_every_command() {
    check(
        &["--key", "u32,i64"],
        &[
            ("insert 7:100 1 7:-5 2 9:0 3 8:3 4", OK),
            ("lookup 7:100 7:101 7:-5", r#"{"values":[1,null,2]}"#),
            ("contains 9:0 9:1", r#"{"contains":[true,false]}"#),
            ("range 0:0 9:0", r#"{"pairs":[[[7,-5],2],[[7,100],1],[[8,3],4],[[9,0],3]]}"#),
            ("range 7 7", r#"{"pairs":[[[7,-5],2],[[7,100],1]]}"#),
            ("range 7 8 --limit 2", r#"{"pairs":[[[7,-5],2],[[7,100],1]],"more":1}"#),
            ("count 7 7 7:0 7 7 8:2 0 6", r#"{"counts":[2,1,2,0]}"#),
            ("sum 7 8 8:4 9", r#"{"sums":[7,3]}"#),
            ("min 7 7", r#"{"minima":[1]}"#),
            ("max 7 7", r#"{"maxima":[2]}"#),
            ("successor 7:101 9:1", r#"{"pairs":[[[8,3],4],null]}"#),
            ("predecessor 7:99 0:0", r#"{"pairs":[[[7,-5],2],null]}"#),
            ("first", r#"{"key":[7,-5],"value":2}"#),
            ("last", r#"{"key":[9,0],"value":3}"#),
            ("select 1 9", r#"{"pairs":[[[7,100],1],null]}"#),
            ("rank 7:100 9:1", r#"{"ranks":[1,4]}"#),
            ("asof 7:99 8:2 7:200", r#"{"pairs":[[[7,-5],2],null,[[7,100],1]]}"#),
            ("asof 7:99 8:2 --direction forward", r#"{"pairs":[[[7,100],1],[[8,3],4]]}"#),
            ("asof 7:99 --direction nearest --tolerance 1", r#"{"pairs":[[[7,100],1]]}"#),
            ("asof 7:99 --tolerance 103", r#"{"pairs":[null]}"#),
            ("asof 7:100 --strict 7:-5 7:101", r#"{"pairs":[[[7,-5],2],null,[[7,100],1]]}"#),
            ("asof 7:-5 --strict --direction forward", r#"{"pairs":[[[7,100],1]]}"#),
            ("update +7:-6=9 -9:0", OK),
            ("delete 8:3", OK),
            ("delete_range 7:0 7", OK),
            ("range 0 9", r#"{"pairs":[[[7,-6],9],[[7,-5],2]]}"#),
        ],
    );
}

#[test]
fn answers_for_people_write_keys_as_they_are_typed() {
    let input = "insert 7:100 1 7:-5 2\nrange 7 7\ncount 7 7 7:0 8\nasof 7:99\nrank 7:0\nstats\n";
    let printed = printed(&["shell", "--key", "u32,i64"], input);
    for line in [" 7:-5  2", "7:100  1", "7 to 7  2", "7:0 to 8  1", "7:-5  2", "1 less", "u32,i64"]
    {
        assert!(printed.contains(line), "{line}: {printed}");
    }
}

#[test]
fn wide_integers_have_all_their_digits() {
    let (most, least) = (u128::MAX.to_string(), i128::MIN.to_string());
    check(
        &["--key", "u128"],
        &[
            (&format!("insert {most} 1 0 2"), OK),
            ("last", &format!(r#"{{"key":{most},"value":1}}"#)),
            ("rank 1", r#"{"ranks":[1]}"#),
        ],
    );
    check(
        &["--key", "i128", "--value", "none"],
        &[
            (&format!("insert {least} 5"), OK),
            ("first", &format!(r#"{{"key":{least},"value":true}}"#)),
            ("asof 7 --tolerance 2", r#"{"pairs":[[5,true]]}"#),
        ],
    );
}

#[test]
fn bytes_are_text_or_hexadecimal() {
    check(
        &["--key", "bytes6"],
        &[
            ("insert AAPL 1 MSFT 2 0x000000000001 3", OK),
            ("lookup AAPL 0x4141504c0000 GOOG", r#"{"values":[1,1,null]}"#),
            ("range 0x000000000000 Z", r#"{"pairs":[["0x000000000001",3],["AAPL",1],["MSFT",2]]}"#),
            ("successor B", r#"{"pairs":[["MSFT",2]]}"#),
        ],
    );
    check(
        &["--key", "bytes4,f32"],
        &[
            ("insert ab:1.5 1 ab:-2 2 b:0 3", OK),
            ("range ab ab", r#"{"pairs":[[["ab",-2.0],2],[["ab",1.5],1]]}"#),
            ("asof ab:1 ab:9 --tolerance 7.5", r#"{"pairs":[[["ab",-2.0],2],[["ab",1.5],1]]}"#),
        ],
    );
}

/// Returns what the shell says about a line that is wrong.
fn error(key: &str, line: &str) -> String {
    let answer = printed(&["shell", "--json", "--key", key], line);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["code"], "wrong_argument", "{answer}");
    answer["error"].as_str().expect("an error").into()
}

#[test]
fn what_is_wrong_with_a_key_names_the_word_and_the_part() {
    for (key, line, what) in [
        ("u32,i64", "lookup 7:1 7", "word 3, `7`: 1 part, where a key has 2 (expected u32:i64)"),
        ("u32,i64", "insert 7:x 1", "word 2, `7:x`: part 2 is not an integer (expected i64)"),
        ("u32,i64", "count 1:2:3 7", "word 2, `1:2:3`: 3 parts, where a key has 2"),
        ("u32,i64", "range -1 7", "part 1 is out of range: u32 goes from 0 to 4294967295"),
        ("u32,i64", "update +7=1", "word 2, `+7=1`: in the key, 1 part, where a key has 2"),
        (
            "u32,i64",
            "asof 7:1 --direction up",
            "word 4, `up`: expected backward, forward or nearest",
        ),
        (
            "u32,i64",
            "asof 7:1 forward",
            "word 3, `forward`: a direction stands behind its option: --direction forward",
        ),
        ("u32,i64", "asof 7:1 --tolerance -1", "word 4, `-1`: out of range: u64 goes from 0"),
        ("u32,i64", "asof 7:1 --tolerance", "word 3, `--tolerance`: its value is missing"),
        ("u32,i64", "asof 7:1 --limit 3", "no such option; there are --direction"),
        ("f32", "asof 1 --tolerance nan", "a tolerance is 0 or more"),
        ("u32,bytes4", "asof 7:a", "keys must end with a number, and these are u32,bytes4"),
        ("bytes2", "lookup abc", "word 2, `abc`: 3 bytes (expected at most 2 bytes)"),
        ("bytes2", "lookup 0x1", "not hexadecimal (expected 0x and 4 digits)"),
    ] {
        let error = error(key, line);
        assert!(error.contains(what), "{key}, {line}: {error}");
    }
}

/// Imports a file and exports it, and returns the answers and the file.
fn copied(key: &str, content: &str, options: &str, copy: &str) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    std::fs::write(path("a.csv"), content).expect("a file can be written");
    let lines = format!("import {} {options}\nexport {}\n", path("a.csv"), path(copy));
    let first = printed(&["shell", "--json", "--key", key], &lines);
    let lines = format!("import {}\nexport {}\n", path(copy), path("b.csv"));
    let second = printed(&["shell", "--json", "--key", key], &lines);
    let same = std::fs::read_to_string(path("b.csv"));
    (first + &second, same.unwrap_or_default())
}

#[test]
fn files_have_a_column_for_each_part() {
    let quotes = "price,symbol,time\n15,7,200\n10,7,-100\n90,9,150\n";
    let chosen = "--key-column symbol --key-column time --value-column price";
    for copy in ["copy.csv", "copy.tsv.gz", "copy.parquet"] {
        let (answers, content) = copied("u32,i64", quotes, chosen, copy);
        assert!(!answers.contains("error"), "{copy}: {answers}");
        assert_eq!(content, "key1,key2,value\n7,-100,10\n7,200,15\n9,150,90\n", "{copy}");
    }
    let by_number = "--key-column 2 --key-column 3 --value-column 1";
    let (answers, content) = copied("u32,i64", quotes, by_number, "copy.csv");
    assert!(content.starts_with("key1,key2,value\n7,-100,10\n"), "{answers}");
    let in_order = copied("u32,f32", "1,0.5,3\n1,-2,4\n", "", "copy.parquet").1;
    assert_eq!(in_order, "key1,key2,value\n1,-2.0,4\n1,0.5,3\n");
}

#[test]
fn files_hold_bytes() {
    for copy in ["copy.csv", "copy.parquet"] {
        let (answers, content) =
            copied("bytes5,u32", "AAPL,1,5\n\"a,b\",2,6\n0x0000000001,3,7\n", "", copy);
        assert!(!answers.contains("error"), "{copy}: {answers}");
        let lines = "key1,key2,value\n0x0000000001,3,7\nAAPL,1,5\n\"a,b\",2,6\n";
        assert_eq!(content, lines, "{copy}");
    }
}

#[test]
fn white_space_in_quotes_belongs_to_bytes() {
    let (_, content) = copied("bytes3,u32", "\" a \",\" 1 \",5\n a , 2, 6\n", "", "copy.csv");
    assert_eq!(content, "key1,key2,value\n0x206120,1,5\na,2,6\n");
}

#[test]
fn words_that_are_keys_are_no_header() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv").to_str().expect("UTF-8").to_string();
    std::fs::write(&path, "AAPL\nMSFT\n").expect("a file can be written");
    let arguments = ["shell", "--json", "--key", "bytes4", "--value", "none", "--import", &path];
    assert_eq!(printed(&arguments, "len"), "{\"len\":2}\n");
}

#[test]
fn what_is_wrong_with_a_file_names_its_line_and_column() {
    for (key, content, options, what) in [
        ("u32,i64", "a,b,c\n7,8,9\n7,x,9\n", "", "line 3: column 2 (b) is `x`: not an integer"),
        ("u32,i64", "a,b,c\n7,,9\n", "", "line 2: column 2 (b) is empty; to skip such rows"),
        ("u32,i64", "a,b,c,d\n1,2,3,4\n", "", "which column holds part 1 of the keys?"),
        ("u32,i64", "a,b,c\n1,2,3\n", "--key-column a", "1 column, where keys have 2 parts"),
        ("u32", "a,b\n1,2\n", "--key-column a --key-column b", "2 columns, where keys have 1 part"),
        ("u32,i64", "key1,key2,key3\n1,2,3\n", "", "a column `key3`, but keys have 2 parts"),
        (
            "u32,i64",
            "a,b,c\n1,2,3\n",
            "--key-column a --key-column a",
            "column 1 (a) is to hold both part 1 of the keys and part 2 of the keys",
        ),
        ("bytes2", "key,value\nabc,1\n", "", "line 2: column 1 (key) is `abc`: 3 bytes"),
    ] {
        let (answers, _) = copied(key, content, options, "copy.csv");
        assert!(answers.lines().next().is_some_and(|first| first.contains(what)), "{answers}");
    }
    let (answers, _) = copied("u128", "1,2\n", "", "copy.parquet");
    assert!(answers.contains("Parquet has no type for u128; write a .csv file"), "{answers}");
    let (answers, _) = copied("u32,i64", "7,,9\n7,8,9\n", "--missing skip", "copy.csv");
    assert!(answers.contains(r#""rows":2,"replaced":0,"skipped":1"#), "{answers}");
}

#[test]
fn types_of_keys_that_cannot_be_are_refused() {
    for (key, what) in [
        ("u16", "no type of keys is named `u16`"),
        ("bytes17", "no type of keys is named `bytes17`"),
        ("u64,u64,u32", "at most 16 bytes, and these parts have 20"),
    ] {
        let output = gpulsm(&["shell", "--key", key], b"");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{key}");
        assert!(errors.contains(what), "{key}: {errors}");
    }
}
