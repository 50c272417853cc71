//! A dictionary of chosen types, and what each command does with it.

use std::path::PathBuf;

use gpulsm::{Batch, Builder, Dictionary};
use rustyline::completion::unescape;

use crate::shell::answer::Answer;
use crate::shell::command::{COMMANDS, Word, nearest, words};
use crate::shell::files;
use crate::types::{Bits, Scalar, ShellKey, Type};

/// Does commands with a dictionary of whatever types.
pub trait Interpreter {
    /// Does what a line says. `None` for a line that says nothing. After an error the dictionary
    /// is as it was.
    fn run(&mut self, line: &str) -> Result<Option<Answer>, String>;
}

/// A dictionary, and what its keys and values are called.
pub struct TypedInterpreter<K: ShellKey, V: Bits> {
    dictionary: Dictionary<K, V>,
    key: Type,
    value: Type,
}

type Answered = Result<Answer, String>;

impl<K: ShellKey, V: Bits> TypedInterpreter<K, V> {
    pub fn new(settings: Builder<K, V>, key: Type, value: Type) -> Result<Self, gpulsm::Error> {
        Ok(TypedInterpreter { dictionary: settings.build()?, key, value })
    }
}

impl<K: ShellKey, V: Bits> Interpreter for TypedInterpreter<K, V> {
    fn run(&mut self, line: &str) -> Result<Option<Answer>, String> {
        let words = words(line);
        let Some((command, words)) = words.split_first() else { return Ok(None) };
        if command.text.starts_with('#') {
            return Ok(None);
        }
        let answer = match command.text {
            "insert" => self.insert(*command, words),
            "delete" => self.delete(*command, words),
            "update" => self.update(*command, words),
            "delete_range" => self.delete_range(*command, words),
            "lookup" => self.lookup(*command, words),
            "count" => self.count(*command, words),
            "range" => self.range(*command, words),
            "successor" => self.neighbour(*command, words, |key| self.dictionary.successor(&[key])),
            "predecessor" => {
                self.neighbour(*command, words, |key| self.dictionary.predecessor(&[key]))
            }
            "first" => none(words).and_then(|()| self.pair(self.dictionary.first())),
            "last" => none(words).and_then(|()| self.pair(self.dictionary.last())),
            "select" => self.select(*command, words),
            "rank" => self.rank(*command, words),
            "len" => {
                none(words).and_then(|()| Ok(Answer::Len(said(self.dictionary.len())? as u64)))
            }
            "levels" => {
                none(words).and_then(|()| Ok(Answer::Levels(said(self.dictionary.stats())?)))
            }
            "stats" => none(words).and_then(|()| self.stats()),
            "import" => self.import(*command, words, line),
            "export" => self.export(*command, words, line),
            "cleanup" => none(words).and_then(|()| done(self.dictionary.cleanup())),
            "clear" => none(words).map(|()| {
                self.dictionary.clear();
                Answer::Done
            }),
            "help" => help(words),
            "quit" => none(words).map(|()| Answer::Quit),
            _ => Err(unknown(*command)),
        };
        answer.map(Some)
    }
}

impl<K: ShellKey, V: Bits> TypedInterpreter<K, V> {
    fn insert(&mut self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        some(command, words)?;
        if self.value == Type::None {
            let keys = self.keys(words)?;
            let values = vec![V::from_scalar(Scalar::There); keys.len()];
            return done(self.dictionary.insert(&keys, &values));
        }
        if !words.len().is_multiple_of(2) {
            return Err(words[words.len() - 1].wrong("this key has no value: give pairs, K V"));
        }
        let mut keys = Vec::with_capacity(words.len() / 2);
        let mut values = Vec::with_capacity(words.len() / 2);
        for pair in words.chunks_exact(2) {
            keys.push(self.key(pair[0])?);
            values.push(self.value(pair[1])?);
        }
        done(self.dictionary.insert(&keys, &values))
    }

    fn delete(&mut self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        some(command, words)?;
        let keys = self.keys(words)?;
        done(self.dictionary.delete(&keys))
    }

    fn update(&mut self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        some(command, words)?;
        let (mut keys, mut values, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for &word in words {
            let key = |text: &str| {
                let key = self.key.parse(text).map(K::from_scalar);
                key.map_err(|error| word.wrong(format!("the key is {error}")))
            };
            let value = |text: &str| {
                let value = self.value.parse(text).map(V::from_scalar);
                value.map_err(|error| word.wrong(format!("the value is {error}")))
            };
            if let Some(text) = word.text.strip_prefix('-') {
                deletes.push(key(text)?);
            } else if let Some(pair) = word.text.strip_prefix('+') {
                match (pair.split_once('='), self.value) {
                    (Some((left, right)), of) if of != Type::None => {
                        keys.push(key(left)?);
                        values.push(value(right)?);
                    }
                    (None, Type::None) => {
                        keys.push(key(pair)?);
                        values.push(V::from_scalar(Scalar::There));
                    }
                    (None, _) => return Err(word.wrong("an insert is +K=V")),
                    (Some(_), _) => return Err(word.wrong("a set has no values: an insert is +K")),
                }
            } else {
                return Err(word.wrong("an insert begins with +, a delete with -"));
            }
        }
        done(self.dictionary.update(Batch::inserting(&keys, &values).deleting(&deletes)))
    }

    fn delete_range(&mut self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        let [lo, hi] = exactly(command, words)?;
        let (lo, hi) = (self.key(lo)?, self.key(hi)?);
        done(self.dictionary.delete_range(&[lo], &[hi]))
    }

    fn lookup(&self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        some(command, words)?;
        let keys = self.keys(words)?;
        let values = said(self.dictionary.lookup(&keys))?.into_iter();
        let values = values.map(|value| value.map(|value| value.scalar(self.value)));
        Ok(Answer::Values(keys.into_iter().map(K::scalar).zip(values).collect()))
    }

    fn count(&self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        some(command, words)?;
        if !words.len().is_multiple_of(2) {
            return Err(words[words.len() - 1].wrong("this range has no end: give pairs, LO HI"));
        }
        let ends = self.keys(words)?;
        let (lo, hi): (Vec<K>, Vec<K>) =
            ends.chunks_exact(2).map(|ends| (ends[0], ends[1])).unzip();
        let counts = said(self.dictionary.count(&lo, &hi))?;
        let ranges = lo.into_iter().zip(hi).zip(counts);
        Ok(Answer::Counts(
            ranges.map(|((lo, hi), count)| (lo.scalar(), hi.scalar(), count)).collect(),
        ))
    }

    fn range(&self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        let [lo, hi] = exactly(command, words)?;
        let ranges = said(self.dictionary.range(&[self.key(lo)?], &[self.key(hi)?]))?;
        let (keys, values) = ranges.get(0);
        let pairs = keys.iter().zip(values);
        Ok(Answer::Pairs(
            pairs.map(|(key, value)| (key.scalar(), value.scalar(self.value))).collect(),
        ))
    }

    fn neighbour(
        &self,
        command: Word<'_>,
        words: &[Word<'_>],
        find: impl FnOnce(K) -> Result<Vec<Option<(K, V)>>, gpulsm::Error>,
    ) -> Answered {
        let [key] = exactly(command, words)?;
        self.pair(find(self.key(key)?).map(|pairs| pairs[0]))
    }

    fn select(&self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        let [index] = exactly(command, words)?;
        let place = Type::U64.parse(index.text).map_err(|error| index.wrong(error))?;
        let pair = self.dictionary.select(&[<u64 as Bits>::from_scalar(place)]);
        self.pair(pair.map(|pairs| pairs[0]))
    }

    fn rank(&self, command: Word<'_>, words: &[Word<'_>]) -> Answered {
        let [key] = exactly(command, words)?;
        Ok(Answer::Rank(said(self.dictionary.rank(&[self.key(key)?]))?[0]))
    }

    fn stats(&self) -> Answered {
        let stats = said(self.dictionary.stats())?;
        Ok(Answer::Stats { stats, key: self.key, value: self.value })
    }

    fn import(&mut self, command: Word<'_>, words: &[Word<'_>], line: &str) -> Answered {
        let path = path(command, words, line)?;
        let rows = files::read::<K, V>(&path, self.key, self.value)?;
        said(self.dictionary.insert(&rows.keys, &rows.values))?;
        Ok(Answer::Rows(rows.keys.len() as u64))
    }

    fn export(&self, command: Word<'_>, words: &[Word<'_>], line: &str) -> Answered {
        let path = path(command, words, line)?;
        let (keys, values) = said(self.dictionary.to_vecs())?;
        let rows = files::Rows { keys, values };
        files::write(&path, &rows, self.key, self.value)?;
        Ok(Answer::Rows(rows.keys.len() as u64))
    }

    fn key(&self, word: Word<'_>) -> Result<K, String> {
        let scalar = self.key.parse(word.text).map_err(|error| word.wrong(error))?;
        Ok(K::from_scalar(scalar))
    }

    fn keys(&self, words: &[Word<'_>]) -> Result<Vec<K>, String> {
        words.iter().map(|&word| self.key(word)).collect()
    }

    fn value(&self, word: Word<'_>) -> Result<V, String> {
        let scalar = self.value.parse(word.text).map_err(|error| word.wrong(error))?;
        Ok(V::from_scalar(scalar))
    }

    fn pair(&self, pair: Result<Option<(K, V)>, gpulsm::Error>) -> Answered {
        Ok(Answer::Pair(said(pair)?.map(|(key, value)| (key.scalar(), value.scalar(self.value)))))
    }
}

/// The library's errors as text.
fn said<T>(outcome: Result<T, gpulsm::Error>) -> Result<T, String> {
    outcome.map_err(|error| error.to_string())
}

fn done(outcome: Result<(), gpulsm::Error>) -> Answered {
    said(outcome).map(|()| Answer::Done)
}

fn unknown(command: Word<'_>) -> String {
    let guess = match nearest(command.text) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`help` lists them".into(),
    };
    command.wrong(format!("no such command; {guess}"))
}

/// How a command is used.
fn usage(command: Word<'_>) -> String {
    let usage = COMMANDS.iter().find(|usage| usage.name == command.text);
    usage.map_or_else(String::new, |usage| format!("{} {}", usage.name, usage.words))
}

/// No words, or an error.
fn none(words: &[Word<'_>]) -> Result<(), String> {
    match words.first() {
        Some(word) => Err(word.wrong("one word too many: this command takes none")),
        None => Ok(()),
    }
}

/// What the commands named do, or all of them.
fn help(words: &[Word<'_>]) -> Result<Answer, String> {
    if words.is_empty() {
        return Ok(Answer::Help(COMMANDS.iter().collect()));
    }
    let named = |word: &Word<'_>| {
        COMMANDS.iter().find(|command| command.name == word.text).ok_or_else(|| unknown(*word))
    };
    words.iter().map(named).collect::<Result<_, _>>().map(Answer::Help)
}

/// At least one word, or an error.
fn some(command: Word<'_>, words: &[Word<'_>]) -> Result<(), String> {
    match words {
        [] => Err(command.wrong(format!("words are missing: {}", usage(command)))),
        _ => Ok(()),
    }
}

/// So many words, or an error.
fn exactly<'a, const N: usize>(
    command: Word<'a>,
    words: &[Word<'a>],
) -> Result<[Word<'a>; N], String> {
    if let Some(word) = words.get(N) {
        return Err(word.wrong(format!("one word too many: {}", usage(command))));
    }
    let words = words.try_into();
    words.map_err(|_| command.wrong(format!("words are missing: {}", usage(command))))
}

/// The file that follows the command. Its name may have spaces in it, as they are, in quotes, or
/// behind backslashes, as completion writes them; `~/` stands for the home folder.
fn path<'a>(command: Word<'a>, words: &[Word<'a>], line: &'a str) -> Result<PathBuf, String> {
    some(command, words)?;
    let name = line.trim_start().strip_prefix(command.text).unwrap_or_default().trim();
    let quoted =
        ['"', '\''].iter().find_map(|&quote| name.strip_prefix(quote)?.strip_suffix(quote));
    let name = match quoted {
        Some(name) => name.into(),
        None if cfg!(windows) => name.into(),
        None => unescape(name, Some('\\')),
    };
    let home = name.strip_prefix("~/").zip(std::env::var_os("HOME"));
    Ok(home.map_or_else(|| PathBuf::from(&*name), |(rest, home)| PathBuf::from(home).join(rest)))
}
