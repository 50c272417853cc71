//! The prompt: line editing, history, completion, and hints.

use std::borrow::Cow;
use std::path::PathBuf;

use rustyline::completion::{Completer, FilenameCompleter, Pair, unescape};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::command::{COMMANDS, shown};
use super::snapshots::{ACTIONS, Snapshots};

/// A prompt with a history.
pub struct Prompt {
    editor: Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    pub fn new() -> Result<Self, ReadlineError> {
        let mut editor = new_editor(DefaultHistory::default())?;
        let history = history_file();
        if let Some(file) = &history {
            editor.load_history(file).ok(); // There is none the first time.
        }
        Ok(Prompt { editor, history })
    }

    /// Forgets what was typed or pasted beyond the last line and read already. (Ctrl-C makes the terminal forget the
    /// rest.) The editor keeps it, and hands it over to nobody.
    pub fn forget_typed_ahead(&mut self) -> Result<(), ReadlineError> {
        let history = std::mem::take(self.editor.history_mut());
        self.editor = new_editor(history)?;
        Ok(())
    }

    /// Reads the next line; `None` at the end of input. An interrupted line is empty. The prompt names
    /// the snapshot that is in use.
    pub fn line(&mut self, snapshots: &Snapshots) -> Result<Option<String>, ReadlineError> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.snapshots = snapshots.names().cloned().collect();
        }
        let prompt = match snapshots.used() {
            Some(name) => format!("gpulsm ({})> ", shown(name)),
            None => "gpulsm> ".into(),
        };
        match self.editor.readline(&prompt) {
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

fn new_editor(history: DefaultHistory) -> Result<Editor<Assistant, DefaultHistory>, ReadlineError> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .auto_add_history(true)
        .build();
    let mut editor = Editor::with_history(config, history)?;
    editor.set_helper(Some(Assistant { files: FilenameCompleter::new(), snapshots: Vec::new() }));
    Ok(editor)
}

/// Returns the file of the history, as the XDG specification has it.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("gpulsm").join("history"))
}

/// Completes commands, their arguments and file names, and shows the arguments of a command.
struct Assistant {
    files: FilenameCompleter,
    /// The names of all snapshots.
    snapshots: Vec<String>,
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
        let start = begun.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let before: Vec<&str> = begun[..start].split_whitespace().collect();
        let commands = || COMMANDS.iter().map(|command| command.name);
        let snapshots = || self.snapshots.iter().map(String::as_str);
        let candidates = match before[..] {
            [] | ["help" | "?", ..] => beginning(&begun[start..], commands()),
            ["snapshot"] => beginning(&begun[start..], ACTIONS.iter().copied()),
            ["snapshot", "use" | "drop"] => beginning(&begun[start..], snapshots()),
            ["import" | "export" | "save" | "load", ..] => {
                let (start, files) = self.files.complete(line, place, context)?;
                return Ok((start, in_quotes(begun, files)));
            }
            _ => Vec::new(),
        };
        Ok((start, candidates))
    }
}

/// Returns the words that begin with a text, as candidates.
fn beginning<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Vec<Pair> {
    let candidate = |word: &str| Pair { display: word.into(), replacement: format!("{word} ") };
    words.filter(|word| word.starts_with(text)).map(candidate).collect()
}

/// Makes file names fit into the quotes that are open, if any: nothing is escaped there, and the only
/// candidate ends them, unless it is a folder.
fn in_quotes(begun: &str, mut files: Vec<Pair>) -> Vec<Pair> {
    let name = begun.trim_start().split_once(char::is_whitespace).map_or("", |(_, name)| name);
    let quote = name.trim_start().chars().next().filter(|first| ['"', '\''].contains(first));
    let Some(quote) = quote else { return files };
    for file in &mut files {
        file.replacement = unescape(&file.replacement, Some('\\')).into_owned();
    }
    if let [file] = &mut files[..]
        && !file.replacement.ends_with(std::path::MAIN_SEPARATOR)
    {
        file.replacement.push(quote);
    }
    files
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
