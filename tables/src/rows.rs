//! Rows of a file, one after another: keys of one or several parts, each a column, and values.

use crate::options::{Choice, Header, Missing, Separator};
use crate::table::{Cell, Notes};
use crate::{Field, ReadOptions, Scalar, Step, Type};

/// How the rows of a file are read.
#[derive(Clone, Debug)]
pub struct RowOptions {
    /// What the parts of a key are, each of which has a column.
    pub keys: Vec<Field>,
    /// The type of values; [`Type::None`] for a set.
    pub value: Type,
    /// The columns of the parts, as many as there are parts, or none. Default: those named `key1`, `key2` and so on
    /// (`key`, if there is one part), or else the first, if there are no others than those of keys and values.
    pub key_columns: Vec<Choice>,
    /// The column of values, as in [`ReadOptions`].
    pub value_column: Option<Choice>,
    /// Whether the first line of a CSV file names the columns. Default: [`Header::Auto`].
    pub header: Header,
    /// What separates the fields of a CSV file. Default: a comma; a tab in .tsv and .tab files.
    pub separator: Option<Separator>,
    /// What to do with a row that lacks a part of its key, or its value. Default: [`Missing::Error`].
    pub missing: Missing,
}

impl RowOptions {
    /// Makes the default options for keys of these parts and values of a type.
    pub fn new(keys: Vec<Field>, value: Type) -> Self {
        RowOptions {
            keys,
            value,
            key_columns: Vec::new(),
            value_column: None,
            header: Header::Auto,
            separator: None,
            missing: Missing::Error,
        }
    }

    /// Returns the columns to be read: those of the parts of a key, then that of values.
    pub(crate) fn roles(&self) -> Vec<Role<'_>> {
        let is_single = self.keys.len() == 1;
        let keys = self.keys.iter().enumerate().map(|(index, &field)| Role {
            name: if is_single { "key".into() } else { format!("key{}", index + 1) },
            field,
            choice: self.key_columns.get(index),
            is_value: false,
        });
        let value = (self.value != Type::None).then(|| Role {
            name: "value".into(),
            field: self.value.into(),
            choice: self.value_column.as_ref(),
            is_value: true,
        });
        keys.chain(value).collect()
    }
}

impl From<&ReadOptions> for RowOptions {
    fn from(options: &ReadOptions) -> Self {
        RowOptions {
            key_columns: options.key_column.iter().cloned().collect(),
            value_column: options.value_column.clone(),
            header: options.header,
            separator: options.separator,
            missing: options.missing,
            ..RowOptions::new(vec![options.key.into()], options.value)
        }
    }
}

/// What a column is read for.
pub(crate) struct Role<'a> {
    /// What the column is named, unless it is chosen.
    pub name: String,
    pub field: Field,
    pub choice: Option<&'a Choice>,
    pub is_value: bool,
}

impl Role<'_> {
    /// Returns what messages say that the column holds.
    pub fn holds(&self) -> String {
        match self.name.strip_prefix("key") {
            None => "the values".into(),
            Some("") => "the keys".into(),
            Some(part) => format!("part {part} of the keys"),
        }
    }
}

/// What was noticed about the rows of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowNotes {
    /// How many rows were read.
    pub rows: u64,
    /// How many rows were skipped because a part of the key, or the value, is missing.
    pub skipped: u64,
    /// What was noticed about each part of the keys.
    pub keys: Vec<Notes>,
    /// What was noticed about the values.
    pub value: Notes,
}

/// Takes the parts of a key, and its value.
pub(crate) type TakeRow<'a> = &'a mut dyn FnMut(&[Scalar], Scalar);

/// Counts rows, and passes on those that are whole.
pub(crate) struct Rows<'a> {
    pub notes: RowNotes,
    take: TakeRow<'a>,
    /// The parts of the present row's key.
    key: Vec<Scalar>,
}

impl<'a> Rows<'a> {
    pub fn new(options: &RowOptions, take: TakeRow<'a>) -> Self {
        let keys = vec![Notes::default(); options.keys.len()];
        let notes = RowNotes { rows: 0, skipped: 0, keys, value: Notes::default() };
        Rows { notes, take, key: Vec::new() }
    }

    /// Takes the cells of a row, those of the key first; skips it if one is missing.
    #[inline]
    pub fn push(&mut self, cells: &[Option<Cell>]) {
        let RowNotes { rows, skipped, keys, value } = &mut self.notes;
        if cells.contains(&None) {
            *skipped += 1;
            return;
        }
        *rows += 1;
        self.key.clear();
        let mut cells = cells.iter().flatten();
        for (notes, cell) in keys.iter_mut().zip(&mut cells) {
            notes.add(cell.number, cell.is_rounded);
            self.key.push(cell.number);
        }
        let cell = cells.next().unwrap_or(&Cell::PRESENT);
        value.add(cell.number, cell.is_rounded);
        (self.take)(&self.key, cell.number);
    }

    /// Says what the numbers of a column count, by its place among the roles.
    pub fn set_unit(&mut self, role: usize, unit: Option<crate::Unit>) {
        match self.notes.keys.get_mut(role) {
            Some(notes) => notes.unit = unit,
            None => self.notes.value.unit = unit,
        }
    }
}

/// A column to be written.
pub struct WriteColumn<'a> {
    /// The name of the column.
    pub name: String,
    /// What it holds.
    pub field: Field,
    /// If it holds [`Type::I64`] and these are timestamps without a time zone, what they count.
    pub times: Option<Step>,
    /// Returns what is in a row.
    pub get: &'a dyn Fn(usize) -> Scalar,
}
