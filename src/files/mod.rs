//! Dictionaries in files: what is written, in which order, and what a crash leaves.

mod bytes;
mod check;
mod checkpoint;
mod directories;
mod disk;
mod folder;
mod info;
mod log;
mod log_reader;
mod manifest;
mod names;
mod opening;
mod publish;
mod record;
mod recovery;
mod run;
mod saved;
mod schema;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;
mod source;
mod storage;
#[cfg(test)]
mod tests;

#[cfg(feature = "testing")]
pub(crate) use check::check_in;
pub use check::{check, check_with, info};
pub(crate) use checkpoint::Checkpoint;
pub(crate) use disk::Disk;
pub use folder::Durability;
pub(crate) use folder::{Folder, Options};
pub use info::{Info, RunFile};
pub(crate) use manifest::Manifest;
pub(crate) use opening::Opening;
pub(crate) use record::Update;
pub(crate) use run::{RunInfo, RunReader, RunShape, RunWriter, Section, Widths};
pub(crate) use saved::{SavedReader, SavedWriter};
pub(crate) use schema::{Kind, Part, Schema};
pub(crate) use source::Source;
pub(crate) use storage::{Storage, io_error};
