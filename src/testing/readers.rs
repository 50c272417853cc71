//! Bytes that may be anything, read as the files of dictionaries, as a fuzzer makes them: there is a dictionary in
//! them, or an error says why not.
//!
//! The first byte of an input says whether checksums are made right before, so that what is behind them is reached.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::builder::Builder;
use crate::combine::Combine;
use crate::device::Device;
use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::files::check_in;
use crate::files::simulated::{Simulated, seal_folder, seal_saved};
use crate::files::{Info, Storage};
use crate::key::Key;
use crate::testing::subject::Subject;
use crate::value::Value;

const SAVED: &str = "/saved";
const FOLDER: &str = "/folder";

/// Says that checksums are made right.
const SEALED: u8 = 1;

/// The files of a folder by their paths in it.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Returns the input of [`read_saved_file`] that has these bytes.
pub fn saved_input(bytes: &[u8], is_sealed: bool) -> Vec<u8> {
    [&[u8::from(is_sealed)], bytes].concat()
}

/// Returns the input of [`read_folder`] that has these files: of each, the length of its path in a byte, the path,
/// the length of the contents in four bytes, and the contents.
pub fn folder_input(files: &Files, is_sealed: bool) -> Vec<u8> {
    let mut input = vec![u8::from(is_sealed)];
    for (path, contents) in files {
        let path = path.to_string_lossy();
        input.push(path.len() as u8);
        input.extend(path.as_bytes());
        input.extend((contents.len() as u32).to_le_bytes());
        input.extend(contents);
    }
    input
}

/// Returns the files of an input. The last one may be cut off.
fn files(mut input: &[u8]) -> Files {
    let mut files = Files::new();
    let mut take = |len: usize| {
        let (front, rest) = input.split_at(len.min(input.len()));
        input = rest;
        front
    };
    while let &[len] = take(1) {
        let path = String::from_utf8_lossy(take(len.into())).into_owned();
        let mut len = [0; 4];
        let bytes = take(4);
        len[..bytes.len()].copy_from_slice(bytes);
        let is_inside = Path::new(&path)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        let contents = take(u32::from_le_bytes(len) as usize);
        if is_inside && !path.is_empty() {
            files.insert(path.into(), contents.to_vec());
        }
    }
    files
}

/// Reads a dictionary of some types from a path in a storage.
type Read = fn(&Simulated, &str) -> Result<Box<dyn Subject>, Error>;

/// Returns readers of dictionaries of several types: how they are loaded, from a saved file or a folder, and how a
/// folder is opened.
#[inline] // Instantiated only in crates that call what calls it.
fn readers() -> [[Read; 2]; 6] {
    fn builder<K: Key, V: Value>() -> Builder<K, V> {
        Dictionary::builder().device(Device::cpu()).threads(1)
    }
    macro_rules! readers {
        ($builder:expr) => {{
            let load: Read = |storage, path| Ok(Box::new($builder.load_simulated(storage, path)?));
            let open: Read = |storage, path| Ok(Box::new($builder.open_simulated(storage, path)?));
            [load, open]
        }};
    }
    [
        readers!(builder::<u32, u32>()),
        readers!(builder::<(u32, i64), f64>()),
        readers!(builder::<[u8; 12], ()>()),
        readers!(builder::<u64, i64>().combine(Combine::Add)),
        readers!(builder::<u32, i64>().combine(Combine::Add)),
        readers!(builder::<u64, u64>()),
    ]
}

fn check(storage: &Simulated, path: &str) -> Result<Info, Error> {
    check_in(&Storage::new(storage.clone()), Path::new(path), &mut |_, _| {})
}

/// Reads an input as a saved file, in every way. Returns whether there was a dictionary in it.
///
/// # Panics
///
/// If a dictionary was loaded that is invalid, or in which the check finds damage.
#[inline] // Instantiated only in crates that call it.
pub fn read_saved_file(input: &[u8]) -> bool {
    let [flags, bytes @ ..] = input else { return false };
    let mut bytes = bytes.to_vec();
    if flags & SEALED != 0 {
        seal_saved(&mut bytes);
    }
    let storage = Simulated::new();
    storage.replace(Path::new(SAVED), Some(bytes));
    let checked = check(&storage, SAVED);
    let loaded = readers().into_iter().find_map(|[load, _]| load(&storage, SAVED).ok());
    let Some(dictionary) = loaded else { return false };
    dictionary.now().validate().unwrap();
    assert!(checked.is_ok(), "it was loaded, but: {checked:?}");
    true
}

/// Reads an input as a folder, in every way, and goes on with the dictionary. Returns whether there was one in it.
///
/// # Panics
///
/// If a dictionary was opened that is invalid, in which the check finds damage, or that is another one when it is
/// loaded, or opened the next time; or if a folder is changed that is only loaded, or cannot be opened.
#[inline] // Instantiated only in crates that call it.
pub fn read_folder(input: &[u8]) -> bool {
    let [flags, rest @ ..] = input else { return false };
    let mut files = files(rest);
    if flags & SEALED != 0 {
        seal_folder(&mut files);
    }
    // A crash may have left it without a manifest; then a new dictionary would be created.
    if !files.contains_key(Path::new("MANIFEST")) {
        return false;
    }
    files.entry("LOCK".into()).or_default();
    let storage = Simulated::new();
    for (path, contents) in &files {
        storage.replace(&Path::new(FOLDER).join(path), Some(contents.clone()));
    }
    let checked = check(&storage, FOLDER);
    let loaded = readers().into_iter().find_map(|[load, _]| load(&storage, FOLDER).ok());
    let is_same = |(path, contents): (&PathBuf, &Vec<u8>)| {
        storage.contents(&Path::new(FOLDER).join(path)).as_ref() == Some(contents)
    };
    assert!(files.iter().all(is_same), "loading changes nothing");
    let mut opened = readers().into_iter().map(|[_, open]| open);
    let opened = opened.find_map(|open| Some((open, open(&storage, FOLDER).ok()?)));
    assert_eq!(loaded.is_some(), opened.is_some(), "what can be loaded can be opened");
    let (Some(loaded), Some((open, dictionary))) = (loaded, opened) else {
        assert!(files.iter().all(is_same), "an error changes nothing");
        return false;
    };
    assert!(checked.is_ok(), "it was opened, but: {checked:?}");
    assert_eq!(loaded.now().all().unwrap(), dictionary.now().all().unwrap());
    go_on(dictionary, || open(&storage, FOLDER));
    true
}

/// Changes a dictionary that was opened, and opens it again.
fn go_on(mut dictionary: Box<dyn Subject>, reopen: impl Fn() -> Result<Box<dyn Subject>, Error>) {
    for changes in 0..2 {
        dictionary.now().validate().unwrap();
        let pairs = dictionary.now().all().unwrap();
        dictionary.close().unwrap();
        dictionary = reopen().unwrap();
        assert_eq!(dictionary.now().all().unwrap(), pairs, "after {changes} changes");
        dictionary.delete(&pairs.iter().map(|pair| pair.0).step_by(2).collect::<Vec<_>>()).unwrap();
        dictionary.checkpoint().unwrap();
    }
}
