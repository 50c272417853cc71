//! `import` and `export` of tables, `save` and `load` of dictionaries.

mod arguments;
mod report;
mod saved;

use std::path::Path;

use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::types::{Column, Types, ValueType};
use gpulsm_tables::{Error, Field, RowNotes, RowOptions, WriteColumn};

use crate::stored::expect_parent;

pub use report::Imported;
pub use saved::{load, save};

/// The rows of a table.
pub struct Rows {
    types: Types,
    keys: Column,
    values: Column,
    notes: RowNotes,
}

/// Reads the file that the line of an import names.
pub fn read(types: Types, line: &str) -> Result<Rows, String> {
    let (path, options) = arguments::import(line, types)?;
    read_table(types, &path, &options)
}

/// Reads a file with the default options.
pub fn read_file(types: Types, path: &Path) -> Result<Rows, String> {
    read_table(types, path, &arguments::defaults(types)).map_err(|error| {
        // `--import` itself takes no options.
        match IMPORT_HINTS.iter().any(|(_, flag)| error.contains(flag)) {
            true => format!("{error}: the command `import FILE [OPTION …]` takes it"),
            false => error,
        }
    })
}

/// What messages about files advise, and the options of the command `import` that do it.
const IMPORT_HINTS: [(&str, &str); 6] = [
    ("(option key-column)", "(--key-column)"),
    ("(option key-column, given for each part)", "(--key-column, given for each part)"),
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

fn read_table(types: Types, path: &Path, options: &RowOptions) -> Result<Rows, String> {
    saved::expect_table(path)?;
    let (mut keys, mut values) = (types.key.column(), types.value.column());
    let notes = gpulsm_tables::read_rows(path, options, &mut |key, value| {
        keys.push(types.key.encode(key.iter().copied()));
        values.push(types.value.encode(value));
    });
    let notes = notes.map_err(|error| explain(&error))?;
    Ok(Rows { types, keys, values, notes })
}

/// Inserts rows as one batch.
pub fn insert(dictionary: &mut dyn AnyDictionary, rows: Rows) -> Result<Imported, String> {
    let Rows { types, keys, values, notes } = rows;
    let mut imported = Imported::new(notes, types, dictionary.combine());
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
    expect_parent(&path)?;
    let (keys, values) = dictionary.columns().map_err(|error| error.to_string())?;
    let parts = types.key.parts();
    let part = |index: usize| {
        let (keys, key) = (&keys, &types.key);
        move |row: usize| key.decode(keys.get(row)).nth(index).expect("a key has its parts")
    };
    let parts_of_rows: Vec<_> = (0..parts.len()).map(part).collect();
    let value = |row: usize| types.value.decode(values.get(row));
    let mut columns: Vec<WriteColumn<'_>> = Vec::new();
    for (index, get) in parts_of_rows.iter().enumerate() {
        let name = if parts.len() == 1 { "key".into() } else { format!("key{}", index + 1) };
        columns.push(WriteColumn { name, field: parts[index].field(), times: None, get });
    }
    if types.value != ValueType::None {
        let field = Field::Number(types.value.into());
        columns.push(WriteColumn { name: "value".into(), field, times: None, get: &value });
    }
    let written = gpulsm_tables::write_rows(&path, keys.len(), &columns, &options);
    written.map_err(|error| explain(&error))?;
    Ok(keys.len() as u64)
}
