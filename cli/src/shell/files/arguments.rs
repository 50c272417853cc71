//! The arguments of `import`, `export`, `save` and `load`: the name of a file, and options before or after it.

use std::fmt::Display;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use gpulsm_backends::types::Types;
use gpulsm_tables::{RowOptions, WriteOptions};
use rustyline::completion::unescape;

use crate::shell::command::{counted, shown};

/// Parses the line of an import.
pub fn import(line: &str, types: Types) -> Result<(PathBuf, RowOptions), String> {
    let known = ["--key-column", "--value-column", "--header", "--separator", "--missing"];
    let (path, options) = parse(line, &known)?;
    let mut read = defaults(types);
    for option in options {
        match option.name {
            "--key-column" => read.key_columns.push(option.value()?),
            "--value-column" => read.value_column = Some(option.value()?),
            "--header" => read.header = option.value()?,
            "--separator" => read.separator = Some(option.value()?),
            _ => read.missing = option.value()?,
        }
    }
    let (given, parts) = (read.key_columns.len(), read.keys.len());
    if given > 0 && given != parts {
        let (given, parts) = (counted(given, "column"), counted(parts, "part"));
        return Err(format!(
            "--key-column: {given}, where keys have {parts}; give it once for each"
        ));
    }
    Ok((path, read))
}

/// Returns the options of an import that has none.
pub fn defaults(types: Types) -> RowOptions {
    let parts = types.key.parts().iter().map(|part| part.field());
    RowOptions::new(parts.collect(), types.value.into())
}

/// Parses the line of an export.
pub fn export(line: &str) -> Result<(PathBuf, WriteOptions), String> {
    let (path, options) = parse(line, &[FORCE, "--separator"])?;
    let mut write = WriteOptions::default();
    for option in options {
        match option.name {
            FORCE => write.force = true,
            _ => write.separator = Some(option.value()?),
        }
    }
    Ok((path, write))
}

/// Parses the line of a `save` or a `load`: the file, and whether what is there may be replaced.
pub fn saved(line: &str) -> Result<(PathBuf, bool), String> {
    let (path, options) = parse(line, &[FORCE])?;
    Ok((path, !options.is_empty()))
}

/// The only option that no value follows.
const FORCE: &str = "--force";

/// An option with its value, or none.
struct Given<'a> {
    name: &'a str,
    text: String,
}

impl Given<'_> {
    fn value<T: FromStr<Err: Display>>(&self) -> Result<T, String> {
        let value = self.text.parse::<T>();
        value.map_err(|error| format!("{} {}: {error}", self.name, shown(&self.text)))
    }
}

/// Splits a line into the name of a file, which may contain spaces, and options that are known.
fn parse<'a>(line: &'a str, known: &[&str]) -> Result<(PathBuf, Vec<Given<'a>>), String> {
    let is_option = |word: &Range<usize>| word.len() > 1 && line[word.clone()].starts_with('-');
    let mut words = split(line)?.into_iter().skip(1).peekable();
    let (mut path, mut options) = (None::<Range<usize>>, Vec::new());
    while let Some(word) = words.next() {
        let text = &line[word.clone()];
        if is_option(&word) {
            let (name, inline) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(format!("`{}`: no such option; there are {known}", shown(name)));
            }
            let text = match inline {
                Some(value) => plain(value),
                None if name == FORCE => String::new(),
                None => match words.next() {
                    Some(value) => plain(&line[value]),
                    None => return Err(format!("`{name}`: its value is missing")),
                },
            };
            options.push(Given { name, text });
        } else if path.is_none() {
            // Until an option comes, spaces belong to the name.
            let mut end = word.end;
            while let Some(next) = words.next_if(|next| !is_option(next)) {
                end = next.end;
            }
            path = Some(word.start..end);
        } else {
            return Err(format!("`{}`: one file too many", shown(text)));
        }
    }
    let path = path.ok_or("the name of a file is missing")?;
    Ok((from_home(&plain(&line[path])), options))
}

/// Finds the words of a line. One may be in quotes, as may be what follows the = of an option, and
/// a backslash joins the next character to its word.
fn split(line: &str) -> Result<Vec<Range<usize>>, String> {
    let mut words = Vec::new();
    let mut letters = line.char_indices().peekable();
    while let Some(&(start, _)) = letters.peek() {
        let (mut quote, mut before) = (None, ' ');
        let mut end = start;
        while let Some((at, letter)) =
            letters.next_if(|(_, it)| quote.is_some() || !it.is_whitespace())
        {
            end = at + letter.len_utf8();
            let opens = at == start || before == '=' && line[start..].starts_with("--");
            match quote {
                Some(open) if open == letter => quote = None,
                None if opens && matches!(letter, '"' | '\'') => quote = Some(letter),
                None if letter == '\\' && !cfg!(windows) => {
                    end = letters.next().map_or(end, |(at, next)| at + next.len_utf8());
                }
                _ => {}
            }
            before = letter;
        }
        if quote.is_some() {
            return Err(format!("`{}`: a quote is not closed", shown(&line[start..])));
        }
        if end > start {
            words.push(start..end);
        }
        letters.next();
    }
    Ok(words)
}

/// Removes quotes, or backslashes as completion writes them.
fn plain(text: &str) -> String {
    let quoted =
        ['"', '\''].iter().find_map(|&quote| text.strip_prefix(quote)?.strip_suffix(quote));
    match quoted {
        Some(text) => text.into(),
        None if cfg!(windows) => text.into(),
        None => unescape(text, Some('\\')).into_owned(),
    }
}

/// Replaces `~/` by the home folder.
fn from_home(name: &str) -> PathBuf {
    let home = name.strip_prefix("~/").zip(std::env::var_os("HOME"));
    home.map_or_else(|| PathBuf::from(name), |(rest, home)| PathBuf::from(home).join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Options<'a> = Vec<(&'a str, String)>;

    fn parsed(line: &str) -> Result<(String, Options<'_>), String> {
        let (path, options) = parse(line, &["--header", "--separator", "--key-column", FORCE])?;
        let options = options.into_iter().map(|option| (option.name, option.text)).collect();
        Ok((path.to_str().expect("UTF-8").into(), options))
    }

    #[test]
    fn names_and_options_come_in_any_order_with_or_without_quotes() {
        let check = |line: &'static str, path: &str, options: &[(&str, &str)]| {
            let options = options.iter().map(|&(name, text)| (name, text.into())).collect();
            assert_eq!(parsed(line), Ok((path.into(), options)), "{line}");
        };
        check(" import a.csv ", "a.csv", &[]);
        check("import two  words.csv", "two  words.csv", &[]);
        check("import \"two words.csv\" --header yes", "two words.csv", &[("--header", "yes")]);
        check("import it's.csv", "it's.csv", &[]);
        check("import --separator=; a.csv", "a.csv", &[("--separator", ";")]);
        check("import --key-column='user id' a b.csv", "a b.csv", &[("--key-column", "user id")]);
        check("import a.csv --key-column \"user id\"", "a.csv", &[("--key-column", "user id")]);
        check("export --force a.csv", "a.csv", &[("--force", "")]);
        check("export \"--odd.csv\"", "--odd.csv", &[]);
        if !cfg!(windows) {
            check("import two\\ words.csv", "two words.csv", &[]);
            check("import a.csv --key-column user\\ id", "a.csv", &[("--key-column", "user id")]);
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, what) in [
            ("import --header yes", "the name of a file is missing"),
            ("import a.csv --header", "`--header`: its value is missing"),
            ("import a.csv --heder yes", "`--heder`: no such option; there are --header, "),
            ("import a.csv -f", "`-f`: no such option"),
            ("import a.csv --header yes b.csv", "`b.csv`: one file too many"),
            ("import \"a.csv", "a quote is not closed"),
            ("import a.csv --key-column='x", "a quote is not closed"),
        ] {
            assert!(parsed(line).is_err_and(|error| error.contains(what)), "{:?}", parsed(line));
        }
    }
}
