//! The dictionary that a shell begins with: a new one, one in a folder, or a saved file.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use gpulsm::files::{Info, info};
use gpulsm::{Device, Durability, Error};
use gpulsm_backends::dictionary::{AnyDictionary, Settings, open_at};
use gpulsm_backends::stored::Origin;
use gpulsm_backends::types::{KeyType, Part, Rule, Type, Types, ValueType};

use super::command::counted;
use crate::batch_size;
use crate::key_type::KeyTypeParser;
use crate::progress::Bar;
use crate::stored::{explain, is_saved, key_of, rule_of, value_of, what_else};

/// What the program's arguments say of the dictionary.
#[derive(Args)]
pub struct Beginning {
    /// Keep the dictionary in this folder: every change is there the next time, even after a crash. It is
    /// created if there is none
    #[arg(long, value_name = "DIR", conflicts_with = "load")]
    open: Option<PathBuf>,

    /// Begin with the pairs of a file that the command `save` wrote
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,

    /// What is durable in the folder when a change is answered
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Durable::Batch, requires = "open")]
    durability: Durable,

    /// How many bytes of changes the folder's log may have before all pairs are written anew (a checkpoint is
    /// begun at half of it). Default: about as many as the pairs have, and at least 256 MiB
    #[arg(long, value_name = "BYTES", requires = "open", value_parser = clap::value_parser!(u64).range(1..))]
    log_limit: Option<u64>,

    /// The type of keys: u32, u64, u128, i32, i64, i128, f32, f64, bytes1 to bytes16, or two to four of these
    /// with commas between them, of at most 16 bytes in all. Default: that of the files, else u32
    #[arg(long, value_name = "TYPE[,TYPE…]", value_parser = KeyTypeParser, hide_possible_values = true)]
    key: Option<KeyType>,

    /// The type of values; none for a set. Default: that of the files, else u32
    #[arg(long, value_enum)]
    value: Option<ValueType>,

    /// What an insert does to a key that is already there. Default: that of the files, else replace
    #[arg(long, value_enum, value_name = "RULE")]
    combine: Option<Rule>,

    /// The batch size b of the dictionary. Default: that of the files, else 65536
    #[arg(long, value_name = "B", value_parser = batch_size())]
    batch_size: Option<u64>,

    /// Where the dictionary lives: best, cpu, cuda or cuda:N
    #[arg(long, default_value = "best")]
    device: Device,
}

/// What is durable when a change is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Durable {
    /// The change: it is on stable storage
    Batch,
    /// The operating system has it: it survives the end of the program, but perhaps not that of the machine
    Os,
    /// Nothing: what came after the last checkpoint is lost, unless the shell ends well
    Checkpoint,
}

impl From<Durable> for Durability {
    fn from(durable: Durable) -> Self {
        match durable {
            Durable::Batch => Durability::Batch,
            Durable::Os => Durability::Os,
            Durable::Checkpoint => Durability::Checkpoint,
        }
    }
}

/// A dictionary, how it is set up, and for people what it is, unless it is new and in memory.
pub struct Opened {
    pub dictionary: Box<dyn AnyDictionary>,
    pub settings: Settings,
    pub summary: Option<String>,
}

impl Beginning {
    pub fn open(&self) -> Result<Opened, String> {
        let stored = self.stored()?;
        let settings = self.settings(stored.as_ref())?;
        let origin = self.origin();
        let mut bar = Bar::new(if self.load.is_some() { "loading" } else { "opening" });
        let opened = open_at(settings, &origin, &mut |done, total| bar.tell(done, total));
        drop(bar);
        let dictionary = opened.map_err(explain)?;
        let pairs = dictionary.len().map_err(|error| error.to_string())?;
        let summary = self.path().map(|path| summary(path, stored.as_ref(), settings.types, pairs));
        Ok(Opened { dictionary, settings, summary })
    }

    fn path(&self) -> Option<&Path> {
        self.open.as_deref().or(self.load.as_deref())
    }

    fn origin(&self) -> Origin {
        match (&self.open, &self.load) {
            (Some(path), _) => Origin::Folder {
                path: path.clone(),
                durability: self.durability.into(),
                log_limit: self.log_limit,
            },
            (None, Some(path)) => Origin::File(path.clone()),
            (None, None) => Origin::Nothing,
        }
    }

    /// Returns what the files say of themselves; `None` if there are none yet.
    fn stored(&self) -> Result<Option<Info>, String> {
        if let Some(path) = &self.load {
            if path.is_dir() {
                return Err(format!("`{}` is a folder: --open opens it", path.display()));
            }
            let found = what_else(path).map_or_else(|| info(path).map_err(explain), Err);
            return found.map(Some);
        }
        let Some(path) = &self.open else { return Ok(None) };
        if path.is_file() {
            let hint = if is_saved(path) { "--load reads it" } else { "name a folder" };
            return Err(format!("`{}` is a file: {hint}", path.display()));
        }
        match info(path) {
            Ok(info) => Ok(Some(info)),
            Err(Error::NotADictionary { .. } | Error::Io { kind: io::ErrorKind::NotFound, .. }) => {
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Chooses types and settings. Those of files need not be given, and must not contradict them.
    fn settings(&self, stored: Option<&Info>) -> Result<Settings, String> {
        let mut key = self.key.unwrap_or(Part::U32.into());
        let mut value = self.value.unwrap_or(ValueType::U32);
        let mut rule = self.combine.unwrap_or(Rule::Replace);
        if let (Some(info), Some(path)) = (stored, self.path()) {
            key = key_of(info, path)?;
            self.expect_same(
                path,
                "key",
                self.key.is_none_or(|given| given == key),
                &key.to_string(),
            )?;
            if self.value.is_none() || !info.value.is_empty() {
                value = value_of(info, path)?;
            }
            let name = Type::from(value).name();
            self.expect_same(path, "value", self.value.is_none_or(|given| given == value), name)?;
            let name = rule_of(info);
            rule = Rule::from_str(name, false).map_err(|_| {
                format!("`{}` combines values by a rule that this version lacks", path.display())
            })?;
            self.expect_same(
                path,
                "combine",
                self.combine.is_none_or(|given| given == rule),
                name,
            )?;
        }
        let batch_size = self.batch_size.map(|size| size as usize);
        let types = Types { key, value };
        Ok(Settings { types, combine: rule.into(), device: self.device, batch_size })
    }

    /// Refuses an option that contradicts the files.
    fn expect_same(
        &self,
        path: &Path,
        option: &str,
        is_same: bool,
        stored: &str,
    ) -> Result<(), String> {
        match is_same {
            true => Ok(()),
            false => Err(format!(
                "--{option}: the dictionary in `{}` was created with --{option} {stored}; leave the option out, or \
                 choose another path",
                path.display()
            )),
        }
    }
}

/// Says what was opened.
fn summary(path: &Path, stored: Option<&Info>, types: Types, pairs: usize) -> String {
    let path = path.display();
    let value = Type::from(types.value).name();
    let types = match types.value {
        ValueType::None => format!("a set of {} keys", types.key),
        _ => format!("{} keys, {value} values", types.key),
    };
    let Some(info) = stored else { return format!("{path}: a new dictionary, {types}") };
    let mut text = format!("{path}: {}, {types}", counted(pairs, "pair"));
    if info.updates > 0 {
        let updates = counted(info.updates as usize, "update");
        text += &format!("; {updates} replayed from the log");
    }
    if info.torn_bytes > 0 {
        text += "; an incomplete update at the end of the log, as a crash leaves it, was cut off";
    }
    text
}
