//! A dictionary and what each command does with it.

use std::fmt::Display;

use gpulsm::private::{Fold, Operation};
use gpulsm_backends::asof::asof;
use gpulsm_backends::dictionary::{AnyDictionary, Change, Pair, Settings};
use gpulsm_backends::types::{Column, End, Key, Scalar, Type, Types, ValueType};

use super::answer::Answer;
use super::arguments::{
    expect_args, expect_exactly, expect_no_args, expect_pairs, help, take_asof, take_limit,
    unknown_command,
};
use super::beginning::Opened;
use super::command::{Word, words};
use super::failure::Failure;
use super::snapshots::Snapshots;
use super::type_options::TypeOptions;

/// Commands that change the dictionary.
const UPDATES: &[&str] = &[
    "insert",
    "set",
    "delete",
    "update",
    "write",
    "delete_range",
    "import",
    "load",
    "cleanup",
    "clear",
];

/// Commands for a dictionary that lives in a folder.
const FOLDER_COMMANDS: &[&str] = &["checkpoint", "sync"];

/// Executes commands on a dictionary.
pub struct Interpreter {
    pub(super) dictionary: Box<dyn AnyDictionary>,
    pub(super) snapshots: Snapshots,
    pub(super) settings: Settings,
    /// Which types the program's arguments give.
    pub(super) type_options: TypeOptions,
    /// At most this many pairs are listed, unless a command says otherwise.
    limit: Option<u64>,
}

pub type Outcome = Result<Answer, Failure>;

impl Interpreter {
    pub fn new(opened: Opened, limit: Option<u64>) -> Self {
        let Opened { dictionary, settings, type_options, .. } = opened;
        Interpreter { dictionary, snapshots: Snapshots::default(), settings, type_options, limit }
    }

    /// Returns an interpreter with a dictionary of its own, in memory, which it shares with this one.
    pub fn fork(&self) -> Self {
        let (dictionary, snapshots) = (self.dictionary.fork(), self.snapshots.clone());
        Interpreter { dictionary, snapshots, settings: self.settings.clone(), ..*self }
    }

    /// Takes over what a fork has become. A dictionary in a folder stays: forks of it were only queried.
    pub fn adopt(&mut self, fork: Interpreter) {
        self.snapshots = fork.snapshots;
        if self.dictionary.path().is_none() {
            (self.dictionary, self.settings) = (fork.dictionary, fork.settings);
        }
    }

    /// Returns whether a line changes a dictionary that lives in a folder.
    pub fn changes_folder(&self, line: &str) -> bool {
        let command = line.split_whitespace().next().unwrap_or_default();
        let changes = UPDATES.contains(&command) || FOLDER_COMMANDS.contains(&command);
        changes && self.dictionary.path().is_some()
    }

    /// Closes the folder that the dictionary lives in, if it does.
    pub fn close(&mut self) -> Result<(), gpulsm::Error> {
        self.dictionary.close()
    }

    /// Returns the types of what queries go to.
    pub(super) fn types(&self) -> Types {
        self.snapshots.in_use().map_or(self.settings.types, |snapshot| snapshot.types)
    }

    /// Returns what queries go to: the snapshot that is in use, or the dictionary.
    pub(super) fn queried(&self) -> &dyn AnyDictionary {
        self.snapshots.in_use().map_or(&*self.dictionary, |snapshot| &*snapshot.dictionary)
    }

    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Executes a line; returns `None` if there is no command in it. After an error the dictionary is
    /// as it was.
    pub fn run(&mut self, line: &str) -> Result<Option<Answer>, Failure> {
        let words = words(line);
        let Some((&command, args)) = words.split_first() else { return Ok(None) };
        if command.text.starts_with('#') {
            return Ok(None);
        }
        if UPDATES.contains(&command.text) {
            self.snapshots.expect_none_in_use()?;
        }
        self.execute(command, args, line).map(Some)
    }

    fn execute(&mut self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        match command.text {
            "insert" => self.insert(command, args),
            "set" => self.set(command, args),
            "delete" => self.delete(command, args),
            "update" => self.update(command, args),
            "write" => self.write(command, args),
            "delete_range" => self.delete_range(command, args),
            "lookup" => self.lookup(command, args),
            "contains" => self.contains(command, args),
            "count" => self.count(command, args),
            "sum" => self.aggregate(command, args, Operation::Sum),
            "min" => self.aggregate(command, args, Operation::Min),
            "max" => self.aggregate(command, args, Operation::Max),
            "range" => self.range(command, args),
            "successor" => self.nearest(command, args, |of, keys| of.successor(keys)),
            "predecessor" => self.nearest(command, args, |of, keys| of.predecessor(keys)),
            "asof" => self.asof(command, args),
            "select" => self.select(command, args),
            "rank" => self.rank(command, args),
            "import" => self.import(command, args, line),
            "export" => self.export(command, args, line),
            "save" => self.save(command, args, line),
            "load" => self.load(command, args, line),
            "snapshot" => self.snapshot(command, args),
            "help" | "?" => help(args),
            _ => self.execute_without_args(command, args),
        }
    }

    fn execute_without_args(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let unexpected = expect_no_args(args);
        let queried = self.queried();
        match command.text {
            "first" => unexpected.and_then(|()| Ok(self.pair(queried.first()?))),
            "last" => unexpected.and_then(|()| Ok(self.pair(queried.last()?))),
            "len" => unexpected.and_then(|()| Ok(Answer::Len(queried.len()? as u64))),
            "levels" => unexpected.and_then(|()| Ok(Answer::Levels(queried.stats()?))),
            "stats" => unexpected.and_then(|()| {
                let (key, value) = (self.types().key, self.types().value.into());
                let combine = queried.combine();
                let path = self.dictionary.path().map(Into::into);
                Ok(Answer::Stats { stats: queried.stats()?, key, value, combine, path })
            }),
            "cleanup" => unexpected.and_then(|()| done(self.dictionary.cleanup())),
            "clear" => unexpected.and_then(|()| done(self.dictionary.clear())),
            "checkpoint" | "sync" => unexpected.and_then(|()| self.store(command)),
            "quit" | "exit" => unexpected.map(|()| Answer::Quit),
            _ => Err(unknown_command(command)),
        }
    }

    fn insert(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let (keys, values) = self.pairs(command, args)?;
        done(self.dictionary.update((&keys, &values), &self.types().key.column()))
    }

    fn set(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let (keys, values) = self.pairs(command, args)?;
        done(self.dictionary.set((&keys, &values), &self.types().key.column()))
    }

    /// Parses pairs, at least one; in a set, keys.
    fn pairs(&self, command: Word<'_>, args: &[Word<'_>]) -> Result<(Column, Column), Failure> {
        expect_args(command, args)?;
        let (mut keys, mut values) = (self.types().key.column(), self.types().value.column());
        if self.types().value == ValueType::None {
            for &word in args {
                keys.push(self.key(word)?.ordered());
                values.push(0);
            }
        } else {
            for &[key, value] in
                expect_pairs(command, args, "this key has no value: give pairs, K V")?
            {
                keys.push(self.key(key)?.ordered());
                values.push(self.value(value)?);
            }
        }
        Ok((keys, values))
    }

    fn delete(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let keys = self.column(&self.keys(command, args)?);
        let (no_keys, no_values) = (self.types().key.column(), self.types().value.column());
        done(self.dictionary.update((&no_keys, &no_values), &keys))
    }

    fn update(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        let Types { key, value } = self.types();
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

    fn write(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        let mut changes = Vec::new();
        for &word in args {
            changes.push(if let Some(pair) = word.text.strip_prefix('+') {
                Change::Insert(self.insertion(word, pair)?)
            } else if let Some(text) = word.text.strip_prefix('-') {
                match text.split_once("..") {
                    Some((lo, hi)) => {
                        let (lo, hi) = (Word { text: lo, ..word }, Word { text: hi, ..word });
                        let (lo, hi) = (self.end(lo, End::First)?, self.end(hi, End::Last)?);
                        Change::DeleteRange(lo.ordered(), hi.ordered())
                    }
                    None => Change::Delete(self.key_of(word, text)?),
                }
            } else {
                return Err(word.wrong("an insert begins with +, a delete with -"));
            });
        }
        done(self.dictionary.write(&changes))
    }

    /// Parses what follows the plus of an insertion: `K=V`, or in a set `K`.
    fn insertion(&self, word: Word<'_>, pair: &str) -> Result<Pair, Failure> {
        let is_set = self.types().value == ValueType::None;
        match pair.split_once('=') {
            Some(_) if is_set => Err(word.wrong("a set has no values: an insert is +K")),
            Some((key, value)) => {
                let key = self.key_of(word, key)?;
                let of = Type::from(self.types().value);
                let value = of.parse(value);
                let value = value.map_err(|error| word.wrong(format!("the value is {error}")))?;
                Ok((key, self.types().value.encode(value)))
            }
            None if is_set => Ok((self.key_of(word, pair)?, 0)),
            None => Err(word.wrong("an insert is +K=V")),
        }
    }

    fn delete_range(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let [lo, hi] = expect_exactly(command, args)?;
        let (lo, hi) = (self.end(lo, End::First)?, self.end(hi, End::Last)?);
        done(self.dictionary.delete_range(lo.ordered(), hi.ordered()))
    }

    fn lookup(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let keys = self.keys(command, args)?;
        let values = self.queried().lookup(&self.column(&keys))?.into_iter();
        let values = values.map(|value| value.map(|bits| self.types().value.decode(bits)));
        Ok(Answer::Values(keys.into_iter().zip(values).collect()))
    }

    fn contains(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let keys = self.keys(command, args)?;
        let found = self.queried().contains(&self.column(&keys))?;
        Ok(Answer::Contained(keys.into_iter().zip(found).collect()))
    }

    fn count(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let (lo, hi) = self.ranges(command, args)?;
        let counts = self.queried().count(&self.column(&lo), &self.column(&hi))?;
        let ranges = lo.into_iter().zip(hi).zip(counts);
        Ok(Answer::Counts(ranges.map(|((lo, hi), count)| (lo, hi, count)).collect()))
    }

    fn aggregate(&self, command: Word<'_>, args: &[Word<'_>], operation: Operation) -> Outcome {
        if !self.types().value.is_number() {
            let what = match self.types().value {
                ValueType::None => "a set has no values".into(),
                value => format!("there is no {} of {}", command.text, Type::from(value).name()),
            };
            let allowed = "values can be u32, u64, i32, i64, f32 or f64";
            return Err(command.wrong(format!("{what}; {allowed}")));
        }
        let (lo, hi) = self.ranges(command, args)?;
        let fold = Fold { operation, element: self.types().value.element() };
        let bits = self.queried().aggregate(&self.column(&lo), &self.column(&hi), fold)?;
        let (of, empty) = match operation {
            Operation::Sum => (self.types().value.sum(), Some(0)),
            Operation::Min | Operation::Max => (self.types().value, None),
        };
        let numbers =
            bits.into_iter().map(|bits| bits.or(empty).map(|bits| of.decode(bits.into())));
        let ranges = lo.into_iter().zip(hi).zip(numbers);
        let ranges = ranges.map(|((lo, hi), number)| (lo, hi, number)).collect();
        Ok(Answer::Aggregates(operation, ranges))
    }

    fn range(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let (args, limit) = take_limit(args)?;
        let ends = match args[..] {
            [] => self.first_and_last()?,
            _ => {
                let [lo, hi] = expect_exactly(command, &args)?;
                Some((self.end(lo, End::First)?, self.end(hi, End::Last)?))
            }
        };
        let Some((lo, hi)) = ends else { return Ok(Answer::Pairs { pairs: Vec::new(), more: 0 }) };
        let mut hi = hi.ordered();
        let more = match limit.unwrap_or(self.limit) {
            Some(limit) => self.cut(lo, &mut hi, limit)?,
            None => 0,
        };
        let (keys, values) = self.queried().range(lo.ordered(), hi)?;
        let pairs = keys.iter().zip(values.iter()).map(|pair| self.decode(pair));
        Ok(Answer::Pairs { pairs: pairs.collect(), more })
    }

    /// Returns the least and the greatest key, if there is one.
    fn first_and_last(&self) -> Result<Option<(Key, Key)>, Failure> {
        let ends = self.queried().first()?.zip(self.queried().last()?);
        let key = |(key, _): Pair| self.types().key.key(key);
        Ok(ends.map(|(first, last)| (key(first), key(last))))
    }

    /// Moves the end of a range so that it has `limit` pairs at most. Returns how many are left out.
    fn cut(&self, lo: Key, hi: &mut u128, limit: u64) -> Result<u64, Failure> {
        let (first, mut last) = (self.column(&[lo]), self.types().key.column());
        last.push(*hi);
        let more = self.queried().count(&first, &last)?[0].saturating_sub(limit);
        if more > 0 {
            let end = self.queried().rank(&first)?[0] + limit - 1;
            *hi = self.queried().select(&[end])?[0].map_or(*hi, |(key, _)| key);
        }
        Ok(more)
    }

    fn nearest(&self, command: Word<'_>, args: &[Word<'_>], find: Find) -> Outcome {
        let keys = self.keys(command, args)?;
        let pairs = find(self.queried(), &self.column(&keys))?;
        Ok(self.found(&keys, pairs))
    }

    fn asof(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let (args, query) = take_asof(command, args, self.types().key)?;
        let questions = self.keys(command, &args)?;
        let pairs = asof(self.queried(), self.types().key, &questions, query)?;
        Ok(self.found(&questions, pairs))
    }

    fn select(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        expect_args(command, args)?;
        let index = |word: &Word<'_>| Type::U64.parse(word.text).map_err(|error| word.wrong(error));
        let queried = args.iter().map(index).collect::<Result<Vec<Scalar>, _>>()?;
        let indices: Vec<u64> =
            queried.iter().map(|&index| ValueType::U64.encode(index) as u64).collect();
        Ok(self.found(&indices, self.queried().select(&indices)?))
    }

    fn rank(&self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        let keys = self.keys(command, args)?;
        let ranks = self.queried().rank(&self.column(&keys))?;
        Ok(Answer::Ranks(keys.into_iter().zip(ranks).collect()))
    }

    /// Parses keys, at least one.
    fn keys(&self, command: Word<'_>, args: &[Word<'_>]) -> Result<Vec<Key>, Failure> {
        expect_args(command, args)?;
        args.iter().map(|&word| self.key(word)).collect()
    }

    /// Parses ranges, at least one: their first keys, and their last keys.
    fn ranges(&self, command: Word<'_>, args: &[Word<'_>]) -> Result<Ends, Failure> {
        let ranges = expect_pairs(command, args, "this range has no end: give pairs, LO HI")?;
        let ends =
            |&[lo, hi]: &[Word<'_>; 2]| Ok((self.end(lo, End::First)?, self.end(hi, End::Last)?));
        ranges.iter().map(ends).collect()
    }

    fn column(&self, keys: &[Key]) -> Column {
        let mut column = self.types().key.column();
        keys.iter().for_each(|key| column.push(key.ordered()));
        column
    }

    fn key(&self, word: Word<'_>) -> Result<Key, Failure> {
        let key = self.types().key.parse(word.text);
        key.map_err(|error| {
            let hint = self.type_hint("key", self.type_options.gives_key());
            word.wrong(error + &hint)
        })
    }

    /// Says how another type is chosen, to who may not know that there are others.
    fn type_hint(&self, option: &str, is_given: bool) -> String {
        match is_given || self.dictionary.path().is_some() {
            true => String::new(),
            false => format!("; `gpulsm shell --{option} TYPE` chooses another type"),
        }
    }

    /// Parses an end of a range.
    fn end(&self, word: Word<'_>, end: End) -> Result<Key, Failure> {
        self.types().key.parse_end(word.text, end).map_err(|error| word.wrong(error))
    }

    /// Parses a key that is a part of a word.
    fn key_of(&self, word: Word<'_>, text: &str) -> Result<u128, Failure> {
        let key = self.types().key.parse(text);
        let key = key.map_err(|error| match self.types().key.parts() {
            [_] => word.wrong(format!("the key is {error}")),
            _ => word.wrong(format!("in the key, {error}")),
        })?;
        Ok(key.ordered())
    }

    fn value(&self, word: Word<'_>) -> Result<u128, Failure> {
        let of = Type::from(self.types().value);
        let value = of.parse(word.text).map_err(|error| {
            let hint = self.type_hint("value", self.type_options.gives_value());
            word.wrong(format!("{error}{hint}"))
        })?;
        Ok(self.types().value.encode(value))
    }

    fn decode(&self, (key, value): Pair) -> (Key, Scalar) {
        (self.types().key.key(key), self.types().value.decode(value))
    }

    fn pair(&self, pair: Option<Pair>) -> Answer {
        Answer::Pair(pair.map(|pair| self.decode(pair)))
    }

    /// Answers what was queried with the pair that was found for each.
    fn found<Q: Display>(&self, queried: &[Q], pairs: Vec<Option<Pair>>) -> Answer {
        let pairs = pairs.into_iter().map(|pair| pair.map(|pair| self.decode(pair)));
        Answer::Found(queried.iter().map(Q::to_string).zip(pairs).collect())
    }
}

/// The first keys of ranges, and the last ones.
type Ends = (Vec<Key>, Vec<Key>);

/// A query for the pair nearest to each key.
type Find = fn(&dyn AnyDictionary, &Column) -> Result<Vec<Option<Pair>>, gpulsm::Error>;

pub(super) fn done(outcome: Result<(), gpulsm::Error>) -> Outcome {
    Ok(outcome.map(|()| Answer::Done)?)
}
