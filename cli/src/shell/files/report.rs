//! What an import did.

use std::fmt;

use gpulsm::Combine;
use gpulsm_tables::{Notes, Table, Type};
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
    keys: (Type, Notes),
    values: (Type, Notes),
}

impl Imported {
    /// Describes the import of a table, all of whose rows replace others, or combine with them, unless keys
    /// are added.
    pub fn new(table: &Table, combine: Combine) -> Self {
        let inserted = table.keys.len() as u64;
        Imported {
            rows: inserted + table.skipped,
            replaced: inserted,
            combine,
            skipped: table.skipped,
            keys: (table.keys.of(), table.key_notes.clone()),
            values: (table.values.of(), table.value_notes.clone()),
        }
    }

    /// Sets how many keys the dictionary has more than before.
    pub fn set_added(&mut self, keys: u64) {
        self.replaced -= keys;
    }

    /// Returns whether the dictionary is not simply the file: rows were replaced or skipped, or numbers
    /// changed.
    pub fn is_notable(&self) -> bool {
        let (keys, values) = (&self.keys.1, &self.values.1);
        let changed = keys.rounded + values.rounded + keys.negative_zeros + self.nans();
        self.replaced + self.skipped + changed > 0
    }

    /// Returns how many keys are NaN, if they might have been different ones.
    fn nans(&self) -> u64 {
        if self.keys.1.nans > 1 { self.keys.1.nans } else { 0 }
    }

    /// Adds the entries of an answer in JSON.
    pub fn serialize_entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("rows", &self.rows)?;
        let verb = if self.combine == Combine::Replace { "replaced" } else { "combined" };
        map.serialize_entry(verb, &self.replaced)?;
        map.serialize_entry("skipped", &self.skipped)?;
        for (name, number) in [
            ("keys_rounded", self.keys.1.rounded),
            ("values_rounded", self.values.1.rounded),
            ("keys_negative_zero", self.keys.1.negative_zeros),
            ("keys_nan", self.nans()),
        ] {
            if number > 0 {
                map.serialize_entry(name, &number)?;
            }
        }
        for (name, (_, notes)) in [("key_unit", &self.keys), ("value_unit", &self.values)] {
            if let Some(unit) = notes.unit {
                map.serialize_entry(name, &unit.to_string())?;
            }
        }
        Ok(())
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
        for (thing, (of, notes)) in [("key", &self.keys), ("value", &self.values)] {
            if notes.rounded > 0 {
                let things = counted(notes.rounded as usize, thing);
                write!(f, "; {things} lost precision as {}", of.name())?;
            }
        }
        if self.keys.1.negative_zeros > 0 {
            write!(f, "; {} -0 became 0", counted(self.keys.1.negative_zeros as usize, "key"))?;
        }
        if self.nans() > 0 {
            write!(f, "; {} are NaN, which is one key", counted(self.nans() as usize, "key"))?;
        }
        for (things, (_, notes)) in [("keys", &self.keys), ("values", &self.values)] {
            if let Some(unit) = notes.unit {
                write!(f, "; {things} are {unit}")?;
            }
        }
        Ok(())
    }
}
