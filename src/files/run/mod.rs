//! A run in a file: written once, in pieces, and read in blocks that are verified one by one.

mod layout;
mod reader;
mod writer;

pub(crate) use layout::{RunInfo, RunShape, Section, Widths};
pub(crate) use reader::RunReader;
pub(crate) use writer::RunWriter;
