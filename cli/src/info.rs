//! `gpulsm info`: what the files of a dictionary contain.

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gpulsm::files::{self, RunFile};
use indicatif::HumanBytes;
use serde_json::{Map, Value, json};

use crate::stored::{names, read, rule_of, size};

const NOTES: &str = "\
Examples:
  gpulsm info prices                  the folder of `gpulsm shell --open prices`
  gpulsm info prices.gpulsm           a file that `save` wrote
  gpulsm info prices --json           for programs

Of the pairs nothing is read: `gpulsm check` does that. The watermark is the last update that is known to be on
stable storage; updates are numbered from 1 on. The generation counts how often the folder was opened, closed or
checkpointed.

In JSON an error is {\"path\": PATH, \"error\": MESSAGE, \"code\": CODE}; `gpulsm check --help` lists the codes.";

/// Says what the files of a dictionary contain: types, pairs, runs and log.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Info {
    /// The folder that a dictionary lives in, or a saved file
    path: PathBuf,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut out = io::stdout();
        match read(&self.path, |path| files::info(path)) {
            Ok(info) if self.json => {
                writeln!(out, "{}", Value::from(object(&self.path, &info)))?;
            }
            Ok(info) => {
                for (name, text) in self.rows(&info) {
                    writeln!(out, "{name:>10}  {text}")?;
                }
            }
            Err(refusal) if self.json => {
                writeln!(out, "{}", Value::from(refusal.object(&self.path)))?;
                return Ok(ExitCode::FAILURE);
            }
            Err(refusal) => return Err(refusal.to_string().into()),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn rows(&self, info: &files::Info) -> Vec<(String, String)> {
        let ((key, value), size) = (names(info), size(&self.path, info));
        let kind = if info.is_folder { "a folder" } else { "a saved file" };
        let mut rows = vec![
            (
                "path".into(),
                format!("{}, {kind}, format version {}", self.path.display(), info.version),
            ),
            ("key".into(), key),
            ("value".into(), value),
        ];
        rows.extend(info.rows());
        rows.push(("bytes".into(), format!("{size} ({})", HumanBytes(size))));
        rows
    }
}

/// Returns what files contain, for programs.
pub fn object(path: &Path, info: &files::Info) -> Map<String, Value> {
    let (key, value) = names(info);
    let run = |run: &RunFile| json!({ "file": run.file, "level": run.level, "entries": run.entries, "bytes": run.bytes });
    let settings = info.settings.iter().map(|(name, number)| (name.clone(), json!(number)));
    let notes = info.notes.iter().map(|(name, note)| (name.clone(), json!(note)));
    let fields = [
        ("path", json!(path.display().to_string())),
        ("kind", json!(if info.is_folder { "folder" } else { "file" })),
        ("version", json!(info.version)),
        ("key", json!(key)),
        ("value", json!(value)),
        ("value_bytes", json!(info.value_bytes)),
        ("combine", json!(rule_of(info))),
        ("settings", settings.collect::<Map<_, _>>().into()),
        ("notes", notes.collect::<Map<_, _>>().into()),
        ("entries", json!(info.entries())),
        ("runs", info.runs.iter().map(run).collect()),
        (
            "log",
            json!({
                "files": info.logs,
                "updates": info.updates,
                "bytes": info.log_bytes,
                "torn_bytes": info.torn_bytes,
            }),
        ),
        ("sequence", json!(info.sequence)),
        ("watermark", json!(info.synced)),
        ("generation", json!(info.generation)),
        ("bytes", json!(size(path, info))),
    ];
    fields.into_iter().map(|(name, field)| (name.into(), field)).collect()
}
