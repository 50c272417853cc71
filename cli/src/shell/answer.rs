//! Answers of the shell, and how they are written as JSON.

use std::io::{self, Write};
use std::path::PathBuf;

use gpulsm::private::Operation;
use gpulsm::{Bytes, Combine, LevelStats, MemoryStats, Stats};
use gpulsm_backends::types::{Key, KeyType, Scalar, Type, Types};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::command::Usage;
use super::failure::Failure;
use super::files::Imported;
use super::people::{People, RED};

/// The answer to one command.
#[derive(Debug)]
pub enum Answer {
    Done,
    /// Done, and the shell ends.
    Quit,
    /// Keys with their values.
    Values(Vec<(Key, Option<Scalar>)>),
    /// Ranges with their counts.
    Counts(Vec<(Key, Key, u64)>),
    /// Ranges with what their values are combined to; `None` where there is no value.
    Aggregates(Operation, Vec<(Key, Key, Option<Scalar>)>),
    /// Keys, and whether they are there.
    Contained(Vec<(Key, bool)>),
    /// The pairs of a range, and how many more there are than the limit allows.
    Pairs {
        pairs: Vec<(Key, Scalar)>,
        more: u64,
    },
    Pair(Option<(Key, Scalar)>),
    /// Keys or indices, each with the pair that was found for it.
    Found(Vec<(String, Option<(Key, Scalar)>)>),
    /// Keys with their ranks.
    Ranks(Vec<(Key, u64)>),
    Len(u64),
    /// How many rows were written.
    Rows(u64),
    Imported(Imported),
    /// What a file has that was saved.
    FileSaved {
        pairs: u64,
        bytes: u64,
    },
    /// How many pairs a file had that was loaded, and the types and the rule if the dictionary had others.
    FileLoaded {
        pairs: u64,
        new_types: Option<(Types, Combine)>,
    },
    Levels(Stats),
    Snapshots(Vec<Saved>),
    Stats {
        stats: Stats,
        key: KeyType,
        value: Type,
        combine: Combine,
        /// The folder that the dictionary lives in, if it does.
        path: Option<PathBuf>,
    },
    /// Descriptions of commands.
    Help(Vec<&'static Usage>),
}

/// A snapshot.
#[derive(Debug, Serialize)]
pub struct Saved {
    pub name: String,
    pub len: u64,
    pub in_use: bool,
}

/// Where a command comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A line of standard input, counted from 1.
    Line(usize),
    /// A command of the program's arguments, counted from 1.
    Argument(usize),
    /// Typed at the prompt.
    Prompt,
}

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Json,
    People { colour: bool },
}

impl Form {
    pub fn write(self, out: &mut impl Write, answer: &Answer) -> io::Result<()> {
        match self {
            Form::Json => {
                serde_json::to_writer(&mut *out, answer)?;
                writeln!(out)
            }
            Form::People { colour } => People { out, colour }.answer(answer),
        }
    }

    pub fn write_failure(
        self,
        out: &mut impl Write,
        failure: &Failure,
        source: Source,
    ) -> io::Result<()> {
        let Failure { code, message } = failure;
        match self {
            Form::Json => {
                let mut object = json!({ "error": message, "code": code.name() });
                if let Source::Line(number) | Source::Argument(number) = source {
                    object["line"] = number.into();
                }
                writeln!(out, "{object}")
            }
            Form::People { colour } => {
                let place = match source {
                    Source::Line(number) => format!(" in line {number}"),
                    Source::Argument(number) => format!(" in command {number}"),
                    Source::Prompt => String::new(),
                };
                let name = People { out, colour }.paint(RED, "error");
                writeln!(out, "{name}{place}: {message}")
            }
        }
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Answer::Done | Answer::Quit => map.serialize_entry("ok", &true)?,
            Answer::Values(values) => {
                let values: Vec<_> = values.iter().map(|(_, value)| value).collect();
                map.serialize_entry("values", &values)?;
            }
            Answer::Counts(counts) => {
                let counts: Vec<_> = counts.iter().map(|(.., count)| count).collect();
                map.serialize_entry("counts", &counts)?;
            }
            Answer::Aggregates(operation, ranges) => {
                let name = match operation {
                    Operation::Sum => "sums",
                    Operation::Min => "minima",
                    Operation::Max => "maxima",
                };
                let numbers: Vec<_> = ranges.iter().map(|(.., number)| number).collect();
                map.serialize_entry(name, &numbers)?;
            }
            Answer::Contained(keys) => {
                let found: Vec<_> = keys.iter().map(|(_, found)| found).collect();
                map.serialize_entry("contains", &found)?;
            }
            Answer::Pairs { pairs, more } => {
                map.serialize_entry("pairs", pairs)?;
                if *more > 0 {
                    map.serialize_entry("more", more)?;
                }
            }
            Answer::Found(found) => {
                let pairs: Vec<_> = found.iter().map(|(_, pair)| pair).collect();
                map.serialize_entry("pairs", &pairs)?;
            }
            Answer::Pair(Some((key, value))) => {
                map.serialize_entry("key", key)?;
                map.serialize_entry("value", value)?;
            }
            Answer::Pair(None) => map.serialize_entry("key", &())?,
            Answer::Ranks(ranks) => {
                let ranks: Vec<_> = ranks.iter().map(|(_, rank)| rank).collect();
                map.serialize_entry("ranks", &ranks)?;
            }
            Answer::Len(len) => map.serialize_entry("len", len)?,
            Answer::Rows(rows) => {
                map.serialize_entry("ok", &true)?;
                map.serialize_entry("rows", rows)?;
            }
            Answer::Imported(imported) => {
                map.serialize_entry("ok", &true)?;
                imported.serialize_entries(&mut map)?;
            }
            Answer::FileSaved { pairs, bytes } => {
                map.serialize_entry("ok", &true)?;
                map.serialize_entry("pairs", pairs)?;
                map.serialize_entry("bytes", bytes)?;
            }
            Answer::FileLoaded { pairs, new_types } => {
                map.serialize_entry("ok", &true)?;
                map.serialize_entry("pairs", pairs)?;
                if let Some((types, combine)) = new_types {
                    map.serialize_entry("key", &types.key.to_string())?;
                    map.serialize_entry("value", Type::from(types.value).name())?;
                    map.serialize_entry("combine", combine.name())?;
                }
            }
            Answer::Levels(stats) => map.serialize_entry("levels", &levels(stats))?,
            Answer::Snapshots(all) => map.serialize_entry("snapshots", all)?,
            Answer::Stats { stats, key, value, combine, path } => {
                map.serialize_entry("device", &stats.devices().to_string())?;
                map.serialize_entry("key", &key.to_string())?;
                map.serialize_entry("value", value.name())?;
                map.serialize_entry("combine", combine.name())?;
                map.serialize_entry("batch_size", &stats.batch_size)?;
                map.serialize_entry("len", &stats.live)?;
                map.serialize_entry("entries", &stats.entries)?;
                map.serialize_entry("stale", &stats.stale)?;
                map.serialize_entry("levels", &stats.levels.len())?;
                if !stats.shards.is_empty() {
                    map.serialize_entry("shards", &shards(stats))?;
                }
                map.serialize_entry("bytes", &bytes(&stats.bytes))?;
                if let Some(memory) = &stats.memory {
                    map.serialize_entry("memory", &of_memory(memory))?;
                }
                if let Some(path) = path {
                    map.serialize_entry("folder", &path.display().to_string())?;
                }
            }
            Answer::Help(commands) => map.serialize_entry("commands", &descriptions(commands))?,
        }
        map.end()
    }
}

/// Describes every shard as JSON.
fn shards(stats: &Stats) -> Vec<Value> {
    let shard = |shard: &Stats| {
        json!({
            "device": shard.device.to_string(),
            "len": shard.live,
            "entries": shard.entries,
            "bytes": shard.bytes.total(),
        })
    };
    stats.shards.iter().map(shard).collect()
}

/// Describes every level as JSON.
fn levels(stats: &Stats) -> Vec<Value> {
    let level = |level: &LevelStats| {
        json!({
            "level": level.level,
            "capacity": level.capacity,
            "entries": level.entries,
            "tombstones": level.tombstones,
            "bytes": level.bytes.total(),
        })
    };
    stats.levels.iter().map(level).collect()
}

/// Describes the memory of a dictionary as JSON.
fn bytes(bytes: &Bytes) -> Value {
    json!({
        "keys": bytes.keys,
        "values": bytes.values,
        "marks": bytes.marks,
        "fences": bytes.fences,
        "filters": bytes.filters,
        "total": bytes.total(),
    })
}

/// Describes where the bytes of a memory limit, or of a GPU, are as JSON.
fn of_memory(memory: &MemoryStats) -> Value {
    json!({
        "total": memory.total,
        "free": memory.free,
        "runs": memory.runs,
        "filters": memory.filters,
        "rest": memory.rest,
        "idle": memory.idle,
        "others": memory.others,
    })
}

/// Describes commands as JSON.
fn descriptions(commands: &[&Usage]) -> Map<String, Value> {
    let usage =
        |c: &&Usage| (c.name.to_string(), json!({ "words": c.words, "meaning": c.meaning }));
    commands.iter().map(usage).collect()
}
