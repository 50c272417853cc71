//! `import` and `export`.

mod arguments;
mod report;

use std::path::Path;

use gpulsm_tables::{Error, ReadOptions};

use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::types::Types;
pub use report::Imported;

/// Inserts the rows of a file as one batch.
pub fn import(
    dictionary: &mut dyn AnyDictionary,
    types: Types,
    line: &str,
) -> Result<Imported, String> {
    let (path, options) = arguments::import(line, types)?;
    insert(dictionary, types, &path, &options)
}

/// Inserts the rows of a file as one batch, with the default options.
pub fn import_file(
    dictionary: &mut dyn AnyDictionary,
    types: Types,
    path: &Path,
) -> Result<Imported, String> {
    let options = ReadOptions::new(types.key.into(), types.value.into());
    insert(dictionary, types, path, &options).map_err(|error| {
        // `--import` itself takes no options.
        match IMPORT_HINTS.iter().any(|(_, flag)| error.contains(flag)) {
            true => format!("{error}: the command `import FILE [OPTION …]` takes it"),
            false => error,
        }
    })
}

/// What messages about files advise, and the options of the command `import` that do it.
const IMPORT_HINTS: [(&str, &str); 5] = [
    ("(option key-column)", "(--key-column)"),
    ("(option value-column)", "(--value-column)"),
    ("(option separator)", "(--separator)"),
    ("use the option header=yes", "use --header yes"),
    ("use the option missing=skip", "use --missing skip"),
];

/// Writes an error in the words of this program.
fn explain(error: &Error) -> String {
    let others = [
        ("(option value=none)", "(`gpulsm shell --value none`)"),
        ("use the option force", "use --force"),
    ];
    let hints = IMPORT_HINTS.iter().chain(&others);
    hints.fold(error.to_string(), |text, (hint, option)| text.replace(hint, option))
}

fn insert(
    dictionary: &mut dyn AnyDictionary,
    types: Types,
    path: &Path,
    options: &ReadOptions,
) -> Result<Imported, String> {
    let table = gpulsm_tables::read(path, options).map_err(|error| explain(&error))?;
    let mut imported = Imported::new(&table, dictionary.combine());
    let (keys, values) = (types.key.ordered(table.keys), types.value.bits(table.values));
    let before = dictionary.len().map_err(|error| error.to_string())?;
    let inserts = (&keys, &values);
    dictionary.update(inserts, &types.key.column()).map_err(|error| error.to_string())?;
    let after = dictionary.len();
    let after = after.map_err(|error| format!("imported, but it can't be counted: {error}"))?;
    imported.set_added((after - before) as u64);
    Ok(imported)
}

/// Writes every pair to a file; returns how many there are.
pub fn export(dictionary: &dyn AnyDictionary, types: Types, line: &str) -> Result<u64, String> {
    let (path, options) = arguments::export(line)?;
    let (keys, values) = dictionary.columns().map_err(|error| error.to_string())?;
    let (keys, values) = (types.key.numbers(keys), types.value.numbers(values));
    gpulsm_tables::write(&path, &keys, &values, &options).map_err(|error| explain(&error))?;
    Ok(keys.len() as u64)
}
