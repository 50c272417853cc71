//! What can be chosen when a file is read or written.

use std::convert::Infallible;
use std::str::FromStr;

use crate::{Step, Type};

/// How a file is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The type of keys.
    pub key: Type,
    /// The type of values; [`Type::None`] for a set.
    pub value: Type,
    /// The column of keys. Default: the one that is named `key`, or else the first, if there are no
    /// others than those of keys and values.
    pub key_column: Option<Choice>,
    /// The column of values. Default: the one that is named `value`, or else the second, if there are no
    /// others than those of keys and values.
    pub value_column: Option<Choice>,
    /// Whether the first line of a CSV file names the columns. Default: [`Header::Auto`].
    pub header: Header,
    /// What separates the fields of a CSV file. Default: a comma; a tab in .tsv and .tab files.
    pub separator: Option<Separator>,
    /// What to do with a row that lacks its key or value. Default: [`Missing::Error`].
    pub missing: Missing,
}

impl ReadOptions {
    /// Makes the default options for keys and values of these types.
    pub fn new(key: Type, value: Type) -> Self {
        ReadOptions {
            key,
            value,
            key_column: None,
            value_column: None,
            header: Header::Auto,
            separator: None,
            missing: Missing::Error,
        }
    }
}

/// How a file is written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// What separates the fields of a CSV file. Default: a comma; a tab in .tsv and .tab files.
    pub separator: Option<Separator>,
    /// Whether an existing file may be replaced. Default: no.
    pub force: bool,
    /// If keys of [`Type::I64`] are timestamps without a time zone, what they count. Default: they are
    /// numbers.
    pub key_times: Option<Step>,
    /// The same of values.
    pub value_times: Option<Step>,
}

/// A column of a file. Parsed from text, digits are a number and anything else is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The column of this name: as it is written or, if there is none, in upper or lower case.
    Name(String),
    /// The column at this place, counted from 1.
    Number(usize),
}

impl FromStr for Choice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Choice::Name(text.into()), Choice::Number))
    }
}

/// Whether the first line of a CSV file names its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It does.
    Yes,
    /// It is a row as any other.
    No,
    /// It does if columns are chosen by name, if it has the names `key` and `value`, or if it consists
    /// of words. (Of a single column of floats only `key` is a header: another word may be a misspelt
    /// `inf` or `NaN`.)
    Auto,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yes" => Ok(Header::Yes),
            "no" => Ok(Header::No),
            "auto" => Ok(Header::Auto),
            _ => Err("expected yes, no or auto".into()),
        }
    }
}

/// What to do with a row that lacks its key or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Refuse the file.
    Error,
    /// Skip the row, and count it.
    Skip,
}

impl FromStr for Missing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Missing::Error),
            "skip" => Ok(Missing::Skip),
            _ => Err("expected error or skip".into()),
        }
    }
}

/// What separates the fields of a line: an ASCII character that no number contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Separator(u8);

impl Separator {
    pub(crate) const COMMA: Separator = Separator(b',');
    pub(crate) const TAB: Separator = Separator(b'\t');

    /// Returns the separator, unless lines or numbers may contain this byte.
    pub fn new(byte: u8) -> Option<Self> {
        let is_taken = byte.is_ascii_alphanumeric() || b"+-.\"\r\n".contains(&byte);
        (byte.is_ascii() && !is_taken).then_some(Separator(byte))
    }

    pub(crate) fn byte(self) -> u8 {
        self.0
    }
}

/// Parses a single character, or `tab` or `space`.
impl FromStr for Separator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = match text.as_bytes() {
            b"tab" | b"\\t" => Some(b'\t'),
            b"space" => Some(b' '),
            &[byte] => Some(byte),
            _ => None,
        };
        byte.and_then(Separator::new).ok_or_else(|| {
            "expected one ASCII character that numbers don't contain, such as , or ;, or tab or space"
                .into()
        })
    }
}

impl std::fmt::Display for Separator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            b'\t' => f.write_str("tab"),
            b' ' => f.write_str("space"),
            byte => byte.escape_ascii().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_from_words() {
        assert_eq!("3".parse(), Ok(Choice::Number(3)));
        assert_eq!("3rd".parse(), Ok(Choice::Name("3rd".into())));
        assert_eq!("auto".parse(), Ok(Header::Auto));
        assert!("maybe".parse::<Header>().is_err());
        assert_eq!("skip".parse(), Ok(Missing::Skip));
        assert!("drop".parse::<Missing>().is_err());
    }

    #[test]
    fn a_separator_is_one_character_that_numbers_lack() {
        for (text, byte) in
            [(",", b','), (";", b';'), ("tab", b'\t'), ("\\t", b'\t'), ("\t", b'\t'), ("|", b'|')]
        {
            assert_eq!(text.parse::<Separator>().map(Separator::byte), Ok(byte), "{text}");
        }
        for text in ["", ";;", "§", "1", "-", ".", "e", "\"", "\n"] {
            assert!(text.parse::<Separator>().is_err(), "{text}");
        }
        assert_eq!(Separator::TAB.to_string(), "tab");
    }
}
