//! `save` and `load`: a dictionary in one file.

use std::path::Path;

use gpulsm::private::types_in;
use gpulsm_backends::dictionary::{AnyDictionary, Settings, open_at};
use gpulsm_backends::stored::{Origin, keys_missing};

use super::arguments;
use crate::progress::Bar;
use crate::shell::answer::Answer;
use crate::shell::command::counted;
use crate::shell::interrupt;
use crate::shell::type_options::{Mismatch, TypeOptions};
use crate::stored::{expect_parent, explain, is_saved, refuse_option, what_else};

/// Writes every pair into one file.
pub fn save(dictionary: &dyn AnyDictionary, line: &str) -> Result<Answer, String> {
    let (path, force) = arguments::saved(line)?;
    if path.is_dir() {
        return Err(format!("`{}` is a folder: name a file", path.display()));
    }
    if is_table_name(&path) {
        return Err(format!(
            "`{}` is the name of a table, which `export` writes: choose another ending, such as .gpulsm",
            path.display()
        ));
    }
    if path.exists() && !force {
        return Err(format!("`{}` exists: use --force to replace it", path.display()));
    }
    expect_parent(&path)?;
    let mut bar = Bar::new("saving").hidden_when(interrupt::is_pressed);
    let saved = dictionary.save(&path, &mut |done, total| bar.tell(done, total));
    saved.map_err(explain)?;
    let pairs = dictionary.len().map_err(|error| error.to_string())? as u64;
    Ok(Answer::FileSaved { pairs, bytes: path.metadata().map_or(0, |file| file.len()) })
}

/// Returns whether a name is that of a table, as `import` and `export` tell tables.
fn is_table_name(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".csv", ".tsv", ".tab", ".parquet"].iter().any(|ending| name.ends_with(ending))
}

/// Makes a dictionary what a saved file contains. In memory, it takes the file's types where no options give them.
pub fn load(
    dictionary: &mut Box<dyn AnyDictionary>,
    settings: &mut Settings,
    options: TypeOptions,
    line: &str,
) -> Result<Answer, String> {
    let (path, force) = arguments::saved(line)?;
    expect_saved(&path)?;
    let pairs = dictionary.len().map_err(|error| error.to_string())?;
    if pairs > 0 && !force {
        return Err(format!(
            "this dictionary has {}, which would be replaced: use --force, or `clear` first",
            counted(pairs, "pair")
        ));
    }
    let wanted = match dictionary.path() {
        None => settings_for(&path, settings.clone(), options)?,
        Some(_) => settings.clone(),
    };
    let mut bar = Bar::new("loading").hidden_when(interrupt::is_pressed);
    let origin = Origin::File(path);
    let loaded = open_at(wanted.clone(), &origin, &mut |done, total| bar.tell(done, total));
    let loaded = loaded.map_err(explain)?;
    drop(bar);
    let pairs = replace(dictionary, loaded).map_err(|error| error.to_string())?;
    let types = (wanted.types, wanted.combine);
    let before = std::mem::replace(settings, wanted);
    let new_types = (types != (before.types, before.combine)).then_some(types);
    Ok(Answer::FileLoaded { pairs, new_types })
}

/// Returns the settings of a shell once it has loaded a file.
fn settings_for(path: &Path, now: Settings, options: TypeOptions) -> Result<Settings, String> {
    let stored = types_in(path).map_err(explain)?;
    match options.of_files(&stored, path) {
        Ok((types, combine)) => Ok(Settings { types, combine, ..now }),
        Err(Mismatch::Unknown(what)) => Err(what),
        Err(Mismatch::Option { name, given, .. }) => Err(refuse_option(path, name, &given)),
    }
}

/// Says what reads a file that is no saved dictionary.
fn expect_saved(path: &Path) -> Result<(), String> {
    match what_else(path) {
        Some(other) => {
            Err(format!("{other}; tables (.csv, .parquet and others) are read by `import`"))
        }
        None => Ok(()),
    }
}

/// Says what reads a file that is no table.
pub fn expect_table(path: &Path) -> Result<(), String> {
    match is_saved(path) {
        true => Err(format!("`{}` is a saved dictionary: `load` reads it", path.display())),
        false => Ok(()),
    }
}

/// Puts another dictionary in the place of one; in a folder, as one batch. Returns how many pairs it has.
fn replace(
    dictionary: &mut Box<dyn AnyDictionary>,
    by: Box<dyn AnyDictionary>,
) -> Result<u64, gpulsm::Error> {
    let pairs = by.len()? as u64;
    if dictionary.path().is_none() {
        *dictionary = by;
    } else {
        let (old, (keys, values)) = (dictionary.columns()?.0, by.columns()?);
        dictionary.set((&keys, &values), &keys_missing(&old, &keys))?;
    }
    Ok(pairs)
}
