//! Dictionaries in files: how the types of this program are named there, and where a dictionary comes from.

use std::path::PathBuf;

use clap::ValueEnum;
use gpulsm::Durability;
use gpulsm::private::{self, Encoding, StoredTypes};

use crate::types::{Column, KeyType, Part, Types, ValueType};

/// Where a dictionary comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// It is new, and in memory.
    Nothing,
    /// It lives in a folder, which is created if it is missing.
    Folder { path: PathBuf, durability: Durability, log_limit: Option<u64> },
    /// A saved file is loaded into memory.
    File(PathBuf),
}

/// Returns the types as files name them.
pub fn stored_types(types: Types) -> StoredTypes {
    let key = types.key.parts().iter().map(|&part| stored_part(part)).collect();
    StoredTypes { key, value: stored_value(types.value).into(), notes: Vec::new() }
}

fn stored_part(part: Part) -> private::Part {
    let width = part.bits() as usize / 8;
    match part {
        Part::U32 | Part::U64 | Part::U128 => private::Part::Number(Encoding::Unsigned, width),
        Part::I32 | Part::I64 | Part::I128 => private::Part::Number(Encoding::Signed, width),
        Part::F32 | Part::F64 => private::Part::Number(Encoding::Float, width),
        Part::Bytes(_) => private::Part::Bytes(width),
    }
}

fn stored_value(value: ValueType) -> &'static str {
    match value {
        ValueType::None => "()",
        ValueType::U32 => "u32",
        ValueType::U64 => "u64",
        ValueType::I32 => "i32",
        ValueType::I64 => "i64",
        ValueType::F32 => "f32",
        ValueType::F64 => "f64",
        ValueType::U128 => "u128",
    }
}

/// Returns the type of keys that files name so, as Rust writes it, or why this program has no such type.
pub fn key_named(name: &str) -> Result<KeyType, String> {
    let parts = name.strip_prefix('(').and_then(|parts| parts.strip_suffix(')')).unwrap_or(name);
    let part = |name: &str| match name.strip_prefix("[u8; ").and_then(|len| len.strip_suffix(']')) {
        Some(len) => format!("bytes{len}").parse(),
        None => name.parse(),
    };
    KeyType::new(&parts.split(", ").map(part).collect::<Result<Vec<Part>, _>>()?)
}

/// Returns the type of keys that have these parts in files, or why this program has no such type.
pub fn key_of_parts(parts: &[private::Part]) -> Result<KeyType, String> {
    let part = |&stored: &private::Part| match stored {
        private::Part::Bytes(len) => format!("bytes{len}").parse(),
        private::Part::Number(_, width) => Part::NUMBERS
            .into_iter()
            .find(|&number| stored_part(number) == stored)
            .ok_or_else(|| format!("there are no numbers of {width} bytes in keys")),
    };
    KeyType::new(&parts.iter().map(part).collect::<Result<Vec<Part>, _>>()?)
}

/// Returns the type of values that files name so; `None` if this program has no such type.
pub fn value_named(name: &str) -> Option<ValueType> {
    ValueType::value_variants().iter().copied().find(|&value| stored_value(value) == name)
}

/// Returns the keys of one sorted column that another one lacks.
pub fn keys_missing(keys: &Column, from: &Column) -> Column {
    let mut missing = keys.clone();
    missing.clear();
    let mut others = from.iter().peekable();
    for key in keys.iter() {
        while others.next_if(|&other| other < key).is_some() {}
        if others.peek() != Some(&key) {
            missing.push(key);
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::{Settings, open_at};
    use gpulsm::{Combine, Device, Dictionary};

    #[test]
    fn types_come_back_from_their_names_in_files() {
        for (name, of) in [
            ("u32", "u32"),
            ("i128", "i128"),
            ("[u8; 12]", "bytes12"),
            ("(u32, i64)", "u32,i64"),
            ("(f32, [u8; 3], u64)", "f32,bytes3,u64"),
        ] {
            assert_eq!(key_named(name).unwrap().to_string(), of);
        }
        assert!(key_named("(u32, u16)").is_err_and(|error| error.contains("`u16`")));
        for &value in ValueType::value_variants() {
            assert_eq!(value_named(stored_value(value)), Some(value));
        }
        assert_eq!(value_named("[f32; 4]"), None);
    }

    #[test]
    fn a_folder_is_opened_with_the_types_of_rust() {
        let folder = std::env::temp_dir().join(format!("gpulsm-stored-{}", std::process::id()));
        let mut rust = Dictionary::<(i32, [u8; 3]), f32>::builder().open(&folder).unwrap();
        rust.insert_one((-7, *b"abc"), 0.5).unwrap();
        rust.close().unwrap();
        let info = gpulsm::files::info(&folder).unwrap();
        let types =
            Types { key: key_named(&info.key).unwrap(), value: value_named(&info.value).unwrap() };
        let origin =
            Origin::Folder { path: folder.clone(), durability: Durability::Batch, log_limit: None };
        let (combine, device) = (Combine::Replace, Device::cpu());
        let settings = Settings {
            types,
            combine,
            devices: device.into(),
            batch_size: None,
            memory_limit: None,
        };
        let mut opened = open_at(settings, &origin, &mut |_, _| ()).unwrap();
        let (keys, values) = opened.columns().unwrap();
        assert_eq!(types.key.key(keys.get(0)).to_string(), "-7:abc");
        assert_eq!(types.value.decode(values.get(0)).to_string(), "0.5");
        assert_eq!(opened.path(), Some(&*folder));
        opened.close().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn keys_that_another_column_lacks_are_found() {
        let column = |keys: &[u32]| Column::U32(keys.to_vec());
        let missing = keys_missing(&column(&[1, 2, 5, 9]), &column(&[0, 2, 3, 9, 10]));
        assert_eq!(missing, column(&[1, 5]));
        assert_eq!(keys_missing(&column(&[1]), &column(&[])), column(&[1]));
        assert_eq!(keys_missing(&column(&[]), &column(&[1])), column(&[]));
    }
}
