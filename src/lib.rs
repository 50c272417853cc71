#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod batch;
mod builder;
mod cpu;
mod device;
mod dictionary;
mod error;
mod iter;
mod key;
mod levels;
pub mod model;
mod ranges;
pub mod script;
mod snapshot;
mod stats;
mod store;
mod value;

pub use batch::Batch;
pub use builder::Builder;
pub use device::{Bytes, Device};
pub use dictionary::Dictionary;
pub use error::Error;
pub use iter::Iter;
pub use key::{Key, OrderedKey};
pub use ranges::Ranges;
pub use snapshot::Snapshot;
pub use stats::{LevelStats, Stats};
pub use store::CleanupPolicy;
pub use value::Value;
