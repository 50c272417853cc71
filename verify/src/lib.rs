//! Random operation lists against the model, for types chosen at run time.
//!
//! This compiles the typed interface of a dictionary once for every kind of key and every width of values. It is
//! a crate of its own so that release builds need not optimise it: that would take longer than the rest of the
//! program.
//!
//! ```
//! use gpulsm::Device;
//! use gpulsm_verify::{KeyKind, List, check_of};
//!
//! let check = check_of(KeyKind::F32, 8).expect("values have 0, 4, 8 or 16 bytes");
//! let device = Device::cpu();
//! let list = List { seed: 1, len: 20, scale: 1, batch_size: None, combine: None, device };
//! assert!(check(&list)?.is_ok());
//! # Ok::<(), gpulsm::Error>(())
//! ```

use gpulsm::private::Element;
use gpulsm::testing::bits::Types;
use gpulsm::testing::check::{Mismatch, check};
use gpulsm::testing::script::{Draw, Operation};
use gpulsm::{Combine, Device, Error, Key, Value};

/// A list of random operations, and the dictionary that executes it.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The same seed gives the same operations.
    pub seed: u64,
    /// How many operations there are.
    pub len: u64,
    /// How many times as long batches and queries are as those of a short list.
    pub scale: usize,
    /// The batch size of the dictionary; drawn if `None`.
    pub batch_size: Option<usize>,
    /// How values, as numbers of a type, combine; drawn if `None`.
    pub combine: Option<(Combine, Element)>,
    /// Where the dictionary lives.
    pub device: Device,
}

/// A type of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the types")]
pub enum KeyKind {
    U32,
    U64,
    I32,
    I64,
    F32,
    F64,
}

/// Executes a list on a dictionary and on the model; returns the first difference between them.
pub type Check = fn(&List) -> Result<Result<(), Mismatch>, Error>;

/// Returns the check for keys of a type and values of this many bytes; `None` if no dictionary has such values.
pub fn check_of(key: KeyKind, value_width: usize) -> Option<Check> {
    match key {
        KeyKind::U32 => check_of_values::<u32>(value_width),
        KeyKind::U64 => check_of_values::<u64>(value_width),
        KeyKind::I32 => check_of_values::<i32>(value_width),
        KeyKind::I64 => check_of_values::<i64>(value_width),
        KeyKind::F32 => check_of_values::<f32>(value_width),
        KeyKind::F64 => check_of_values::<f64>(value_width),
    }
}

fn check_of_values<K: Key>(width: usize) -> Option<Check> {
    Some(match width {
        0 => check_list::<K, ()>,
        4 => check_list::<K, u32>,
        8 => check_list::<K, u64>,
        16 => check_list::<K, u128>,
        _ => return None,
    })
}

fn check_list<K: Key, V: Value>(list: &List) -> Result<Result<(), Mismatch>, Error> {
    let mut draw = Draw::random(list.seed).scaled(list.scale);
    let mut settings = draw.settings::<K, V>().device(list.device);
    if let Some(size) = list.batch_size {
        settings = settings.batch_size(size);
    }
    if let Some((rule, element)) = list.combine {
        settings = settings.combine_as(rule, element);
    }
    let types = Types::of::<K, V>();
    let operations: Vec<Operation> = (0..list.len).map(|_| draw.operation(&types)).collect();
    Ok(check(settings.build()?, &operations))
}
