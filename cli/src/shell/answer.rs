//! Answers of the shell: as JSON, or for people.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use gpulsm::{Bytes, LevelStats, Stats};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::shell::command::{Usage, counted};
use crate::shell::files::Imported;
use crate::types::{Scalar, Type};

/// The answer to one command.
#[derive(Debug)]
pub enum Answer {
    Done,
    /// Done, and the shell ends.
    Quit,
    /// Keys with their values.
    Values(Vec<(Scalar, Option<Scalar>)>),
    /// Ranges with their counts.
    Counts(Vec<(Scalar, Scalar, u64)>),
    Pairs(Vec<(Scalar, Scalar)>),
    Pair(Option<(Scalar, Scalar)>),
    Rank(u64),
    Len(u64),
    /// How many rows were written.
    Rows(u64),
    Imported(Imported),
    Levels(Stats),
    Stats {
        stats: Stats,
        key: Type,
        value: Type,
    },
    /// Descriptions of commands.
    Help(Vec<&'static Usage>),
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

    pub fn write_error(self, out: &mut impl Write, error: &str) -> io::Result<()> {
        match self {
            Form::Json => {
                serde_json::to_writer(&mut *out, &json!({ "error": error }))?;
                writeln!(out)
            }
            Form::People { colour } => {
                let name = People { out, colour }.paint(RED, "error:");
                writeln!(out, "{name} {error}")
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
            Answer::Pairs(pairs) => map.serialize_entry("pairs", pairs)?,
            Answer::Pair(Some((key, value))) => {
                map.serialize_entry("key", key)?;
                map.serialize_entry("value", value)?;
            }
            Answer::Pair(None) => map.serialize_entry("key", &())?,
            Answer::Rank(rank) => map.serialize_entry("rank", rank)?,
            Answer::Len(len) => map.serialize_entry("len", len)?,
            Answer::Rows(rows) => {
                map.serialize_entry("ok", &true)?;
                map.serialize_entry("rows", rows)?;
            }
            Answer::Imported(imported) => {
                map.serialize_entry("ok", &true)?;
                imported.serialize_entries(&mut map)?;
            }
            Answer::Levels(stats) => map.serialize_entry("levels", &levels(stats))?,
            Answer::Stats { stats, key, value } => {
                map.serialize_entry("device", &stats.device.to_string())?;
                map.serialize_entry("key", key.name())?;
                map.serialize_entry("value", value.name())?;
                map.serialize_entry("batch_size", &stats.batch_size)?;
                map.serialize_entry("len", &stats.live)?;
                map.serialize_entry("entries", &stats.entries)?;
                map.serialize_entry("stale", &stats.stale)?;
                map.serialize_entry("levels", &stats.levels.len())?;
                map.serialize_entry("bytes", &bytes(&stats.bytes))?;
            }
            Answer::Help(commands) => map.serialize_entry("commands", &descriptions(commands))?,
        }
        map.end()
    }
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

/// Describes commands as JSON.
fn descriptions(commands: &[&Usage]) -> Map<String, Value> {
    let usage =
        |c: &&Usage| (c.name.to_string(), json!({ "words": c.words, "meaning": c.meaning }));
    commands.iter().map(usage).collect()
}

const RED: Style = AnsiColor::Red.on_default().bold();
const KEY: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();

/// Writes for people: aligned, and in colour on a terminal.
struct People<'a, W> {
    out: &'a mut W,
    colour: bool,
}

impl<W: Write> People<'_, W> {
    fn paint(&self, style: Style, text: impl std::fmt::Display) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        match answer {
            Answer::Done | Answer::Quit => self.line("ok"),
            Answer::Values(values) => {
                let value = |value: &Option<Scalar>| match value {
                    Some(value) => value.to_string(),
                    None => self.paint(DIM, "not found"),
                };
                let rows = values.iter().map(|(key, v)| (key.to_string(), value(v))).collect();
                self.table(rows)
            }
            Answer::Counts(counts) => {
                let row = |(lo, hi, count): &(Scalar, Scalar, u64)| {
                    (format!("{lo} to {hi}"), count.to_string())
                };
                self.table(counts.iter().map(row).collect())
            }
            Answer::Pairs(pairs) if pairs.is_empty() => self.dim("nothing"),
            Answer::Pairs(pairs) => {
                self.table(pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
            }
            Answer::Pair(Some((key, value))) => {
                self.table(vec![(key.to_string(), value.to_string())])
            }
            Answer::Pair(None) => self.dim("nothing"),
            Answer::Rank(rank) => self.line(&format!("{rank} less")),
            Answer::Len(len) => self.line(&counted(*len as usize, "key")),
            Answer::Rows(rows) => self.line(&format!("ok, {}", counted(*rows as usize, "row"))),
            Answer::Imported(imported) => self.line(&format!("ok, {imported}")),
            Answer::Levels(stats) => self.line(&stats.to_string()),
            Answer::Stats { stats, key, value } => {
                let bytes = &stats.bytes;
                self.table(vec![
                    ("device".into(), stats.device.to_string()),
                    ("key".into(), key.name().into()),
                    ("value".into(), value.name().into()),
                    ("batch size".into(), stats.batch_size.to_string()),
                    ("keys".into(), stats.live.to_string()),
                    ("entries".into(), format!("{} ({} stale)", stats.entries, stats.stale)),
                    ("levels".into(), stats.levels.len().to_string()),
                    (
                        "bytes".into(),
                        format!(
                            "{} (keys {}, values {}, marks {}, fences {}, filters {})",
                            bytes.total(),
                            bytes.keys,
                            bytes.values,
                            bytes.marks,
                            bytes.fences,
                            bytes.filters
                        ),
                    ),
                ])
            }
            Answer::Help(commands) => {
                let usage = |c: &Usage| format!("{} {}", c.name, c.words);
                let rows = commands.iter().map(|c| (usage(c).trim_end().into(), c.meaning.into()));
                self.listing(rows.collect())
            }
        }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    fn dim(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint(DIM, text);
        self.line(&text)
    }

    /// Writes two columns, the first aligned to the right: numbers.
    fn table(&mut self, rows: Vec<(String, String)>) -> io::Result<()> {
        self.columns(rows, |left, width| format!("{left:>width$}"))
    }

    /// Writes two columns, the first aligned to the left: text.
    fn listing(&mut self, rows: Vec<(String, String)>) -> io::Result<()> {
        self.columns(rows, |left, width| format!("{left:<width$}"))
    }

    fn columns(
        &mut self,
        rows: Vec<(String, String)>,
        pad: impl Fn(&str, usize) -> String,
    ) -> io::Result<()> {
        let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
        for (left, right) in rows {
            let left = self.paint(KEY, pad(&left, width));
            writeln!(self.out, "{left}  {right}")?;
        }
        Ok(())
    }
}
