//! Real files.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::files::check::{check, info};
use crate::files::disk::Disk;
use crate::files::folder::{Durability, Folder, Options};
use crate::files::opening::Opening;
use crate::files::record::Update;
use crate::files::run::{RunShape, Section};
use crate::files::storage::{RawStorage, Storage};
use crate::files::tests::database::{WIDTHS, schema};

/// Tells a process that the test started which folder to open.
const FOLDER: &str = "GPULSM_TEST_FOLDER";

const OPTIONS: Options = Options { durability: Durability::Batch, log_limit: Some(1 << 20) };

/// A folder that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("gpulsm-{name}-{}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn open(path: &Path) -> Result<Opening, Error> {
    Opening::open(&Storage::new(Disk), path, Some((&schema(), &[])))
}

#[test]
fn updates_and_checkpoints_are_read_back() {
    let scratch = Scratch::new("folder");
    let path = scratch.0.join("dictionary");
    let update = Update::Batch { keys: &[1; 24], values: &[2; 24], assigned: 1, deletes: &[3; 8] };
    let folder = open(&path).unwrap().finish(&Storage::new(Disk), OPTIONS).unwrap();
    assert_eq!((folder.path(), folder.durability()), (&*path, Durability::Batch));
    let (large, empty) = (vec![0; 1 << 20], folder.log_bytes());
    let large = Update::Batch { keys: &large, values: &large, assigned: 0, deletes: &[] };
    assert!(folder.is_too_large_for_log(&large) && !folder.is_too_large_for_log(&update));
    folder.set_setting("batch_size", 64);
    folder.commit(folder.append(&Update::Clear).unwrap()).unwrap();
    assert_eq!(folder.log_bytes(), empty + 40);
    let mut checkpoint = folder.begin_checkpoint().unwrap().unwrap();
    assert!(folder.begin_checkpoint().unwrap().is_none(), "one at a time");
    folder.commit(folder.append(&update).unwrap()).unwrap();
    let shape = RunShape { widths: WIDTHS, entries: 300_000, has_marks: false };
    let mut run = checkpoint.create_run(shape).unwrap();
    let keys: Vec<u8> = (0..300_000u64).flat_map(u64::to_le_bytes).collect();
    run.write(Section::Keys, &keys).unwrap();
    run.write(Section::Values, &keys).unwrap();
    let run = checkpoint.finish_run(run, 2).unwrap();
    checkpoint.finish(vec![run]).unwrap();
    folder.close().unwrap();

    let checked = check(&path).unwrap();
    assert_eq!(checked, info(&path).unwrap());
    assert_eq!((checked.entries(), checked.updates, checked.torn_bytes), (300_000, 1, 0));
    let opening = open(&path).unwrap();
    assert_eq!(opening.manifest().setting("batch_size"), Some(64));
    let mut read = vec![0; keys.len()];
    opening.run(0).unwrap().read_part(Section::Values, 0, &mut read, &mut |_| ()).unwrap();
    assert!(read == keys);
    let mut updates = 0;
    opening
        .replay(&mut |sequence, replayed| {
            assert_eq!((sequence, replayed), (2, update));
            updates += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(updates, 1);
}

#[test]
fn a_folder_is_open_once_in_this_process_and_all_others() {
    if let Some(path) = env::var_os(FOLDER) {
        // This is the other process.
        let error = open(Path::new(&path)).err().expect("the folder is locked");
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        return;
    }
    let scratch = Scratch::new("lock");
    let folder = open(&scratch.0).unwrap().finish(&Storage::new(Disk), OPTIONS).unwrap();
    let again = scratch.0.join("runs").join("..");
    assert_eq!(open(&again).err(), Some(Error::Locked { path: again }));
    assert!(matches!(check(&scratch.0), Err(Error::Locked { .. })));
    let test = "files::tests::disk::a_folder_is_open_once_in_this_process_and_all_others";
    let mut other = Command::new(env::current_exe().unwrap());
    let output = other.args(["--exact", test]).env(FOLDER, &scratch.0).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    folder.close().unwrap();
    open(&scratch.0).unwrap();
    assert!(matches!(folder.append(&Update::Clear), Err(Error::UpdatesRefused { .. })));
}

#[test]
fn files_are_written_and_read_at_offsets() {
    let scratch = Scratch::new("file");
    let path = scratch.0.join("file");
    let folder = Disk.open_directory(&scratch.0).unwrap();
    let file = folder.create(OsStr::new("file")).unwrap();
    assert!(folder.create(OsStr::new("file")).is_err());
    file.write_at(3, &[b"abc", b"", b"defg"]).unwrap();
    file.truncate(8).unwrap();
    file.sync().unwrap();
    let mut bytes = [1; 8];
    Disk.open_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0\0\0abcde");
    assert!(file.read_at(1, &mut bytes).is_err());
    assert_eq!(folder.list().unwrap(), ["file"]);
    assert_eq!(fs::read(&path).unwrap().len() as u64, file.len().unwrap());
}

/// Opens a folder for updates, and lets the next update look whether the folder is still its own.
fn opened(path: &Path) -> Arc<Folder> {
    open(path).unwrap().finish(&Storage::new(Disk), OPTIONS).unwrap()
}

fn is_lost<T: Debug>(result: Result<T, Error>, why: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::UpdatesRefused { .. }), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

fn updates_in(path: &Path) -> u64 {
    check(path).unwrap().updates
}

/// Returns all files of a folder, and what they hold.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(contents(&entry.path())),
            false => drop(files.insert(entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    files
}

#[test]
fn a_folder_that_is_moved_goes_on_working_and_its_path_is_left_to_others() {
    let scratch = Scratch::new("moved");
    let (live, old) = (scratch.0.join("live"), scratch.0.join("old"));
    let folder = opened(&live);
    folder.append(&Update::Clear).unwrap();
    fs::rename(&live, &old).unwrap();
    let other = opened(&live);
    other.append(&Update::Clear).unwrap();
    other.close().unwrap();
    let others = contents(&live);
    for _ in 0..2 {
        folder.append(&Update::Clear).unwrap();
        folder.begin_checkpoint().unwrap().unwrap().finish(Vec::new()).unwrap();
        folder.append(&Update::Clear).unwrap();
    }
    folder.close().unwrap();
    assert_eq!(contents(&live), others);
    assert_eq!((updates_in(&live), updates_in(&old)), (1, 1));
}

#[cfg(unix)]
#[test]
fn a_link_to_a_folder_can_be_turned_while_it_is_open() {
    let scratch = Scratch::new("turned");
    let [one, two, link] = ["one", "two", "link"].map(|name| scratch.0.join(name));
    opened(&two).close().unwrap();
    fs::create_dir(&one).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let folder = opened(&link);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&two, &link).unwrap();
    let others = contents(&two);
    folder.append(&Update::Clear).unwrap();
    folder.begin_checkpoint().unwrap().unwrap().finish(Vec::new()).unwrap();
    folder.append(&Update::Clear).unwrap();
    folder.close().unwrap();
    assert_eq!(contents(&two), others);
    assert_eq!(updates_in(&one), 1);
}

#[test]
fn a_handle_whose_folder_was_opened_again_writes_nothing_more() {
    let scratch = Scratch::new("taken");
    let path = scratch.0.join("dictionary");
    let folder = opened(&path);
    folder.append(&Update::Clear).unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let other = opened(&path);
    other.append(&Update::Clear).unwrap();
    let before = contents(&path);
    is_lost(folder.begin_checkpoint().map(drop), "opened for updates again");
    is_lost(folder.close(), "opened for updates again");
    is_lost(folder.append(&Update::Clear), "opened for updates again");
    folder.close().unwrap(); // An error has told it.
    drop(folder);
    assert_eq!(contents(&path), before);
    other.append(&Update::Clear).unwrap();
    other.close().unwrap();
    assert_eq!(updates_in(&path), 3);
}

#[test]
fn folders_and_logs_that_were_replaced_are_noticed() {
    for (what, reason) in [("log", "folder `log`"), ("runs", "folder `runs`"), ("file", "its log")]
    {
        let scratch = Scratch::new("subfolders");
        let path = scratch.0.join("dictionary");
        let folder = opened(&path);
        folder.append(&Update::Clear).unwrap();
        if what == "file" {
            for log in fs::read_dir(path.join("log")).unwrap() {
                fs::remove_file(log.unwrap().path()).unwrap();
            }
        } else {
            fs::rename(path.join(what), scratch.0.join(what)).unwrap();
            fs::create_dir(path.join(what)).unwrap();
        }
        let before = contents(&path);
        if what != "file" {
            is_lost(folder.begin_checkpoint().map(drop), reason);
        }
        is_lost(folder.close(), reason);
        assert_eq!(contents(&path), before);
        folder.close().unwrap();
    }
}

#[test]
fn a_checkpoint_that_loses_the_folder_removes_nothing() {
    let scratch = Scratch::new("checkpoint");
    let path = scratch.0.join("dictionary");
    let folder = opened(&path);
    let mut checkpoint = folder.begin_checkpoint().unwrap().unwrap();
    let shape = RunShape { widths: WIDTHS, entries: 1, has_marks: false };
    let mut run = checkpoint.create_run(shape).unwrap();
    run.write(Section::Keys, &[1; 8]).unwrap();
    run.write(Section::Values, &[1; 8]).unwrap();
    let run = checkpoint.finish_run(run, 0).unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let other = opened(&path);
    let mut mine = other.begin_checkpoint().unwrap().unwrap();
    let mut theirs = mine.create_run(shape).unwrap();
    theirs.write(Section::Keys, &[2; 8]).unwrap();
    theirs.write(Section::Values, &[2; 8]).unwrap();
    let theirs = mine.finish_run(theirs, 0).unwrap();
    mine.finish(vec![theirs]).unwrap();
    let before = contents(&path);
    is_lost(checkpoint.finish(vec![run]), "opened for updates again");
    assert_eq!(contents(&path), before);
    other.close().unwrap();
    assert_eq!(check(&path).unwrap().entries(), 1);
}

#[test]
fn updates_notice_within_a_second_that_the_folder_was_replaced() {
    let scratch = Scratch::new("replaced");
    let path = scratch.0.join("dictionary");
    let folder = opened(&path);
    fs::remove_dir_all(&path).unwrap();
    let other = opened(&path);
    let before = contents(&path);
    let start = Instant::now();
    let refused = loop {
        match folder.append(&Update::Clear).and_then(|update| folder.commit(update)) {
            Ok(()) => assert!(start.elapsed() < Duration::from_secs(3)),
            Err(error) => break error,
        }
    };
    is_lost(Err::<(), _>(refused), "manifest is gone");
    assert_eq!(contents(&path), before);
    other.close().unwrap();
}

#[test]
fn a_manifest_that_is_overwritten_in_place_is_noticed() {
    let scratch = Scratch::new("overwritten");
    let (one, two) = (scratch.0.join("one"), scratch.0.join("two"));
    let folder = opened(&one);
    opened(&two).close().unwrap();
    // As a copy over an open folder does.
    fs::write(one.join("MANIFEST"), fs::read(two.join("MANIFEST")).unwrap()).unwrap();
    is_lost(folder.begin_checkpoint().map(drop), "another dictionary");
}

#[test]
fn a_restored_copy_of_an_open_folder_is_noticed() {
    let scratch = Scratch::new("restored");
    let path = scratch.0.join("dictionary");
    opened(&path).close().unwrap();
    let manifest = path.join("MANIFEST");
    let copy = fs::read(&manifest).unwrap();
    let folder = opened(&path);
    fs::remove_file(&manifest).unwrap();
    fs::write(&manifest, copy).unwrap();
    is_lost(folder.begin_checkpoint().map(drop), "restored from a copy");
    // The same file under its old name again is no other one.
    let mine = opened(&scratch.0.join("mine"));
    let manifest = scratch.0.join("mine").join("MANIFEST");
    fs::write(scratch.0.join("kept"), fs::read(&manifest).unwrap()).unwrap();
    fs::rename(scratch.0.join("kept"), &manifest).unwrap();
    mine.begin_checkpoint().unwrap().unwrap().finish(Vec::new()).unwrap();
}

#[cfg(unix)]
#[test]
fn folders_in_the_folder_are_no_links() {
    let scratch = Scratch::new("links");
    let (original, copy) = (scratch.0.join("original"), scratch.0.join("copy"));
    for name in ["runs", "log"] {
        opened(&original).close().unwrap();
        let elsewhere = scratch.0.join(format!("elsewhere-{name}"));
        fs::rename(original.join(name), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, original.join(name)).unwrap();
        fs::create_dir_all(&copy).unwrap();
        fs::copy(original.join("MANIFEST"), copy.join("MANIFEST")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, copy.join(name)).unwrap();
        let before = contents(&scratch.0.join(&elsewhere));
        for path in [&original, &copy] {
            let error = open(path).err().expect("a link is refused");
            assert!(error.to_string().contains("symbolic link"), "{error}");
            assert!(check(path).is_err());
        }
        assert_eq!(contents(&scratch.0.join(&elsewhere)), before);
        fs::remove_file(original.join(name)).unwrap();
        fs::rename(&elsewhere, original.join(name)).unwrap();
        fs::remove_dir_all(&copy).unwrap();
        opened(&original).close().unwrap();
    }
}

#[test]
fn folders_that_were_not_copied_because_they_were_empty_are_created() {
    let scratch = Scratch::new("empty");
    let path = scratch.0.join("dictionary");
    opened(&path).close().unwrap();
    fs::remove_dir(path.join("runs")).unwrap();
    assert_eq!(updates_in(&path), 0);
    let folder = opened(&path);
    folder.begin_checkpoint().unwrap().unwrap().finish(Vec::new()).unwrap();
    folder.close().unwrap();
}

#[test]
fn closing_another_handle_of_the_lock_does_not_release_it() {
    let scratch = Scratch::new("copied");
    let folder = opened(&scratch.0);
    // As a copy of the whole folder does.
    drop(contents(&scratch.0));
    let test = "files::tests::disk::a_folder_is_open_once_in_this_process_and_all_others";
    let mut other = Command::new(env::current_exe().unwrap());
    let output = other.args(["--exact", test]).env(FOLDER, &scratch.0).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    folder.close().unwrap();
}

/// A process opens a folder, forks a child, which only waits, and ends.
#[cfg(unix)]
#[test]
#[allow(unsafe_code)]
fn a_forked_child_does_not_keep_the_lock() {
    const FORKS: &str = "GPULSM_TEST_FORKS";
    if let Some(path) = env::var_os(FORKS) {
        let path = Path::new(&path);
        let _folder = opened(&path.join("dictionary"));
        // SAFETY: the child calls `pause` alone, which may be called after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        fs::write(path.join("child"), child.to_string()).unwrap();
        assert!(matches!(open(&path.join("dictionary")), Err(Error::Locked { .. })));
        fs::write(path.join("was-locked"), "").unwrap();
        process::exit(0);
    }
    let scratch = Scratch::new("forked");
    let test = "files::tests::disk::a_forked_child_does_not_keep_the_lock";
    let mut other = Command::new(env::current_exe().unwrap());
    // The child has its standard output, which would not end before it.
    let other = other.args(["--exact", test]).env(FORKS, &scratch.0).stdout(Stdio::null());
    let status = other.status().unwrap();
    let child: i32 = fs::read_to_string(scratch.0.join("child")).unwrap().parse().unwrap();
    // SAFETY: no memory is passed. The child is still there, since it only ends when it is killed.
    let is_alive = unsafe { libc::kill(child, 0) } == 0;
    // On a busy machine the child may begin after its parent has ended.
    let start = Instant::now();
    let opened_again = loop {
        match open(&scratch.0.join("dictionary")).map(drop) {
            Err(Error::Locked { .. }) if start.elapsed() < Duration::from_secs(10) => {
                thread::sleep(Duration::from_millis(10));
            }
            opened => break opened,
        }
    };
    // SAFETY: as above.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert!(status.success() && is_alive && scratch.0.join("was-locked").exists());
    assert_eq!(opened_again, Ok(()));
}

/// Runs in a process of its own, since it lets no file be opened.
#[cfg(unix)]
#[test]
#[allow(unsafe_code)]
fn a_checkpoint_without_free_file_descriptors_can_be_repeated() {
    const STARVES: &str = "GPULSM_TEST_STARVES";
    if let Some(path) = env::var_os(STARVES) {
        let folder = opened(Path::new(&path));
        folder.commit(folder.append(&Update::Clear).unwrap()).unwrap();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is written and read as the structure that the calls expect.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
        let none = libc::rlimit { rlim_cur: 0, ..limit };
        // SAFETY: as above.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) };
        let failed = folder.begin_checkpoint().map(drop);
        folder.commit(folder.append(&Update::Clear).unwrap()).unwrap();
        // SAFETY: as above.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        folder.commit(folder.append(&Update::Clear).unwrap()).unwrap();
        folder.begin_checkpoint().unwrap().unwrap().finish(Vec::new()).unwrap();
        folder.commit(folder.append(&Update::Clear).unwrap()).unwrap();
        folder.close().unwrap();
        return;
    }
    let scratch = Scratch::new("starved");
    let test = "files::tests::disk::a_checkpoint_without_free_file_descriptors_can_be_repeated";
    let mut other = Command::new(env::current_exe().unwrap());
    let output = other.args(["--exact", test]).env(STARVES, &scratch.0).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(updates_in(&scratch.0), 1);
}
