//! Golden files: what released versions wrote, in `tests/it/golden/`, a folder for each version. They are read for
//! ever, and never written again.
//!
//! A version that changes a format writes its own beside them:
//!
//!     GPULSM_GOLDEN=$PWD/tests/it/golden/0.2 cargo test -p gpulsm-tests golden_files_are_written

use std::path::{Path, PathBuf};
use std::{env, fs};

use gpulsm::files::{check, info};
use gpulsm::{Batch, Combine, Device, Dictionary, Key, Value, WriteBatch};

use crate::each_device;
use crate::files::{Scratch, bits};
use crate::of_checkout;

type Pairs<K, V> = (Vec<K>, Vec<V>);

fn u32_pairs() -> Pairs<u32, u32> {
    (
        (0..100).map(|i| i * i).chain([u32::MAX]).collect(),
        (0..101).map(|i| i * 0x0101_0101).collect(),
    )
}

fn symbols_and_times() -> Pairs<(u32, i64), f64> {
    let keys = vec![(0, i64::MIN), (0, -1), (7, -5), (7, 0), (7, i64::MAX), (u32::MAX, 3)];
    (keys, vec![0.5, -0.0, f64::INFINITY, f64::NAN, -1e300, 5e-324])
}

fn names() -> Vec<[u8; 12]> {
    vec![[0; 12], *b"a\0\0\0\0\0\0\0\0\0\0\0", *b"golden files", *b"of sets here", [0xff; 12]]
}

fn totals() -> Pairs<u64, i64> {
    ((0..40).map(|i| i << 40).collect(), (0..40).map(|i| -20 * i).collect())
}

/// What the folder with a log of every kind of record has: a clear makes a fresh start in the middle of it.
fn logged() -> Pairs<u32, i64> {
    (vec![1, 2, 3, 5, 6, 40, 60], vec![11, 7, -3, 1, 2, 9, 4])
}

/// What the folder has that was not closed: its run, and the first of two updates in its log.
fn torn() -> Pairs<u64, u64> {
    ((0..60).collect(), (0..60).map(|key| if key < 50 { key } else { 1000 }).collect())
}

fn write_saved(folder: &Path) {
    let save = |name: &str| folder.join(name);
    let (keys, values) = u32_pairs();
    Dictionary::bulk_build(&keys, &values).unwrap().save(save("u32-u32.gpulsm")).unwrap();
    let (keys, values) = symbols_and_times();
    Dictionary::bulk_build(&keys, &values).unwrap().save(save("pair-f64.gpulsm")).unwrap();
    let names = names();
    let set = Dictionary::bulk_build(&names, &vec![(); names.len()]).unwrap();
    set.save(save("bytes12-set.gpulsm")).unwrap();
    let (keys, values) = totals();
    let mut sums = Dictionary::builder().combine(Combine::Add).batch_size(16).build().unwrap();
    let half: Vec<i64> = values.iter().map(|value| value / 2).collect();
    sums.insert(&keys, &half).unwrap();
    sums.insert(&keys, &half).unwrap();
    sums.save(save("u64-i64-add.gpulsm")).unwrap();
}

/// Writes a folder with a run and a log that has every kind of record.
fn write_logged(folder: &Path) {
    let builder = Dictionary::<u32, i64>::builder().combine(Combine::Add).batch_size(8);
    let mut d = builder.open(folder).unwrap();
    d.insert(&[1, 100, 200], &[1, 2, 3]).unwrap();
    d.checkpoint().unwrap();
    d.insert(&[1, 2], &[5, 5]).unwrap();
    d.clear().unwrap();
    d.insert(&[1, 2, 1, 4, 60], &[5, 100, 6, 4, 4]).unwrap();
    d.set(&[2, 3], &[7, -3]).unwrap();
    let mut batch = WriteBatch::new();
    batch.insert(5, 1000);
    batch.delete(5);
    batch.insert(5, 1);
    batch.set(6, 1);
    batch.insert(6, 1);
    batch.delete(4);
    d.write(&batch).unwrap();
    d.update(Batch::new().insert(&[40, 41, 50, 55], &[9, 9, 9, 9]).delete(&[41])).unwrap();
    d.delete_range((&[50, 300], &[55, 400])).unwrap();
    d.close().unwrap();
}

/// Writes a folder as a crash leaves it in the middle of writing the second update since a checkpoint.
fn write_torn(folder: &Path) {
    let scratch = Scratch::new("torn");
    let open = scratch.path("d");
    let mut d = Dictionary::<u64, u64>::builder().batch_size(16).open(&open).unwrap();
    let (keys, values) = torn();
    d.insert(&keys[..50], &values[..50]).unwrap();
    d.checkpoint().unwrap();
    d.insert(&keys[50..], &values[50..]).unwrap();
    d.insert(&[1, 2], &[0, 0]).unwrap();
    copy_folder(&open, folder);
    drop(d);
    let logs: Vec<_> = fs::read_dir(folder.join("log")).unwrap().map(Result::unwrap).collect();
    let log = fs::OpenOptions::new().write(true).open(logs[0].path()).unwrap();
    assert_eq!(logs.len(), 1);
    log.set_len(log.metadata().unwrap().len() - 21).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Writes all of them into a folder that must not exist yet.
fn write_golden_files(folder: &Path) {
    fs::create_dir(folder).expect("the folder must be new: golden files are never overwritten");
    write_saved(folder);
    write_logged(&folder.join("logged"));
    write_torn(&folder.join("torn"));
}

/// Writes them where `GPULSM_GOLDEN` says, for a new version; else into a folder that is removed. Either way what
/// was written can be read.
#[test]
fn golden_files_are_written() {
    let scratch = Scratch::new("golden");
    let folder = env::var_os("GPULSM_GOLDEN").map_or_else(|| scratch.path("new"), PathBuf::from);
    write_golden_files(&folder);
    read_golden_files(Device::cpu(), &folder);
}

fn expect<K: Key, V: Value>(d: &Dictionary<K, V>, (keys, values): Pairs<K, V>) {
    d.snapshot().validate().unwrap();
    let expected = Dictionary::<K, V>::bulk_build(&keys, &values).unwrap();
    // `bulk_build` would hide keys that are out of order or duplicates here.
    assert_eq!(expected.len().unwrap(), keys.len() as u64);
    assert_eq!(bits(&d.snapshot()), bits(&expected.snapshot()));
}

fn read_golden_files(device: Device, folder: &Path) {
    let saved = |name: &str| {
        let path = folder.join(name);
        check(&path).unwrap_or_else(|error| panic!("{error}"));
        path
    };
    let d = Dictionary::builder().device(device).load(saved("u32-u32.gpulsm")).unwrap();
    expect(&d, u32_pairs());
    let d = Dictionary::builder().device(device).load(saved("pair-f64.gpulsm")).unwrap();
    expect(&d, symbols_and_times());
    let d = Dictionary::builder().device(device).load(saved("bytes12-set.gpulsm")).unwrap();
    expect(&d, (names(), vec![(); names().len()]));
    let builder = Dictionary::builder().device(device).combine(Combine::Add);
    let d = builder.load(saved("u64-i64-add.gpulsm")).unwrap();
    assert_eq!(d.batch_size(), 16);
    expect(&d, totals());
    read_folders(device, folder);
}

/// Opens copies of the folders, and goes on with them.
fn read_folders(device: Device, folder: &Path) {
    let scratch = Scratch::new("golden-copy");
    let copy = |name: &str| {
        copy_folder(&folder.join(name), &scratch.path(name));
        check(scratch.path(name)).unwrap_or_else(|error| panic!("{error}"))
    };
    let about = copy("logged");
    assert_eq!((about.updates, about.entries(), about.torn_bytes), (7, 3, 0));
    let builder = || Dictionary::<u32, i64>::builder().device(device).combine(Combine::Add);
    let mut d = builder().open(scratch.path("logged")).unwrap();
    expect(&d, logged());
    d.insert(&logged().0, &logged().1).unwrap();
    d.checkpoint().unwrap();
    d.close().unwrap();
    let (keys, values) = logged();
    let doubled = values.iter().map(|value| 2 * value).collect();
    expect(&builder().open(scratch.path("logged")).unwrap(), (keys, doubled));

    let about = copy("torn");
    assert_eq!((about.updates, about.entries()), (1, 50));
    assert!(about.torn_bytes > 0);
    let builder = || Dictionary::<u64, u64>::builder().device(device);
    let mut d = builder().open(scratch.path("torn")).unwrap();
    expect(&d, torn());
    d.insert(&torn().0, &torn().1).unwrap();
    drop(d);
    expect(&builder().open(scratch.path("torn")).unwrap(), torn());
    assert_eq!(info(scratch.path("torn")).unwrap().torn_bytes, 0);
}

each_device! {
    fn golden_files_of_every_version_are_read(device) {
        let golden = of_checkout("tests/it/golden");
        let versions = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path());
        let read = versions.map(|version| read_golden_files(device, &version)).count();
        assert!(read > 0, "no golden files");
    }
}
