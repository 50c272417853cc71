//! Operation lists drawn from bytes, against the model: the same lists as the model tests'.
//!
//!     cargo fuzz run --sanitizer none operations -- -max_len=3000
//!
//! What it finds goes into `tests/it/regressions.rs`, shrunk; its corpus is replayed by
//! `tests/it/corpus.rs` on every run of the tests.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(mismatch) = gpulsm::testing::from_bytes::check_bytes(bytes) {
        panic!("{mismatch}");
    }
});
