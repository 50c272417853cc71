//! Dictionaries that live in files: what connects stores, which know engines, with `files/`, which knows bytes.

mod contents;
mod dictionary;
pub(crate) mod journal;
mod lease;
mod schema;

pub use dictionary::{types_in, types_in_folder};
pub use journal::{Replayed, Ticket};
pub use schema::FileTypes;
