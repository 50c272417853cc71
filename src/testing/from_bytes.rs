//! Checks whose types and operations are drawn from bytes, as a fuzzer makes them.

use crate::key::Key;
use crate::testing::bits::Types;
use crate::testing::check::{Mismatch, check_subject};
use crate::testing::script::{Draw, canonical_kind};
use crate::testing::subject::Subject;
use crate::value::Value;

/// A choice of key and value types.
struct Combination {
    types: Types,
    /// Opens an empty dictionary with the settings that a byte chooses.
    open: fn(Option<u8>) -> Box<dyn Subject>,
}

impl Combination {
    fn of<K: Key, V: Value>() -> Self {
        let open = |byte: Option<u8>| -> Box<dyn Subject> {
            let dictionary = Draw::new(byte).settings::<K, V>().build();
            Box::new(dictionary.expect("the best device can be used"))
        };
        Combination { types: Types::of::<K, V>(), open }
    }
}

/// How many combinations there are. Bytes of the kept corpus are below it, so that more can be added at the end.
const COMBINATIONS: u8 = 12;

/// Returns the types that a byte chooses.
#[inline] // Instantiated only in crates that call what calls it.
fn combination(byte: u8) -> Combination {
    match byte % COMBINATIONS {
        0 => Combination::of::<u32, u32>(),
        1 => Combination::of::<u64, ()>(),
        2 => Combination::of::<i32, [u64; 2]>(),
        3 => Combination::of::<i64, u64>(),
        4 => Combination::of::<f32, f32>(),
        5 => Combination::of::<f64, f64>(),
        6 => Combination::of::<(u32, u32), ()>(),
        7 => Combination::of::<(u32, i64), f64>(),
        8 => Combination::of::<u128, u64>(),
        9 => Combination::of::<i128, u32>(),
        10 => Combination::of::<[u8; 12], [u64; 2]>(),
        _ => Combination::of::<(i32, f32, u64), u64>(),
    }
}

/// Checks a list of operations drawn from `bytes`, on key and value types that they choose too.
#[inline] // Instantiated only in crates that call it.
pub fn check_bytes(bytes: &[u8]) -> Result<(), Mismatch> {
    let [types, rest @ ..] = bytes else { return Ok(()) };
    let Combination { types, open } = combination(*types);
    let mut bytes = rest.iter().copied().peekable();
    let dictionary = open(bytes.next());
    let operations = std::iter::from_fn(|| {
        bytes.peek()?;
        Some(Draw::new(&mut bytes).operation(&types))
    });
    check_subject(dictionary, &operations.collect::<Vec<_>>())
}

/// Returns bytes from which [`check_bytes`] draws the same operations, with the least number for the types and
/// for the kind of each. The fuzzer's corpus is kept like that: greater numbers are free for new ones.
#[inline] // Instantiated only in crates that call it.
pub fn canonical(bytes: &[u8]) -> Vec<u8> {
    let mut canonical = bytes.to_vec();
    let [byte, rest @ ..] = bytes else { return canonical };
    canonical[0] = byte % COMBINATIONS;
    let types = combination(*byte).types;
    let mut rest = rest.get(1..).unwrap_or_default().iter();
    while !rest.as_slice().is_empty() {
        let kind = &mut canonical[bytes.len() - rest.as_slice().len()];
        *kind = canonical_kind(*kind);
        Draw::new(rest.by_ref().copied()).operation(&types);
    }
    canonical
}
