//! The shell's commands, and the words of a line.

use super::failure::{Code, Failure};

/// A command's name, arguments and meaning, as `help`, completion and hints show them.
#[derive(Debug)]
pub struct Usage {
    pub name: &'static str,
    pub words: &'static str,
    pub meaning: &'static str,
}

/// All commands.
pub const COMMANDS: &[Usage] = &[
    usage(
        "insert",
        "K V [K V …]",
        "insert pairs, replacing what a key had or, with --combine, combining with it (in a set: K [K …])",
    ),
    usage("set", "K V [K V …]", "give keys these values, also where insert would combine them"),
    usage("delete", "K [K …]", "delete keys"),
    usage(
        "update",
        "+K=V -K …",
        "insert and delete in one batch, in which a delete wins (in a set: +K -K …)",
    ),
    usage(
        "write",
        "+K=V -K -LO..HI …",
        "insert, delete and delete ranges of keys in this order, in one batch (in a set: +K -K -LO..HI …)",
    ),
    usage("delete_range", "LO HI", "delete every key from LO to HI"),
    usage("lookup", "K [K …]", "the value of each key"),
    usage("contains", "K [K …]", "whether each key is there"),
    usage("count", "LO HI [LO HI …]", "how many keys there are from LO to HI, inclusive"),
    usage(
        "sum",
        "LO HI [LO HI …]",
        "what the values from LO to HI add up to; sums of integers have 64 bits, and wrap around",
    ),
    usage("min", "LO HI [LO HI …]", "the least value from LO to HI"),
    usage("max", "LO HI [LO HI …]", "the greatest value from LO to HI"),
    usage(
        "range",
        "[LO HI] [--limit N|all]",
        "the pairs from LO to HI (alone: all pairs), in key order: the first N (default: all; on a terminal 1000)",
    ),
    usage("successor", "K [K …]", "the first pair whose key is K or greater"),
    usage("predecessor", "K [K …]", "the last pair whose key is K or less"),
    usage(
        "asof",
        "K [K …] [--direction backward|forward|nearest] [--tolerance T] [--strict]",
        "the pair whose key has the same parts as K but the last, which is the nearest to K's in this direction \
         (default: backward, so at K or before it), and at most T away; --strict: not K itself",
    ),
    usage("first", "", "the pair with the least key"),
    usage("last", "", "the pair with the greatest key"),
    usage("select", "I [I …]", "the pair at index I in key order, counted from 0"),
    usage("rank", "K [K …]", "how many keys are less than K"),
    usage("len", "", "how many keys there are"),
    usage("levels", "", "what every level holds"),
    usage("stats", "", "device, types, entries and bytes"),
    usage(
        "import",
        "FILE [OPTION …]",
        "insert the rows of a .csv, .tsv, .csv.gz or .parquet file, as one batch, all or none; options: \
         --key-column (once for each part of a key) and --value-column (name or number), \
         --header yes|no|auto, --separator C, \
         --missing error|skip",
    ),
    usage(
        "export",
        "FILE [OPTION …]",
        "write every pair to such a file; options: --force (replace a file), --separator C",
    ),
    usage(
        "save",
        "FILE [--force]",
        "write the dictionary into one file, which `load` reads; --force replaces a file",
    ),
    usage(
        "load",
        "FILE [--force]",
        "make the dictionary what such a file has (or the folder of another one), and take its types unless options of the program gave others; \
         --force replaces pairs that are there",
    ),
    usage(
        "checkpoint",
        "",
        "write all pairs into the folder of --open, so that its log begins anew (done by itself as it grows)",
    ),
    usage(
        "sync",
        "",
        "wait until every change is on stable storage (for --open with --durability os)",
    ),
    usage("cleanup", "", "remove stale entries: one run is left"),
    usage("clear", "", "remove everything"),
    usage(
        "snapshot",
        "[save NAME | use NAME | leave | drop NAME]",
        "keep what is there now; query it later, and go back; drop it; alone: list all",
    ),
    usage("help", "[COMMAND …]", "what these commands do, or all"),
    usage("?", "[COMMAND …]", "the same as help"),
    usage("quit", "", "end the shell (so does the end of input; Ctrl-D at the prompt)"),
    usage("exit", "", "the same as quit"),
];

const fn usage(name: &'static str, words: &'static str, meaning: &'static str) -> Usage {
    Usage { name, words, meaning }
}

/// A word of a line and its number, counted from 1.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    pub text: &'a str,
    pub number: usize,
}

impl Word<'_> {
    /// Makes a failure that names the word.
    pub fn wrong(&self, what: impl std::fmt::Display) -> Failure {
        let message = format!("word {}, `{}`: {what}", self.number, shown(self.text));
        Failure::new(Code::WrongArgument, message)
    }

    /// Returns how the command of this name is used.
    pub fn usage(&self) -> String {
        let usage = COMMANDS.iter().find(|usage| usage.name == self.text);
        usage.map_or_else(String::new, |usage| format!("{} {}", usage.name, usage.words))
    }
}

/// Splits a line into words.
pub fn words(line: &str) -> Vec<Word<'_>> {
    let texts = line.split_whitespace().enumerate();
    texts.map(|(index, text)| Word { text, number: index + 1 }).collect()
}

/// Returns a text that is safe to print in a message: short, with control characters escaped.
pub fn shown(text: &str) -> String {
    const MAX_LEN: usize = 40;
    let mut shown = String::new();
    for letter in text.chars().take(MAX_LEN) {
        match letter.is_control() {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    if text.chars().nth(MAX_LEN).is_some() {
        shown.push('…');
    }
    shown
}

/// Formats a number of things, with a plural where needed.
pub fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Names that other programs have for commands of this one.
const SYNONYMS: &[(&str, &str)] = &[
    (":q", "quit"),
    ("add", "insert"),
    ("all", "range"),
    ("backup", "save"),
    ("bye", "quit"),
    ("commit", "sync"),
    ("del", "delete"),
    ("dump", "range"),
    ("find", "lookup"),
    ("get", "lookup"),
    ("has", "contains"),
    ("info", "stats"),
    ("items", "range"),
    ("keys", "range"),
    ("length", "len"),
    ("list", "range"),
    ("ls", "range"),
    ("print", "range"),
    ("put", "insert"),
    ("q", "quit"),
    ("remove", "delete"),
    ("restore", "load"),
    ("scan", "range"),
    ("show", "range"),
    ("size", "len"),
    ("strict_asof", "asof"),
];

/// Names of what the shell does elsewhere, and where.
const ELSEWHERE: &[(&str, &str)] = &[
    ("check", "`gpulsm check PATH` checks files, once the shell has ended"),
    ("close", "`quit` closes the folder, and ends the shell"),
    ("open", "`gpulsm shell --open DIR` keeps a dictionary in a folder; `load FILE` reads a file"),
    ("use", "`snapshot use NAME` queries a snapshot"),
];

/// Returns what to do instead of a command that there is not.
pub fn advice(name: &str) -> String {
    let elsewhere = ELSEWHERE.iter().find(|(known, _)| *known == name.to_lowercase());
    match (elsewhere, nearest(name)) {
        (Some((_, advice)), _) => (*advice).into(),
        (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
        (None, None) => "`help` lists them".into(),
    }
}

/// Returns the command that was most likely meant: a synonym's, one with this prefix, or one within two
/// edits that leave a letter of both words in place.
fn nearest(name: &str) -> Option<&'static str> {
    if name.len() > 20 {
        return None;
    }
    let name = &name.to_lowercase();
    if let Some((_, command)) = SYNONYMS.iter().find(|(synonym, _)| synonym == name) {
        return Some(command);
    }
    let begins = |c: &&Usage| name.len() >= 3 && c.name.starts_with(name);
    let by_prefix = COMMANDS.iter().find(begins).map(|c| c.name);
    let distances = COMMANDS.iter().map(|c| (distance(c.name, name), c.name));
    let near = |&(distance, command): &(usize, &str)| {
        distance <= 2 && distance < command.len().min(name.len())
    };
    by_prefix.or_else(|| distances.filter(near).min().map(|(_, name)| name))
}

/// Returns the edit distance of two words.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], index + 1);
        for at in 0..to.len() {
            let changed = corner + usize::from(letter != to[at]);
            corner = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(corner + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_command_is_guessed() {
        assert_eq!(nearest("lokup"), Some("lookup"));
        assert_eq!(nearest("succ"), Some("successor"));
        assert_eq!(nearest("delete-range"), Some("delete_range"));
        assert_eq!(nearest("LOOKUP"), Some("lookup"));
        assert_eq!(nearest("frobnicate"), None);
        assert_eq!(nearest("x"), None, "any letter is near `?`, and this one is in `max`");
    }

    #[test]
    fn names_of_other_programs_are_understood() {
        for (name, command) in [("get", "lookup"), ("PUT", "insert"), ("size", "len")] {
            assert_eq!(nearest(name), Some(command));
        }
        for (synonym, command) in SYNONYMS {
            assert!(COMMANDS.iter().any(|usage| usage.name == *command), "{command}");
            assert!(COMMANDS.iter().all(|usage| usage.name != *synonym), "{synonym}");
        }
        assert!(advice("open").contains("gpulsm shell --open DIR"));
        assert_eq!(advice("frobnicate"), "`help` lists them");
    }

    #[test]
    fn messages_stay_short_and_printable() {
        assert_eq!(shown("a\u{7}b"), "a\\u{7}b");
        assert_eq!(shown(&"x".repeat(1 << 20)).chars().count(), 41);
    }
}
