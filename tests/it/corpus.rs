//! The fuzzer's corpus, replayed on every run.

use crate::of_checkout;

#[test]
fn every_kept_input_passes() {
    let corpus = of_checkout("fuzz/corpus/operations");
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let canonical = gpulsm::testing::from_bytes::canonical(&bytes);
        if bytes != canonical && std::env::var_os("GPULSM_CORPUS_REWRITE").is_some() {
            std::fs::write(&path, &canonical).unwrap();
        } else {
            assert!(
                bytes == canonical,
                "{} is not canonical: run this test with GPULSM_CORPUS_REWRITE=1",
                path.display()
            );
        }
        gpulsm::testing::from_bytes::check_bytes(&bytes)
            .unwrap_or_else(|mismatch| panic!("{}: {mismatch}", path.display()));
        replayed += 1;
    }
    assert!(replayed > 20, "only {replayed} inputs in the corpus");
}
