//! The bytes of every format, which are a promise, and files whose checksums are right but whose numbers are not.

use std::path::Path;

use crate::files::bytes::checksum;
use crate::files::folder::Durability;
use crate::files::log::{LogHeader, LogWriter};
use crate::files::manifest::{Manifest, Owner};
use crate::files::record::{RecordHeader, Update};
use crate::files::run::{RunInfo, RunReader, RunShape, RunWriter, Section, Widths};
use crate::files::schema::{Kind, Part, Schema};
use crate::files::simulated::{Random, Simulated};
use crate::files::storage::{Directory, Storage};
use crate::files::tests::database::{Change, Database, PATH};

fn manifest() -> Manifest {
    Manifest {
        identity: 0x0123_4567_89ab_cdef,
        generation: 3,
        owner: Owner::default(),
        schema: Schema {
            key: [(Kind::Unsigned, 4), (Kind::Float, 8)]
                .map(|(kind, width)| Part { kind, width })
                .to_vec(),
            widths: Widths { key: 16, value: 8 },
            value_name: "f64".into(),
            rule: 1,
            element: Some(Part { kind: Kind::Float, width: 8 }),
            notes: Vec::new(),
        },
        settings: vec![("batch_size".into(), 65536)],
        sequence: 5,
        synced: 6,
        next_file: 9,
        first_log: 7,
        last_log: 8,
        runs: vec![RunInfo { file: 4, level: 2, entries: 100, bytes: 20_000, checksum: 77 }],
    }
}

/// Returns a storage with an empty folder.
fn storage() -> (Simulated, Storage) {
    let storage = Simulated::new();
    storage.replace(&Path::new(PATH).join("LOCK"), Some(Vec::new()));
    let raw = Storage::new(storage.clone());
    (storage, raw)
}

fn folder(raw: &Storage) -> Directory {
    raw.open_directory(Path::new(PATH)).unwrap()
}

fn write_run(raw: &Storage, name: &str) -> RunInfo {
    let shape = RunShape { widths: Widths { key: 4, value: 8 }, entries: 40, has_marks: true };
    let mut run = RunWriter::new(folder(raw).create(name).unwrap(), 0, 1, shape).unwrap();
    let keys: Vec<u8> = (0..40u32).flat_map(|key| (3 * key).to_le_bytes()).collect();
    run.write(Section::Keys, &keys).unwrap();
    run.write(Section::Values, &[keys.clone(), keys].concat()).unwrap();
    run.write(Section::Marks, &[0xff; 16]).unwrap();
    run.finish(0).unwrap()
}

fn write_log(raw: &Storage) -> LogWriter {
    let header =
        LogHeader { number: 2, identity: 0x0123_4567_89ab_cdef, first: 1, salt: 77, owner: 0 };
    let widths = Widths { key: 4, value: 8 };
    let updates = [
        Update::Batch { keys: &[1; 12], values: &[2; 24], assigned: 1, deletes: &[3; 8] },
        Update::RangeDelete { lows: &[4; 8], highs: &[5; 8] },
        Update::Clear,
    ];
    let log = LogWriter::create(&folder(raw), header, |log| {
        updates.iter().zip(1..).try_for_each(|(update, sequence)| {
            let payload = update.payload(widths);
            log.append(payload.kind, sequence, &payload.parts())
        })
    });
    log.map_err(|failed| failed.error).unwrap()
}

#[test]
fn the_formats_of_version_1_stay_as_they_are() {
    let (storage, raw) = storage();
    let path = |name: &str| Path::new(PATH).join(name);
    let manifest = manifest().encode();
    write_run(&raw, "000001.run");
    let log_len = write_log(&raw).len();
    let run = storage.contents(&path("000001.run")).unwrap();
    let log = storage.contents(&path("000002.log")).unwrap();
    assert_eq!(log_len, log.len() as u64);
    let lens = [manifest.len(), run.len(), log.len()];
    let sums = [checksum(&manifest), checksum(&run), checksum(&log)];
    assert_eq!((lens, sums), (LENS, SUMS));
}

/// The lengths and checksums of a manifest, a run and a log of version 1.
const LENS: [usize; 3] = [168, 16_408, 344];
const SUMS: [u64; 3] =
    [14_905_584_155_994_524_054, 11_421_587_021_736_994_698, 4_926_321_280_471_723_753];

/// Changes a few bytes of a file's part.
fn change_bytes(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let index = random.below(bytes.len());
        bytes[index] = [0, 1, 0x7f, 0xff, random.next() as u8][random.below(5)];
    }
}

#[test]
fn notes_follow_all_other_fields() {
    let (storage, raw) = storage();
    let path = Path::new(PATH).join("MANIFEST");
    let read = |bytes: Vec<u8>| {
        storage.replace(&path, Some(bytes));
        Manifest::read(&raw.open_file(&path).unwrap())
    };
    let plain = manifest().encode();
    let mut noted = manifest();
    noted.schema.notes = vec![("numpy.value".into(), "'<M8[ns]'".into())];
    let bytes = noted.encode();
    assert_eq!(bytes[24..plain.len() - 8], plain[24..plain.len() - 8]);
    assert_eq!(bytes.len() - plain.len(), 4 + 2 + 11 + 2 + 9);
    assert_eq!(read(bytes).unwrap().0, noted);
    // A list of notes is never empty, unless there is an owner, whose numbers are never 0 both.
    for zeros in [4, 4 + 8, 4 + 16] {
        let mut empty = plain[..plain.len() - 8].to_vec();
        empty[16] += zeros;
        empty.resize(empty.len() + usize::from(zeros), 0);
        empty.extend(checksum(&empty).to_le_bytes());
        assert!(read(empty).is_err());
    }
}

#[test]
fn the_owner_follows_the_notes() {
    let (storage, raw) = storage();
    let path = Path::new(PATH).join("MANIFEST");
    let plain = manifest().encode();
    let mut owned = Manifest { owner: Owner { number: 5, token: u64::MAX }, ..manifest() };
    for notes in [vec![], vec![("numpy.value".to_string(), "'<M8[ns]'".to_string())]] {
        owned.schema.notes = notes;
        let bytes = owned.encode();
        assert_eq!(bytes[24..plain.len() - 8], plain[24..plain.len() - 8]);
        let tail = [5u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
        assert_eq!(bytes[bytes.len() - 24..bytes.len() - 8], tail);
        storage.replace(&path, Some(bytes));
        assert_eq!(Manifest::read(&raw.open_file(&path).unwrap()).unwrap().0, owned);
    }
}

#[test]
fn manifests_with_impossible_numbers_and_right_checksums_are_errors_or_work() {
    let (storage, raw) = storage();
    let path = Path::new(PATH).join("MANIFEST");
    let mut noted = manifest();
    noted.schema.notes = vec![("a".into(), "note".into()), ("another".into(), String::new())];
    let valid = noted.encode();
    storage.replace(&path, Some(valid.clone()));
    assert_eq!(Manifest::read(&raw.open_file(&path).unwrap()).unwrap().0, noted);
    let mut random = Random(11);
    let mut errors = 0;
    for _ in 0..20_000 {
        let mut bytes = valid.clone();
        let body = 16..bytes.len() - 8;
        change_bytes(&mut bytes[body.clone()], &mut random);
        let sum = checksum(&bytes[..body.end]);
        bytes[body.end..].copy_from_slice(&sum.to_le_bytes());
        storage.replace(&path, Some(bytes));
        errors += u32::from(Manifest::read(&raw.open_file(&path).unwrap()).is_err());
        if let Ok(mut database) = Database::open(&storage.moment().end_process(), Durability::Batch)
        {
            database.update(&Change::Clear).unwrap();
        }
    }
    assert!((1000..19_000).contains(&errors), "{errors}");
}

/// Found by changed files: the next generation would have no number.
#[test]
fn a_generation_that_nothing_can_follow_is_impossible() {
    let body = |generation| Manifest { generation, ..manifest() }.encode();
    let decode = |bytes: Vec<u8>| Manifest::decode(&bytes[24..bytes.len() - 8]);
    assert!(decode(body((1 << 62) - 1)).is_some());
    assert!(decode(body(1 << 62)).is_none() && decode(body(u64::MAX)).is_none());
}

/// Found by changed files: the next manifest would be impossible, and nothing could be opened again.
#[test]
fn numbers_that_leave_none_for_later_files_are_refused() {
    let storage = Simulated::new();
    let database = Database::open(&storage, Durability::Batch).unwrap();
    let manifest = database.folder.manifest();
    drop(database);
    let path = Path::new(PATH).join("MANIFEST");
    for next_file in [(1 << 62) - 1, (1 << 62) - (1 << 32)] {
        storage.replace(&path, Some(Manifest { next_file, ..manifest.clone() }.encode()));
        let error = Database::open(&storage.moment().end_process(), Durability::Batch).err();
        assert!(error.unwrap().to_string().contains("no numbers left"));
    }
    let next_file = 1 << 61;
    storage.replace(&path, Some(Manifest { next_file, ..manifest }.encode()));
    let storage = storage.moment().end_process();
    drop(Database::open(&storage, Durability::Batch).unwrap());
    Database::open(&storage.moment().end_process(), Durability::Batch).unwrap();
}

/// The next log would be obsolete from the beginning.
#[test]
fn logs_are_numbered_below_the_next_file() {
    let bytes = |first_log, last_log| Manifest { first_log, last_log, ..manifest() }.encode();
    let decode = |bytes: Vec<u8>| Manifest::decode(&bytes[24..bytes.len() - 8]);
    assert!(decode(bytes(9, 9)).is_some());
    assert!(decode(bytes(10, 0)).is_none() && decode(bytes(7, 10)).is_none());
}

#[test]
fn runs_with_impossible_numbers_and_right_checksums_are_errors() {
    let (storage, raw) = storage();
    let path = Path::new(PATH).join("000001.run");
    let info = write_run(&raw, "000001.run");
    let valid = storage.contents(&path).unwrap();
    RunReader::open(raw.open_file(&path).unwrap(), 0, &info).unwrap();
    let mut random = Random(12);
    for _ in 0..20_000 {
        let mut bytes = valid.clone();
        change_bytes(&mut bytes[8..80], &mut random);
        if bytes == valid {
            continue;
        }
        let sum = checksum(&bytes[..4088]);
        bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
        let info = RunInfo { checksum: checksum(&bytes[..4096]), ..info };
        storage.replace(&path, Some(bytes));
        assert!(RunReader::open(raw.open_file(&path).unwrap(), 0, &info).is_err());
    }
}

#[test]
fn records_with_impossible_numbers_and_right_checksums_are_errors_or_cut_off() {
    let storage = Simulated::new();
    let mut database = Database::open(&storage, Durability::Batch).unwrap();
    for key in 0..4 {
        let change = Change::Batch { inserts: vec![(key, key)], deletes: vec![key + 9] };
        database.update(&change).unwrap();
    }
    let manifest = database.folder.manifest();
    let path = Path::new(PATH).join(format!("log/{:06}.log", manifest.last_log));
    let valid = storage.contents(&path).unwrap();
    let log = LogHeader::decode(&valid[..64]).unwrap();
    let record_len = (valid.len() - 64) / 4;
    let mut random = Random(13);
    for _ in 0..5_000 {
        let mut bytes = valid.clone();
        let start = 64 + record_len * random.below(4);
        let header = RecordHeader::decode(&bytes[start..start + 40], log.seed()).unwrap();
        let number = [0, 1, 16, 104, 1 << 40, u64::MAX, random.next()][random.below(7)];
        let header = match random.below(4) {
            0 => RecordHeader { len: number, ..header },
            1 => RecordHeader { sequence: number, ..header },
            2 => RecordHeader { watermark: number, ..header },
            _ => RecordHeader { kind: number as u16, flags: (number >> 62) as u16, ..header },
        };
        bytes[start..start + 40].copy_from_slice(&header.encode(log.seed()));
        let copy = storage.moment().end_process();
        copy.replace(&path, Some(bytes));
        if let Ok(database) = Database::open(&copy, Durability::Batch) {
            assert!(database.folder.sequence() <= 4);
        }
    }
}
