//! A device's engine and its runs together: which runs merge, what is buffered, when to clean up.
//!
//! The way of a batch: [`AnyStore::apply`] brings it to the device; `apply.rs` buffers it (`buffer.rs`) or
//! lets the engine sort it and merge it with the runs that the counter names (`levels.rs`). A merge that
//! would take too long for one batch is deferred (`deferred.rs`), and one for which memory is too short is done
//! in place (`in_place.rs`). Where there is none even for the tombstones of a delete, entries are removed
//! (`removal.rs`). Afterwards stale entries may go (`cleanup.rs`).

mod any;
mod apply;
mod buffer;
mod cleanup;
mod deferred;
mod in_place;
mod levels;
mod prepared;
mod removal;
mod settings;
mod state;
mod stats;
#[cfg(feature = "testing")]
mod validate;

pub(crate) use any::select_two;
pub use any::{AnyStore, PreparedChange};
pub(crate) use buffer::MAX_BUFFERED_BATCHES;
#[cfg(feature = "testing")]
pub(crate) use deferred::prefers_in_place;
#[cfg(feature = "cuda")]
pub(crate) use levels::Levels;
pub use settings::{CleanupPolicy, DEFAULT_BATCH_SIZE, Settings};
pub(crate) use state::Store;
