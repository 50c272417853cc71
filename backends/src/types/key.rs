//! Types of keys: one part, or several that are compared from the first on; and single keys.

use std::fmt;
use std::str::FromStr;

use gpulsm_tables::Scalar;
use serde_core::{Serialize, Serializer};

use super::{Column, Part};

/// The most parts that a key can have.
pub const MOST_PARTS: usize = 4;

/// A type that keys can have: up to four parts, of at most 16 bytes in all.
///
/// The integers of the parts are packed, the first part in the highest bits, as the library packs tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyType {
    /// The parts, of which the first `len` count.
    parts: [Part; MOST_PARTS],
    len: u8,
}

impl From<Part> for KeyType {
    fn from(part: Part) -> Self {
        KeyType { parts: [part; MOST_PARTS], len: 1 }
    }
}

impl KeyType {
    /// Returns the type of keys that have these parts, or why there is none.
    pub fn new(parts: &[Part]) -> Result<Self, String> {
        let bytes: u32 = parts.iter().map(|part| part.bits() / 8).sum();
        let Some(&first) = parts.first().filter(|_| parts.len() <= MOST_PARTS) else {
            return Err(format!("a key has 1 to {MOST_PARTS} parts, not {}", parts.len()));
        };
        if bytes > 16 {
            return Err(format!("a key has at most 16 bytes, and these parts have {bytes}"));
        }
        let mut key = KeyType { len: parts.len() as u8, ..first.into() };
        key.parts[..parts.len()].copy_from_slice(parts);
        Ok(key)
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts[..self.len.into()]
    }

    /// Returns the bytes of the integer that a key sorts by: 4, 8 or 16.
    pub fn width(self) -> usize {
        (self.bits() / 8).next_power_of_two().max(4) as usize
    }

    /// Returns an empty column for keys of this type.
    pub fn column(self) -> Column {
        Column::with_width(self.width())
    }

    /// Returns the integer that a key sorts by. The scalars must have the types of the parts.
    pub fn encode(self, parts: impl IntoIterator<Item = Scalar>) -> u128 {
        self.pack(self.parts().iter().zip(parts).map(|(of, part)| of.encode(part)))
    }

    /// Packs the integers that the parts sort by.
    fn pack(self, parts: impl IntoIterator<Item = u128>) -> u128 {
        let parts = self.parts().iter().zip(parts);
        // A part of all 128 bits has no other beside it.
        parts.fold(0, |packed, (of, part)| packed.checked_shl(of.bits()).unwrap_or(0) | part)
    }

    /// Returns the parts of the key that sorts by an integer.
    pub fn decode(&self, ordered: u128) -> impl Iterator<Item = Scalar> {
        let mut above = self.bits();
        self.parts().iter().map(move |part| {
            above -= part.bits();
            part.decode(ordered >> above & (u128::MAX >> (u128::BITS - part.bits())))
        })
    }

    /// Returns a key by the integer that it sorts by.
    pub fn key(self, ordered: u128) -> Key {
        Key { of: self, ordered, given: self.len }
    }

    /// Parses a key: its parts, with `:` between them.
    pub fn parse(self, text: &str) -> Result<Key, String> {
        let key = self.parse_end(text, End::First)?;
        match key.given == self.len {
            true => Ok(key),
            false => Err(self.wrong_number_of_parts(key.given.into())),
        }
    }

    /// Parses the end of a range: a key, or the first parts of one, for the first or the last key that begins with
    /// them.
    pub fn parse_end(self, text: &str, end: End) -> Result<Key, String> {
        let texts: Vec<&str> = match self.parts() {
            [_] => vec![text],
            _ => text.split(':').collect(),
        };
        if texts.len() > self.parts().len() {
            return Err(self.wrong_number_of_parts(texts.len()));
        }
        let parts = self.parts().iter().enumerate().map(|(index, part)| {
            Ok(match texts.get(index) {
                Some(text) => part.encode(self.parse_part(index, text)?),
                None if end == End::First => part.ends().0,
                None => part.ends().1,
            })
        });
        let ordered = self.pack(parts.collect::<Result<Vec<u128>, String>>()?);
        Ok(Key { of: self, ordered, given: texts.len() as u8 })
    }

    fn parse_part(self, index: usize, text: &str) -> Result<Scalar, String> {
        let part = self.parts()[index].field().parse(text);
        part.map_err(|error| match self.parts() {
            [_] => error,
            _ if text.contains(',') => {
                let expected = self.written();
                format!(
                    "part {} has a comma; colons stand between parts (expected {expected})",
                    index + 1
                )
            }
            _ => format!("part {} is {error}", index + 1),
        })
    }

    fn wrong_number_of_parts(self, given: usize) -> String {
        let parts = if given == 1 { "1 part".into() } else { format!("{given} parts") };
        match self.parts() {
            [part] => format!("{parts} (expected {part})"),
            all => {
                format!("{parts}, where a key has {} (expected {})", all.len(), self.written())
            }
        }
    }

    /// Returns how keys are written: with colons between their parts.
    fn written(self) -> String {
        self.to_string().replace(',', ":")
    }

    fn bits(self) -> u32 {
        self.parts().iter().map(|part| part.bits()).sum()
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.parts().iter().map(Part::to_string).collect();
        f.write_str(&names.join(","))
    }
}

/// Parses types of parts, with commas between them.
impl FromStr for KeyType {
    type Err = String;

    fn from_str(names: &str) -> Result<Self, String> {
        let parts = names.split(',').map(|name| name.trim().parse());
        KeyType::new(&parts.collect::<Result<Vec<Part>, _>>()?)
    }
}

/// Which end of a range a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    First,
    Last,
}

/// A key, or the first parts of one that stand for an end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    of: KeyType,
    ordered: u128,
    /// How many parts were given.
    given: u8,
}

impl Key {
    /// Returns the integer that the key sorts by.
    pub fn ordered(self) -> u128 {
        self.ordered
    }

    fn given(&self) -> impl Iterator<Item = Scalar> {
        self.of.decode(self.ordered).take(self.given.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given().enumerate().try_for_each(|(index, part)| match index {
            0 => write!(f, "{part}"),
            _ => write!(f, ":{part}"),
        })
    }
}

/// Writes the part of a simple key, and an array of the parts of another.
impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.of.parts() {
            [part] => part.decode(self.ordered).serialize(serializer),
            _ => serializer.collect_seq(self.given()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpulsm::{Key as _, OrderedKey, Prefix};

    fn of(name: &str) -> KeyType {
        name.parse().unwrap()
    }

    /// Checks that a text is parsed as a Rust key is mapped, and written as it was.
    fn check<K: gpulsm::Key>(name: &str, text: &str, key: K) {
        let parsed = of(name).parse(text).unwrap();
        assert_eq!(parsed.ordered(), key.to_ordered().widen(), "{name} {text}");
        assert_eq!(of(name).key(parsed.ordered()).to_string(), text, "{name}");
    }

    #[test]
    fn keys_are_packed_as_the_library_packs_tuples() {
        check("u32", "7", 7u32);
        check("u128", &u128::MAX.to_string(), u128::MAX);
        check("i128", &i128::MIN.to_string(), i128::MIN);
        check("bytes12", "gpulsm-keys!", *b"gpulsm-keys!");
        check("bytes3", "a", *b"a\0\0");
        check("u32,i64", "7:-100", (7u32, -100i64));
        check("u32,f32", "7:-0.5", (7u32, -0.5f32));
        check("f64,u64", "NaN:18446744073709551615", (f64::NAN, u64::MAX));
        check("i32,u32,f32", "-1:2:inf", (-1i32, 2u32, f32::INFINITY));
        check("i32,bytes2,u32,bytes6", "-9:ab:4:x", (-9i32, *b"ab", 4u32, *b"x\0\0\0\0\0"));
    }

    #[test]
    fn the_narrowest_integer_is_used() {
        for (name, width) in [
            ("u32", 4),
            ("bytes3", 4),
            ("bytes5", 8),
            ("bytes1,bytes2", 4),
            ("u32,f32", 8),
            ("u32,i64", 16),
            ("i128", 16),
        ] {
            assert_eq!(of(name).width(), width, "{name}");
            assert_eq!(of(name).to_string(), name);
        }
    }

    #[test]
    fn first_parts_are_an_end_of_a_range() {
        let end = |name: &str, text: &str, end| of(name).parse_end(text, end).unwrap();
        let first: (u32, f32) = Prefix::first_with(7);
        let last: (u32, f32) = Prefix::last_with(7);
        assert_eq!(end("u32,f32", "7", End::First).ordered(), first.to_ordered().into());
        assert_eq!(end("u32,f32", "7", End::Last).ordered(), last.to_ordered().into());
        let last: (u32, i32, i64) = Prefix::last_with((1, -2));
        let key = end("u32,i32,i64", "1:-2", End::Last);
        assert_eq!(key.ordered(), last.to_ordered());
        assert_eq!(key.to_string(), "1:-2");
        let whole = end("u32,f32", "7:1.5", End::Last);
        assert_eq!(whole, of("u32,f32").parse("7:1.5").unwrap());
    }

    #[test]
    fn what_is_no_key_is_explained() {
        for (name, text, what) in [
            ("u32,i64", "7", "1 part, where a key has 2 (expected u32:i64)"),
            ("u32,i64", "7,8", "part 1 has a comma; colons stand between parts (expected u32:i64)"),
            ("u32,i64", "7:8:9", "3 parts, where a key has 2"),
            ("u32,i64", "7:", "part 2 is missing (expected i64)"),
            ("u32,i64", "x:8", "part 1 is not an integer (expected u32)"),
            ("u32,i64", "7:8.5", "part 2 is not an integer (expected i64)"),
            ("u32", "7:8", "not an integer (expected u32)"),
            ("bytes2", "abc", "3 bytes (expected at most 2 bytes)"),
        ] {
            let error = of(name).parse(text).unwrap_err();
            assert!(error.contains(what), "{name} {text}: {error}");
        }
    }

    #[test]
    fn what_is_no_type_is_explained() {
        for (name, what) in [
            ("u16", "no type of keys is named `u16`"),
            ("u32,", "no type of keys is named ``"),
            ("bytes0", "no type of keys is named `bytes0`"),
            ("bytes17", "no type of keys is named `bytes17`"),
            ("u64,u64,u32", "at most 16 bytes, and these parts have 20"),
            ("u128,bytes1", "these parts have 17"),
            ("bytes1,bytes1,bytes1,bytes1,bytes1", "1 to 4 parts, not 5"),
        ] {
            let error = name.parse::<KeyType>().unwrap_err();
            assert!(error.contains(what), "{name}: {error}");
        }
    }
}
