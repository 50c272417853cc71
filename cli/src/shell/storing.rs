//! Commands that read and write files.

use std::path::Path;

use super::answer::Answer;
use super::arguments::expect_args;
use super::command::{Word, words};
use super::failure::Failure;
use super::files::{self, Imported, Rows};
use super::interpreter::{Interpreter, Outcome, done};

impl Interpreter {
    pub(super) fn import(&mut self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        expect_args(command, args)?;
        let rows = files::read(self.types(), line).map_err(Failure::file)?;
        self.insert_rows(rows)
    }

    /// Returns what reads the file of an import, if the line is one that can be executed.
    pub fn reader(
        &self,
        line: &str,
    ) -> Option<impl FnOnce() -> Result<Rows, Failure> + Send + 'static> {
        let (types, line) = (self.types(), line.to_string());
        let is_import = matches!(&words(&line)[..], [command, _, ..] if command.text == "import");
        let read = move || files::read(types, &line).map_err(Failure::file);
        (is_import && self.snapshots.used().is_none()).then_some(read)
    }

    /// Inserts what was read.
    pub fn insert_rows(&mut self, rows: Rows) -> Outcome {
        let imported = files::insert(&mut *self.dictionary, rows);
        imported.map(Answer::Imported).map_err(Failure::file)
    }

    /// Imports a file with the default options.
    pub fn import_file(&mut self, path: &Path) -> Result<Imported, Failure> {
        let rows = files::read_file(self.types(), path).map_err(Failure::file)?;
        files::insert(&mut *self.dictionary, rows).map_err(Failure::file)
    }

    pub(super) fn export(&self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        expect_args(command, args)?;
        files::export(self.queried(), self.types(), line).map(Answer::Rows).map_err(Failure::file)
    }

    pub(super) fn save(&self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        expect_args(command, args)?;
        files::save(self.queried(), line).map_err(Failure::file)
    }

    pub(super) fn load(&mut self, command: Word<'_>, args: &[Word<'_>], line: &str) -> Outcome {
        expect_args(command, args)?;
        let Interpreter { dictionary, settings, type_options, .. } = self;
        files::load(dictionary, settings, *type_options, line).map_err(Failure::file)
    }

    /// Makes what is there durable.
    pub(super) fn store(&mut self, command: Word<'_>) -> Outcome {
        if self.dictionary.path().is_none() {
            return Err(Failure::file(
                "this dictionary is in memory: `save FILE` writes it to a file, and `gpulsm shell --open DIR` \
                 keeps one in a folder",
            ));
        }
        done(match command.text {
            "sync" => self.dictionary.sync(),
            _ => self.dictionary.checkpoint(),
        })
    }
}
