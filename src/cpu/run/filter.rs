//! Filters: blocked Bloom filters that tell, for 97 of 100 keys that a run does not hold, that it
//! does not. They spare lookups most searches in runs that do not hold the key, however many levels
//! are full.
//!
//! A key sets four bits in one 64-bit word, so a test costs at most one cache miss. A filter takes
//! one byte per key, and is built once the run has been searched in vain so often that the filter
//! would have paid for itself.

use crate::budget::Reserved;
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::prefetch;
use crate::error::Error;
use crate::key::OrderedKey;

/// Keys per 64-bit word of a filter.
const KEYS_PER_WORD: usize = 8;

/// The filter of one run, over all of its keys, those of tombstones included.
#[derive(Debug)]
pub(crate) struct Filter {
    words: Buffer<u64>,
}

impl Filter {
    /// Builds the filter of these keys.
    pub fn build<B: OrderedKey>(cpu: &Cpu, keys: &[B]) -> Result<Self, Error> {
        let len = keys.len().div_ceil(KEYS_PER_WORD);
        let mut words = cpu.memory.zeroed(len)?;
        // Each thread reads all keys and sets the bits in its own part of the words.
        let part = len.div_ceil(cpu.workers.parts(keys.len()));
        let parts = words.chunks_mut(part).enumerate();
        cpu.workers.each(parts, |(index, words)| {
            let start = index * part;
            for &key in keys {
                let place = filter_place(key.digest());
                if let Some(word) = words.get_mut(place.word(len).wrapping_sub(start)) {
                    *word |= place.bits;
                }
            }
            Ok(())
        })?;
        Ok(Filter { words })
    }

    /// Moves the keys that the run may hold to the front, together with their indices, and returns
    /// how many there are.
    pub fn partition<B: OrderedKey>(&self, keys: &mut [B], indices: &mut [usize]) -> usize {
        for &key in &*keys {
            prefetch(&self.words, filter_place(key.digest()).word(self.words.len()));
        }
        let mut passed = 0;
        for at in 0..keys.len() {
            let passes = self.may_contain(keys[at]);
            keys.swap(passed, at);
            indices.swap(passed, at);
            passed += usize::from(passes);
        }
        passed
    }

    /// Returns whether the run may hold the key; `false` is certain.
    #[inline]
    fn may_contain<B: OrderedKey>(&self, key: B) -> bool {
        let place = filter_place(key.digest());
        self.words[place.word(self.words.len())] & place.bits == place.bits
    }

    /// Returns the bytes allocated.
    pub fn bytes(&self) -> u64 {
        self.words.bytes()
    }

    /// Frees the filter, whose bytes are counted elsewhere from then on.
    pub fn free(&mut self, to: &mut Reserved) {
        self.words.free(to);
    }

    /// Checks that the filter passes every key of the run.
    #[cfg(feature = "testing")]
    pub fn validate<B: OrderedKey>(&self, keys: &[B]) -> Result<(), String> {
        match keys.iter().find(|&&key| !self.may_contain(key)) {
            Some(key) => Err(format!("the filter rejects key {key:?}, which the run holds")),
            None => Ok(()),
        }
    }
}

/// Where a key belongs in any filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterPlace {
    /// The word, as a fraction of all words: 2^32 stands for 1.
    pub fraction: u32,
    /// The bits of that word.
    pub bits: u64,
}

impl FilterPlace {
    /// Returns the index of the word in a filter of `len` words. If a filter has more than 2^32
    /// words (a run of 2^35 keys), some of them are never used: the index is still valid, and the
    /// same for every caller.
    #[inline]
    pub fn word(self, len: usize) -> usize {
        ((u128::from(self.fraction) * len as u128) >> 32) as usize
    }
}

/// Returns the place of a key. The kernels compute the same (`FilterPlace` in `filter.cuh`).
#[inline]
pub(crate) fn filter_place(key: u64) -> FilterPlace {
    // Every bit of the key affects every bit of the hash, so that similar keys are spread too.
    let hash = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let hash = hash ^ hash >> 32;
    // The upper half chooses the word, the lower half the bits.
    let bit = |round: u32| 1u64 << (hash >> (6 * round) & 63);
    FilterPlace { fraction: (hash >> 32) as u32, bits: bit(0) | bit(1) | bit(2) | bit(3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of the other keys pass the filter of these keys.
    fn false_positives<B: OrderedKey>(keys: &[B], others: &[B]) -> usize {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        let filter = Filter::build(&cpu, keys).unwrap();
        filter.validate(keys).unwrap();
        others.iter().filter(|&&key| filter.may_contain(key)).count()
    }

    #[test]
    fn few_absent_keys_pass() {
        let even: Vec<u32> = (0..100_000).map(|i| 2 * i).collect();
        let odd: Vec<u32> = even.iter().map(|key| key + 1).collect();
        assert!(false_positives(&even, &odd) < 4_000);
        let spread = |keys: &[u32], shift: u32| -> Vec<u64> {
            keys.iter().map(|&key| u64::from(key) << shift).collect()
        };
        for shift in [0, 1, 20, 40] {
            let passed = false_positives(&spread(&even, shift), &spread(&odd, shift));
            assert!(passed < 4_000, "{passed} of 100,000 at shift {shift}");
        }
    }

    #[test]
    fn partitioning_keeps_keys_with_their_indices() {
        let cpu = Cpu::new(None, None).unwrap();
        let filter = Filter::build(&cpu, &(0..1000u64).collect::<Vec<_>>()).unwrap();
        let mut keys: Vec<u64> = (0..2000).rev().collect();
        let mut indices: Vec<usize> = (0..2000).rev().collect();
        let passed = filter.partition(&mut keys, &mut indices);
        assert!((1000..1100).contains(&passed), "{passed}");
        assert!(keys.iter().zip(&indices).all(|(&key, &index)| key == index as u64));
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..2000));
    }

    /// The kernels compute the same values: if these change, so must theirs.
    #[test]
    fn places_are_those_that_the_kernels_compute() {
        let places = [0, 1, 7, u64::from(u32::MAX), 1 << 32, 0x0123_4567_89ab_cdef, u64::MAX]
            .map(filter_place)
            .map(|place| (place.fraction, place.bits));
        let expected = [
            (0x0000_0000, 0x0000_0000_0000_0001),
            (0x17fb_89ee, 0x0004_0c00_0001_0000),
            (0x390d_6da2, 0x0022_0408_0000_0000),
            (0x4dc5_cb09, 0x0000_0400_0200_1000),
            (0x0734_ee3e, 0x8000_0080_2000_0080),
            (0xc392_d281, 0x8008_0000_0200_0100),
            (0x9814_8b00, 0x0002_0000_00c0_0080),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn words_are_spread_over_the_whole_filter() {
        let place = |fraction| FilterPlace { fraction, bits: 1 };
        for len in [1, 2, 3, 1000, u32::MAX as usize, 1 << 32, 1 << 33, 1 << 40] {
            assert_eq!(place(0).word(len), 0);
            assert_eq!(place(1 << 31).word(len), len / 2);
            let last = place(u32::MAX).word(len);
            assert!(last < len && last >= len - 1 - (len >> 32), "{last} of {len}");
        }
    }

    #[test]
    fn one_key_makes_a_filter() {
        assert_eq!(false_positives(&[7u32], &[]), 0);
    }
}
