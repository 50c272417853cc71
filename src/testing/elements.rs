//! Types of numbers that bits can be read as, and the rules by which they combine.

use crate::aggregate::Element;
use crate::combine::{Combine, Combiner};
use crate::key::Encoding;
use crate::testing::bits::KeyType;

/// Returns every type of number that values of this many bytes can be made of.
pub(super) fn elements(value_width: usize) -> impl Iterator<Item = Element> {
    let widths = [4, 8].into_iter().filter(move |&width| width <= value_width);
    widths.flat_map(|width| {
        let encodings = [Encoding::Unsigned, Encoding::Signed, Encoding::Float];
        encodings.map(|encoding| Element { width, encoding })
    })
}

/// Returns the type of number, which is also one of key.
pub(super) fn number_type(element: Element) -> KeyType {
    match (element.encoding, element.width) {
        (Encoding::Unsigned, 4) => KeyType::of::<u32>(),
        (Encoding::Signed, 4) => KeyType::of::<i32>(),
        (Encoding::Float, 4) => KeyType::of::<f32>(),
        (Encoding::Unsigned, _) => KeyType::of::<u64>(),
        (Encoding::Signed, _) => KeyType::of::<i64>(),
        (Encoding::Float, _) => KeyType::of::<f64>(),
    }
}

/// Returns every rule for values of this many bytes, read as every type of number that fits: first those that
/// replace values, a seventh of all.
pub(super) fn rules(value_width: usize) -> Vec<(Combine, Element)> {
    let combining =
        [Combine::Add, Combine::Min, Combine::Max, Combine::Or, Combine::And, Combine::Xor];
    let mut rules: Vec<_> = combining
        .into_iter()
        .flat_map(|rule| elements(value_width).map(move |element| (rule, element)))
        .filter(|&(rule, element)| Combiner::new(rule, element, value_width).is_ok())
        .collect();
    let replacing = elements(value_width).map(|element| (Combine::Replace, element));
    rules.splice(..0, replacing.take(rules.len().div_ceil(6)));
    rules
}
