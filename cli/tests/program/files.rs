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
                assert_eq!(answers[6], r#"{"ok":true,"rows":3}"#, "{everything}");
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
        assert_eq!(answers[0], format!(r#"{{"ok":true,"rows":{rows}}}"#), "{content:?}");
        assert_eq!(answers[1], r#"{"pairs":[[1,10],[3,30]]}"#, "{content:?}");
    }
    let path = folder.with("both.csv", "key,value\n4,40\n2,20\n");
    let said = answers(&["--value", "none"], &[format!("import {path}"), "range 0 9".into()]);
    assert_eq!(said[1], r#"{"pairs":[[2,true],[4,true]]}"#);
    let path = folder.with("empty.csv", "");
    assert_eq!(answers(&[], &[format!("import {path}")]), [r#"{"ok":true,"rows":0}"#]);
}

#[test]
fn a_bad_row_is_named_and_nothing_is_imported() {
    let folder = Folder::new();
    let csv = |content: &str| folder.with("bad.csv", content);
    check_refused(&[], &csv("key,value\n2,20\n3,x\n"), "row 3: the value is `x`: not an integer");
    check_refused(&[], &csv("2,20\n-3,30\n"), "row 2: the key is `-3`: out of range");
    check_refused(&[], &csv("2,20\n3\n"), "row 2: 1 field between commas, where there should be 2");
    check_refused(
        &[],
        &csv("2,20\n3,30,300\n"),
        "row 2: 3 fields between commas, where there should be 2",
    );
    check_refused(&[], &csv("abc,20\n"), "row 1: the key is `abc`");
    check_refused(&[], &csv("2,20\n,30\n"), "row 2: the key is ``: missing");
    let path = folder.with("bytes.csv", b"2,20\n\xff,30\n");
    check_refused(&[], &path, "row 2: not UTF-8 text");
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
        assert_eq!(said, [r#"{"ok":true,"rows":1}"#], "{name}");
    }
}

#[test]
fn an_export_that_fails_leaves_what_was_there() {
    let folder = Folder::new();
    let path = folder.with("kept.parquet", "precious");
    let lines = ["insert 1 2".into(), format!("export {path}")];
    let said = answers(&["--value", "u128"], &lines);
    assert!(said[1].contains("Parquet has no type for u128"), "{}", said[1]);
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "precious");
    let said = answers(&[], &[format!("export {}", folder.path("no/such/folder.csv"))]);
    assert!(said[0].contains("no such file or folder"), "{}", said[0]);
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
    check_refused(&[], &path, "row 2: the value is out of range");
    check_refused(&["--value", "none"], &path, "2 columns, none of which is named `key`");

    // What is inside of other columns is not looked at.
    let schema = "message m { REQUIRED group x { REQUIRED INT64 key; REQUIRED INT64 value; } REQUIRED INT64 key; REQUIRED INT64 value; }";
    let columns: [&dyn Fn(&mut SerializedColumnWriter<'_>); 4] =
        [&ints(&[1]), &ints(&[5]), &ints(&[7]), &ints(&[70])];
    parquet_file(&path, schema, &columns);
    let said = answers(&[], &[format!("import {path}"), "range 0 9".into()]);
    assert_eq!(said[1], r#"{"pairs":[[7,70]]}"#);
    let schema = "message m { REQUIRED group key { REQUIRED INT64 a; REQUIRED INT64 b; } REQUIRED INT64 value; }";
    parquet_file(&path, schema, &columns[..3]);
    check_refused(&[], &path, "column `key` does not hold plain numbers");
    parquet_file(&path, "message m { REQUIRED INT64 key; }", &columns[..1]);
    check_refused(&[], &path, "1 column, none of which is named `value`");
    let schema = "message m { REQUIRED INT64 key; REQUIRED INT64 value; }";
    parquet_file(&path, schema, &[&ints(&[9_007_199_254_740_993]), &ints(&[5])]);
    check_refused(
        &["--key", "f64"],
        &path,
        "row 1: the key is an integer that f64 cannot represent exactly",
    );

    let schema = "message m { REQUIRED INT64 key; OPTIONAL INT32 value; }";
    parquet_file(
        &path,
        schema,
        &[&ints(&[5, 6, 7]), &|column| {
            let levels = Some(&[1, 1, 0][..]);
            column.typed::<Int32Type>().write_batch(&[1, 2], levels, None).expect("numbers");
        }],
    );
    check_refused(&[], &path, "row 3: the value is missing");

    let schema = "message m { REQUIRED INT64 key; REQUIRED BYTE_ARRAY value (STRING); }";
    parquet_file(
        &path,
        schema,
        &[&ints(&[5]), &|column| {
            let text = [ByteArray::from("50")];
            column.typed::<ByteArrayType>().write_batch(&text, None, None).expect("text");
        }],
    );
    check_refused(&[], &path, "column `value` does not hold plain numbers");
}
