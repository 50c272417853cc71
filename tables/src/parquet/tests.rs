use std::path::Path;
use std::sync::Arc;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use crate::{Missing, Numbers, ReadOptions, Step, Table, Type, Unit, WriteOptions};

type Write<'a> = Box<dyn Fn(&mut SerializedColumnWriter<'_>) + 'a>;

/// Numbers of a column without nulls.
fn plain<T: DataType>(numbers: &[T::T]) -> Write<'_> {
    optional::<T>(numbers, &[])
}

/// Numbers of a column in which a level of 0 stands for a null.
fn optional<'a, T: DataType>(numbers: &'a [T::T], levels: &'a [i16]) -> Write<'a> {
    Box::new(move |column| {
        let levels = (!levels.is_empty()).then_some(levels);
        column.typed::<T>().write_batch(numbers, levels, None).unwrap();
    })
}

fn write_file(path: &Path, fields: &str, columns: &[Write<'_>], compression: Compression) {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {fields} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    for _ in 0..2 {
        let mut group = writer.next_row_group().unwrap();
        for write in columns {
            let mut column = group.next_column().unwrap().unwrap();
            write(&mut column);
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// Writes these columns, twice, and reads them.
fn read(fields: &str, columns: &[Write<'_>], options: &ReadOptions) -> Result<Table, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write_file(&path, fields, columns, Compression::UNCOMPRESSED);
    crate::read(&path, options).map_err(|error| error.to_string())
}

/// Reads one column as keys of a set.
fn read_keys<T: DataType>(field: &str, numbers: &[T::T], of: Type) -> Result<Table, String> {
    read(field, &[plain::<T>(numbers)], &ReadOptions::new(of, Type::None))
}

#[track_caller]
fn check_keys<T: DataType>(field: &str, numbers: &[T::T], expected: Numbers) -> Option<String> {
    let table = read_keys::<T>(field, numbers, expected.of()).unwrap();
    let half = |row| expected.get(row % expected.len());
    assert!((0..table.keys.len()).all(|row| table.keys.get(row) == half(row)), "{table:?}");
    assert_eq!(table.keys.len(), 2 * expected.len());
    table.key_notes.unit.map(|unit| unit.to_string())
}

#[track_caller]
fn check_refused<T: DataType>(field: &str, numbers: &[T::T], of: Type, what: &str) {
    let error = read_keys::<T>(field, numbers, of).unwrap_err();
    assert!(error.contains(what), "{error}");
}

#[test]
fn integers_of_all_widths_are_read() {
    for width in [8, 16, 32] {
        let signed = format!("REQUIRED INT32 key (INTEGER({width},true));");
        check_keys::<Int32Type>(&signed, &[-1, 7], Numbers::I64(vec![-1, 7]));
        let unsigned = format!("REQUIRED INT32 key (INTEGER({width},false));");
        check_keys::<Int32Type>(&unsigned, &[1, 7], Numbers::U64(vec![1, 7]));
        for old in ["INT", "UINT"] {
            let field = format!("REQUIRED INT32 key ({old}_{width});");
            check_keys::<Int32Type>(&field, &[1, 7], Numbers::I32(vec![1, 7]));
        }
    }
    let field = "REQUIRED INT64 key (INTEGER(64,false));";
    check_keys::<Int64Type>(field, &[-1, 7], Numbers::U64(vec![u64::MAX, 7]));
    let field = "REQUIRED INT32 key (INTEGER(32,false));";
    check_keys::<Int32Type>(field, &[-1, 7], Numbers::U32(vec![u32::MAX, 7]));
    let field = "REQUIRED INT64 key;";
    check_keys::<Int64Type>(field, &[-1, 7], Numbers::I32(vec![-1, 7]));
    check_refused::<Int64Type>(field, &[7, -1], Type::U32, "row 2: column 1 (key) is out of range");
}

#[test]
fn times_are_integers_of_their_unit() {
    let unit = |field: &str| {
        let numbers = Numbers::I64(vec![-5, 1_700_000_000_000]);
        check_keys::<Int64Type>(field, &[-5, 1_700_000_000_000], numbers).unwrap()
    };
    for (name, unit_name) in
        [("MILLIS", "milliseconds"), ("MICROS", "microseconds"), ("NANOS", "nanoseconds")]
    {
        let field = |utc: bool| format!("REQUIRED INT64 at (TIMESTAMP({name},{utc}));");
        assert_eq!(unit(&field(true)), format!("{unit_name} since 1970-01-01 UTC"));
        assert_eq!(unit(&field(false)), format!("{unit_name} since 1970-01-01 (no time zone)"));
    }
    let old = unit("REQUIRED INT64 at (TIMESTAMP_MICROS);");
    assert_eq!(old, "microseconds since 1970-01-01 UTC");
    let day =
        check_keys::<Int32Type>("REQUIRED INT32 d (DATE);", &[19_000], Numbers::U32(vec![19_000]));
    assert_eq!(day.as_deref(), Some("days since 1970-01-01"));
    let field = "REQUIRED INT32 t (TIME(MILLIS,true));";
    let time = check_keys::<Int32Type>(field, &[86_399_999], Numbers::U32(vec![86_399_999]));
    assert_eq!(time.as_deref(), Some("milliseconds since midnight"));
    let mut moment = Int96::new();
    moment.set_data(9, 0, 2_440_589);
    let expected = Numbers::I64(vec![86_400_000_000_009]);
    let spark = check_keys::<Int96Type>("REQUIRED INT96 t;", &[moment], expected);
    assert_eq!(spark.as_deref(), Some("nanoseconds since 1970-01-01 (no time zone)"));
}

#[test]
fn decimals_fit_exactly_or_are_refused() {
    let field = "REQUIRED INT32 price (DECIMAL(9,2));";
    check_keys::<Int32Type>(field, &[1200, -300], Numbers::I32(vec![12, -3]));
    check_keys::<Int32Type>(field, &[1234, -5], Numbers::F64(vec![12.34, -0.05]));
    check_refused::<Int32Type>(
        field,
        &[1200, 1234],
        Type::U32,
        "row 2: column 1 (price) is 12.34: not an integer",
    );
    let field = "REQUIRED INT64 price (DECIMAL(18,0));";
    check_keys::<Int64Type>(field, &[7], Numbers::U64(vec![7]));
    let bytes = |number: i128| ByteArray::from(number.to_be_bytes().to_vec());
    let field = "REQUIRED FIXED_LEN_BYTE_ARRAY (16) price (DECIMAL(38,3));";
    let fixed = [FixedLenByteArray::from(bytes(-7000)), FixedLenByteArray::from(bytes(2000))];
    check_keys::<FixedLenByteArrayType>(field, &fixed, Numbers::I32(vec![-7, 2]));
    let field = "REQUIRED BYTE_ARRAY price (DECIMAL(38,1));";
    check_keys::<ByteArrayType>(field, &[bytes(15)], Numbers::F32(vec![1.5]));
    let long = [bytes(12345678901234567890123)];
    check_refused::<ByteArrayType>(field, &long, Type::F64, "more digits than f64 has");
}

#[test]
fn nulls_are_refused_or_skipped() {
    let fields = "OPTIONAL INT64 key; OPTIONAL INT32 value;";
    let columns = [
        optional::<Int64Type>(&[1, 3, 4], &[1, 0, 1, 1]),
        optional::<Int32Type>(&[10, 20, 30], &[1, 1, 1, 0]),
    ];
    let options = ReadOptions::new(Type::U32, Type::U32);
    let error = read(fields, &columns, &options).unwrap_err();
    assert!(
        error.ends_with(
            "row 2: column 1 (key) is null; to skip such rows, use the option missing=skip"
        ),
        "{error}"
    );
    let table = read(fields, &columns, &ReadOptions { missing: Missing::Skip, ..options }).unwrap();
    assert_eq!(table.keys, Numbers::U32(vec![1, 3, 1, 3]));
    assert_eq!(table.values, Numbers::U32(vec![10, 30, 10, 30]));
    assert_eq!(table.skipped, 4);
}

#[test]
fn whole_floats_fit_integers() {
    let field = "REQUIRED DOUBLE key;";
    check_keys::<DoubleType>(field, &[7.0, -3.0], Numbers::I32(vec![7, -3]));
    check_refused::<DoubleType>(
        field,
        &[7.0, 7.5],
        Type::U32,
        "row 2: column 1 (key) is not an integer",
    );
}

#[test]
fn lost_precision_is_counted() {
    let field = "REQUIRED INT64 key;";
    let table = read_keys::<Int64Type>(field, &[(1 << 53) + 1, 1 << 53], Type::F64).unwrap();
    assert_eq!(table.key_notes.rounded, 2);
    let numbers = [0.1, 0.5, f64::NAN, -0.0];
    let table = read_keys::<DoubleType>("REQUIRED DOUBLE key;", &numbers, Type::F32).unwrap();
    let notes = table.key_notes;
    assert_eq!((notes.rounded, notes.nans, notes.negative_zeros), (2, 2, 2));
}

#[test]
fn columns_without_numbers_are_named() {
    let text = [ByteArray::from("50")];
    let check = |field: &str, holds: &str| {
        check_refused::<ByteArrayType>(field, &text, Type::U32, holds);
    };
    check("REQUIRED BYTE_ARRAY key (STRING);", "column 1 (key) holds text, not numbers");
    check("REQUIRED BYTE_ARRAY key (UTF8);", "column 1 (key) holds text, not numbers");
    check("REQUIRED BYTE_ARRAY key;", "column 1 (key) holds bytes, not numbers");
    let fields = "REQUIRED group key { REQUIRED FLOAT a; }";
    check_refused::<FloatType>(fields, &[1.0], Type::F32, "holds columns of its own");
}

#[test]
fn every_compression_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let numbers: Vec<i64> = (0..100_000).map(|number| number / 3).collect();
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let path = folder.path().join("a.parquet");
        write_file(&path, "REQUIRED INT64 key;", &[plain::<Int64Type>(&numbers)], compression);
        let table = crate::read(&path, &ReadOptions::new(Type::I64, Type::None)).unwrap();
        assert_eq!(table.keys, Numbers::I64([&numbers[..], &numbers].concat()), "{compression}");
    }
}

#[test]
fn times_are_written_as_timestamps_to_parquet_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let steps = [Step::Milliseconds, Step::Microseconds, Step::Nanoseconds];
    for (step, times) in steps.into_iter().flat_map(|step| [(step, vec![]), (step, vec![-5, 7])]) {
        let (keys, values) = (Numbers::I64(times.clone()), Numbers::I64(times));
        let options = WriteOptions { force: true, key_times: Some(step), ..Default::default() };
        crate::write(&path, &keys, &values, &options).unwrap();
        let table = crate::read(&path, &ReadOptions::new(Type::I64, Type::I64)).unwrap();
        assert_eq!((table.keys, table.values), (keys.clone(), values.clone()));
        assert_eq!(table.key_notes.unit, Some(Unit::Timestamp { step, is_utc: false }));
        assert_eq!(table.value_notes.unit, None);
        let text = folder.path().join("a.csv");
        let error = crate::write(&text, &keys, &values, &options).unwrap_err().to_string();
        assert!(error.contains("times can be written to .parquet files only"), "{error}");
        assert!(!text.exists());
    }
}

#[test]
fn what_is_written_is_read_and_what_is_cut_or_changed_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let keys = Numbers::F32(vec![f32::NEG_INFINITY, -0.5, 1e30]);
    let values = Numbers::U64(vec![0, 7, u64::MAX]);
    crate::write(&path, &keys, &values, &WriteOptions::default()).unwrap();
    let options = ReadOptions::new(Type::F32, Type::U64);
    let table = crate::read(&path, &options).unwrap();
    assert_eq!((table.keys, table.values), (keys, values));
    let separated = ReadOptions { separator: ";".parse().ok(), ..options.clone() };
    let error = crate::read(&path, &separated).unwrap_err().to_string();
    assert!(error.contains("options for text"), "{error}");
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let error = crate::read(&path, &options).unwrap_err().to_string();
        assert!(error.contains("this can't be read as Parquet"), "{error}");
    }
    // A changed byte may be a changed number or an error, but nothing worse.
    for (at, mask) in (0..whole.len()).flat_map(|at| [0x55, 0x80].map(|mask| (at, mask))) {
        let mut bytes = whole.clone();
        bytes[at] ^= mask;
        std::fs::write(&path, &bytes).unwrap();
        crate::read(&path, &options).ok();
    }
}
