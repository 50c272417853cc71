//! Dictionaries in files: what is written is read back, and what cannot be opened says why.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use std::{env, fs, process, thread};

use gpulsm::files::simulated::Simulated;
use gpulsm::files::{check, info};
use gpulsm::private::{Encoding, Part, StoredTypes};
use gpulsm::{Batch, Combine, Dictionary, Durability, Error, Key, Snapshot, Value, WriteBatch};

use crate::each_device;

/// A folder that is removed at the end of the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let unique = format!("{:?}", thread::current().id());
        let path = env::temp_dir().join(format!("gpulsm-it-{name}-{}-{unique}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns pairs as bits, so that NaN is equal to itself.
pub fn bits<K: Key, V: Value>(snapshot: &Snapshot<K, V>) -> (Vec<K::Ordered>, Vec<u8>) {
    let (keys, values) = snapshot.to_vecs().unwrap();
    let keys = keys.iter().map(|key| key.to_ordered()).collect();
    (keys, bytemuck::cast_slice(&values).to_vec())
}

/// Saves, loads, and reopens after updates and checkpoints.
fn round_trip<K: Key, V: Value>(
    device: gpulsm::Device,
    name: &str,
    key: fn(u32) -> K,
    value: fn(u32) -> V,
) {
    let scratch = Scratch::new(name);
    let folder = scratch.path("folder");
    let builder = || Dictionary::<K, V>::builder().device(device).batch_size(64);
    let mut memory = builder().build().unwrap();
    for round in 0..3u32 {
        let mut disk = builder().open(&folder).unwrap();
        assert_eq!(bits(&disk.snapshot()), bits(&memory.snapshot()), "{name}");
        let keys: Vec<K> = (0..200).map(|i| key(i * 7 % 150 + round * 50)).collect();
        let values: Vec<V> = (0..200).map(|i| value(i + round)).collect();
        for d in [&mut memory, &mut disk] {
            d.insert(&keys, &values).unwrap();
            d.delete(&keys[..20]).unwrap();
            d.delete_range_one((keys[30], keys[31])).unwrap();
        }
        if round == 1 {
            disk.checkpoint().unwrap();
        }
        disk.insert_one(key(9), value(9)).unwrap();
        memory.insert_one(key(9), value(9)).unwrap();
        disk.close().unwrap();
    }
    let file = scratch.path("file");
    memory.save(&file).unwrap();
    let loaded = builder().load(&file).unwrap();
    assert_eq!(bits(&loaded.snapshot()), bits(&memory.snapshot()), "{name}");
    loaded.snapshot().validate().unwrap();
    assert_eq!(check(&file).unwrap().key, info(&folder).unwrap().key);
    check(&folder).unwrap();
}

each_device! {
    fn all_keys_and_values_are_read_back(device) {
        round_trip(device, "u32", |i| i, |i| i);
        round_trip(device, "i32", |i| 70 - i as i32, |_| ());
        round_trip(device, "f32", |i| 0.5 - i as f32, |i| [i; 4]);
        round_trip(device, "u64", |i| u64::from(i) << 40, f64::from);
        round_trip(device, "i64", |i| -i64::from(i), |i| u128::from(i) << 100);
        round_trip(device, "f64", |i| if i == 9 { f64::NAN } else { f64::from(i) }, |i| i);
        round_trip(device, "u128", |i| u128::from(i) << 100, |i| [i as f32, 1.0]);
        round_trip(device, "bytes", |i| [7, (i >> 8) as u8, i as u8], |i| i);
        round_trip(device, "tuple", |i| (i % 3, -i64::from(i)), u64::from);
        round_trip(device, "edge", |i| Edge { from: i, to: 1.5 }, |i| Weight { a: i, b: i as f32 });
    }
}

each_device! {
    /// A run of more than one part, whose last one is short.
    fn large_dictionaries_are_read_back(device) {
        let scratch = Scratch::new("large");
        let keys: Vec<u32> = (0..(2 << 20) + 77).collect();
        let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 20).collect();
        let builder = || Dictionary::<u32, u64>::builder().device(device);
        let mut d = builder().durability(Durability::Checkpoint).open(scratch.path("folder")).unwrap();
        d.insert(&keys, &values).unwrap();
        d.save(scratch.path("file")).unwrap();
        d.close().unwrap();
        let loaded = builder().load(scratch.path("file")).unwrap();
        let opened = builder().open(scratch.path("folder")).unwrap();
        for d in [&loaded, &opened] {
            assert!(d.to_vecs().unwrap() == (keys.clone(), values.clone()));
            d.snapshot().validate().unwrap();
        }
        let refused = builder().memory_limit(1 << 20).load(scratch.path("file"));
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Zeroable)]
struct Edge {
    from: u32,
    to: f32,
}

gpulsm::key!(Edge { from: u32, to: f32 });

#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Weight {
    a: u32,
    b: f32,
}

gpulsm::value!(Weight as "weight");

each_device! {
    fn rules_of_combining_survive(device) {
        let scratch = Scratch::new("rules");
        for rule in [Combine::Add, Combine::Min, Combine::Max, Combine::Xor] {
            let path = scratch.path(rule.name());
            let builder = || Dictionary::<u64, i64>::builder().device(device).batch_size(16).combine(rule);
            let mut memory = builder().build().unwrap();
            for round in 0..4 {
                let mut disk = builder().open(&path).unwrap();
                let mut batch = WriteBatch::new();
                batch.insert(1, 5);
                batch.delete(2);
                batch.insert(2, 7);
                batch.set(3, round);
                for d in [&mut memory, &mut disk] {
                    d.insert(&[1, 2, 3, 1], &[round, -round, 3, 4]).unwrap();
                    d.set(&[2, 50], &[round, round]).unwrap();
                    d.write(&batch).unwrap();
                    d.update(Batch::new().insert(&[7, 8], &[round, 2]).delete(&[8])).unwrap();
                }
                assert_eq!(disk.to_vecs().unwrap(), memory.to_vecs().unwrap(), "{rule}");
                if round == 1 {
                    disk.checkpoint().unwrap();
                }
            }
            // Without a rule, that of the files.
            let plain = || Dictionary::<u64, i64>::builder().device(device);
            let disk = plain().open(&path).unwrap();
            assert_eq!(disk.to_vecs().unwrap(), memory.to_vecs().unwrap(), "{rule}");
            disk.save(scratch.path("file")).unwrap();
            drop(disk);
            let mut loaded = Dictionary::<u64, i64>::load(scratch.path("file")).unwrap();
            assert_eq!((loaded.combine(), plain().load(&path).unwrap().combine()), (rule, rule));
            loaded.insert_one(1, 9).unwrap();
            memory.insert_one(1, 9).unwrap();
            assert_eq!(loaded.lookup_one(1), memory.lookup_one(1), "{rule}");
            for other in [Combine::Replace, Combine::Or] {
                let error = plain().combine(other).open(&path).err().unwrap();
                assert!(error.to_string().contains(&format!("{} of i64", rule.name())), "{error}");
            }
        }
    }

    fn clear_and_mass_deletes_are_logged(device) {
        let scratch = Scratch::new("clear");
        let open = || Dictionary::<u32, u32>::builder().device(device).open(scratch.path("d")).unwrap();
        let mut d = open();
        d.insert(&[1, 2, 3], &[1, 2, 3]).unwrap();
        d.clear().unwrap();
        d.insert(&[4, 5], &[4, 5]).unwrap();
        assert_eq!(d.pop_first().unwrap(), Some((4, 4)));
        drop(d);
        let mut d = open();
        assert_eq!(d.to_vecs().unwrap(), (vec![5], vec![5]));
        d.delete_range_one(..).unwrap();
        drop(d);
        assert!(open().is_empty().unwrap());
    }
}

#[test]
fn settings_may_differ_when_a_folder_is_opened_again() {
    let scratch = Scratch::new("settings");
    let path = scratch.path("d");
    let builder = Dictionary::<u32, u32>::builder;
    let keys: Vec<u32> = (0..5000).collect();
    let mut d = builder().batch_size(100).open(&path).unwrap();
    d.insert(&keys, &keys).unwrap();
    d.checkpoint().unwrap();
    d.delete(&keys[..10]).unwrap();
    d.close().unwrap();
    for (batch_size, threads) in [(None, 1), (Some(7), 2), (Some(1 << 20), 3), (None, 2)] {
        let builder = builder().threads(threads).durability(Durability::Os);
        let builder = batch_size.into_iter().fold(builder, |b, size| b.batch_size(size));
        let mut d = builder.open(&path).unwrap();
        assert_eq!((d.len(), d.lookup_one(4000)), (Ok(4990), Ok(Some(4000))));
        assert!(batch_size.is_none_or(|size| d.batch_size() == size));
        d.snapshot().validate().unwrap();
        d.checkpoint().unwrap();
    }
    assert_eq!(builder().open(&path).unwrap().batch_size(), 1 << 20, "the last one that was set");
}

#[test]
fn clones_and_snapshots_are_in_memory_only() {
    let scratch = Scratch::new("clones");
    let path = scratch.path("d");
    let mut d = Dictionary::<u32, u32>::builder().open(&path).unwrap();
    d.insert(&[1], &[1]).unwrap();
    let (mut clone, mut thawed) = (d.clone(), d.snapshot().thaw());
    clone.insert(&[2], &[2]).unwrap();
    thawed.clear().unwrap();
    assert_eq!((d.path(), clone.path(), thawed.path()), (Some(path.as_path()), None, None));
    d.close().unwrap();
    let d = Dictionary::<u32, u32>::builder().open(&path).unwrap();
    assert_eq!(d.to_vecs().unwrap(), (vec![1], vec![1]));
    assert_eq!(clone.len(), Ok(2));
}

#[test]
fn without_a_log_closing_writes_a_checkpoint() {
    let scratch = Scratch::new("checkpoint");
    let builder = || Dictionary::<u32, u32>::builder().durability(Durability::Checkpoint);
    for round in 0..4 {
        let mut d = builder().open(scratch.path("d")).unwrap();
        assert_eq!(d.len(), Ok(round));
        d.insert_one(round as u32, 0).unwrap();
        match round % 2 {
            0 => d.close().unwrap(),
            _ => drop(d),
        }
        assert_eq!(info(scratch.path("d")).unwrap().updates, 0);
    }
}

#[test]
fn an_update_that_is_longer_than_the_log_may_be_becomes_a_checkpoint() {
    let scratch = Scratch::new("large");
    let builder = Dictionary::<u64, u64>::builder().log_limit(10_000);
    let mut d = builder.clone().open(scratch.path("d")).unwrap();
    let keys: Vec<u64> = (0..5000).collect();
    d.insert(&[9999], &[1]).unwrap();
    d.insert(&keys, &keys).unwrap();
    let about = fs::read_dir(scratch.path("d").join("runs")).unwrap().count();
    assert_eq!(about, 1, "there is a run");
    d.insert(&[1], &[100]).unwrap();
    drop(d);
    let d = builder.open(scratch.path("d")).unwrap();
    assert_eq!(d.lookup(&[1, 4999, 9999]).unwrap(), [Some(100), Some(4999), Some(1)]);
    d.snapshot().validate().unwrap();
}

#[test]
fn threads_that_wait_outside_a_lock_share_syncs() {
    let storage = Simulated::new();
    let d = Dictionary::<u64, u64>::builder().open_simulated(&storage, "/d").unwrap();
    let (shared, before) = (Mutex::new(d), storage.syncs());
    storage.set_sync_time(Duration::from_millis(1));
    thread::scope(|scope| {
        for thread in 0..8 {
            let shared = &shared;
            scope.spawn(move || {
                for update in 0..20 {
                    let key = thread * 20 + update;
                    let ticket = shared.lock().unwrap().commit_later(|d| d.insert(&[key], &[key]));
                    ticket.unwrap().wait().unwrap();
                }
            });
        }
    });
    let syncs = storage.syncs() - before;
    assert!(syncs < 80, "{syncs} syncs of 160 updates");
    assert_eq!(shared.into_inner().unwrap().len(), Ok(160));
}

#[test]
fn a_ticket_of_a_dictionary_in_memory_waits_for_nothing() {
    let mut d = Dictionary::<u64, u64>::new();
    d.commit_later(|d| d.insert(&[1], &[1])).unwrap().wait().unwrap();
    let error = d.commit_later(|d| d.insert(&[1], &[])).err().unwrap();
    assert!(matches!(error, Error::LengthMismatch { .. }));
    assert_eq!((d.sync(), d.checkpoint(), d.close()), (Ok(()), Ok(()), Ok(())));
}

#[test]
fn what_cannot_be_opened_says_why() {
    let scratch = Scratch::new("bad");
    let path = scratch.path("d");
    let open = || Dictionary::<u32, u32>::builder().open(&path);
    let mut d = open().unwrap();
    d.insert(&[1], &[1]).unwrap();
    assert!(matches!(open().err(), Some(Error::Locked { .. })));
    assert!(matches!(check(&path), Err(Error::Locked { .. })));
    drop(d);

    let text = |error: Option<Error>| error.unwrap().to_string();
    let other_key = Dictionary::<i32, u32>::builder().open(&path).err();
    assert!(text(other_key).contains("has keys of type u32, but i32 was requested"));
    let other_value = Dictionary::<u32, f32>::builder().open(&path).err();
    assert!(text(other_value).contains("values of type u32"));
    let log_limit = Dictionary::<u32, u32>::builder().log_limit(0).open(scratch.path("new")).err();
    assert!(text(log_limit).contains("`log_limit` is 0"));
    assert!(!scratch.path("new").exists(), "nothing was created");

    let file = scratch.path("file");
    open().unwrap().save(&file).unwrap();
    let opened = Dictionary::<u32, u32>::builder().open(&file).err();
    assert!(text(opened).contains("it is a file, not a folder"));
    assert!(matches!(
        Dictionary::<u32, u32>::load(scratch.path("missing")).err(),
        Some(Error::Io { kind: ErrorKind::NotFound, .. })
    ));
    assert!(matches!(Dictionary::<u64, u32>::load(&file).err(), Some(Error::WrongType { .. })));
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(matches!(Dictionary::<u32, u32>::load(&file).err(), Some(Error::CorruptFile { .. })));
    assert!(open().is_ok(), "nothing was changed");
}

#[test]
fn progress_is_told_up_to_the_end() {
    let scratch = Scratch::new("progress");
    let keys: Vec<u64> = (0..300_000).collect();
    let d = Dictionary::bulk_build(&keys, &keys).unwrap();
    for is_saved in [true, false] {
        let mut calls = Vec::new();
        let mut progress = |done, total| calls.push((done, total));
        if is_saved {
            d.snapshot().save_with(scratch.path("f"), &mut progress).unwrap();
        } else {
            let builder = Dictionary::<u64, u64>::builder();
            let loaded = builder.load_with(scratch.path("f"), &mut progress).unwrap();
            assert_eq!(loaded.len(), Ok(300_000));
        }
        assert!(calls.is_sorted() && calls.last().is_some_and(|(done, total)| done == total));
    }
    assert_eq!(info(scratch.path("f")).unwrap().runs.len(), 1);
}

#[test]
fn opening_tells_progress_of_runs_and_logs() {
    let scratch = Scratch::new("opening");
    let builder = Dictionary::<u64, u64>::builder;
    let keys: Vec<u64> = (0..300_000).collect();
    let mut d = builder().open(scratch.path("d")).unwrap();
    d.insert(&keys, &keys).unwrap();
    d.checkpoint().unwrap();
    for key in 0..5 {
        d.insert_one(1 << 30 | key, key).unwrap();
    }
    d.close().unwrap();
    let mut calls = Vec::new();
    let opened = builder().open_with(scratch.path("d"), &mut |done, total| {
        calls.push((done, total));
    });
    assert_eq!(opened.unwrap().len(), Ok(300_005));
    assert!(calls.is_sorted() && calls.last().is_some_and(|(done, total)| done == total));
    assert!(calls.len() > 5, "blocks of the run, and a call for each record: {calls:?}");

    let info = info(scratch.path("d")).unwrap();
    assert!(info.is_folder && info.version == 1 && info.generation >= 3, "{info:?}");
    assert_eq!((info.sequence, info.synced, info.updates), (1, 6, 5));
    assert_eq!(info.runs[0].entries, 300_000);
}

#[test]
fn integers_that_stand_for_other_types_are_stored_as_those() {
    let scratch = Scratch::new("stored-as");
    let mut d = Dictionary::<(u32, i64), f64>::builder().open(scratch.path("d")).unwrap();
    d.insert_one((7, -1), 0.5).unwrap();
    d.close().unwrap();
    let key = (7u32, -1i64).to_ordered();
    let parts = vec![Part::Number(Encoding::Unsigned, 4), Part::Number(Encoding::Signed, 8)];
    let types = StoredTypes { key: parts, value: "f64".into(), notes: Vec::new() };
    let builder = || Dictionary::<u128, u64>::builder().stored_as(types.clone());
    let packed = builder().open(scratch.path("d")).unwrap();
    assert_eq!(packed.lookup_one(key), Ok(Some(0.5f64.to_bits())));
    packed.clone().snapshot().save(scratch.path("f")).unwrap();
    let saved = Dictionary::<(u32, i64), f64>::load(scratch.path("f")).unwrap();
    assert_eq!(saved.to_vecs(), Ok((vec![(7, -1)], vec![0.5])));
    assert_eq!(builder().load(scratch.path("f")).unwrap().len(), Ok(1));
    let plain = Dictionary::<u128, u64>::load(scratch.path("f"));
    assert!(matches!(plain.err(), Some(Error::WrongType { .. })));
}

#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Nameless(u32, f32);

gpulsm::value!(Nameless);

#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Swapped(f32, u32);

gpulsm::value!(Swapped as "weight-2");

#[test]
fn values_in_files_have_names_that_are_compared() {
    let scratch = Scratch::new("names");
    let (file, folder) = (scratch.path("file"), scratch.path("folder"));
    let mut weights = Dictionary::<u32, Weight>::builder().open(&folder).unwrap();
    weights.insert_one(1, Weight { a: 7, b: 0.5 }).unwrap();
    weights.save(&file).unwrap();
    weights.close().unwrap();
    for path in [&file, &folder] {
        let swapped = Dictionary::<u32, Swapped>::load(path).err().unwrap().to_string();
        assert!(swapped.contains("weight (8 bytes), but weight-2"), "{swapped}");
        let number = Dictionary::<u32, u64>::load(path).err().unwrap();
        assert!(matches!(number, Error::WrongType { .. }), "{number}");
        let nameless = Dictionary::<u32, Nameless>::load(path).err().unwrap().to_string();
        assert!(nameless.contains("without a name (see `gpulsm::value!`)"), "{nameless}");
        assert_eq!(Dictionary::<u32, Weight>::load(path).unwrap().len(), Ok(1));
    }

    let unnamed = |error: Option<Error>| matches!(error, Some(Error::UnnamedValue { value }) if value.ends_with("Nameless"));
    let nameless = Dictionary::<u32, Nameless>::new();
    assert!(unnamed(nameless.save(scratch.path("other")).err()));
    let opened = Dictionary::<u32, Nameless>::builder().open(scratch.path("other"));
    assert!(unnamed(opened.err()));
    assert!(!scratch.path("other").exists(), "nothing was created");

    // Files without a name, as older versions wrote them of structs.
    let types = StoredTypes {
        key: vec![Part::Number(Encoding::Unsigned, 4)],
        value: String::new(),
        notes: Vec::new(),
    };
    let mut old =
        Dictionary::<u32, u64>::builder().stored_as(types).open(scratch.path("old")).unwrap();
    old.insert_one(1, u64::from(0.5f32.to_bits()) << 32 | 7).unwrap();
    old.close().unwrap();
    let builder = || Dictionary::<u32, Nameless>::builder();
    assert_eq!(
        builder().open(scratch.path("old")).unwrap().lookup_one(1),
        Ok(Some(Nameless(7, 0.5)))
    );
    let named = Dictionary::<u32, Weight>::load(scratch.path("old")).unwrap();
    assert_eq!(named.lookup_one(1), Ok(Some(Weight { a: 7, b: 0.5 })));
}

#[test]
fn a_folder_is_not_created_if_one_is_expected() {
    let scratch = Scratch::new("expected");
    let open = |creates| {
        Dictionary::<u32, u32>::builder().create(creates).open(scratch.path("d")).map(drop)
    };
    for _ in 0..2 {
        assert!(matches!(open(false), Err(Error::NotADictionary { .. })));
        assert!(!scratch.path("d").exists());
    }
    open(true).unwrap();
    open(false).unwrap();
}

#[test]
fn a_dictionary_can_become_another_as_one_batch() {
    for rule in [Combine::Replace, Combine::Add] {
        let mut d = Dictionary::<u32, u32>::builder().combine(rule).build().unwrap();
        d.insert(&[1, 2, 3], &[1, 2, 3]).unwrap();
        d.set_and_delete(&[2, 4], &[20, 40], &[1, 3]).unwrap();
        assert_eq!(d.to_vecs(), Ok((vec![2, 4], vec![20, 40])), "{rule}");
    }
}

#[test]
fn what_is_missing_cannot_be_checked() {
    let scratch = Scratch::new("missing");
    let error = check(scratch.path("nothing")).unwrap_err();
    assert!(matches!(error, Error::Io { kind: ErrorKind::NotFound, .. }), "{error}");
    assert!(!scratch.path("nothing").exists());
}

fn words(path: &Path) -> Dictionary<u64, u64> {
    Dictionary::builder().device(gpulsm::Device::cpu()).open(path).unwrap()
}

/// After a change of the working directory, a relative path led to other files, even to another dictionary's.
#[test]
fn folders_are_known_by_absolute_paths() {
    let scratch = Scratch::new("relative");
    let up = env::current_dir().unwrap().components().skip(1).map(|_| "..").collect::<PathBuf>();
    let relative = up.join(scratch.path("folder").strip_prefix("/").unwrap());
    let d = words(&relative);
    assert!(d.path().unwrap().is_absolute(), "{:?}", d.path());
    drop(d);
    assert!(info(scratch.path("folder")).is_ok());
}

/// Every process that makes an update leaves a log. A thousand of them could not be opened any more.
#[test]
fn short_visits_do_not_leave_logs_without_end() {
    let scratch = Scratch::new("visits");
    let path = scratch.path("folder");
    for visit in 0..80 {
        let mut d = words(&path);
        d.insert_one(visit, visit).unwrap();
        d.close().unwrap();
        let logs = fs::read_dir(path.join("log")).unwrap().count();
        assert!(logs <= 34, "{logs} logs after {visit} visits");
    }
    assert_eq!(words(&path).len(), Ok(80));
}

/// The list of locks knew folders by their paths.
#[cfg(unix)]
#[test]
fn a_folder_that_was_renamed_is_still_open() {
    let scratch = Scratch::new("renamed");
    let mut d = words(&scratch.path("a"));
    fs::rename(scratch.path("a"), scratch.path("b")).unwrap();
    let again = Dictionary::<u64, u64>::builder().open(scratch.path("b"));
    assert!(matches!(again, Err(Error::Locked { .. })));
    d.insert_one(1, 1).unwrap();
    drop(d);
    assert_eq!(words(&scratch.path("b")).len(), Ok(1));
}

/// Saving follows links and replaces nothing but files; what is no file is not read.
#[cfg(unix)]
#[test]
#[allow(unsafe_code)]
fn links_are_followed_and_pipes_refused() {
    let scratch = Scratch::new("links");
    let d: Dictionary<u64, u64> = [(1, 10)].into_iter().collect();
    d.save(scratch.path("file")).unwrap();
    std::os::unix::fs::symlink(scratch.path("file"), scratch.path("link")).unwrap();
    Dictionary::<u64, u64>::new().save(scratch.path("link")).unwrap();
    assert!(scratch.path("link").is_symlink());
    assert_eq!(Dictionary::<u64, u64>::load(scratch.path("file")).unwrap().len(), Ok(0));

    let pipe = scratch.path("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero and lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert!(matches!(d.save(&pipe), Err(Error::NotADictionary { .. })));
    assert!(matches!(Dictionary::<u64, u64>::load(&pipe), Err(Error::Io { .. })));
    assert!(check(&pipe).is_err() && info(&pipe).is_err());
}

#[test]
fn a_closed_dictionary_can_be_queried_but_not_updated() {
    let scratch = Scratch::new("closed");
    let mut d = words(&scratch.path("d"));
    d.insert(&[1, 2], &[10, 20]).unwrap();
    d.close().unwrap();
    d.close().unwrap();
    assert_eq!(d.lookup(&[2, 3]).unwrap(), [Some(20), None]);
    for refused in [d.insert(&[3], &[30]), d.delete(&[1]), d.clear(), d.checkpoint()] {
        assert!(matches!(&refused, Err(Error::UpdatesRefused { .. })), "{refused:?}");
    }
    let mut again = words(&scratch.path("d"));
    again.insert(&[3], &[30]).unwrap();
    drop(d);
    again.insert(&[4], &[40]).unwrap();
    drop(again);
    assert_eq!(words(&scratch.path("d")).len(), Ok(4));
}

#[test]
fn a_folder_is_loaded_without_being_changed() {
    let scratch = Scratch::new("load-folder");
    let path = scratch.path("d");
    let load = || Dictionary::<u64, u64>::builder().device(gpulsm::Device::cpu()).load(&path);
    let mut d = words(&path);
    d.insert(&[1, 2], &[10, 20]).unwrap();
    d.checkpoint().unwrap();
    d.insert(&[3], &[30]).unwrap();
    assert!(matches!(load(), Err(Error::Locked { .. })));
    d.close().unwrap();
    let files = || {
        let folders = ["", "runs", "log"].map(|name| fs::read_dir(path.join(name)).unwrap());
        let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
        files.map(|file| (file.clone(), fs::read(file).ok())).collect::<Vec<_>>()
    };
    let before = files();
    let mut loaded = load().unwrap();
    assert_eq!((loaded.to_vecs(), loaded.path()), (d.to_vecs(), None));
    loaded.insert(&[4], &[40]).unwrap();
    assert_eq!(files(), before);
}

#[test]
fn other_folders_and_parts_of_a_dictionary_are_not_loaded_and_errors_say_what_is() {
    let scratch = Scratch::new("parts");
    let path = scratch.path("d");
    let mut d = words(&path);
    d.insert(&[1], &[10]).unwrap();
    d.checkpoint().unwrap();
    d.close().unwrap();
    fs::create_dir(scratch.path("empty")).unwrap();
    for folder in ["", "empty", "d/runs"] {
        let error = Dictionary::<u64, u64>::load(scratch.path(folder)).err().unwrap();
        assert!(matches!(error, Error::NotADictionary { .. }), "{error}");
        let advice = "name a folder that `open` created, or a file that `save` wrote";
        assert!(error.to_string().ends_with(advice), "{error}");
    }
    let files = ["", "runs", "log"].map(|name| fs::read_dir(path.join(name)).unwrap());
    let files = files.into_iter().flatten().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in &files {
        for error in [
            Dictionary::<u64, u64>::load(file).err().unwrap(),
            check(file).unwrap_err(),
            info(file).unwrap_err(),
        ] {
            assert!(matches!(error, Error::NotADictionary { .. }), "{error}");
            assert!(error.to_string().ends_with("in a folder: name that folder"), "{error}");
        }
    }
    let error = Dictionary::<u64, u64>::load(path.join("log/000777.log")).err().unwrap();
    assert!(matches!(error, Error::Io { .. }), "a missing file is missing: {error}");
}

#[test]
fn what_a_folder_consists_of_is_not_replaced_by_a_saved_file() {
    let scratch = Scratch::new("own");
    let mut d = words(&scratch.path("d"));
    d.insert(&[1], &[10]).unwrap();
    d.checkpoint().unwrap();
    let run = fs::read_dir(scratch.path("d/runs")).unwrap().next().unwrap().unwrap().path();
    for path in ["d/MANIFEST", "d/LOCK", "d/log/000777.log", run.to_str().unwrap()] {
        let error = d.save(scratch.path(path)).unwrap_err();
        assert!(error.to_string().contains("is not replaced"), "{error}");
    }
    d.save(scratch.path("d/copy.gpulsm")).unwrap();
    d.save(scratch.path("MANIFEST")).unwrap();
    drop(d);
    assert_eq!(check(scratch.path("d")).unwrap().entries(), 1);
    assert_eq!(words(&scratch.path("d")).len(), Ok(1));
}

/// A process that is killed while it saves leaves its unfinished file; the next one that saves the same removes it.
#[cfg(unix)]
#[test]
#[allow(unsafe_code)]
fn what_killed_saves_left_is_removed_and_what_others_write_is_not() {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new("abandoned");
    let left = scratch.path("file.0123456789abcdef.new");
    let being_written = scratch.path("file.fedcba9876543210.new");
    let others = ["file.1.new", "other.0123456789abcdef.new"].map(|name| scratch.path(name));
    for path in [&left, &being_written, &others[0], &others[1]] {
        fs::write(path, "?").unwrap();
    }
    let writer = fs::File::open(&being_written).unwrap();
    // SAFETY: the file is open.
    assert_eq!(unsafe { libc::flock(writer.as_raw_fd(), libc::LOCK_EX) }, 0);
    let d: Dictionary<u64, u64> = [(1, 10)].into_iter().collect();
    d.save(scratch.path("file")).unwrap();
    assert!(!left.exists() && being_written.exists() && others.iter().all(|path| path.exists()));
    drop(writer);
    fs::set_permissions(scratch.path("file"), fs::Permissions::from_mode(0o640)).unwrap();
    d.save(scratch.path("file")).unwrap();
    assert!(!being_written.exists());
    let mode = fs::metadata(scratch.path("file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "a file that is replaced keeps its permissions");
}

/// Only root can give files away.
#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_keeps_its_owner_where_that_is_permitted() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    let scratch = Scratch::new("owner");
    let path = scratch.path("file");
    let d: Dictionary<u64, u64> = [(1, 10)].into_iter().collect();
    d.save(&path).unwrap();
    let is_root = chown(&path, Some(1234), Some(4321)).is_ok();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    let before = fs::metadata(&path).unwrap();
    d.save(&path).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_ne!(before.ino(), after.ino(), "it is another file");
    assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()));
    assert_eq!(after.mode() & 0o777, 0o604);
    assert!(!is_root || (after.uid(), after.gid()) == (1234, 4321));
}

#[test]
fn threads_that_save_the_same_file_do_not_disturb_each_other() {
    let scratch = Scratch::new("same");
    thread::scope(|scope| {
        for number in 0..4 {
            let path = scratch.path("file");
            let d: Dictionary<u64, u64> = (0..100).map(|key| (key, number)).collect();
            scope.spawn(move || (0..25).for_each(|_| d.save(&path).unwrap()));
        }
    });
    let (keys, values) =
        Dictionary::<u64, u64>::load(scratch.path("file")).unwrap().to_vecs().unwrap();
    assert!(keys.len() == 100 && values.iter().all(|&value| value == values[0]));
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 1);
}
