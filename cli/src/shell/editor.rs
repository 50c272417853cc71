//! The prompt: line editing, history, completion, and hints.

use std::borrow::Cow;
use std::path::PathBuf;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::shell::command::COMMANDS;

/// A prompt with a history.
pub struct Prompt {
    editor: Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    pub fn new() -> Result<Self, ReadlineError> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .auto_add_history(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Assistant { files: FilenameCompleter::new() }));
        let history = history_file();
        if let Some(file) = &history {
            editor.load_history(file).ok(); // There is none the first time.
        }
        Ok(Prompt { editor, history })
    }

    /// Reads the next line; `None` at the end of input. An interrupted line is empty.
    pub fn line(&mut self) -> Result<Option<String>, ReadlineError> {
        match self.editor.readline("gpulsm> ") {
            Ok(line) => Ok(Some(line)),
            Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
            Err(ReadlineError::Eof) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some(file) = &self.history {
            // History is a convenience: a failure to save it is no error.
            file.parent().map(std::fs::create_dir_all);
            self.editor.save_history(file).ok();
        }
    }
}

/// Returns the file of the history, as the XDG specification has it.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("gpulsm").join("history"))
}

/// Completes commands and file names, and shows the arguments of a command.
struct Assistant {
    files: FilenameCompleter,
}

impl Helper for Assistant {}

impl Validator for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        place: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let begun = &line[..place];
        let start = begun.len() - begun.trim_start().len();
        match begun.trim_start().split_once(char::is_whitespace) {
            None => {
                let commands = COMMANDS.iter().filter(|c| c.name.starts_with(&begun[start..]));
                let candidates = commands.map(|command| Pair {
                    display: command.name.into(),
                    replacement: format!("{} ", command.name),
                });
                Ok((start, candidates.collect()))
            }
            Some(("import" | "export", _)) => self.files.complete(line, place, context),
            Some(_) => Ok((place, Vec::new())),
        }
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, place: usize, _: &Context<'_>) -> Option<String> {
        let name = line.strip_suffix(' ')?;
        let command = COMMANDS.iter().find(|command| command.name == name)?;
        (place == line.len() && !command.words.is_empty()).then(|| command.words.into())
    }
}

impl Highlighter for Assistant {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        format!("\x1b[1;32m{prompt}\x1b[0m").into()
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        format!("\x1b[2m{hint}\x1b[0m").into()
    }
}
