//! The names of the files in a dictionary's folder.

use crate::files::manifest::NUMBERS;

pub(crate) const MANIFEST: &str = "MANIFEST";
pub(crate) const LOCK: &str = "LOCK";
pub(crate) const RUNS: &str = "runs";
pub(crate) const LOGS: &str = "log";

/// How the names of files end that are not complete.
const UNFINISHED: &str = ".new";

pub(crate) fn run(number: u64) -> String {
    format!("{number:06}.run")
}

pub(crate) fn log(number: u64) -> String {
    format!("{number:06}.log")
}

pub(crate) fn manifest(number: u64) -> String {
    format!("{number:06}.manifest")
}

/// Returns the name of a file until it is complete.
pub(crate) fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

/// Returns whether a file, by its name, is one that was to become the file `name`, and was not completed. Its name
/// has a random number, since several may be written at a time.
pub(crate) fn is_unfinished(file: &str, name: &str) -> bool {
    let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
    let number = rest.and_then(|rest| rest.strip_suffix(UNFINISHED));
    number.is_some_and(|number| {
        number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Returns whether a file of this name may be one that a dictionary's folder consists of.
pub(crate) fn is_reserved(name: &str) -> bool {
    name == MANIFEST || name == LOCK || Named::parse(name).is_some()
}

/// What a file is by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Run(u64),
    Log(u64),
    /// A file that was not completed.
    Unfinished(u64),
}

impl Named {
    /// Returns `None` for files that no dictionary has.
    pub fn parse(name: &str) -> Option<Named> {
        let complete = name.strip_suffix(UNFINISHED);
        let (digits, ending) = complete.unwrap_or(name).split_once('.')?;
        let is_number = digits.len() >= 6 && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| is_number)?;
        if number >= NUMBERS {
            return None;
        }
        match (ending, complete) {
            ("run", None) => Some(Named::Run(number)),
            ("log", None) => Some(Named::Log(number)),
            ("run" | "log" | "manifest", Some(_)) => Some(Named::Unfinished(number)),
            _ => None,
        }
    }

    pub fn number(self) -> u64 {
        let (Named::Run(number) | Named::Log(number) | Named::Unfinished(number)) = self;
        number
    }
}
