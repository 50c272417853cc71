use std::io::Read;

use super::*;
use crate::{Error, read, write};
use crate::{Numbers, ReadOptions, Table};

/// Reads a file of this name and content.
fn read_as(name: &str, content: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Table, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    read(&path, options).map_err(|error| match error {
        Error::Content { message, .. } => message,
        error => panic!("{error}"),
    })
}

fn pairs() -> ReadOptions {
    ReadOptions::new(Type::U32, Type::U32)
}

fn set() -> ReadOptions {
    ReadOptions::new(Type::U32, Type::None)
}

fn columns(key: &str, value: &str) -> ReadOptions {
    let choice = |text: &str| Some(text.parse().unwrap());
    ReadOptions { key_column: choice(key), value_column: choice(value), ..pairs() }
}

/// Checks that a file has the pairs (1, 10) and (3, 30).
#[track_caller]
fn check(name: &str, content: impl AsRef<[u8]>, options: &ReadOptions) {
    let table = read_as(name, content, options).unwrap();
    assert_eq!(table.keys, Numbers::U32(vec![1, 3]));
    assert_eq!(table.values, Numbers::U32(vec![10, 30]));
}

#[track_caller]
fn check_refused(content: impl AsRef<[u8]>, options: &ReadOptions, what: &str) {
    let error = read_as("bad.csv", content, options).unwrap_err();
    assert!(error.contains(what), "{error}");
}

#[test]
fn headers_are_recognised() {
    check("a.csv", "key,value\n1,10\n3,30\n", &pairs());
    check("a.csv", "1,10\n3,30", &pairs());
    check("a.csv", "id,price\r\n 1 , 10\r\n\r\n3,\"30\"", &pairs());
    check("a.csv", "\u{feff}Value,name,KEY\n10,x,1\n30,y,3\n", &pairs());
    check("a.csv", "\u{feff}1,10\n3,30\n", &pairs());
    check("a.csv", ",key,value\n0,1,10\n1,3,30\n", &pairs());
    // Names may be numbers if it is said that they are names.
    check("a.csv", "2023,2024\n1,10\n3,30\n", &ReadOptions { header: Header::Yes, ..pairs() });
    check_refused("key,value\n1,10\n", &ReadOptions { header: Header::No, ..pairs() }, "line 1");
    check_refused(
        "abc,20\n",
        &pairs(),
        "column 1 is `abc`: not an integer (expected u32) (if this",
    );
    for options in [set(), ReadOptions { header: Header::Yes, ..set() }] {
        let table = read_as("a.csv", "id\n1\n", &options).unwrap();
        assert_eq!((table.keys, table.values), (Numbers::U32(vec![1]), Numbers::None(1)));
    }
    // It might be a number that is misspelt.
    let floats = ReadOptions::new(Type::F64, Type::None);
    check_refused("inft\n1\n", &floats, "line 1: column 1 is `inft`");
    assert_eq!(read_as("a.csv", "key\n1\n", &floats).unwrap().keys, Numbers::F64(vec![1.0]));
    let table = read_as("a.csv", "key,value\n", &pairs()).unwrap();
    assert!(table.keys.is_empty() && table.values.is_empty());
}

#[test]
fn columns_are_chosen_by_name_and_by_number() {
    let text = "id,name,price,id\n1,\"a,b\",10,5\n3,\"c\nd\",30,6\n";
    check("a.csv", text, &columns("1", "price"));
    check("a.csv", text, &columns("1", "3"));
    check_refused(
        text,
        &columns("id", "price"),
        "line 1: 2 columns are named `id`; choose one by its number, such as 1 or 4",
    );
    check_refused(text, &pairs(), "which column holds the keys?");
    check("a.csv", "x,10,1\ny,30,3\n", &columns("3", "2"));
    let no_header = ReadOptions { header: Header::No, ..columns("id", "price") };
    check_refused(text, &no_header, "without a header, columns can be chosen only by number");
}

#[test]
fn fields_are_separated_by_what_the_name_or_an_option_says() {
    check("a.tsv", "1\t10\n3\t30\n", &pairs());
    check("a.tab", "key\tvalue\n1\t10\n3\t30\n", &pairs());
    for separator in [";", "tab", "|", " ", ":"] {
        let options = ReadOptions { separator: separator.parse().ok(), ..pairs() };
        let byte = separator.replace("tab", "\t");
        check("a.csv", format!("1{byte}10\n3{byte}30\n"), &options);
        check("a.tsv", format!("key{byte}value\n1{byte}10\n3{byte}30\n"), &options);
    }
    check_refused(
        "key;value\n1;10\n",
        &pairs(),
        "is the separator `;`, not `,`? (option separator)",
    );
    check_refused("1\t10\n", &pairs(), "is the separator `tab`, not `,`?");
    check_refused("1 10\n", &pairs(), "is the separator `space`, not `,`?");
    check_refused(
        "1;1,5\n",
        &ReadOptions { separator: ";".parse().ok(), ..pairs() },
        "it has a comma",
    );
}

#[test]
fn a_single_column_is_no_dictionary_with_values() {
    for text in ["1\n2\n", "id\n1\n", "key\n1\n"] {
        check_refused(text, &pairs(), "but keys and values need two; a set has keys alone");
    }
}

#[test]
fn missing_values_are_refused_or_skipped() {
    let text = "key,value\n1,10\n,20\n3,30\n4, \n\"\",\n";
    check_refused(
        text,
        &pairs(),
        "line 3: column 1 (key) is empty; to skip such rows, use the option missing=skip",
    );
    let skip = ReadOptions { missing: Missing::Skip, ..pairs() };
    check("a.csv", text, &skip);
    assert_eq!(read_as("a.csv", text, &skip).unwrap().skipped, 3);
    assert_eq!(read_as("a.csv", "1,10\n", &skip).unwrap().skipped, 0);
}

#[test]
fn a_wrong_row_is_named_by_line_and_column() {
    check_refused(
        "key,value\n2,20\n3,x\n",
        &pairs(),
        "line 3: column 2 (value) is `x`: not an integer",
    );
    check_refused("2,20\r\n-3,30\r\n", &pairs(), "line 2: column 1 is `-3`: out of range");
    check_refused("2,20\n\n\n3\n", &pairs(), "line 4: 1 field, where the first line has 2");
    check_refused("2,20\n3,30,300\n", &pairs(), "line 2: 3 fields, where the first line has 2");
    let quoted = "note,key,value\n\"a\nb\n\",1,10\n\"c\nd\",2,x\n";
    check_refused(quoted, &pairs(), "line 6: column 3 (value) is `x`");
    check_refused(b"2,20\n\xff,30\n", &pairs(), "line 2: column 1 is `\u{fffd}`: not UTF-8 text");
    check_refused("2024-01-05T10:00:00Z,1\n", &pairs(), "convert it to a number first");
    let long = format!("1,{}\n", "9".repeat(1 << 20));
    let error = read_as("a.csv", long, &pairs()).unwrap_err();
    assert!(error.contains("out of range") && error.len() < 300, "{error}");
}

#[test]
fn what_is_no_csv_is_refused_with_a_reason() {
    check_refused("", &pairs(), "this file is empty");
    check_refused("\n\r\n\n", &pairs(), "this file is empty");
    check_refused("1,2\n3,\"4", &pairs(), "line 2: a quote is opened and never closed");
    check_refused(
        format!("1,\"{}", "x\n".repeat(10 << 20)),
        &pairs(),
        "line 1: far too long; is a quote not closed?",
    );
    check_refused(b"PAR1\x15\x04", &pairs(), "this is a Parquet file");
    check_refused(b"\x1f\x8b\x08\0\0\0", &pairs(), "this is a gzip file: its name must end in .gz");
    check_refused(b"\xff\xfe1\0,\0", &pairs(), "this is UTF-16 text");
    check_refused(b"\x7fELF\x02\x01\0\0\n", &pairs(), "line 1: not text; is this a CSV file?");
    check_refused(b"\x89\xfa\x93\xc8\n", &pairs(), "not UTF-8 text; is this a CSV file?");
    let gzip = |content: &[u8]| read_as("bad.csv.gz", content, &pairs()).unwrap_err();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    (0..100_000).for_each(|row| writeln!(encoder, "{row},{}", row * 7).unwrap());
    let whole = encoder.finish().unwrap();
    for bytes in [&b"1,2\n3,4\n"[..], &whole[..whole.len() / 2], &whole[..5]] {
        assert!(gzip(bytes).contains("this can't be read as gzip"), "{}", gzip(bytes));
    }
    assert!(
        gzip(b"").contains("this file is empty") || gzip(b"").contains("gzip"),
        "{}",
        gzip(b"")
    );
}

#[test]
fn lost_precision_is_counted() {
    let text = "0.1,0.1\n16777217,0.123456789\n16777216,0.5\n-0,-0\nNaN,NaN\nnan,1\n";
    let table = read_as("a.csv", text, &ReadOptions::new(Type::F32, Type::F32)).unwrap();
    assert_eq!(table.keys.len(), 6);
    let notes = &table.key_notes;
    assert_eq!((notes.rounded, notes.negative_zeros, notes.nans), (1, 1, 2));
    assert_eq!(table.value_notes.rounded, 1);
    let table = read_as("a.csv", text, &ReadOptions::new(Type::F64, Type::F64)).unwrap();
    assert_eq!((table.key_notes.rounded, table.value_notes.rounded), (0, 0));
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Numbers::I64(vec![i64::MIN, -1, 0, i64::MAX]);
    let values = Numbers::F32(vec![0.1, f32::NEG_INFINITY, -0.0, 1e-40]);
    for name in ["a.csv", "a.tsv", "a.tab", "a.csv.gz", "a.tsv.gz"] {
        for separator in [None, "|".parse().ok()] {
            let path = folder.path().join(name);
            let options = WriteOptions { separator, force: true, ..WriteOptions::default() };
            write(&path, &keys, &values, &options).unwrap();
            let options = ReadOptions { separator, ..ReadOptions::new(Type::I64, Type::F32) };
            let table = read(&path, &options).unwrap();
            assert_eq!((&table.keys, &table.values), (&keys, &values), "{name}");
        }
    }
    let mut text = String::new();
    let file = File::open(folder.path().join("a.csv.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("key|value\n-9223372036854775808|0.1\n"), "{text}");
    let path = folder.path().join("set.csv");
    write(&path, &Numbers::U32(vec![7]), &Numbers::None(1), &WriteOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "key\n7\n");
}
