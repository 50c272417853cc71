//! Bytes read as the files of a folder. The first one says whether checksums are made right before.
//!
//!     cargo fuzz run --sanitizer none folder -- -max_len=20000
//!
//! What it finds goes into `src/files/tests/`, as a test of its own; its corpus is replayed by `tests/it/readers.rs`
//! on every run of the tests.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    gpulsm::testing::readers::read_folder(bytes);
});
