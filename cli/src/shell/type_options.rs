//! The types of a dictionary: those that options give, and those of files.

use std::path::Path;

use clap::Args;
use gpulsm::Combine;
use gpulsm::private::FileTypes;
use gpulsm_backends::types::{KeyType, Part, Rule, Type, Types, ValueType};

use crate::key_type::KeyTypeParser;
use crate::stored::{key_of, value_of};

/// What the program's arguments say of the types. Where they say nothing, those of files are taken.
#[derive(Args, Clone, Copy)]
pub struct TypeOptions {
    /// The type of keys: u32, u64, u128, i32, i64, i128, f32, f64, bytes1 to bytes16, or two to four of these
    /// with commas between them, of at most 16 bytes in all. Default: that of the files, else u32
    #[arg(long, value_name = "TYPE[,TYPE…]", value_parser = KeyTypeParser, hide_possible_values = true)]
    key: Option<KeyType>,

    /// The type of values; none for a set. Default: that of the files, else u32
    #[arg(long, value_enum)]
    value: Option<ValueType>,

    /// What an insert does to a key that is already there. Default: that of the files, else replace
    #[arg(long, value_enum, value_name = "RULE")]
    combine: Option<Rule>,
}

/// Why the types of files cannot be taken.
pub enum Mismatch {
    /// An option says something else.
    Option { name: &'static str, given: String, stored: String },
    /// This program lacks a type, or doesn't know which it is.
    Unknown(String),
}

impl TypeOptions {
    pub fn gives_key(&self) -> bool {
        self.key.is_some()
    }

    pub fn gives_value(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the types and the rule of a new dictionary.
    pub fn of_new(&self) -> (Types, Combine) {
        let key = self.key.unwrap_or(Part::U32.into());
        let value = self.value.unwrap_or(ValueType::U32);
        (Types { key, value }, self.combine.unwrap_or(Rule::Replace).into())
    }

    /// Returns the types and the rule of a dictionary in files.
    pub fn of_files(&self, stored: &FileTypes, path: &Path) -> Result<(Types, Combine), Mismatch> {
        let key = key_of(stored, path).map_err(Mismatch::Unknown)?;
        expect_same("key", self.key, key, |key| key.to_string())?;
        let value = match self.value {
            // The file doesn't say what its values are.
            Some(given) if stored.stored.value.is_empty() => given,
            _ => value_of(stored, path).map_err(Mismatch::Unknown)?,
        };
        expect_same("value", self.value, value, |value| Type::from(value).name().into())?;
        let given = self.combine.map(Combine::from);
        expect_same("combine", given, stored.rule, |rule| rule.name().into())?;
        Ok((Types { key, value }, stored.rule))
    }
}

fn expect_same<T: PartialEq + Copy>(
    name: &'static str,
    given: Option<T>,
    stored: T,
    text: impl Fn(T) -> String,
) -> Result<(), Mismatch> {
    match given {
        Some(given) if given != stored => {
            Err(Mismatch::Option { name, given: text(given), stored: text(stored) })
        }
        _ => Ok(()),
    }
}

/// Says for people which types a dictionary has.
pub fn describe(types: Types, combine: Combine) -> String {
    let text = match types.value {
        ValueType::None => format!("a set of {} keys", types.key),
        value => format!("{} keys, {} values", types.key, Type::from(value).name()),
    };
    match combine {
        Combine::Replace => text,
        rule => format!("{text}, combined by {}", rule.name()),
    }
}
