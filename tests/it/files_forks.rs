//! A forked child has a copy of its parent's dictionary, but not its files.

use std::process::{Command, exit};
use std::{env, fs};

use gpulsm::{Device, Dictionary, Error};

use crate::files::Scratch;

/// Tells the process that a test starts which folder to use.
const FOLDER: &str = "GPULSM_FORKED_FOLDER";

type Disk = Dictionary<u64, u64>;

fn open(folder: &str) -> Result<Disk, Error> {
    // A GPU cannot be used by forked children at all.
    Disk::builder().device(Device::cpu()).threads(1).batch_size(8).open(folder)
}

/// Starts a process that does what the test of this name does if it is told a folder.
fn run(test: &str, folder: &str) {
    let mut process = Command::new(env::current_exe().unwrap());
    let arguments = ["--exact", test, "--nocapture", "--test-threads=1"];
    let output = process.args(arguments).env(FOLDER, folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

/// What a forked child does with the dictionary of its parent: nothing succeeds that would write.
fn is_refused_everywhere(mut d: Disk) -> bool {
    let is_refused =
        |result: Result<(), Error>| matches!(result, Err(Error::UpdatesRefused { .. }));
    let outcomes = [
        is_refused(d.insert(&[7], &[7])),
        is_refused(d.delete(&[1])),
        is_refused(d.delete_range_one(..)),
        is_refused(d.clear()),
        is_refused(d.checkpoint()),
        is_refused(d.sync()),
    ];
    // It still has what it had, in memory.
    let has_all = d.lookup_one(1) == Ok(Some(1)) && d.len() == Ok(101);
    let is_close_refused = is_refused(d.close());
    outcomes == [true; 6] && has_all && is_close_refused
}

/// A process of its own, since a fork has only one thread: the locks of all others would stay locked for ever.
#[test]
fn process_that_forks() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let mut d = open(&folder).unwrap();
    let keys: Vec<u64> = (0..100).collect();
    d.insert(&keys, &keys).unwrap();
    d.checkpoint().unwrap();
    d.insert(&[1000], &[1000]).unwrap();
    let files = || -> Vec<_> {
        let folders =
            ["", "runs", "log"].map(|name| fs::read_dir(format!("{folder}/{name}")).unwrap());
        folders.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let before = files();
    // SAFETY: no other thread of this process is in a call, so no lock is held that the child would wait for.
    let child = unsafe { libc::fork() };
    if child == 0 {
        exit(if is_refused_everywhere(d) { 0 } else { 1 });
    }
    let mut status = 0;
    // SAFETY: it waits for the child of this very process, and `status` is a number that lives here.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child ended as it should");
    assert_eq!(files(), before, "the child removed nothing");
    run("files_forks::process_that_finds_a_locked_folder", &folder);
    d.insert(&[1001], &[1001]).unwrap();
    d.checkpoint().unwrap();
    d.close().unwrap();
    assert_eq!(open(&folder).unwrap().len(), Ok(102));
}

#[test]
fn process_that_finds_a_locked_folder() {
    let Ok(folder) = env::var(FOLDER) else { return };
    assert!(matches!(open(&folder), Err(Error::Locked { .. })), "the child released the lock");
}

#[test]
fn a_forked_child_changes_nothing_and_releases_no_lock() {
    let scratch = Scratch::new("forked");
    run("files_forks::process_that_forks", scratch.path("d").to_str().unwrap());
}
