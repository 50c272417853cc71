//! `import` and `export`.

mod arguments;
mod report;

use crate::dictionary::AnyDictionary;
use crate::types::Types;
pub use report::Imported;

/// Inserts the rows of a file as one batch.
pub fn import(
    dictionary: &mut dyn AnyDictionary,
    types: Types,
    line: &str,
) -> Result<Imported, String> {
    let (path, options) = arguments::import(line, types)?;
    let table = gpulsm_tables::read(&path, &options).map_err(|error| error.to_string())?;
    let mut imported = Imported::new(&table);
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
    gpulsm_tables::write(&path, &keys, &values, &options).map_err(|error| error.to_string())?;
    Ok(keys.len() as u64)
}
