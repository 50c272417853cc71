//! The types of a stored dictionary, as numbers and texts.

use std::fmt;
use std::path::Path;

use crate::error::Error;
use crate::files::bytes::{Decoder, Encoder};
use crate::files::run::Widths;

/// What the bits of a number mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    Float,
    /// Bytes, compared from the first on.
    Bytes,
}

impl Kind {
    const EACH: [Kind; 4] = [Kind::Unsigned, Kind::Signed, Kind::Float, Kind::Bytes];
}

/// A part of a key, or a number that values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub kind: Kind,
    /// In bytes, from 1 to 16.
    pub width: u8,
}

impl Part {
    fn encode(self, out: &mut Encoder) {
        out.u8(self.kind as u8);
        out.u8(self.width);
    }

    fn decode(fields: &mut Decoder) -> Option<Self> {
        let kind = *Kind::EACH.get(usize::from(fields.u8()?))?;
        let width = fields.u8()?;
        (1..=16).contains(&width).then_some(Part { kind, width })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.kind {
            Kind::Unsigned => 'u',
            Kind::Signed => 'i',
            Kind::Float => 'f',
            Kind::Bytes => return write!(f, "[u8; {}]", self.width),
        };
        write!(f, "{letter}{}", u32::from(self.width) * 8)
    }
}

/// The types and the rule of a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema {
    /// The parts of a key, the most significant one first; at least one.
    pub key: Vec<Part>,
    /// How many bytes keys have as ordered integers, and values.
    pub widths: Widths,
    /// The name of the type of values, for people and for Python; empty if it is not known.
    pub value_name: String,
    /// How values combine: the number of a `Combine`; 0 if they replace each other.
    pub rule: u8,
    /// The numbers that values are made of, if they combine.
    pub element: Option<Part>,
    /// What other languages call the types, by name. They are not compared. The manifest has them at its end.
    pub notes: Vec<(String, String)>,
}

impl Schema {
    pub fn encode(&self, out: &mut Encoder) {
        out.u8(self.key.len() as u8);
        self.key.iter().for_each(|part| part.encode(out));
        out.u8(self.widths.key as u8);
        out.u8(self.widths.value as u8);
        out.text(&self.value_name);
        out.u8(self.rule);
        out.u8(u8::from(self.element.is_some()));
        if let Some(element) = self.element {
            element.encode(out);
        }
    }

    /// Returns all but the notes, or `None` unless the fields are possible ones.
    pub fn decode(fields: &mut Decoder) -> Option<Self> {
        let parts = fields.u8()?;
        let key = (0..parts).map(|_| Part::decode(fields)).collect::<Option<Vec<_>>>()?;
        let widths = Widths { key: fields.u8()?.into(), value: fields.u8()?.into() };
        let (value_name, rule) = (fields.text()?, fields.u8()?);
        let element = match fields.u8()? {
            0 => None,
            1 => Some(Part::decode(fields)?),
            _ => return None,
        };
        let key_bytes: usize = key.iter().map(|part| usize::from(part.width)).sum();
        let is_possible = widths.are_valid() && (1..=widths.key).contains(&key_bytes);
        is_possible.then_some(Schema { key, widths, value_name, rule, element, notes: Vec::new() })
    }

    pub fn encode_notes(&self, out: &mut Encoder) {
        out.u32(self.notes.len() as u32);
        for (name, note) in &self.notes {
            out.text(name);
            out.text(note);
        }
    }

    pub fn decode_notes(&mut self, fields: &mut Decoder) -> Option<()> {
        let notes = fields.u32()?;
        let notes = (0..notes).map(|_| Some((fields.text()?, fields.text()?)));
        self.notes = notes.collect::<Option<_>>()?;
        Some(())
    }

    /// Returns the type of keys as Rust writes it.
    pub fn key_name(&self) -> String {
        let names: Vec<_> = self.key.iter().map(Part::to_string).collect();
        if let [name] = &names[..] { name.clone() } else { format!("({})", names.join(", ")) }
    }

    /// Returns an error unless the requested dictionary has these types and this rule. Names of values are
    /// compared if both are known, or if the requested one is known to have none.
    pub fn check(&self, path: &Path, requested: &Schema, is_nameless: bool) -> Result<(), Error> {
        let wrong = |what, stored: String, requested: String| {
            Err(Error::WrongType { path: path.into(), what, stored, requested })
        };
        if self.key != requested.key || self.widths.key != requested.widths.key {
            return wrong("keys of type", self.key_name(), requested.key_name());
        }
        let names_differ = self.value_name != requested.value_name
            && !self.value_name.is_empty()
            && (is_nameless || !requested.value_name.is_empty());
        if self.widths.value != requested.widths.value || names_differ {
            let nameless = if is_nameless { " without a name (see `gpulsm::value!`)" } else { "" };
            let requested = format!("{}{nameless}", requested.value_text());
            return wrong("values of type", self.value_text(), requested);
        }
        if self.rule != requested.rule || self.element != requested.element {
            return wrong("the combining rule", self.rule_text(), requested.rule_text());
        }
        Ok(())
    }

    fn value_text(&self) -> String {
        let bytes = format!("{} bytes", self.widths.value);
        if self.value_name.is_empty() { bytes } else { format!("{} ({bytes})", self.value_name) }
    }

    /// Returns the name of the rule, and of what it combines.
    pub fn rule_text(&self) -> String {
        let names = ["replace", "add", "min", "max", "or", "and", "xor"];
        let name = names.get(usize::from(self.rule)).copied().unwrap_or("unknown");
        match self.element {
            Some(element) => format!("{name} of {element}"),
            None => name.into(),
        }
    }
}
