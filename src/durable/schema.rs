//! The types of a dictionary, as files name them.

use crate::aggregate::Element;
use crate::combine::{Combine, Combiner};
use crate::files::{self, Kind, Schema, Widths};
use crate::key::{Encoding, Key, Part};
use crate::typed::StoredTypes;
use crate::value::Value;

/// The types and the rule of a dictionary in files.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTypes {
    pub stored: StoredTypes,
    pub value_width: usize,
    pub rule: Combine,
    /// The numbers that values are made of, if they combine.
    pub element: Option<Element>,
}

impl FileTypes {
    /// Returns `None` if this version does not know the rule.
    pub(super) fn new(schema: &Schema) -> Option<Self> {
        let rules = [
            Combine::Replace,
            Combine::Add,
            Combine::Min,
            Combine::Max,
            Combine::Or,
            Combine::And,
            Combine::Xor,
        ];
        let rule = rules.into_iter().find(|&rule| rule as u8 == schema.rule)?;
        let element = match schema.element.map(part_of) {
            Some(Part::Number(encoding, width)) => Some(Element { encoding, width }),
            Some(Part::Bytes(_)) => return None,
            None => None,
        };
        let (stored, value_width) = (stored_types(schema), schema.widths.value);
        Some(FileTypes { stored, value_width, rule, element })
    }
}

/// Returns the types that files name.
pub(super) fn stored_types(schema: &Schema) -> StoredTypes {
    StoredTypes {
        key: schema.key.iter().copied().map(part_of).collect(),
        value: schema.value_name.clone(),
        notes: schema.notes.clone(),
    }
}

/// Returns the types and the rule of a dictionary, whose `K` and `V` may stand for others.
pub(super) fn schema_of<K: Key, V: Value>(
    combiner: Option<Combiner>,
    stored_as: Option<&StoredTypes>,
) -> Schema {
    let widths = Widths { key: size_of::<K::Ordered>(), value: V::TYPE.width() };
    let types = stored_as.cloned().unwrap_or_else(|| {
        let mut key = Vec::new();
        K::add_parts(&mut key);
        StoredTypes { key, value: V::TYPE.name().into(), notes: Vec::new() }
    });
    Schema {
        key: types.key.into_iter().map(part).collect(),
        widths,
        value_name: types.value,
        rule: combiner.map_or(0, |combiner| combiner.rule() as u8),
        element: combiner.map(|combiner| {
            let element = combiner.element();
            part(Part::Number(element.encoding, element.width))
        }),
        notes: types.notes,
    }
}

fn part(part: Part) -> files::Part {
    let kind = match part {
        Part::Number(Encoding::Unsigned, _) => Kind::Unsigned,
        Part::Number(Encoding::Signed, _) => Kind::Signed,
        Part::Number(Encoding::Float, _) => Kind::Float,
        Part::Bytes(_) => Kind::Bytes,
    };
    files::Part { kind, width: part.width() as u8 }
}

fn part_of(part: files::Part) -> Part {
    let width = part.width.into();
    match part.kind {
        Kind::Unsigned => Part::Number(Encoding::Unsigned, width),
        Kind::Signed => Part::Number(Encoding::Signed, width),
        Kind::Float => Part::Number(Encoding::Float, width),
        Kind::Bytes => Part::Bytes(width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Number;
    use crate::combine::Combine;

    #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Zeroable)]
    struct Edge {
        from: u32,
        to: (i64, [u8; 3]),
    }

    crate::key!(Edge { from: u32, to: (i64, [u8; 3]) });

    #[test]
    fn keys_are_named_by_their_parts() {
        assert_eq!(schema_of::<f64, u32>(None, None).key_name(), "f64");
        assert_eq!(schema_of::<i128, u32>(None, None).key_name(), "i128");
        let edges = schema_of::<Edge, [f32; 2]>(None, None);
        assert_eq!(edges.key_name(), "(u32, i64, [u8; 3])");
        assert_eq!(edges.widths, Widths { key: 16, value: 8 });
        assert_eq!((edges.value_name.as_str(), edges.rule), ("[f32; 2]", 0));
    }

    #[test]
    fn types_that_others_stand_for_are_named_alike() {
        let mut key = Vec::new();
        <(u32, i64)>::add_parts(&mut key);
        let types = StoredTypes { key, value: "f64".into(), notes: Vec::new() };
        let packed = schema_of::<u128, u64>(None, Some(&types));
        assert_eq!(packed, schema_of::<(u32, i64), f64>(None, None));
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let combiner = Combiner::new(Combine::Xor, u64::ELEMENT, 8).unwrap();
        let schema = schema_of::<Edge, u64>(combiner, None);
        let types = FileTypes::new(&schema).unwrap();
        assert_eq!((types.rule, types.element), (Combine::Xor, Some(u64::ELEMENT)));
        assert_eq!(schema_of::<u128, [u8; 8]>(combiner, Some(&types.stored)), schema);
        assert_eq!(FileTypes::new(&Schema { rule: 7, ..schema }), None);
    }

    #[test]
    fn rules_are_numbered_as_the_format_says() {
        for (rule, text) in [
            (Combine::Add, "add of f32"),
            (Combine::Min, "min of f32"),
            (Combine::Max, "max of f32"),
        ] {
            let combiner = Combiner::new(rule, f32::ELEMENT, 8).unwrap();
            assert_eq!(schema_of::<u32, [f32; 2]>(combiner, None).rule_text(), text);
        }
        for (rule, text) in
            [(Combine::Or, "or of u64"), (Combine::And, "and of u64"), (Combine::Xor, "xor of u64")]
        {
            let combiner = Combiner::new(rule, u64::ELEMENT, 8).unwrap();
            assert_eq!(schema_of::<u32, u64>(combiner, None).rule_text(), text);
        }
    }
}
