//! What an import did.

use std::fmt;

use gpulsm::Combine;
use gpulsm_backends::types::{Types, ValueType};
use gpulsm_tables::{Notes, RowNotes, Type};
use serde::ser::SerializeMap;

use crate::shell::command::counted;

/// The numbers of an import. A number that is 0 and a unit that is unknown go unmentioned.
#[derive(Debug)]
pub struct Imported {
    /// How many rows the file has.
    rows: u64,
    /// How many of them replaced a pair, of an earlier row or of the dictionary, or combined with it.
    replaced: u64,
    combine: Combine,
    skipped: u64,
    /// What each part of the keys is, and what was noticed about it.
    keys: Vec<(String, Notes)>,
    value: (ValueType, Notes),
}

impl Imported {
    /// Describes the import of rows, all of which replace others, or combine with them, unless keys are added.
    pub fn new(notes: RowNotes, types: Types, combine: Combine) -> Self {
        let parts = types.key.parts().iter().map(|part| part.to_string());
        Imported {
            rows: notes.rows + notes.skipped,
            replaced: notes.rows,
            combine,
            skipped: notes.skipped,
            keys: parts.zip(notes.keys).collect(),
            value: (types.value, notes.value),
        }
    }

    /// Sets how many keys the dictionary has more than before.
    pub fn set_added(&mut self, keys: u64) {
        self.replaced -= keys;
    }

    /// Returns whether the dictionary is not simply the file: rows were replaced or skipped, or numbers
    /// changed.
    pub fn is_notable(&self) -> bool {
        let changed = self.keys_rounded() + self.value.1.rounded + self.negative_zeros();
        self.replaced + self.skipped + changed + self.nans() > 0
    }

    fn keys_rounded(&self) -> u64 {
        self.keys.iter().map(|(_, notes)| notes.rounded).sum()
    }

    fn negative_zeros(&self) -> u64 {
        self.keys.iter().map(|(_, notes)| notes.negative_zeros).sum()
    }

    /// Returns how many keys are NaN, if they might have been different ones.
    fn nans(&self) -> u64 {
        self.keys.iter().map(|(_, notes)| notes.nans).filter(|&nans| nans > 1).sum()
    }

    /// Adds the entries of an answer in JSON.
    pub fn serialize_entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("rows", &self.rows)?;
        let verb = if self.combine == Combine::Replace { "replaced" } else { "combined" };
        map.serialize_entry(verb, &self.replaced)?;
        map.serialize_entry("skipped", &self.skipped)?;
        for (name, number) in [
            ("keys_rounded", self.keys_rounded()),
            ("values_rounded", self.value.1.rounded),
            ("keys_negative_zero", self.negative_zeros()),
            ("keys_nan", self.nans()),
        ] {
            if number > 0 {
                map.serialize_entry(name, &number)?;
            }
        }
        for (index, (_, notes)) in self.keys.iter().enumerate() {
            if let Some(unit) = notes.unit {
                let number =
                    if self.keys.len() == 1 { String::new() } else { (index + 1).to_string() };
                map.serialize_entry(&format!("key{number}_unit"), &unit.to_string())?;
            }
        }
        match self.value.1.unit {
            Some(unit) => map.serialize_entry("value_unit", &unit.to_string()),
            None => Ok(()),
        }
    }

    /// Writes what the numbers of files count.
    fn write_units(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (_, notes)) in self.keys.iter().enumerate() {
            match notes.unit {
                Some(unit) if self.keys.len() == 1 => write!(f, "; keys are {unit}")?,
                Some(unit) => write!(f, "; part {} of keys is {unit}", index + 1)?,
                None => {}
            }
        }
        match self.value.1.unit {
            Some(unit) => write!(f, "; values are {unit}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read", counted(self.rows as usize, "row"))?;
        match (self.replaced, self.combine) {
            (0, _) => {}
            (rows, Combine::Replace) => write!(f, ", {rows} replaced others")?,
            (rows, rule) => write!(f, ", {rows} combined with others by {rule}")?,
        }
        if self.skipped > 0 {
            write!(f, ", {} skipped for a missing key or value", self.skipped)?;
        }
        let keys = self.keys.iter().map(|(of, notes)| ("key", of.as_str(), notes));
        let values = ("value", Type::from(self.value.0).name(), &self.value.1);
        for (thing, of, notes) in keys.chain([values]) {
            if notes.rounded > 0 {
                let things = counted(notes.rounded as usize, thing);
                write!(f, "; {things} lost precision as {of}")?;
            }
        }
        if self.negative_zeros() > 0 {
            write!(f, "; {} -0 became 0", counted(self.negative_zeros() as usize, "key"))?;
        }
        if self.nans() > 0 {
            write!(f, "; {} are NaN, which is one key", counted(self.nans() as usize, "key"))?;
        }
        self.write_units(f)
    }
}
