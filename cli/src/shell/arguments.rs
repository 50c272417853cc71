//! Checks of a command's arguments, with messages that name the word in question.

use super::answer::Answer;
use super::command::{COMMANDS, Word, nearest};

pub fn unknown_command(command: Word<'_>) -> String {
    let guess = match nearest(command.text) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`help` lists them".into(),
    };
    command.wrong(format!("no such command; {guess}"))
}

/// Returns how a command is used.
fn usage(command: Word<'_>) -> String {
    let usage = COMMANDS.iter().find(|usage| usage.name == command.text);
    usage.map_or_else(String::new, |usage| format!("{} {}", usage.name, usage.words))
}

pub fn expect_no_args(args: &[Word<'_>]) -> Result<(), String> {
    match args.first() {
        Some(word) => Err(word.wrong("unexpected: this command takes no arguments")),
        None => Ok(()),
    }
}

/// Expects at least one argument.
pub fn expect_args(command: Word<'_>, args: &[Word<'_>]) -> Result<(), String> {
    match args {
        [] => Err(command.wrong(format!("arguments are missing: {}", usage(command)))),
        _ => Ok(()),
    }
}

/// Expects this many arguments.
pub fn expect_exactly<'a, const N: usize>(
    command: Word<'a>,
    args: &[Word<'a>],
) -> Result<[Word<'a>; N], String> {
    if let Some(word) = args.get(N) {
        return Err(word.wrong(format!("one argument too many: {}", usage(command))));
    }
    let args = args.try_into();
    args.map_err(|_| command.wrong(format!("arguments are missing: {}", usage(command))))
}

/// Describes the commands that are named, or all of them.
pub fn help(args: &[Word<'_>]) -> Result<Answer, String> {
    if args.is_empty() {
        return Ok(Answer::Help(COMMANDS.iter().collect()));
    }
    let named = |word: &Word<'_>| {
        let command = COMMANDS.iter().find(|command| command.name == word.text);
        command.ok_or_else(|| unknown_command(*word))
    };
    args.iter().map(named).collect::<Result<_, _>>().map(Answer::Help)
}
