//! Damaged, truncated, swapped, missing and foreign files are found, and nothing is changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files::bytes::checksum;
use crate::files::check::check_in;
use crate::files::folder::Durability;
use crate::files::log::LogHeader;
use crate::files::manifest::Manifest;
use crate::files::opening::Opening;
use crate::files::record::{RecordHeader, Update};
use crate::files::run::{RunShape, Section, Widths};
use crate::files::saved::{SavedReader, SavedWriter};
use crate::files::schema::{Kind, Part, Schema};
use crate::files::simulated::{Random, Simulated, Survivors};
use crate::files::storage::Storage;
use crate::files::tests::database::{Change, Database, PATH, Pairs, schema};

const SAVED: &str = "/saved.gpulsm";

/// Returns a folder with two runs and logs, closed or not, and its contents.
fn folder(is_closed: bool) -> (Simulated, Pairs) {
    let storage = Simulated::new();
    let mut random = Random(7);
    let mut database = Database::open(&storage, Durability::Batch).unwrap();
    for update in 0..9 {
        let insert = Change::Batch { inserts: vec![(update, random.next()); 3], deletes: vec![] };
        database.update(&insert).unwrap();
        database.update(&Change::RangeDelete { ranges: vec![(3, 4)] }).unwrap();
        if update == 3 || update == 5 {
            database.checkpoint(false).unwrap();
        }
    }
    let pairs = database.pairs.clone();
    if is_closed {
        database.folder.close().unwrap();
    }
    (storage.moment().end_process(), pairs)
}

fn contents(storage: &Simulated) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = storage.paths().into_iter();
    paths.map(|path| (path.clone(), storage.contents(&path).unwrap())).collect()
}

/// Opens and checks the folder, which must give the same error and change nothing.
fn expect_error(storage: &Simulated, damaged: &str) -> Error {
    let before = contents(storage);
    let opened = Database::open(storage, Durability::Batch);
    let error = opened.err().unwrap_or_else(|| panic!("the damage of {damaged} is not found"));
    let raw = Storage::new(storage.clone());
    assert_eq!(check_in(&raw, Path::new(PATH), &mut |_, _| {}).unwrap_err(), error);
    assert_eq!(contents(storage), before, "an error changes nothing");
    error
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "log")
}

#[test]
fn every_flipped_bit_is_found() {
    let (storage, pairs) = folder(true);
    let files = contents(&storage);
    assert!(files.len() >= 5);
    let mut flips = 0;
    for (path, bytes) in files.iter().filter(|(path, _)| !path.ends_with("LOCK")) {
        // Every byte of what is small; the pages of runs are mostly padding.
        let step = if bytes.len() > 4096 { 13 } else { 1 };
        for offset in (0..bytes.len()).step_by(step).chain(4088..4096.min(bytes.len())) {
            let mut flipped = bytes.clone();
            flipped[offset] ^= 1 << (offset % 8);
            storage.replace(path, Some(flipped));
            flips += 1;
            let damaged = format!("byte {offset} of {}", path.display());
            match expect_error(&storage, &damaged) {
                Error::CorruptFile { path: named, .. } => assert_eq!(named, *path),
                error => panic!("{error}"),
            }
        }
        storage.replace(path, Some(bytes.clone()));
    }
    assert!(flips > 3000, "{flips} bits were flipped");
    assert_eq!(Database::open(&storage, Durability::Batch).unwrap().pairs, pairs);
}

#[test]
fn behind_the_watermark_a_flipped_bit_cuts_the_log_off() {
    let (storage, pairs) = folder(false);
    let (path, bytes) = contents(&storage).into_iter().rfind(|(path, _)| is_log(path)).unwrap();
    let mut cuts = 0;
    for offset in 64..bytes.len() {
        let copy = storage.moment().end_process();
        let mut flipped = bytes.clone();
        flipped[offset] ^= 4;
        copy.replace(&path, Some(flipped));
        match Database::open(&copy, Durability::Batch) {
            Ok(database) => {
                // The last update deletes keys that are not there.
                assert_eq!((database.folder.sequence(), &database.pairs), (17, &pairs));
                cuts += 1;
            }
            Err(error) => assert!(matches!(error, Error::CorruptFile { .. }), "{error}"),
        }
    }
    // The last record: a header of 40 bytes, counts of 32, and two padded keys.
    assert_eq!(cuts, 40 + 32 + 32);
}

#[test]
fn truncated_and_missing_files_are_found() {
    let (storage, _) = folder(true);
    for (path, bytes) in contents(&storage).iter().filter(|(path, _)| !path.ends_with("LOCK")) {
        for len in [0, 1, 30, bytes.len() / 2, bytes.len() - 1] {
            storage.replace(path, Some(bytes[..len].to_vec()));
            let damaged = format!("{}, cut off at {len},", path.display());
            let error = expect_error(&storage, &damaged);
            assert!(matches!(error, Error::CorruptFile { .. }), "{error}");
        }
        storage.replace(path, None);
        match expect_error(&storage, "a missing file") {
            Error::CorruptFile { path: named, .. } => assert_eq!(named, *path),
            error => panic!("{error}"),
        }
        let longer = [&bytes[..], &[0; 5]].concat();
        storage.replace(path, Some(longer));
        // Behind the last record of a log may be what a crash left.
        if !is_log(path) {
            expect_error(&storage, "a longer file");
        }
        storage.replace(path, Some(bytes.clone()));
    }
}

#[test]
fn swapped_and_foreign_files_are_found() {
    let (storage, _) = folder(true);
    let files = contents(&storage);
    let runs: Vec<_> =
        files.keys().filter(|path| path.to_string_lossy().ends_with("run")).collect();
    let [first, second] = runs[..] else { panic!("{runs:?}") };
    storage.replace(first, Some(files[second].clone()));
    storage.replace(second, Some(files[first].clone()));
    let error = expect_error(&storage, "a log or run");
    assert!(matches!(&error, Error::CorruptFile { path, .. } if path == first), "{error}");
    storage.replace(first, Some(files[first].clone()));
    storage.replace(second, Some(files[second].clone()));
    // Logs of another folder have other identities.
    let (other, _) = folder(true);
    let log = files.keys().find(|path| is_log(path)).unwrap();
    storage.replace(log, Some(contents(&other)[log].clone()));
    let error = expect_error(&storage, "a log or run");
    assert!(matches!(&error, Error::CorruptFile { path, .. } if path == log), "{error}");
}

#[test]
fn folders_of_other_things_are_left_alone() {
    let storage = Simulated::new();
    storage.replace(&Path::new(PATH).join("letter.txt"), Some(b"dear".to_vec()));
    let error = Database::open(&storage, Durability::Batch).err().unwrap();
    assert!(matches!(error, Error::NotADictionary { .. }), "{error}");
    assert_eq!(storage.paths(), [Path::new(PATH).join("letter.txt")]);

    let storage = Simulated::new();
    storage.replace(Path::new(PATH), Some(b"a file".to_vec()));
    let error = Database::open(&storage, Durability::Batch).err().unwrap();
    assert!(matches!(error, Error::NotADictionary { .. }), "{error}");

    let raw = Storage::new(Simulated::new());
    let missing = Opening::open(&raw, Path::new(PATH), None).err().unwrap();
    assert!(matches!(missing, Error::NotADictionary { .. }), "{missing}");
}

#[test]
fn files_that_are_not_the_dictionarys_survive_the_removal_of_orphans() {
    let (storage, pairs) = folder(true);
    let path = |name: &str| Path::new(PATH).join(name);
    let foreign = [path("notes.txt"), path("runs/1.run"), path("log/old.log")];
    let orphans =
        [path("runs/000900.run"), path("log/000901.log.new"), path("000902.manifest.new")];
    let bytes = || Some(b"?".to_vec());
    foreign.iter().chain(&orphans).for_each(|path| storage.replace(path, bytes()));
    let mut database = Database::open(&storage, Durability::Batch).unwrap();
    assert_eq!(database.pairs, pairs);
    let paths = storage.paths();
    assert!(foreign.iter().all(|path| paths.contains(path)));
    assert!(orphans.iter().all(|path| !paths.contains(path)));
    // New numbers are greater than those of orphans.
    database.checkpoint(true).unwrap();
    let manifest = database.folder.manifest();
    assert!(manifest.runs.iter().all(|run| run.file > 902));
}

#[test]
fn records_of_newer_versions_are_refused() {
    let (storage, _) = folder(false);
    let (path, bytes) = contents(&storage).into_iter().rfind(|(path, _)| is_log(path)).unwrap();
    let seed = LogHeader::decode(&bytes[..64]).unwrap().seed();
    for (kind, flags, what) in [(16, 0, "a record of kind"), (1, 2, "a record with flags")] {
        let mut changed = bytes.clone();
        let header = RecordHeader::decode(&bytes[64..104], seed).unwrap();
        let header = RecordHeader { kind, flags, ..header }.encode(seed);
        changed[64..104].copy_from_slice(&header);
        storage.replace(&path, Some(changed));
        let error = expect_error(&storage, "a log or run");
        assert!(matches!(error, Error::UnsupportedVersion { what: w, .. } if w == what), "{error}");
    }
}

#[test]
fn other_types_are_refused() {
    let stored = schema();
    let path = Path::new(PATH);
    stored.check(path, &stored, false).unwrap();
    let mut others = [stored.clone(), stored.clone(), stored.clone(), stored.clone()];
    others[0].key[0].kind = Kind::Signed;
    others[1].widths.value = 4;
    others[2].value_name = "f64".into();
    others[3].rule = 1;
    others[3].element = Some(Part { kind: Kind::Unsigned, width: 8 });
    let texts =
        others.each_ref().map(|other| stored.check(path, other, false).unwrap_err().to_string());
    assert!(texts[0].contains("keys of type u64, but i64"), "{}", texts[0]);
    assert!(texts[1].contains("values of type u64 (8 bytes), but u64 (4 bytes)"), "{}", texts[1]);
    assert!(texts[2].contains("but f64 (8 bytes)"), "{}", texts[2]);
    assert!(texts[3].contains("the combining rule replace, but add of u64"), "{}", texts[3]);
}

/// Saves runs of these shapes, with bytes that count up. The first has the dictionary's widths.
fn save(storage: &Simulated, shapes: &[RunShape]) {
    let raw = Storage::new(storage.clone());
    let settings = vec![("batch_size".into(), 16)];
    let widths = shapes[0].widths;
    let key = vec![Part { kind: Kind::Unsigned, width: widths.key as u8 }];
    let schema = Schema { key, widths, ..schema() };
    let mut saved =
        SavedWriter::create(&raw, Path::new(SAVED), schema, settings, shapes.len()).unwrap();
    for &shape in shapes {
        let mut run = saved.create_run(shape).unwrap();
        for section in Section::EACH {
            let bytes: Vec<u8> = (0..run.section_len(section)).map(|byte| byte as u8).collect();
            bytes.chunks(700_001).for_each(|piece| run.write(section, piece).unwrap());
        }
        saved.finish_run(run, 3).unwrap();
    }
    saved.finish().unwrap();
}

#[test]
fn a_saved_file_is_read_back_in_any_width() {
    for (key, value) in [(4, 0), (4, 4), (8, 8), (16, 4), (16, 16)] {
        let widths = Widths { key, value };
        let shapes = [0, 1, 33, 200_000].map(|entries| RunShape {
            widths,
            entries,
            has_marks: entries != 33,
        });
        let storage = Simulated::new();
        storage.replace(Path::new("/other"), Some(Vec::new()));
        save(&storage, &shapes);
        let storage = storage.moment().crash(Survivors::None, 0);
        let raw = Storage::new(storage);
        let saved = SavedReader::open(&raw, Path::new(SAVED)).unwrap();
        assert_eq!(saved.manifest().setting("batch_size"), Some(16));
        for (index, &shape) in shapes.iter().enumerate() {
            let run = saved.run(index).unwrap();
            assert_eq!(run.shape(), shape);
            let marks = if shape.has_marks { shape.entries.div_ceil(32) * 8 } else { 0 };
            assert_eq!(run.section_len(Section::Marks), marks);
            for section in Section::EACH {
                let mut bytes = vec![0; run.section_len(section) as usize];
                run.read_part(section, 0, &mut bytes, &mut |_| ()).unwrap();
                assert!(bytes.iter().enumerate().all(|(index, &byte)| byte == index as u8));
            }
        }
        let info = check_in(&raw, Path::new(SAVED), &mut |done, all| assert!(done <= all)).unwrap();
        assert_eq!(info.entries(), 200_034);
    }
}

#[test]
fn damage_in_a_saved_file_is_found() {
    let storage = Simulated::new();
    storage.replace(Path::new("/other"), Some(Vec::new()));
    let widths = Widths { key: 8, value: 4 };
    let shape = RunShape { widths, entries: 50, has_marks: true };
    save(&storage, &[shape, shape]);
    let bytes = storage.contents(Path::new(SAVED)).unwrap();
    let raw = Storage::new(storage.clone());
    let check = || check_in(&raw, Path::new(SAVED), &mut |_, _| {});
    check().unwrap();
    for offset in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[offset] ^= 16;
        storage.replace(Path::new(SAVED), Some(flipped));
        assert!(check().is_err(), "a flipped bit at {offset} is not found");
    }
    for len in (1..bytes.len()).step_by(501) {
        storage.replace(Path::new(SAVED), Some(bytes[..len].to_vec()));
        assert!(matches!(check(), Err(Error::CorruptFile { .. })), "{len} of {}", bytes.len());
    }
    for foreign in [&b""[..], b"G?", b"dear reader", &[0; 5000]] {
        storage.replace(Path::new(SAVED), Some(foreign.to_vec()));
        assert!(matches!(check(), Err(Error::NotADictionary { .. })), "{foreign:?}");
    }
}

#[test]
fn newer_versions_are_told_from_damaged_numbers() {
    let (storage, _) = folder(true);
    for (path, bytes) in contents(&storage) {
        let checked = match bytes.get(..8) {
            Some(b"GPLSMDIC") => bytes.len() - 8,
            Some(b"GPLSMLOG") => 56,
            Some(b"GPLSMRUN") => 4088,
            _ => continue,
        };
        let mut newer = bytes.clone();
        newer[8] = 2;
        storage.replace(&path, Some(newer.clone()));
        let error = expect_error(&storage, "a version");
        assert!(matches!(&error, Error::CorruptFile { path: named, .. } if *named == path));
        let sum = checksum(&newer[..checked]);
        newer[checked..checked + 8].copy_from_slice(&sum.to_le_bytes());
        storage.replace(&path, Some(newer));
        let error = expect_error(&storage, "a newer file");
        assert!(matches!(error, Error::UnsupportedVersion { found: 2, .. }), "{error}");
        storage.replace(&path, Some(bytes));
    }
}

#[test]
fn files_of_another_kind_are_not_damaged_ones() {
    let storage = Simulated::new();
    let raw = Storage::new(storage.clone());
    let check = |contents: &[u8]| {
        storage.replace(Path::new(SAVED), Some(contents.to_vec()));
        check_in(&raw, Path::new(SAVED), &mut |_, _| {}).unwrap_err()
    };
    for contents in [&b""[..], b"x", b"dear", b"key,value\n1,2\n", &[0; 100], &[b'a'; 5000]] {
        let error = check(contents);
        assert!(matches!(error, Error::NotADictionary { .. }), "{error}");
    }
    let damaged =
        [&b"G"[..], b"GPLS", b"GPLSMDIC", b"GPLSM\0\0\0 and what follows it", b"GPxSMDyC"];
    for contents in damaged {
        let error = check(contents);
        assert!(matches!(error, Error::CorruptFile { .. }), "{error}");
    }
}

/// Blocks would be read that the table has no checksums of.
#[test]
fn a_run_of_other_widths_than_the_manifest_says_is_damage() {
    let storage = Simulated::new();
    storage.replace(Path::new("/other"), Some(Vec::new()));
    let shape =
        |key| RunShape { widths: Widths { key, value: 4 }, entries: 300_000, has_marks: false };
    save(&storage, &[shape(8), shape(4)]);
    let saved = SavedReader::open(&Storage::new(storage.clone()), Path::new(SAVED)).unwrap();
    assert!(saved.run(0).is_ok());
    let error = saved.run(1).err().unwrap();
    assert!(error.to_string().contains("another width than the manifest says"), "{error}");
    let checked = check_in(&Storage::new(storage), Path::new(SAVED), &mut |_, _| {});
    assert_eq!(checked.err(), Some(error));
}

#[test]
fn a_file_that_is_saved_over_is_whole_after_every_crash() {
    let storage = Simulated::new();
    storage.replace(Path::new("/other"), Some(Vec::new()));
    let shape =
        |entries| RunShape { widths: Widths { key: 8, value: 8 }, entries, has_marks: false };
    save(&storage, &[shape(10)]);
    storage.record();
    save(&storage, &[shape(20), shape(30)]);
    let moments = storage.take_recorded();
    let mut random = Random(3);
    for moment in &moments {
        for way in Survivors::EACH {
            let raw = Storage::new(moment.crash(way, random.next()));
            let info = check_in(&raw, Path::new(SAVED), &mut |_, _| {}).unwrap();
            assert!([10, 50].contains(&info.entries()));
        }
    }
}

#[test]
fn random_bytes_are_no_updates_and_no_manifests() {
    let mut random = Random(1);
    let (storage, _) = folder(true);
    let raw = Storage::new(storage.clone());
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| (random.next() & 3) as u8).collect();
        for kind in (0..6).filter_map(crate::files::record::RecordKind::from_number) {
            let update = Update::decode(kind, &bytes, Widths { key: 4, value: 8 });
            if let Some(update) = update {
                assert_eq!(update.payload(Widths { key: 4, value: 8 }).kind, kind);
            }
        }
        storage.replace(Path::new(SAVED), Some(bytes));
        assert!(Manifest::read(&raw.open_file(Path::new(SAVED)).unwrap()).is_err());
    }
}
