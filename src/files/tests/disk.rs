//! Real files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::error::Error;
use crate::files::check::{check, info};
use crate::files::disk::Disk;
use crate::files::folder::{Durability, Options};
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
    let folder = open(&path).unwrap().finish(OPTIONS).unwrap();
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
    let folder = open(&scratch.0).unwrap().finish(OPTIONS).unwrap();
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
    let file = Disk.create(&path).unwrap();
    assert!(Disk.create(&path).is_err());
    file.write_at(3, &[b"abc", b"", b"defg"]).unwrap();
    file.truncate(8).unwrap();
    file.sync().unwrap();
    let mut bytes = [1; 8];
    Disk.open(&path).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0\0\0abcde");
    assert!(file.read_at(1, &mut bytes).is_err());
    assert_eq!(Disk.list(&scratch.0).unwrap(), ["file"]);
    assert_eq!(fs::read(&path).unwrap().len() as u64, file.len().unwrap());
}
