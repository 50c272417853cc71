//! The fuzzer's corpus, replayed on every run.

use std::path::{Path, PathBuf};

#[test]
fn every_kept_input_passes() {
    let corpus = match std::env::var_os("GPULSM_CORPUS") {
        Some(corpus) => PathBuf::from(corpus),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/operations"),
    };
    if !corpus.exists() {
        return; // The published package has no corpus.
    }
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        gpulsm::testing::check::check_bytes(&bytes)
            .unwrap_or_else(|mismatch| panic!("{}: {mismatch}", path.display()));
        replayed += 1;
    }
    assert!(replayed > 20, "only {replayed} inputs in the corpus");
}
