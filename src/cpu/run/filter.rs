//! Filters: a byte for each key of a run that says, for 97 of 100 keys the run does not have, that
//! it does not. A lookup then asks few runs in vain, however many levels are full.
//!
//! A blocked Bloom filter: a key has four bits in one 64-bit word, so that asking is one cache miss.
//! It is built when lookups have asked the run in vain so often that it would have paid for itself.

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::prefetch;
use crate::error::Error;
use crate::key::OrderedKey;

/// Keys for each word of the filter, a byte for each.
const KEYS_PER_WORD: usize = 8;

/// The filter of one run, over all of its keys, tombstones' too.
#[derive(Debug)]
pub(crate) struct Filter {
    words: Buffer<u64>,
}

impl Filter {
    /// The filter of these keys.
    pub fn build<B: OrderedKey>(cpu: &Cpu, keys: &[B]) -> Result<Self, Error> {
        let len = keys.len().div_ceil(KEYS_PER_WORD);
        let mut words = cpu.memory.zeroed(len)?;
        // Each thread reads all keys and fills its own part of the words.
        let part = len.div_ceil(cpu.workers.parts(keys.len()));
        let parts = words.chunks_mut(part).enumerate();
        cpu.workers.each(parts, |(index, words)| {
            let start = index * part;
            for &key in keys {
                let (at, bits) = place(key, len);
                if let Some(word) = words.get_mut(at.wrapping_sub(start)) {
                    *word |= bits;
                }
            }
            Ok(())
        })?;
        Ok(Filter { words })
    }

    /// Moves to the front those keys, with their companions, that the run may have; returns how
    /// many there are.
    pub fn sift<B: OrderedKey>(&self, keys: &mut [B], companions: &mut [usize]) -> usize {
        for &key in &*keys {
            prefetch(&self.words, place(key, self.words.len()).0);
        }
        let mut sifted = 0;
        for at in 0..keys.len() {
            let may_have = self.may_have(keys[at]);
            keys.swap(sifted, at);
            companions.swap(sifted, at);
            sifted += usize::from(may_have);
        }
        sifted
    }

    /// Whether the run may have the key.
    fn may_have<B: OrderedKey>(&self, key: B) -> bool {
        let (at, bits) = place(key, self.words.len());
        self.words[at] & bits == bits
    }

    pub fn bytes(&self) -> u64 {
        self.words.bytes()
    }

    /// Whether the filter lets every key through that it must.
    #[cfg(feature = "testing")]
    pub fn validate<B: OrderedKey>(&self, keys: &[B]) -> Result<(), String> {
        match keys.iter().find(|&&key| !self.may_have(key)) {
            Some(key) => Err(format!("the filter denies key {key}")),
            None => Ok(()),
        }
    }
}

/// Which of `len` words a key belongs to, and its bits there.
#[inline]
fn place<B: OrderedKey>(key: B, len: usize) -> (usize, u64) {
    // Two rounds of multiplying and folding scatter even dense keys over all 64 bits.
    let mixed = (key.widen() ^ key.widen() >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (mixed ^ mixed >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let at = ((u128::from(hash) * len as u128) >> 64) as usize;
    // The word is chosen by the upper bits, the bits in it by the lower ones.
    let bit = |round: u32| 1u64 << (hash >> (6 * round) & 63);
    (at, bit(0) | bit(1) | bit(2) | bit(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 100,000 keys that are not there pass the filter.
    fn false_alarms<B: OrderedKey>(keys: &[B], others: &[B]) -> usize {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        let filter = Filter::build(&cpu, keys).unwrap();
        filter.validate(keys).unwrap();
        others.iter().filter(|&&key| filter.may_have(key)).count()
    }

    #[test]
    fn few_keys_pass_that_are_not_there() {
        let even: Vec<u32> = (0..100_000).map(|i| 2 * i).collect();
        let odd: Vec<u32> = even.iter().map(|key| key + 1).collect();
        assert!(false_alarms(&even, &odd) < 4_000);
        let spread = |keys: &[u32], shift: u32| -> Vec<u64> {
            keys.iter().map(|&key| u64::from(key) << shift).collect()
        };
        for shift in [0, 1, 20, 40] {
            let passed = false_alarms(&spread(&even, shift), &spread(&odd, shift));
            assert!(passed < 4_000, "{passed} of 100,000 at shift {shift}");
        }
    }

    #[test]
    fn sifting_keeps_keys_with_their_companions() {
        let cpu = Cpu::new(None, None).unwrap();
        let filter = Filter::build(&cpu, &(0..1000u64).collect::<Vec<_>>()).unwrap();
        let mut keys: Vec<u64> = (0..2000).rev().collect();
        let mut companions: Vec<usize> = (0..2000).rev().collect();
        let sifted = filter.sift(&mut keys, &mut companions);
        assert!((1000..1100).contains(&sifted), "{sifted}");
        assert!(keys.iter().zip(&companions).all(|(&key, &companion)| key == companion as u64));
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..2000));
    }

    #[test]
    fn one_key_makes_a_filter() {
        assert_eq!(false_alarms(&[7u32], &[]), 0);
    }
}
