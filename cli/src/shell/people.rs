//! How answers are written for people: aligned, and in colour on a terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use gpulsm::{Combine, MemoryStats, Stats};
use gpulsm_backends::types::{Key, KeyType, Scalar, Type, Types};

use super::answer::{Answer, Saved};
use super::command::{Usage, counted, shown};
use super::type_options::describe;

pub const RED: Style = AnsiColor::Red.on_default().bold();
const KEY: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();

/// How many columns the help has, and the usages in it: a terminal has at least 80.
const HELP_WIDTH: usize = 80;
const USAGE_WIDTH: usize = 29;

/// Writes for people.
pub struct People<'a, W> {
    pub out: &'a mut W,
    pub colour: bool,
}

impl<W: Write> People<'_, W> {
    pub fn paint(&self, style: Style, text: impl Display) -> String {
        paint(self.colour, style, text)
    }

    pub fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        let colour = self.colour;
        let nothing = |what: &str| paint(colour, DIM, what);
        match answer {
            Answer::Done | Answer::Quit => self.line("ok"),
            Answer::Values(values) => self.table(values, |(key, value)| {
                let value = match value {
                    Some(Scalar::Present) => "found".into(),
                    Some(value) => value.to_string(),
                    None => nothing("not found"),
                };
                (key.to_string(), value)
            }),
            Answer::Counts(counts) => {
                self.table(counts, |(lo, hi, count)| (format!("{lo} to {hi}"), count.to_string()))
            }
            Answer::Aggregates(_, ranges) => self.table(ranges, |(lo, hi, number)| {
                let number = number.map_or_else(|| nothing("nothing"), |number| number.to_string());
                (format!("{lo} to {hi}"), number)
            }),
            Answer::Contained(keys) => self.table(keys, |(key, found)| {
                (key.to_string(), if *found { "yes".into() } else { nothing("no") })
            }),
            Answer::Pairs { pairs, .. } if pairs.is_empty() => self.dim("nothing"),
            Answer::Pairs { pairs, more } => {
                self.table(pairs, |(key, value)| (key.to_string(), shown_value(value)))?;
                self.left_out(*more)
            }
            Answer::Pair(pair) => self.pair(pair),
            Answer::Found(found) => match &found[..] {
                [(_, pair)] => self.pair(pair),
                found => self.table(found, |(queried, pair)| {
                    let pair = pair
                        .as_ref()
                        .map(|(key, value)| joined(&key.to_string(), &shown_value(value)));
                    (queried.clone(), pair.unwrap_or_else(|| nothing("nothing")))
                }),
            },
            Answer::Ranks(ranks) => match ranks[..] {
                [(_, rank)] => self.line(&format!("{rank} less")),
                _ => self.table(ranks, |(key, rank)| (key.to_string(), format!("{rank} less"))),
            },
            Answer::Len(len) => self.line(&counted(*len as usize, "key")),
            Answer::Rows(rows) => self.line(&format!("ok, {}", counted(*rows as usize, "row"))),
            Answer::Imported(imported) => self.line(&format!("ok, {imported}")),
            Answer::FileSaved { pairs, bytes } => {
                self.line(&format!("ok, {}, {bytes} bytes", counted(*pairs as usize, "pair")))
            }
            Answer::FileLoaded { pairs, new_types } => self.loaded(*pairs, *new_types),
            Answer::Levels(stats) => self.line(&stats.to_string()),
            Answer::Snapshots(all) => self.snapshots(all),
            Answer::Stats { stats, key, value, combine, path } => {
                self.stats(stats, *key, *value, *combine, path.as_deref())
            }
            Answer::Help(commands) => commands.iter().try_for_each(|command| self.usage(command)),
        }
    }

    fn pair(&mut self, pair: &Option<(Key, Scalar)>) -> io::Result<()> {
        match pair {
            Some(pair) => self.table(&[pair], |(key, value)| (key.to_string(), shown_value(value))),
            None => self.dim("nothing"),
        }
    }
}

impl<W: Write> People<'_, W> {
    fn loaded(&mut self, pairs: u64, new_types: Option<(Types, Combine)>) -> io::Result<()> {
        let mut text = format!("ok, {}", counted(pairs as usize, "pair"));
        if let Some((types, combine)) = new_types {
            let types = describe(types, combine);
            text += &format!("; the types are now those of the file: {types}");
        }
        self.line(&text)
    }

    /// Writes what a command does, beside its usage or, if that is long, below it.
    fn usage(&mut self, command: &Usage) -> io::Result<()> {
        let usage = format!("{} {}", command.name, command.words);
        let usage = usage.trim_end();
        let mut left = format!("{usage:<USAGE_WIDTH$}");
        if left.chars().count() > USAGE_WIDTH {
            let usage = self.paint(KEY, usage);
            self.line(&usage)?;
            left = " ".repeat(USAGE_WIDTH);
        }
        for line in wrapped(command.meaning, HELP_WIDTH - USAGE_WIDTH - 2) {
            let painted = self.paint(KEY, &left);
            self.line(&joined(&painted, &line))?;
            left = " ".repeat(USAGE_WIDTH);
        }
        Ok(())
    }

    /// Says how many pairs a limit left out, if any.
    fn left_out(&mut self, more: u64) -> io::Result<()> {
        match more {
            0 => Ok(()),
            more => self.dim(&format!(
                "… and {} more; add --limit N to see the first N, --limit all to see every one",
                counted(more as usize, "pair")
            )),
        }
    }

    fn snapshots(&mut self, all: &[Saved]) -> io::Result<()> {
        if all.is_empty() {
            return self.dim("no snapshots; `snapshot save NAME` takes one");
        }
        self.listing(all, |saved| {
            let in_use = if saved.in_use { " (in use)" } else { "" };
            (shown(&saved.name), counted(saved.len as usize, "key") + in_use)
        })
    }

    fn stats(
        &mut self,
        stats: &Stats,
        key: KeyType,
        value: Type,
        combine: Combine,
        folder: Option<&Path>,
    ) -> io::Result<()> {
        let bytes = &stats.bytes;
        let mut rows = vec![
            ("device", stats.devices().to_string()),
            ("key", key.to_string()),
            ("value", value.name().into()),
            ("combine", combine.name().into()),
            ("batch size", stats.batch_size.to_string()),
            ("keys", stats.live.to_string()),
            ("entries", format!("{} ({} stale)", stats.entries, stats.stale)),
            ("levels", stats.levels.len().to_string()),
            (
                "bytes",
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
        ];
        rows.extend(stats.shards.iter().map(|shard| {
            ("shard", format!("{} on {}", counted(shard.live as usize, "key"), shard.device))
        }));
        rows.extend(stats.memory.map(|memory| ("memory", describe_memory(&memory))));
        rows.extend(folder.map(|folder| ("folder", folder.display().to_string())));
        self.table(&rows, |(name, value)| (name.to_string(), value.clone()))
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    fn dim(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint(DIM, text);
        self.line(&text)
    }

    /// Writes two columns, the first aligned to the right: numbers.
    fn table<T>(&mut self, rows: &[T], cells: impl Fn(&T) -> Cells) -> io::Result<()> {
        self.columns(rows, cells, |left, width| format!("{left:>width$}"))
    }

    /// Writes two columns, the first aligned to the left: text.
    fn listing<T>(&mut self, rows: &[T], cells: impl Fn(&T) -> Cells) -> io::Result<()> {
        self.columns(rows, cells, |left, width| format!("{left:<width$}"))
    }

    /// Writes row by row: what there is of a long answer is seen at once, and can be stopped.
    fn columns<T>(
        &mut self,
        rows: &[T],
        cells: impl Fn(&T) -> Cells,
        pad: impl Fn(&str, usize) -> String,
    ) -> io::Result<()> {
        let width = rows.iter().map(|row| cells(row).0.chars().count()).max().unwrap_or(0);
        for row in rows {
            let (left, right) = cells(row);
            let left = self.paint(KEY, pad(&left, width));
            writeln!(self.out, "{}", joined(&left, &right))?;
        }
        Ok(())
    }
}

/// The two cells of a row.
type Cells = (String, String);

/// Breaks a text into lines of at most this many columns, between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            *line += &format!(" {word}");
        } else {
            lines.push(word.into());
        }
    }
    lines
}

/// Joins two cells; the second one may be empty.
fn joined(left: &str, right: &str) -> String {
    if right.is_empty() { left.into() } else { format!("{left}  {right}") }
}

/// Returns a value as it is shown beside its key. A set has none.
fn shown_value(value: &Scalar) -> String {
    match value {
        Scalar::Present => String::new(),
        value => value.to_string(),
    }
}

/// Says where the bytes of a memory limit, or of a GPU, are.
fn describe_memory(memory: &MemoryStats) -> String {
    let MemoryStats { total, free, runs, filters, rest, idle, others, .. } = memory;
    format!(
        "{total} (free {free}, runs {runs}, filters {filters}, other snapshots and buffers {rest}, reserves {idle}, \
         others {others})"
    )
}

fn paint(colour: bool, style: Style, text: impl Display) -> String {
    if colour { format!("{style}{text}{style:#}") } else { text.to_string() }
}
