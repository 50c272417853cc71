//! Fingers: where the last search for a key with the same first parts ended, so that the next one starts there.
//!
//! Questions of an as-of query often come in the order of time. Then the next question about the same thing is
//! answered a few entries further, and a search that starts there reads few cache lines, most of which the last
//! one has read too. A finger is a guess that the search verifies: keys may share one, and it may point anywhere.

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::{CACHE_LINE, prefetch};
use crate::cpu::query::bounds::GROUP;
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;

/// The base-2 logarithm of the number of fingers in a run: few enough to stay in the cache of a core.
const SLOT_BITS: u32 = 14;

/// In shorter runs, all layers of fences are in the nearest cache.
const MIN_RUN: usize = 1 << 12;

/// Keys near a finger among which a key is searched for, a power of two: two cache lines of `u128`.
const NEAR: usize = 8;

/// How many of them are before the finger, for questions that are a little late.
const NEAR_BEFORE: usize = 2;

/// How often a key is searched for among the next keys, if all were less.
const STEPS: usize = 2;

/// The fingers of one thread, in every run.
pub(crate) struct Fingers {
    /// For each run, the positions where searches ended.
    positions: Buffer<u32>,
    /// For each run, whether searches start from the fingers: most of the last ones ended near them.
    helps: Vec<bool>,
    /// How many of the low bits of keys tell those apart that share a finger.
    low_bits: u32,
}

impl Fingers {
    /// Makes fingers for keys that begin with the same parts if all but this many low bits are equal.
    pub fn new<B: OrderedKey>(cpu: &Cpu, runs: usize, low_bits: u32) -> Result<Self, Error> {
        let positions = cpu.memory.zeroed(runs << SLOT_BITS)?;
        Ok(Fingers { positions, helps: vec![false; runs], low_bits: low_bits.min(B::BITS - 1) })
    }

    /// Finds, for each of at most [`GROUP`] keys, the position of the first key ≥ it in the run of this index.
    pub fn lower_bounds<B: OrderedKey>(
        &mut self,
        (index, run): (usize, &Run<B>),
        keys: &[B],
        positions: &mut [usize],
    ) {
        if !(MIN_RUN..u32::MAX as usize).contains(&run.len()) {
            return run.lower_bounds(keys, positions);
        }
        let mut slots = [0; GROUP];
        for (slot, &key) in slots.iter_mut().zip(keys) {
            let first_parts = key.steps_above(B::default(), self.low_bits) as u64;
            *slot = (first_parts.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOT_BITS)) as usize;
        }
        let fingers = &mut self.positions[index << SLOT_BITS..][..1 << SLOT_BITS];
        let slots = &slots[..keys.len()];
        let near = match self.helps[index] {
            true => search_from(fingers, slots, run, keys, positions),
            false => search_from_top(fingers, slots, run, keys, positions),
        };
        self.helps[index] = 4 * near > 3 * keys.len();
    }
}

/// Searches for keys from the top, and moves their fingers. Returns how many searches ended near them.
fn search_from_top<B: OrderedKey>(
    fingers: &mut [u32],
    slots: &[usize],
    run: &Run<B>,
    keys: &[B],
    positions: &mut [usize],
) -> usize {
    run.lower_bounds(keys, positions);
    let mut near = 0;
    for (&slot, &position) in slots.iter().zip(&*positions) {
        let finger = std::mem::replace(&mut fingers[slot], position as u32) as usize;
        near += usize::from(position.wrapping_sub(first_near(finger)) < NEAR);
    }
    near
}

/// Searches for keys from their fingers, and moves these. Returns how many searches ended near them.
fn search_from<B: OrderedKey>(
    fingers: &mut [u32],
    slots: &[usize],
    run: &Run<B>,
    keys: &[B],
    positions: &mut [usize],
) -> usize {
    let entries = run.padded_keys();
    slots.iter().for_each(|&slot| prefetch_near(entries, fingers[slot] as usize));
    // The keys whose lower bounds are far from their fingers, and their indices.
    let (mut far_keys, mut far_indices) = ([B::default(); GROUP], [0; GROUP]);
    let mut far = 0;
    for (index, (&slot, &key)) in slots.iter().zip(keys).enumerate() {
        match lower_bound_near(entries, fingers[slot] as usize, key) {
            Some(position) => {
                fingers[slot] = position as u32;
                positions[index] = position;
            }
            None => {
                (far_keys[far], far_indices[far]) = (key, index);
                far += 1;
            }
        }
    }
    if far > 0 {
        let mut found = [0; GROUP];
        run.lower_bounds(&far_keys[..far], &mut found[..far]);
        for (&index, &position) in far_indices[..far].iter().zip(&found) {
            positions[index] = position;
            fingers[slots[index]] = position as u32;
        }
    }
    keys.len() - far
}

/// Returns how many of the sorted keys are less than `key`, if that is near the finger.
#[inline]
fn lower_bound_near<B: OrderedKey>(sorted: &[B], finger: usize, key: B) -> Option<usize> {
    let first = first_near(finger).min(sorted.len().checked_sub(NEAR * STEPS)?);
    for step in 0..STEPS {
        let start = first + step * NEAR;
        let near: &[B; NEAR] = sorted[start..].first_chunk()?;
        if near[NEAR - 1] < key {
            continue;
        }
        let mut less = 0;
        for width in (0..NEAR.ilog2()).rev().map(|bit| 1 << bit) {
            less += width * usize::from(near[(less + width - 1) % NEAR] < key);
        }
        return (less > 0 || step > 0 || start == 0).then_some(start + less);
    }
    None
}

/// Returns the first position near a finger.
#[inline]
fn first_near(finger: usize) -> usize {
    finger.saturating_sub(NEAR_BEFORE)
}

/// Prefetches the keys that [`lower_bound_near`] compares first.
#[inline]
fn prefetch_near<B>(sorted: &[B], finger: usize) {
    let first = first_near(finger);
    for offset in (0..NEAR).step_by(CACHE_LINE / size_of::<B>()) {
        prefetch(sorted, first + offset);
    }
    prefetch(sorted, first + NEAR - 1);
}
