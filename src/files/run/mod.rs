//! A run in a file: written once, in pieces, and read in blocks that are verified one by one.

mod layout;
mod reader;
#[cfg(any(test, feature = "testing"))]
mod seal;
mod writer;

pub(crate) use layout::{RunInfo, RunShape, Section, Widths};
pub(crate) use reader::RunReader;
#[cfg(any(test, feature = "testing"))]
pub(crate) use seal::seal;
pub(crate) use writer::RunWriter;
