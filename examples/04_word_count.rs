//! Counts words, a stream of batches with many duplicates: an insert adds to the count that its word has.
//!
//! Keys are the first eight bytes of a word, most significant first, so that keys sort as words do, and all words
//! with a prefix are a range.
//!
//!     cargo run --release -p gpulsm --example 04_word_count [FILE …]

use std::collections::BTreeMap;

use gpulsm::{Combine, Dictionary, Sum};

/// Counted if no file is named.
const TEXT: &str = include_str!("../docs/design.md");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let texts = match files.is_empty() {
        true => vec![TEXT.to_owned()],
        false => files.iter().map(std::fs::read_to_string).collect::<Result<_, _>>()?,
    };
    let words: Vec<String> = texts
        .iter()
        .flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();

    let mut counts = Dictionary::<u64, u32>::builder().combine(Combine::Add).build()?;
    for batch in words.chunks(1000) {
        let keys: Vec<u64> = batch.iter().map(|word| key_of(word)).collect();
        counts.insert(&keys, &vec![1; keys.len()])?;
    }
    println!("{} words, {} different ones (by eight bytes)\n", words.len(), counts.len()?);

    println!("the most frequent:");
    let (keys, numbers) = counts.to_vecs()?;
    let mut by_count: Vec<(u32, u64)> = numbers.into_iter().zip(keys).collect();
    by_count.sort_unstable_by(|a, b| b.cmp(a));
    for (count, key) in by_count.iter().take(10) {
        println!("{count:>8} {}", text_of(*key));
    }

    println!("\nwords with a prefix, which are a range of keys:");
    for prefix in ["b", "me", "the", "zzz"] {
        let first = key_of(prefix);
        let last = first | u64::MAX >> (8 * prefix.len());
        let (total, different) = counts.aggregate_one(first..=last, Sum)?.unwrap_or_default();
        println!("{:>8} {prefix}…: {different} different ones", total);
    }

    let mut expected = BTreeMap::new();
    for word in &words {
        *expected.entry(key_of(word)).or_insert(0) += 1;
    }
    assert!(counts.iter().eq(expected), "the counts are not those of a plain map");
    println!("\nThe counts are those of a plain map.");
    Ok(())
}

/// Returns the first eight bytes of a word as a number, padded with zeros.
fn key_of(word: &str) -> u64 {
    let mut bytes = [0; 8];
    let len = word.len().min(8);
    bytes[..len].copy_from_slice(&word.as_bytes()[..len]);
    u64::from_be_bytes(bytes)
}

/// Returns the bytes of a key as text.
fn text_of(key: u64) -> String {
    String::from_utf8_lossy(&key.to_be_bytes()).trim_end_matches('\0').to_owned()
}
