//! Counts k-mers: the strings of k letters that occur in DNA, each together with its reverse complement, as
//! genome assemblers and metagenomics do. Reads come in batches; most k-mers come again and again.
//!
//!     cargo run --release -p gpulsm --example 05_kmers [READS]

use std::collections::HashMap;

use gpulsm::{Combine, Dictionary, Sum};

/// Letters of a k-mer: two bits each, so that it fits into a key.
const K: usize = 21;

const GENOME: usize = 20_000;
const READ: usize = 150;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reads = std::env::args().nth(1).map_or(Ok(3000), |text| text.parse())?;
    let mut random = Random(7);
    let genome: Vec<u8> = (0..GENOME).map(|_| (random.next() % 4) as u8).collect();

    let mut counts = Dictionary::<u64, u32>::builder().combine(Combine::Add).build()?;
    let mut expected = HashMap::new();
    for batch in 0..reads / 100 {
        let mut kmers = Vec::new();
        for _ in 0..100 {
            kmers.extend(canonical_kmers(&read(&genome, &mut random)));
        }
        counts.insert(&kmers, &vec![1; kmers.len()])?;
        kmers.iter().for_each(|&kmer| *expected.entry(kmer).or_insert(0u32) += 1);
        if batch % 10 == 9 {
            println!("{:>6} reads: {:>7} different k-mers", (batch + 1) * 100, counts.len()?);
        }
    }

    // K-mers of the genome occur about as often as each place is read; those with an error mostly once.
    let (_, numbers) = counts.to_vecs()?;
    println!("\nhow often  k-mers");
    for (often, class) in [(1, "once"), (2, "2 to 4"), (5, "5 to 15"), (16, "more")] {
        let last = match often {
            1 => 1,
            2 => 4,
            5 => 15,
            _ => u32::MAX,
        };
        let kmers = numbers.iter().filter(|&&number| (often..=last).contains(&number)).count();
        println!("{class:>9} {kmers:>7}");
    }
    // Keys sort as their letters do, so those that begin alike are a range.
    let first = 0b00_01_10_11 << (2 * (K - 4)); // ACGT…
    let last = first | ((1 << (2 * (K - 4))) - 1);
    let (total, different) = counts.aggregate_one(first..=last, Sum)?.unwrap_or_default();
    println!("\n{different} k-mers begin with ACGT, and occur {total} times.");

    let mut expected: Vec<(u64, u32)> = expected.into_iter().collect();
    expected.sort_unstable();
    assert!(counts.iter().eq(expected), "the counts are not those of a plain map");
    println!("The counts are those of a plain map.");
    Ok(())
}

/// Returns a read from a random place of the genome, of either strand, with one letter in 200 wrong.
fn read(genome: &[u8], random: &mut Random) -> Vec<u8> {
    let start = random.next() as usize % (genome.len() - READ);
    let mut letters = genome[start..start + READ].to_vec();
    if random.next().is_multiple_of(2) {
        letters.reverse();
        letters.iter_mut().for_each(|letter| *letter ^= 3);
    }
    for letter in &mut letters {
        if random.next().is_multiple_of(200) {
            *letter = (*letter + 1 + (random.next() % 3) as u8) % 4;
        }
    }
    letters
}

/// Returns the k-mers of a read (A, C, G, T are 0 to 3), each or its reverse complement, whichever is less.
fn canonical_kmers(letters: &[u8]) -> impl Iterator<Item = u64> {
    let mask = (1u64 << (2 * K)) - 1;
    letters.windows(K).map(move |window| {
        let forward = window.iter().fold(0, |kmer, &letter| kmer << 2 | u64::from(letter));
        let reverse =
            window.iter().rev().fold(0, |kmer, &letter| kmer << 2 | u64::from(letter ^ 3));
        (forward & mask).min(reverse & mask)
    })
}

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
