//! What combining means: of values as bits, one element at a time.

use crate::aggregate::Element;
use crate::combine::{Combine, Combiner};
use crate::key::Encoding;
use crate::testing::bits::{KeyBits, ValueBits};
use crate::testing::elements::number_type;
use crate::testing::script::{Change, Operation};

/// Combines the bits of an older value with those of a newer one.
pub(super) fn combined(combiner: Combiner, older: ValueBits, newer: ValueBits) -> ValueBits {
    let bits = 8 * combiner.element().width;
    let element = |value: ValueBits, at: usize| (value >> at) as u64 & u64::MAX >> (64 - bits);
    (0..128).step_by(bits).fold(0, |all, at| {
        let combined = combine_elements(combiner, element(older, at), element(newer, at));
        all | ValueBits::from(combined & u64::MAX >> (64 - bits)) << at
    })
}

fn combine_elements(combiner: Combiner, older: u64, newer: u64) -> u64 {
    let number = number_type(combiner.element());
    let (a, b) = (number.to_ordered(older.into()), number.to_ordered(newer.into()));
    match (combiner.rule(), combiner.element()) {
        (Combine::Add, Element { encoding: Encoding::Float, width: 4 }) => {
            let [older, newer] = [older, newer].map(|bits| f32::from_bits(bits as u32));
            (older + newer).to_bits().into()
        }
        (Combine::Add, Element { encoding: Encoding::Float, .. }) => {
            (f64::from_bits(older) + f64::from_bits(newer)).to_bits()
        }
        (Combine::Add, _) => older.wrapping_add(newer),
        (Combine::Min, _) => number.from_ordered(a.min(b)) as u64,
        (Combine::Max, _) => number.from_ordered(a.max(b)) as u64,
        (Combine::Or, _) => older | newer,
        (Combine::And, _) => older & newer,
        (Combine::Xor, _) => older ^ newer,
        (Combine::Replace, _) => newer,
    }
}

/// Returns the operations with values that are combined exactly in any order. If floats are added, these are
/// small integers, and nothing is doubled again and again.
pub(super) fn exact(operations: &[Operation], combiner: Option<Combiner>) -> Vec<Operation> {
    let Some(element) = combiner
        .filter(|of| of.rule() == Combine::Add && of.element().encoding == Encoding::Float)
        .map(Combiner::element)
    else {
        return operations.to_vec();
    };
    let value = |bits: ValueBits| small_integers(element, bits);
    let pairs = |pairs: &[(KeyBits, ValueBits)]| -> Vec<_> {
        pairs.iter().map(|&(key, bits)| (key, value(bits))).collect()
    };
    let change = |change: Change| match change {
        Change::Insert(bits) => Change::Insert(value(bits)),
        Change::Set(bits) => Change::Set(value(bits)),
        Change::Delete => Change::Delete,
    };
    let operation = |operation: &Operation| match operation {
        Operation::Insert(inserts) => Operation::Insert(pairs(inserts)),
        Operation::Set(inserts) => Operation::Set(pairs(inserts)),
        Operation::MergeFrom(inserts) => Operation::MergeFrom(pairs(inserts)),
        Operation::Update(inserts, deletes) => Operation::Update(pairs(inserts), deletes.clone()),
        Operation::Write(changes) => {
            Operation::Write(changes.iter().map(|&(key, of)| (key, change(of))).collect())
        }
        Operation::Rebuild => Operation::Cleanup,
        other => other.clone(),
    };
    operations.iter().map(operation).collect()
}

/// Replaces each element by a float that is a small integer.
fn small_integers(element: Element, bits: ValueBits) -> ValueBits {
    let width = 8 * element.width;
    (0..128).step_by(width).fold(0, |all, at| {
        let small = (bits >> at) as u8 % 64;
        let float = match element.width {
            4 => f32::from(small).to_bits().into(),
            _ => f64::from(small).to_bits(),
        };
        // The elements beyond the width of the value are cut off when it is stored.
        all | ValueBits::from(float) << at
    })
}
