//! Dictionaries in files: what is written, in which order, and what a crash leaves.

mod bytes;
mod disk;
mod run;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;
mod storage;
