//! What the files of a dictionary contain, and how it is shown.

use std::fmt;

use crate::files::manifest::{Manifest, VERSION};
use crate::files::names;
use crate::files::run::RunInfo;

/// What the files of a dictionary contain, by what they say about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The version of the format.
    pub version: u32,
    /// Whether it is a folder, and not one file.
    pub is_folder: bool,
    /// The type of keys, as Rust writes it.
    pub key: String,
    /// The name of the type of values; empty if it is not known.
    pub value: String,
    /// How many bytes a value has.
    pub value_bytes: usize,
    /// How values combine.
    pub combine: String,
    /// Settings by name.
    pub settings: Vec<(String, u64)>,
    /// What other languages call the types, by name.
    pub notes: Vec<(String, String)>,
    /// The runs, the oldest first.
    pub runs: Vec<RunFile>,
    /// How many times the folder was opened, closed or checkpointed: each replaces its manifest.
    pub generation: u64,
    /// The number of the last update that the runs contain.
    pub sequence: u64,
    /// The number of the last update that is known to be on stable storage.
    pub synced: u64,
    /// How many logs there are.
    pub logs: usize,
    /// How many updates the logs have that the runs lack.
    pub updates: u64,
    /// How many bytes the logs have.
    pub log_bytes: u64,
    /// How many bytes of them are those of an incomplete update at the end, as a crash leaves it.
    pub torn_bytes: u64,
}

/// A run in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFile {
    /// The number of its file.
    pub file: u64,
    /// The level that it was in.
    pub level: u32,
    /// How many entries it has.
    pub entries: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

impl Info {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let schema = &manifest.schema;
        let run = |run: &RunInfo| RunFile {
            file: run.file,
            level: run.level,
            entries: run.entries,
            bytes: run.bytes,
        };
        Info {
            version: VERSION,
            is_folder: false,
            key: schema.key_name(),
            value: schema.value_name.clone(),
            value_bytes: schema.widths.value,
            combine: schema.rule_text(),
            settings: manifest.settings.clone(),
            notes: schema.notes.clone(),
            runs: manifest.runs.iter().map(run).collect(),
            generation: manifest.generation,
            sequence: manifest.sequence,
            synced: manifest.synced,
            logs: 0,
            updates: 0,
            log_bytes: 0,
            torn_bytes: 0,
        }
    }

    /// Returns how many bytes runs and logs have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.log_bytes + self.runs.iter().map(|run| run.bytes).sum::<u64>()
    }

    /// Returns how many entries the runs have, stale ones included.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.runs.iter().map(|run| run.entries).sum()
    }

    /// Returns what the files contain besides keys and values, in words, each with its name.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String)> {
        let mut rows = vec![("combine".to_string(), self.combine.clone())];
        rows.extend(
            self.settings.iter().map(|(name, number)| (name.replace('_', " "), number.to_string())),
        );
        rows.extend(self.notes.iter().cloned());
        let pairs = with_commas(self.entries());
        rows.push((
            "pairs".into(),
            match self.updates {
                0 => pairs,
                updates => {
                    format!("{pairs} in runs, and {} in the log", counted(updates, "update"))
                }
            },
        ));
        rows.extend(self.runs.iter().map(|run| ("run".into(), self.run_text(run))));
        if self.is_folder {
            rows.push(("log".into(), self.log_text()));
            rows.push(("watermark".into(), self.watermark_text()));
            rows.push(("generation".into(), self.generation.to_string()));
        }
        rows
    }

    fn run_text(&self, run: &RunFile) -> String {
        let (level, bytes) = (run.level, byte_size(run.bytes));
        let entries = match run.entries {
            1 => "1 entry".into(),
            entries => format!("{} entries", with_commas(entries)),
        };
        let file = match self.is_folder {
            true => format!(" in {}/{}", names::RUNS, names::run(run.file)),
            false => String::new(),
        };
        format!("level {level}: {entries}, {bytes}{file}")
    }

    fn log_text(&self) -> String {
        let (updates, bytes) = (counted(self.updates, "update"), byte_size(self.log_bytes));
        let logs = counted(self.logs as u64, "file");
        match self.torn_bytes {
            0 => format!("{updates}, {bytes} in {logs}"),
            torn => {
                let torn = byte_size(torn);
                format!(
                    "{updates}, {bytes} in {logs}; the last {torn} are those of an incomplete update"
                )
            }
        }
    }

    fn watermark_text(&self) -> String {
        let last = self.sequence + self.updates;
        match self.synced {
            0 if last == 0 => "no updates yet".into(),
            synced => format!("update {synced} of {last} is known to be on stable storage"),
        }
    }

    fn value_text(&self) -> String {
        match (&*self.value, self.value_bytes) {
            ("", bytes) => counted(bytes as u64, "byte"),
            ("()", _) => "none".into(),
            (name, _) => name.into(),
        }
    }
}

/// A table, as `gpulsm info` prints it.
impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10}  {}\n{:>10}  {}", "key", self.key, "value", self.value_text())?;
        self.rows().iter().try_for_each(|(name, text)| write!(f, "\n{name:>10}  {text}"))
    }
}

/// Formats a number of things, with a plural where needed.
fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", with_commas(number), if number == 1 { "" } else { "s" })
}

/// Formats a number with commas between thousands.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Formats a number of bytes in the largest unit of which there is at least one.
fn byte_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = bytes.checked_ilog2().map(|log| log / 10).filter(|&power| power > 0) else {
        return format!("{bytes} B");
    };
    format!("{:.2} {}", bytes as f64 / 1024f64.powi(power as i32), UNITS[power as usize - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1 << 30, "1,073,741,824")]
        {
            assert_eq!(with_commas(number), text);
        }
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (16_400, "16.02 KiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(byte_size(bytes), text);
        }
        assert_eq!(
            (counted(1, "update"), counted(2, "update")),
            ("1 update".into(), "2 updates".into())
        );
    }
}
