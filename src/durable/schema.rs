//! The types of a dictionary, as files name them.

use crate::combine::Combiner;
use crate::files::{self, Kind, Schema, Widths};
use crate::key::{Encoding, Key, Part};
use crate::typed::StoredTypes;
use crate::value::Value;

/// Returns the types and the rule of a dictionary, whose `K` and `V` may stand for others.
pub(super) fn schema_of<K: Key, V: Value>(
    combiner: Option<Combiner>,
    stored_as: Option<&StoredTypes>,
) -> Schema {
    let widths = Widths { key: size_of::<K::Ordered>(), value: V::WIDTH };
    match stored_as {
        Some(types) => schema(&types.key, &types.value, widths, combiner),
        None => {
            let mut key = Vec::new();
            K::add_parts(&mut key);
            schema(&key, V::NAME, widths, combiner)
        }
    }
}

fn schema(key: &[Part], value: &str, widths: Widths, combiner: Option<Combiner>) -> Schema {
    Schema {
        key: key.iter().copied().map(part).collect(),
        widths,
        value_name: value.into(),
        rule: combiner.map_or(0, |combiner| combiner.rule() as u8),
        element: combiner.map(|combiner| {
            let element = combiner.element();
            part(Part::Number(element.encoding, element.width))
        }),
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
        let types = StoredTypes { key, value: "f64".into() };
        let packed = schema_of::<u128, u64>(None, Some(&types));
        assert_eq!(packed, schema_of::<(u32, i64), f64>(None, None));
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
