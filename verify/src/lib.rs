//! Random operation lists against the model, for types chosen at run time.
//!
//! This compiles the typed interface of a dictionary once for every kind of key and every width of values. It is
//! a crate of its own so that release builds need not optimise it: that would take longer than the rest of the
//! program.
//!
//! ```
//! use gpulsm::Devices;
//! use gpulsm_verify::{List, check_of};
//!
//! let check = check_of("u32,i64", 8).expect("values have 0, 4, 8 or 16 bytes");
//! let devices = "cpu".parse::<Devices>()?;
//! let list = List { seed: 1, len: 20, scale: 1, batch_size: None, combine: None, devices };
//! assert!(check(&list)?.is_ok());
//! # Ok::<(), gpulsm::Error>(())
//! ```

use gpulsm::private::Element;
use gpulsm::testing::bits::Types;
use gpulsm::testing::check::{Mismatch, check};
use gpulsm::testing::script::{Draw, Operation};
use gpulsm::{Combine, Devices, Error, Key, Value};

/// A list of random operations, and the dictionary that executes it.
#[derive(Clone, Debug)]
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
    pub devices: Devices,
}

/// Executes a list on a dictionary and on the model; returns the first difference between them.
pub type Check = fn(&List) -> Result<Result<(), Mismatch>, Error>;

/// The types of keys that are checked, by name: numbers, and tuples that are packed into integers of 8 and of 16 bytes.
pub const KEYS: [&str; 10] =
    ["u32", "u64", "u128", "i32", "i64", "i128", "f32", "f64", "u32,u32", "u32,i64"];

/// Returns the check for keys of one of the types in [`KEYS`] and values of this many bytes; `None` if no dictionary
/// has such values, or the type is none of these.
pub fn check_of(key: &str, value_width: usize) -> Option<Check> {
    match key {
        "u32" => check_of_values::<u32>(value_width),
        "u64" => check_of_values::<u64>(value_width),
        "u128" => check_of_values::<u128>(value_width),
        "i32" => check_of_values::<i32>(value_width),
        "i64" => check_of_values::<i64>(value_width),
        "i128" => check_of_values::<i128>(value_width),
        "f32" => check_of_values::<f32>(value_width),
        "f64" => check_of_values::<f64>(value_width),
        "u32,u32" => check_of_values::<(u32, u32)>(value_width),
        "u32,i64" => check_of_values::<(u32, i64)>(value_width),
        _ => None,
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
    let mut settings = draw.settings::<K, V>().devices(&list.devices);
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
