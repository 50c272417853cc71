//! Files: import and export, CSV and Parquet.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use crate::printed;

/// A folder that is gone after the test, and the path of a file in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").into()
    }

    fn with(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file can be written");
        path
    }
}

/// The shell's answers to these lines.
fn answers(arguments: &[&str], lines: &[String]) -> Vec<String> {
    let printed = printed(&[&["shell", "--json"], arguments].concat(), &lines.join("\n"));
    printed.lines().map(String::from).collect()
}

/// The answer to an import of this many rows.
fn imported(rows: u64, replaced: u64, skipped: u64) -> String {
    format!(r#"{{"ok":true,"rows":{rows},"replaced":{replaced},"skipped":{skipped}}}"#)
}

/// What importing a file into a dictionary that has one pair says, and that nothing changed.
#[track_caller]
fn check_refused(arguments: &[&str], path: &str, what: &str) {
    let everything = || "range 0 1000000".to_string();
    let lines = ["insert 1 10".into(), everything(), format!("import {path}"), everything()];
    let answers = answers(arguments, &lines);
    let error: serde_json::Value = serde_json::from_str(&answers[2]).expect("JSON");
    let text = error["error"].as_str().unwrap_or_default();
    let name = Path::new(path).file_name().expect("a name").to_str().expect("UTF-8");
    assert!(text.contains(name) && text.contains(what), "{}", answers[2]);
    assert!(answers[1].contains("[[1"), "{}", answers[1]);
    assert_eq!(answers[1], answers[3]);
}

#[test]
fn what_is_exported_can_be_imported_whatever_the_types() {
    let folder = Folder::new();
    for key in ["u32", "u64", "i32", "i64", "f32", "f64"] {
        for value in ["none", "u32", "u64", "i32", "i64", "f32", "f64"] {
            for format in ["csv", "parquet"] {
                let path = folder.path(&format!("{key} and {value}.{format}"));
                let largest = match key {
                    "u64" => "18446744073709551615",
                    "i64" | "i32" => "-2147483648",
                    "u32" => "4294967295",
                    _ => "-inf",
                };
                let insert = match value {
                    "none" => format!("insert 1 3 {largest}"),
                    "f32" | "f64" => format!("insert 1 0.1 3 NaN {largest} -inf"),
                    "i32" | "i64" => format!("insert 1 10 3 -30 {largest} 7"),
                    _ => format!("insert 1 10 3 4000000000 {largest} 7"),
                };
                let everything = format!("export {path}");
                let lines = [
                    insert,
                    everything.clone(),
                    "lookup 1 2 3".into(),
                    "first".into(),
                    "last".into(),
                    "clear".into(),
                    format!("import {path}"),
                    "lookup 1 2 3".into(),
                    "first".into(),
                    "last".into(),
                ];
                let answers = answers(&["--key", key, "--value", value], &lines);
                assert_eq!(answers[1], r#"{"ok":true,"rows":3}"#, "{everything}");
                assert_eq!(answers[6], imported(3, 0, 0), "{everything}");
                assert_eq!(answers[2..5], answers[7..10], "{everything}");
            }
        }
    }
}

#[test]
fn csv_is_read_with_and_without_a_header() {
    let folder = Folder::new();
    for (content, rows) in [
        ("key,value\n1,10\n3,30\n", 2),
        ("1,10\n3,30\n", 2),
        ("id,price\r\n 1 , 10\r\n3,\"30\"", 2),
        ("3,5\n1,10\n3,30\n", 3),
        ("Value,name,KEY\n10,x,1\n30,y,3\n", 2),
        ("value,key\n10,1\n30,3\n", 2),
    ] {
        let path = folder.with("pairs.csv", content);
        let answers = answers(&[], &[format!("import {path}"), "range 0 9".into()]);
        assert_eq!(answers[0], imported(rows, rows - 2, 0), "{content:?}");
        assert_eq!(answers[1], r#"{"pairs":[[1,10],[3,30]]}"#, "{content:?}");
    }
    let path = folder.with("both.csv", "key,value\n4,40\n2,20\n");
    let said = answers(&["--value", "none"], &[format!("import {path}"), "range 0 9".into()]);
    assert_eq!(said[1], r#"{"pairs":[[2,true],[4,true]]}"#);
    let path = folder.with("header.csv", "key,value\n");
    assert_eq!(answers(&[], &[format!("import {path}")]), [imported(0, 0, 0)]);
}

#[test]
fn a_bad_row_is_named_and_nothing_is_imported() {
    let folder = Folder::new();
    let csv = |content: &str| folder.with("bad.csv", content);
    check_refused(&[], &csv("key,value\n2,20\n3,x\n"), "line 3: column 2 (value) is `x`: not an");
    check_refused(&[], &csv("2,20\n-3,30\n"), "line 2: column 1 is `-3`: out of range");
    check_refused(&[], &csv("2,20\n3\n"), "line 2: 1 field, where the first line has 2");
    check_refused(&[], &csv("2,20\n3,30,300\n"), "line 2: 3 fields, where the first line has 2");
    check_refused(&[], &csv("abc,20\n"), "line 1: column 1 is `abc`");
    check_refused(&[], &csv("2,20\n,30\n"), "line 2: column 1 is empty; to skip such rows");
    check_refused(&[], &csv("2,\"20\n"), "line 1: a quote is opened and never closed");
    check_refused(&[], &csv(""), "this file is empty");
    check_refused(&[], &csv("2024-01-05T10:00:00Z,1\n"), "convert it to a number first");
    check_refused(&[], &csv("2;20\n"), "is the separator `;`, not `,`?");
    let path = folder.with("bytes.csv", b"2,20\n\xff,30\n");
    check_refused(&[], &path, "line 2: column 1 is");
    let path = folder.with("rubbish.csv", b"\x7fELF\0\0\x01\xfe\x80\n\0,\0");
    check_refused(&[], &path, "not text; is this a CSV file?");
    check_refused(&[], &folder.with("rubbish.csv.gz", "1,2\n"), "this can't be read as gzip");
    let huge = format!("1,\"{}", "x".repeat(20 << 20));
    check_refused(&[], &csv(&huge), "line 1: far too long; is a quote not closed?");
}

#[test]
fn imports_are_made_as_options_say() {
    let folder = Folder::new();
    let import = |path: &str, options: &str| {
        let lines = [format!("import {path} {options}"), "range 0 9".into()];
        answers(&[], &lines)
    };
    let check = |name: &str, content: &str, options: &str| {
        let said = import(&folder.with(name, content), options);
        assert_eq!(said[1], r#"{"pairs":[[1,10],[3,30]]}"#, "{said:?}");
    };
    check(
        "a.csv",
        "id;the price;id\n1;10;x\n3;30;y\n",
        "--separator ; --key-column 1 --value-column \"the price\"",
    );
    check("a.csv", "x,10,1\nx,30,3\n", "--value-column=2 --key-column=3");
    check("a.tsv", "1\t10\n3\t30\n", "");
    check("a.csv", "2023,2024\n1,10\n3,30\n", "--header yes");
    let path = folder.with("gaps.csv", "key,value\n1,10\n2,\n3,30\n,40\n1,10\n");
    assert_eq!(import(&path, "--missing skip")[0], imported(5, 1, 2));
    for (options, what) in [
        ("--header maybe", "--header maybe: expected yes, no or auto"),
        ("--missing drop", "--missing drop: expected error or skip"),
        ("--separator ab", "--separator ab: expected one ASCII character"),
        ("--heder yes", "`--heder`: no such option; there are --key-column"),
        ("--key-column", "`--key-column`: its value is missing"),
        ("--key-column id", "no column is named `id`: the file has 2 columns (key, value)"),
        ("--header no --key-column key", "without a header"),
    ] {
        let said = import(&path, options);
        assert!(said[0].contains(what), "{}", said[0]);
        assert_eq!(said[1], r#"{"pairs":[]}"#);
    }
}

#[test]
fn imports_tell_what_was_replaced_skipped_and_rounded() {
    let folder = Folder::new();
    let path =
        folder.with("a.csv", "key,value\n1,1\n16777216,2\n16777217,3\n-0,\nNaN,5\nnan,6\n-0,7\n");
    let lines = [
        "insert 1 1".into(),
        format!("import {path} --missing skip"),
        format!("import {path} --missing skip"),
    ];
    let said = answers(&["--key", "f32"], &lines);
    let notes = r#","keys_rounded":1,"keys_negative_zero":1,"keys_nan":2}"#;
    assert_eq!(said[1], imported(7, 3, 1).replace('}', notes));
    assert_eq!(said[2], imported(7, 6, 1).replace('}', notes));
    let said = printed(&["shell", "--key", "f32"], &format!("{}\n", lines[1]));
    assert_eq!(
        said,
        "ok, 7 rows read, 2 replaced others, 1 skipped for a missing key or value; \
         1 key lost precision as f32; 1 key -0 became 0; 2 keys are NaN, which is one key\n"
    );
}

#[test]
fn an_export_replaces_a_file_only_with_force() {
    let folder = Folder::new();
    for name in ["kept.csv", "kept.csv.gz", "kept.parquet"] {
        let path = folder.with(name, "precious");
        let lines = [
            "insert 1 2".into(),
            format!("export {path}"),
            format!("export --force {path}"),
            "clear".into(),
            format!("import {path}"),
        ];
        let said = answers(&[], &lines[..2]);
        assert!(said[1].contains("this file exists; to replace it"), "{}", said[1]);
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "precious");
        let said = answers(&[], &lines);
        assert_eq!(said[2], r#"{"ok":true,"rows":1}"#);
        assert_eq!(said[4], imported(1, 0, 0));
    }
    let path = folder.path("kept.csv");
    answers(&[], &["insert 1 2".into(), format!("export {path} --separator ; --force")]);
    let text = std::fs::read_to_string(path).expect("it is there");
    assert_eq!(text, "key;value\n1;2\n");
    assert_eq!(std::fs::read_dir(folder.0.path()).expect("the folder").count(), 3);
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let folder = Folder::new();
    check_refused(&[], &folder.path("missing.csv"), "no such file");
    check_refused(&[], &folder.path("missing.parquet"), "no such file");
    check_refused(&[], &folder.with("pairs.txt", "1,2\n"), "must end in .csv or .parquet");
    check_refused(&[], &folder.with("text.parquet", "1,2\n"), "this can't be read as Parquet");
    check_refused(&[], &folder.with("empty.parquet", ""), "this can't be read as Parquet");
    std::fs::create_dir(folder.path("folder.csv")).expect("a folder");
    check_refused(&[], &folder.path("folder.csv"), "this is a folder");

    // A file that was cut short.
    let whole = folder.path("whole.parquet");
    answers(&[], &["insert 1 2 3 4".into(), format!("export {whole}")]);
    let bytes = std::fs::read(&whole).expect("it was written");
    for len in [4, bytes.len() / 2, bytes.len() - 1] {
        check_refused(
            &[],
            &folder.with("cut.parquet", &bytes[..len]),
            "this can't be read as Parquet",
        );
    }
}

#[test]
fn names_of_files_may_have_spaces_quotes_and_backslashes_before_them() {
    let folder = Folder::new();
    let path = folder.with("two words.csv", "1,10\n");
    let escaped = path.replace(' ', "\\ ");
    for name in [path.clone(), escaped, format!("\"{path}\""), format!("'{path}'")] {
        let said = answers(&[], &[format!("import {name}")]);
        assert_eq!(said, [imported(1, 0, 0)], "{name}");
    }
}

#[test]
fn an_export_that_fails_leaves_what_was_there() {
    let folder = Folder::new();
    let path = folder.with("kept.parquet", "precious");
    let lines = ["insert 1 2".into(), format!("export {path} --force")];
    let said = answers(&["--value", "u128"], &lines);
    assert!(said[1].contains("Parquet has no type for u128"), "{}", said[1]);
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "precious");
    let said = answers(&[], &[format!("export {}", folder.path("no/such/folder.csv"))]);
    assert!(said[0].contains("create it first"), "{}", said[0]);
    let left: Vec<_> = std::fs::read_dir(folder.0.path()).expect("the folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Writes a Parquet file with this schema, each column by one of the functions.
fn parquet_file(path: &str, schema: &str, columns: &[&dyn Fn(&mut SerializedColumnWriter<'_>)]) {
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = File::create(path).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, Default::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    for write in columns {
        let mut column = group.next_column().expect("a column").expect("as many as in the schema");
        write(&mut column);
        column.close().expect("a whole column");
    }
    group.close().expect("a whole group");
    writer.close().expect("a whole file");
}

#[test]
fn parquet_columns_are_found_converted_and_checked() {
    let folder = Folder::new();
    let path = folder.path("others.parquet");
    let ints = |numbers: &'static [i64]| {
        move |column: &mut SerializedColumnWriter<'_>| {
            column.typed::<Int64Type>().write_batch(numbers, None, None).expect("numbers");
        }
    };
    // Found by name among others, in any order; signed 64-bit numbers fit if they are small.
    let schema = "message m { REQUIRED INT64 Value; REQUIRED INT64 other; REQUIRED INT64 KEY; }";
    parquet_file(&path, schema, &[&ints(&[10, 30]), &ints(&[0, 0]), &ints(&[1, 3])]);
    let said = answers(&["--value", "f32"], &[format!("import {path}"), "range 0 9".into()]);
    assert_eq!(said[1], r#"{"pairs":[[1,10.0],[3,30.0]]}"#);

    // Found by place where there are two.
    let schema = "message m { REQUIRED INT64 a; REQUIRED INT64 b; }";
    parquet_file(&path, schema, &[&ints(&[5, 6]), &ints(&[50, -60])]);
    let said = answers(&["--value", "i32"], &[format!("import {path}"), "range 0 9".into()]);
    assert_eq!(said[1], r#"{"pairs":[[5,50],[6,-60]]}"#);
    check_refused(&[], &path, "row 2: column 2 (b) is out of range");
    check_refused(&["--value", "none"], &path, "the file has 2 columns (a, b), none named `key`");

    // What is inside of other columns is not looked at.
    let schema = "message m { REQUIRED group x { REQUIRED INT64 key; REQUIRED INT64 value; } REQUIRED INT64 key; REQUIRED INT64 value; }";
    let columns: [&dyn Fn(&mut SerializedColumnWriter<'_>); 4] =
        [&ints(&[1]), &ints(&[5]), &ints(&[7]), &ints(&[70])];
    parquet_file(&path, schema, &columns);
    let said = answers(&[], &[format!("import {path}"), "range 0 9".into()]);
    assert_eq!(said[1], r#"{"pairs":[[7,70]]}"#);
    let schema = "message m { REQUIRED group key { REQUIRED INT64 a; REQUIRED INT64 b; } REQUIRED INT64 value; }";
    parquet_file(&path, schema, &columns[..3]);
    check_refused(&[], &path, "column 1 (key) holds columns of its own, not numbers");
    parquet_file(&path, "message m { REQUIRED INT64 key; }", &columns[..1]);
    check_refused(&[], &path, "the file has 1 column (key), but keys and values need two");
    let schema = "message m { REQUIRED INT64 key; REQUIRED INT64 value; }";
    parquet_file(&path, schema, &[&ints(&[9_007_199_254_740_993]), &ints(&[5])]);
    let said = answers(&["--key", "f64"], &[format!("import {path}")]);
    assert_eq!(said, [imported(1, 0, 0).replace('}', r#","keys_rounded":1}"#)]);

    let schema = "message m { REQUIRED INT64 at (TIMESTAMP(MICROS,true)); REQUIRED INT64 cents (DECIMAL(9,2)); }";
    parquet_file(&path, schema, &[&ints(&[7]), &ints(&[1200])]);
    let types = ["--key", "i64", "--value", "i32"];
    let said = answers(&types, &[format!("import {path}"), "first".into()]);
    assert!(said[0].ends_with(r#""key_unit":"microseconds since 1970-01-01 UTC"}"#), "{said:?}");
    assert_eq!(said[1], r#"{"key":7,"value":12}"#);

    let schema = "message m { REQUIRED INT64 key; OPTIONAL INT32 value; }";
    parquet_file(
        &path,
        schema,
        &[&ints(&[5, 6, 7]), &|column| {
            let levels = Some(&[1, 1, 0][..]);
            column.typed::<Int32Type>().write_batch(&[1, 2], levels, None).expect("numbers");
        }],
    );
    check_refused(&[], &path, "row 3: column 2 (value) is null");

    let schema = "message m { REQUIRED INT64 key; REQUIRED BYTE_ARRAY value (STRING); }";
    parquet_file(
        &path,
        schema,
        &[&ints(&[5]), &|column| {
            let text = [ByteArray::from("50")];
            column.typed::<ByteArrayType>().write_batch(&text, None, None).expect("text");
        }],
    );
    check_refused(&[], &path, "column 2 (value) holds text, not numbers");
}
