//! The argument `--key`: a type of keys, or several for keys of several parts.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use gpulsm_backends::types::{KeyType, Part};

/// Parses types of keys. Completion offers those of one number.
#[derive(Clone)]
pub struct KeyTypeParser;

impl TypedValueParser for KeyTypeParser {
    type Value = KeyType;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        text: &OsStr,
    ) -> Result<KeyType, Error> {
        let text = text.to_string_lossy();
        text.parse().map_err(|error: String| {
            let argument = argument.map(Arg::to_string).unwrap_or_default();
            let numbers = Part::NUMBERS.map(|number| number.to_string()).join(", ");
            let message = format!(
                "invalid value '{text}' for '{argument}': {error}; types are {numbers} and bytes1 to bytes16, and \
                 commas stand between those of a key of several parts, as in u32,i64\n"
            );
            Error::raw(ErrorKind::InvalidValue, message).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            Part::NUMBERS.into_iter().map(|number| PossibleValue::new(number.to_string())),
        ))
    }
}
