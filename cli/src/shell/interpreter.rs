//! A dictionary and what each command does with it.

use gpulsm::Error;

use super::answer::Answer;
use super::arguments::{expect_args, expect_exactly, expect_no_args, help, unknown_command};
use super::command::{Word, words};
use super::files;
use crate::dictionary::{AnyDictionary, Pair};
use crate::types::{Column, Scalar, Type, Types, ValueType};

/// Executes commands on a dictionary.
pub struct Interpreter {
    dictionary: Box<dyn AnyDictionary>,
    types: Types,
}

type Outcome = Result<Answer, String>;

impl Interpreter {
    pub fn new(dictionary: Box<dyn AnyDictionary>, types: Types) -> Self {
        Interpreter { dictionary, types }
    }

    /// Executes a line; returns `None` if there is no command in it. After an error the dictionary is
    /// as it was.
    pub fn run(&mut self, line: &str) -> Result<Option<Answer>, String> {
        let words = words(line);
        let Some((&command, args)) = words.split_first() else { return Ok(None) };
        if command.text.starts_with('#') {
            return Ok(None);
        }
        self.execute(command, args, line).map(Some)
    }

    fn execute(&mut self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        match command.text {
            "insert" => self.insert(command, args),
            "delete" => self.delete(command, args),
            "update" => self.update(command, args),
            "delete_range" => self.delete_range(command, args),
            "lookup" => self.lookup(command, args),
            "count" => self.count(command, args),
            "range" => self.range(command, args),
            "successor" => {
                let key = self.only_key(command, args)?;
                self.pair(self.dictionary.successor(key))
            }
            "predecessor" => {
                let key = self.only_key(command, args)?;
                self.pair(self.dictionary.predecessor(key))
            }
            "select" => self.select(command, args),
            "rank" => {
                let key = self.only_key(command, args)?;
                Ok(Answer::Rank(text(self.dictionary.rank(key))?))
            }
            "import" => self.import(command, args, line),
            "export" => self.export(command, args, line),
            "help" => help(args),
            _ => self.execute_without_args(command, args),
        }
    }

    fn execute_without_args(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let unexpected = expect_no_args(args);
        let dictionary = &mut self.dictionary;
        match command.text {
            "first" => unexpected.and_then(|()| self.pair(self.dictionary.first())),
            "last" => unexpected.and_then(|()| self.pair(self.dictionary.last())),
            "len" => unexpected.and_then(|()| Ok(Answer::Len(text(dictionary.len())? as u64))),
            "levels" => unexpected.and_then(|()| Ok(Answer::Levels(text(dictionary.stats())?))),
            "stats" => unexpected.and_then(|()| {
                let (key, value) = (self.types.key.into(), self.types.value.into());
                Ok(Answer::Stats { stats: text(dictionary.stats())?, key, value })
            }),
            "cleanup" => unexpected.and_then(|()| done(dictionary.cleanup())),
            "clear" => unexpected.map(|()| {
                dictionary.clear();
                Answer::Done
            }),
            "quit" => unexpected.map(|()| Answer::Quit),
            _ => Err(unknown_command(command)),
        }
    }

    fn insert(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        let (mut keys, mut values) = (self.types.key.column(), self.types.value.column());
        if self.types.value == ValueType::None {
            for &word in args {
                keys.push(self.key(word)?);
                values.push(0);
            }
        } else if !args.len().is_multiple_of(2) {
            return Err(args[args.len() - 1].wrong("this key has no value: give pairs, K V"));
        } else {
            for pair in args.chunks_exact(2) {
                keys.push(self.key(pair[0])?);
                values.push(self.value(pair[1])?);
            }
        }
        done(self.dictionary.update((&keys, &values), &self.types.key.column()))
    }

    fn delete(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        let keys = self.column(&self.scalars(args)?);
        let (no_keys, no_values) = (self.types.key.column(), self.types.value.column());
        done(self.dictionary.update((&no_keys, &no_values), &keys))
    }

    fn update(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        let Types { key, value } = self.types;
        let (mut keys, mut values, mut deletes) = (key.column(), value.column(), key.column());
        for &word in args {
            if let Some(text) = word.text.strip_prefix('-') {
                deletes.push(self.key_of(word, text)?);
            } else if let Some(pair) = word.text.strip_prefix('+') {
                let (key, value) = self.insertion(word, pair)?;
                keys.push(key);
                values.push(value);
            } else {
                return Err(word.wrong("an insert begins with +, a delete with -"));
            }
        }
        done(self.dictionary.update((&keys, &values), &deletes))
    }

    /// Parses what follows the plus of an insertion: `K=V`, or in a set `K`.
    fn insertion(&self, word: Word<'_>, pair: &str) -> Result<Pair, String> {
        let is_set = self.types.value == ValueType::None;
        match pair.split_once('=') {
            Some(_) if is_set => Err(word.wrong("a set has no values: an insert is +K")),
            Some((key, value)) => {
                let key = self.key_of(word, key)?;
                let of = Type::from(self.types.value);
                let value = of.parse(value);
                let value = value.map_err(|error| word.wrong(format!("the value is {error}")))?;
                Ok((key, self.types.value.encode(value)))
            }
            None if is_set => Ok((self.key_of(word, pair)?, 0)),
            None => Err(word.wrong("an insert is +K=V")),
        }
    }

    fn delete_range(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let [lo, hi] = expect_exactly(command, args)?;
        let (lo, hi) = (self.key(lo)?, self.key(hi)?);
        done(self.dictionary.delete_range(lo, hi))
    }

    fn lookup(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        let keys = self.scalars(args)?;
        let values = text(self.dictionary.lookup(&self.column(&keys)))?.into_iter();
        let values = values.map(|value| value.map(|bits| self.types.value.decode(bits)));
        Ok(Answer::Values(keys.into_iter().zip(values).collect()))
    }

    fn count(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        if !args.len().is_multiple_of(2) {
            return Err(args[args.len() - 1].wrong("this range has no end: give pairs, LO HI"));
        }
        let ends = self.scalars(args)?;
        let (lo, hi): (Vec<Scalar>, Vec<Scalar>) =
            ends.chunks_exact(2).map(|ends| (ends[0], ends[1])).unzip();
        let counts = text(self.dictionary.count(&self.column(&lo), &self.column(&hi)))?;
        let ranges = lo.into_iter().zip(hi).zip(counts);
        Ok(Answer::Counts(ranges.map(|((lo, hi), count)| (lo, hi, count)).collect()))
    }

    fn range(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let [lo, hi] = expect_exactly(command, args)?;
        let (keys, values) = text(self.dictionary.range(self.key(lo)?, self.key(hi)?))?;
        let pairs = keys.iter().zip(values.iter()).map(|pair| self.decode(pair));
        Ok(Answer::Pairs(pairs.collect()))
    }

    fn select(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let [index] = expect_exactly(command, args)?;
        let place = Type::U64.parse(index.text).map_err(|error| index.wrong(error))?;
        self.pair(self.dictionary.select(ValueType::U64.encode(place) as u64))
    }

    fn import(&mut self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        expect_args(command, args)?;
        files::import(&mut *self.dictionary, self.types, line).map(Answer::Imported)
    }

    fn export(&self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        expect_args(command, args)?;
        files::export(&*self.dictionary, self.types, line).map(Answer::Rows)
    }

    fn scalar(&self, word: Word<'_>) -> Result<Scalar, String> {
        Type::from(self.types.key).parse(word.text).map_err(|error| word.wrong(error))
    }

    fn scalars(&self, words: &[Word<'_>]) -> Result<Vec<Scalar>, String> {
        words.iter().map(|&word| self.scalar(word)).collect()
    }

    fn column(&self, keys: &[Scalar]) -> Column {
        let mut column = self.types.key.column();
        keys.iter().for_each(|&key| column.push(self.types.key.encode(key)));
        column
    }

    fn key(&self, word: Word<'_>) -> Result<u128, String> {
        Ok(self.types.key.encode(self.scalar(word)?))
    }

    /// Parses a key that is a part of a word.
    fn key_of(&self, word: Word<'_>, text: &str) -> Result<u128, String> {
        let key = Type::from(self.types.key).parse(text);
        let key = key.map_err(|error| word.wrong(format!("the key is {error}")))?;
        Ok(self.types.key.encode(key))
    }

    fn only_key(&self, command: Word<'_>, args: &[Word<'_>]) -> Result<u128, String> {
        let [key] = expect_exactly(command, args)?;
        self.key(key)
    }

    fn value(&self, word: Word<'_>) -> Result<u128, String> {
        let of = Type::from(self.types.value);
        let value = of.parse(word.text).map_err(|error| word.wrong(error))?;
        Ok(self.types.value.encode(value))
    }

    fn decode(&self, (key, value): Pair) -> (Scalar, Scalar) {
        (self.types.key.decode(key), self.types.value.decode(value))
    }

    fn pair(&self, pair: Result<Option<Pair>, Error>) -> Outcome {
        Ok(Answer::Pair(text(pair)?.map(|pair| self.decode(pair))))
    }
}

/// Turns the library's errors into text.
fn text<T>(outcome: Result<T, Error>) -> Result<T, String> {
    outcome.map_err(|error| error.to_string())
}

fn done(outcome: Result<(), Error>) -> Outcome {
    text(outcome).map(|()| Answer::Done)
}
