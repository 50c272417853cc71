//! A dynamic, ordered dictionary that is updated and queried in batches: insert and delete many pairs at a
//! time, then look up, count, list, rank and select millions of keys in parallel.
//!
//! A [`Dictionary`] maps keys ([`Key`]: integers, floats, bytes, and tuples of them) to values
//! ([`Value`]: plain data of 0, 4, 8 or 16 bytes). It lives on a [`Device`], chosen at run time: the
//! CPU or, with the feature `cuda`, an NVIDIA GPU (see the module `cuda` for data that stays there).
//!
//! ```
//! use gpulsm::{Batch, Dictionary};
//!
//! # fn main() -> Result<(), gpulsm::Error> {
//! let mut dictionary = Dictionary::<u64, u32>::new();
//! dictionary.insert(&[30, 10, 20], &[3, 1, 2])?;
//! dictionary.update(Batch::new().insert(&[40], &[4]).delete(&[10]))?;
//!
//! assert_eq!(dictionary.lookup(&[10, 20])?, [None, Some(2)]);
//! assert_eq!(dictionary.count(&[0..25, 25..100])?, [1, 2]);
//! assert_eq!(dictionary.range_one(25..)?, [(30, 3), (40, 4)]);
//! # Ok(())
//! # }
//! ```
//!
//! # Batches
//!
//! One call is one batch, of any length, and is applied as a whole or not at all: after an [`Error`] the
//! dictionary is as it was. Later batches win over earlier ones. Within one batch the last insert of a key
//! wins, and a key that is both inserted and deleted is deleted, whatever the order; a [`WriteBatch`] keeps
//! the order of its operations instead. Deleting an absent key is no error. (With the feature `testing`,
//! `testing::model` says all of this in code.)
//!
//! # How it works
//!
//! A batch is sorted into a *run*: an immutable sorted array. Runs lie in *levels*, each twice as
//! large as the one before; a batch that finds its level full is merged with what it finds, and goes
//! on to the next, as a carry goes through a binary counter. So n pairs take O(log n) merges each, and a
//! query searches O(log n) runs.
//!
//! Each entry carries two bits: whether it is *live* (or a tombstone), and whether it *shadows* an
//! older entry that was live. Since live − shadow over all entries of a key adds up to 1 if the key is
//! present and to 0 if it is absent, a count is two searches per run, however wide the range, and so are
//! the exact size of every answer, a rank, and the length.
//!
//! Runs never change, so a [`Snapshot`] is a list of shared runs: taking one copies nothing, and other
//! threads can query it while the dictionary is updated.
//!
//! # Choosing the batch size
//!
//! [`Builder::batch_size`] sets b, the size of batch that the levels are laid out for. Calls may be of any
//! length, but calls of about b cost least. Fewer, larger batches mean fewer levels and faster
//! queries; [`Dictionary::cleanup`] leaves a single run, the fastest of all to query.

#![deny(unsafe_code)]

mod aggregate;
mod batch;
mod budget;
mod builder;
mod change;
mod combine;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod device;
mod dictionary;
mod durable;
mod engine;
mod error;
pub mod files;
mod holders;
mod huge_pages;
mod iter;
mod key;
mod mark;
mod open;
mod queries;
mod query;
mod ranges;
mod shards;
mod snapshot;
mod stats;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod typed;
mod value;
mod workers;
mod write_batch;

pub use aggregate::{Aggregate, Max, Min, Number, Sum};
pub use batch::{Batch, Duplicates};
pub use builder::Builder;
pub use combine::Combine;
pub use device::{Device, Devices};
pub use dictionary::Dictionary;
pub use durable::Ticket;
pub use error::{Cause, Error, MAX_BATCH_SIZE, MAX_SHARDS};
pub use files::Durability;
pub use holders::Holders;
pub use iter::{Iter, TryIter};
pub use key::{AsOfKey, Key, OrderedKey, Prefix, ScalarKey};
pub use query::Direction;
pub use ranges::{KeyRange, PrefixRange, RangeBatch, Ranges, prefix};
pub use snapshot::Snapshot;
pub use stats::{Bytes, LevelStats, MemoryStats, Stats};
pub use store::{CleanupPolicy, DEFAULT_BATCH_SIZE};
pub use value::Value;
pub use write_batch::WriteBatch;

/// What the macros `key!` and `value!` expand to, and what callers need who know their types at run time only.
#[doc(hidden)]
pub mod private {
    pub use crate::aggregate::{Element, Fold, Operation};
    pub use crate::combine::Combiner;
    #[cfg(feature = "cuda")]
    pub use crate::cuda::columns;
    pub use crate::durable::{FileTypes, Replayed, types_in, types_in_folder};
    pub use crate::holders::HolderKind;
    pub use crate::key::private::Sealed;
    pub use crate::key::{Distance, Encoding, Layout, On, PackedKey, Part, lend};
    pub use crate::query::{AsOf, KeyColumns};
    pub use crate::ranges::RangeEnds;
    pub use crate::typed::StoredTypes;
    pub use crate::value::ValueType;
}

/// The README's example, so that it is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the guide for Rust.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Guide;

/// The example of dictionaries in files.
#[cfg(doctest)]
#[doc = include_str!("../docs/persistence.md")]
struct Persistence;

/// The examples of keys of several parts.
#[cfg(doctest)]
#[doc = include_str!("../docs/multimaps.md")]
struct Multimaps;
