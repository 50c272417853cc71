//! Checks of a command's arguments, with messages that name the word in question.

use super::answer::Answer;
use super::command::{COMMANDS, Word, nearest};
use super::failure::{Code, Failure};

pub fn unknown_command(command: Word<'_>) -> Failure {
    let guess = match nearest(command.text) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`help` lists them".into(),
    };
    let wrong = command.wrong(format!("no such command; {guess}"));
    Failure { code: Code::UnknownCommand, ..wrong }
}

pub fn expect_no_args(args: &[Word<'_>]) -> Result<(), Failure> {
    match args.first() {
        Some(word) => Err(word.wrong("unexpected: this command takes no arguments; leave it out")),
        None => Ok(()),
    }
}

/// Expects at least one argument.
pub fn expect_args(command: Word<'_>, args: &[Word<'_>]) -> Result<(), Failure> {
    match args {
        [] => Err(command.wrong(format!("arguments are missing: {}", command.usage()))),
        _ => Ok(()),
    }
}

/// Expects this many arguments.
pub fn expect_exactly<'a, const N: usize>(
    command: Word<'a>,
    args: &[Word<'a>],
) -> Result<[Word<'a>; N], Failure> {
    if let Some(word) = args.get(N) {
        return Err(word.wrong(format!("one argument too many: {}", command.usage())));
    }
    let args = args.try_into();
    args.map_err(|_| command.wrong(format!("arguments are missing: {}", command.usage())))
}

/// Expects pairs of arguments, at least one. `what` says what lacks its second half.
pub fn expect_pairs<'a>(
    command: Word<'a>,
    args: &'a [Word<'a>],
    what: &str,
) -> Result<&'a [[Word<'a>; 2]], Failure> {
    expect_args(command, args)?;
    match args.as_chunks() {
        (pairs, []) => Ok(pairs),
        (_, [last, ..]) => Err(last.wrong(what)),
    }
}

/// Takes `--limit N` out of arguments: returns the others, and N if it is given (`None` for all).
pub fn take_limit<'a>(args: &[Word<'a>]) -> Result<(Vec<Word<'a>>, Option<Option<u64>>), Failure> {
    if let Some(word) = args.iter().find(|it| it.text.starts_with("--") && it.text != "--limit") {
        return Err(word.wrong("no such option; there is --limit N|all"));
    }
    let Some(at) = args.iter().position(|word| word.text == "--limit") else {
        return Ok((args.to_vec(), None));
    };
    let wanted = "a limit is a number of pairs from 1 on, or `all`";
    let number = args.get(at + 1).ok_or_else(|| args[at].wrong(wanted))?;
    let limit = match number.text {
        "all" => None,
        text => {
            Some(text.parse().ok().filter(|&limit| limit > 0).ok_or_else(|| number.wrong(wanted))?)
        }
    };
    Ok(([&args[..at], &args[at + 2..]].concat(), Some(limit)))
}

/// Describes the commands that are named, or all of them.
pub fn help(args: &[Word<'_>]) -> Result<Answer, Failure> {
    if args.is_empty() {
        return Ok(Answer::Help(COMMANDS.iter().collect()));
    }
    let named = |word: &Word<'_>| {
        let command = COMMANDS.iter().find(|command| command.name == word.text);
        command.ok_or_else(|| unknown_command(*word))
    };
    args.iter().map(named).collect::<Result<_, _>>().map(Answer::Help)
}
