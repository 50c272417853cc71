//! What is said of dictionaries in files, in the words of this program.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use gpulsm::Error;
use gpulsm::files::{Info, info};
use gpulsm::private::FileTypes;
use gpulsm_backends::stored::{key_named, key_of_parts, value_named};
use gpulsm_backends::types::{KeyType, Type, ValueType};
use indicatif::HumanCount;
use serde_json::{Map, Value};

/// How saved files begin, and the runs and logs of a folder.
const SAVED: &[u8; 8] = b"GPLSMDIC";
const PARTS: [&[u8; 8]; 2] = [b"GPLSMRUN", b"GPLSMLOG"];

/// The name of a file in a folder that begins as a saved one does.
const MANIFEST: &str = "MANIFEST";

/// Returns whether a file begins as saved dictionaries do. What cannot be read does not.
pub fn is_saved(path: &Path) -> bool {
    first_bytes(path).is_ok_and(|first| &first == SAVED)
}

/// Reads the beginning of a file; of a pipe, nothing, because it could not be read again.
fn first_bytes(path: &Path) -> io::Result<[u8; 8]> {
    let mut first = [0; 8];
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    File::open(path)?.read_exact(&mut first)?;
    Ok(first)
}

/// Returns how many bytes a saved file has, or the runs and logs of a folder.
pub fn size(path: &Path, info: &Info) -> u64 {
    let file = path.metadata().ok().filter(|file| file.is_file());
    file.map_or_else(|| info.bytes(), |file| file.len())
}

/// Formats a number of things, with a plural where needed.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", HumanCount(number), if number == 1 { "" } else { "s" })
}

/// Returns what a path that may be anything is instead of a dictionary, if it is a file and none.
pub fn what_else(path: &Path) -> Option<String> {
    let shown = path.display();
    match first_bytes(path) {
        Ok(first) if PARTS.contains(&&first) || path.ends_with(MANIFEST) => {
            Some(format!("`{shown}` is a part of a dictionary: name the folder that it lives in"))
        }
        Ok(first) if &first == SAVED => None,
        Ok(_) => Some(format!(
            "`{shown}` is no saved dictionary: it begins with other bytes, because it is another kind of file or \
             because it is damaged"
        )),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some(format!(
            "`{shown}` is no saved dictionary: it is too short, because it is another kind of file or because it \
             is damaged"
        )),
        // A folder, or something that cannot be read: the library says so.
        Err(_) => None,
    }
}

/// Why nothing is said of files.
pub enum Refusal {
    /// It is another file than a saved dictionary; what it is.
    OtherFile(String),
    Failed(Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::OtherFile(what) => f.write_str(what),
            Refusal::Failed(Error::NotADictionary { path, .. }) if path.is_dir() => write!(
                f,
                "`{}` holds no dictionary: name a folder that `gpulsm shell --open` created, or a file that `save` \
                 wrote",
                path.display()
            ),
            Refusal::Failed(error) => error.fmt(f),
        }
    }
}

impl Refusal {
    /// Returns the kind of the refusal. The names stay as they are from version to version.
    fn code(&self) -> &'static str {
        match self {
            Refusal::OtherFile(_) | Refusal::Failed(Error::NotADictionary { .. }) => {
                "not_a_dictionary"
            }
            Refusal::Failed(Error::CorruptFile { .. }) => "damaged",
            Refusal::Failed(Error::Locked { .. }) => "in_use",
            Refusal::Failed(Error::Io { .. }) => "io",
            Refusal::Failed(Error::UnsupportedVersion { .. }) => "unsupported_version",
            Refusal::Failed(_) => "other",
        }
    }

    /// Returns what is wrong, for programs.
    pub fn object(&self, path: &Path) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("path".into(), path.display().to_string().into());
        object.insert("error".into(), self.to_string().into());
        object.insert("code".into(), self.code().into());
        if let Refusal::Failed(Error::CorruptFile { path, .. } | Error::Io { path, .. }) = self {
            object.insert("file".into(), path.display().to_string().into());
        }
        if let Refusal::Failed(Error::CorruptFile { offset, .. }) = self {
            object.insert("offset".into(), (*offset).into());
        }
        object
    }
}

/// Reads a folder or a saved file. What is another file is not read.
pub fn read(
    path: &Path,
    reader: impl FnOnce(&Path) -> Result<Info, Error>,
) -> Result<Info, Refusal> {
    match what_else(path) {
        Some(other) => Err(Refusal::OtherFile(other)),
        None => reader(path).map_err(Refusal::Failed),
    }
}

/// Refuses a path of something new, if the folder that it is to be in does not exist.
pub fn expect_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        // Whether it is there may be unknown, without permission: who creates the file says so.
        Some(parent) if parent.try_exists().is_ok_and(|exists| !exists) => Err(format!(
            "there is no folder `{}` for `{}`: create it first (mkdir -p {})",
            parent.display(),
            path.file_name().unwrap_or_default().display(),
            quoted(parent)
        )),
        _ => Ok(()),
    }
}

/// Returns the type of keys of files.
pub fn key_of(types: &FileTypes, path: &Path) -> Result<KeyType, String> {
    key_of_parts(&types.stored.key).map_err(|error| {
        format!(
            "`{}` has keys of a type that this program lacks: {error}; use it from Rust or Python",
            path.display()
        )
    })
}

/// Returns the type of values of files.
pub fn value_of(types: &FileTypes, path: &Path) -> Result<ValueType, String> {
    value_named(&types.stored.value).ok_or_else(|| {
        let (path, bytes) = (path.display(), types.value_width);
        match &*types.stored.value {
            "" => format!(
                "`{path}` doesn't say what its values are: give --value, a type of {bytes} bytes"
            ),
            name => format!(
                "`{path}` has values of type {name}, which this program lacks: use it from Rust or Python"
            ),
        }
    })
}

/// Returns the name of the rule by which values combine.
pub fn rule_of(info: &Info) -> &str {
    info.combine.split(' ').next().unwrap_or_default()
}

/// Returns the types of files as this program names them, or as Rust does if it lacks them.
pub fn names(info: &Info) -> (String, String) {
    let key = key_named(&info.key).map_or_else(|_| info.key.clone(), |key| key.to_string());
    let value = match (value_named(&info.value), &*info.value) {
        (Some(value), _) => Type::from(value).name().into(),
        (None, "") => format!("{} bytes", info.value_bytes),
        (None, name) => name.into(),
    };
    (key, value)
}

/// Returns the options of `gpulsm shell` that a dictionary with the types of files is made with.
pub fn options(info: &Info) -> String {
    let (key, value) = names(info);
    match rule_of(info) {
        "replace" => format!("--key {key} --value {value}"),
        rule => format!("--key {key} --value {value} --combine {rule}"),
    }
}

/// Returns a path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+,:@%=~\\".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Writes an error in the words of this program.
pub fn explain(error: Error) -> String {
    let Error::WrongType { path, .. } = &error else { return error.to_string() };
    match info(path) {
        Ok(info) => format!(
            "`{}` holds a dictionary of {options}, and this one has other types; `gpulsm shell --load {}` takes \
             them from the file, and `gpulsm shell --open NEW-FOLDER {options}` makes a folder that can load it",
            path.display(),
            quoted(path),
            options = options(&info),
        ),
        Err(_) => error.to_string(),
    }
}

/// Says that an option of `gpulsm shell` contradicts a file that is to be loaded.
pub fn refuse_option(path: &Path, name: &str, given: &str) -> String {
    let held = info(path).map(|info| options(&info)).unwrap_or_default();
    format!(
        "`{}` holds a dictionary of {held}, and this shell was started with --{name} {given}; `gpulsm shell --load \
         {}` takes the types from the file",
        path.display(),
        quoted(path)
    )
}
