//! What the program compiles once for every type of keys and values: dictionaries behind [`AnyDictionary`], the
//! devices and arrays of `gpulsm bench` behind [`Backend`], what it compares the dictionary with, and what `gpulsm tour`
//! times and checks.
//!
//! It is a crate of its own because all of it is timed: release builds optimise it fully, and everything above
//! it in the program, which isn't timed, hardly.
//!
//! ```
//! use gpulsm::{Combine, Device};
//! use gpulsm_backends::dictionary::{Settings, open};
//! use gpulsm_backends::types::{Part, Types, ValueType};
//!
//! let types = Types { key: Part::I32.into(), value: ValueType::U64 };
//! let settings = Settings {
//!     types,
//!     combine: Combine::Add,
//!     devices: Device::cpu().into(),
//!     batch_size: None,
//!     memory_limit: None,
//! };
//! let mut counters = open(settings)?;
//!
//! let (mut keys, mut values) = (types.key.column(), types.value.column());
//! for _ in 0..3 {
//!     keys.push(types.key.parse("-7").expect("a number").ordered());
//!     values.push(1);
//! }
//! counters.update((&keys, &values), &types.key.column())?;
//! assert_eq!(counters.lookup(&keys)?, [Some(3); 3]);
//! # Ok::<(), gpulsm::Error>(())
//! ```
//!
//! [`AnyDictionary`]: dictionary::AnyDictionary
//! [`Backend`]: backend::Backend

#![allow(missing_docs, reason = "fields and methods whose names say it all")]
#![allow(
    clippy::len_without_is_empty,
    reason = "only the program uses this, and never asks for it"
)]

pub mod asof;
pub mod backend;
pub mod baselines;
pub mod dictionary;
pub mod numbers;
pub mod parallel;
pub mod stored;
pub mod tour;
pub mod types;
