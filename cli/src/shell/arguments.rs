//! Checks of a command's arguments, with messages that name the word in question.

use gpulsm::Direction;
use gpulsm_backends::asof::{AsOf, tolerance_type};
use gpulsm_backends::types::{Field, KeyType, Scalar};

use super::answer::Answer;
use super::command::{COMMANDS, Word, advice};
use super::failure::{Code, Failure};

pub fn unknown_command(command: Word<'_>) -> Failure {
    let wrong = command.wrong(format!("no such command; {}", advice(command.text)));
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

/// Takes `--direction D`, `--tolerance T` and `--strict` out of arguments: returns the others, and the query.
pub fn take_asof<'a>(
    command: Word<'_>,
    args: &[Word<'a>],
    key: KeyType,
) -> Result<(Vec<Word<'a>>, AsOf), Failure> {
    let Some(tolerance_type) = tolerance_type(key) else {
        return Err(command.wrong(format!("keys must end with a number, and these are {key}")));
    };
    let mut query = AsOf { direction: Direction::Backward, tolerance: None, is_strict: false };
    let (mut others, mut args) = (Vec::new(), args.iter());
    while let Some(&word) = args.next() {
        let mut value = || args.next().ok_or_else(|| word.wrong("its value is missing"));
        match word.text {
            "--direction" => query.direction = direction(*value()?)?,
            "--tolerance" => query.tolerance = Some(tolerance(*value()?, tolerance_type)?),
            "--strict" => query.is_strict = true,
            text if text.starts_with("--") => {
                return Err(word.wrong(
                    "no such option; there are --direction backward|forward|nearest, --tolerance T and --strict",
                ));
            }
            // No key is written like this.
            text if direction(word).is_ok() => {
                let cure = format!("a direction stands behind its option: --direction {text}");
                return Err(word.wrong(cure));
            }
            _ => others.push(word),
        }
    }
    Ok((others, query))
}

fn direction(word: Word<'_>) -> Result<Direction, Failure> {
    match word.text {
        "backward" => Ok(Direction::Backward),
        "forward" => Ok(Direction::Forward),
        "nearest" => Ok(Direction::Nearest),
        _ => Err(word.wrong("expected backward, forward or nearest")),
    }
}

/// Parses how far a key may be from the question: 0 or more.
fn tolerance(word: Word<'_>, of: Field) -> Result<Scalar, Failure> {
    let tolerance = of.parse(word.text).map_err(|error| word.wrong(error))?;
    let is_distance = match tolerance {
        Scalar::Single(number) => number >= 0.0,
        Scalar::Double(number) => number >= 0.0,
        _ => true,
    };
    match is_distance {
        true => Ok(tolerance),
        false => Err(word.wrong("a tolerance is 0 or more")),
    }
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
