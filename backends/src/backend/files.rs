//! Dictionaries in files, for both devices.

use std::path::Path;

use gpulsm::{Builder, Durability};

use super::{Outcome, dictionary};
use crate::dictionary::AnyDictionary;
use crate::numbers::{BenchKey, BenchValue};

/// How a dictionary that lives in a folder is opened.
#[derive(Clone, Copy, Debug)]
pub struct InFolder<'a> {
    pub path: &'a Path,
    pub durability: Durability,
    pub log_limit: Option<u64>,
}

/// Saves a dictionary as one file.
pub fn save<K: BenchKey, V: BenchValue>(any: &dyn AnyDictionary, path: &Path) -> Outcome<()> {
    Ok(dictionary::<K, V>(any).save(path)?)
}

/// Loads a dictionary from one file.
pub fn load<K: BenchKey, V: BenchValue>(
    builder: Builder<K, V>,
    path: &Path,
) -> Outcome<Box<dyn AnyDictionary>> {
    Ok(Box::new(builder.load(path)?))
}

/// Opens the dictionary that lives in a folder.
pub fn open<K: BenchKey, V: BenchValue>(
    builder: Builder<K, V>,
    folder: InFolder<'_>,
) -> Outcome<Box<dyn AnyDictionary>> {
    let builder = builder.durability(folder.durability);
    let builder = match folder.log_limit {
        Some(bytes) => builder.log_limit(bytes),
        None => builder,
    };
    Ok(Box::new(builder.open(folder.path)?))
}
