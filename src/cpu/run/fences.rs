//! Fences: sampled keys in layers, so that a search reads a few cache lines instead of twenty.
//!
//! The lowest layer holds the first key of every node of [`NODE`] keys, the layer above the first
//! key of every node of the lowest, and so on up to a layer of one node. A search descends node by
//! node, counting in each how many keys are less than the one searched for. Incomplete nodes are
//! padded with the largest key, which is never *less* than another key and so is never counted.

use std::ops::Range;

use crate::budget::Reserved;
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::{CACHE_LINE, prefetch};
use crate::error::Error;
use crate::key::OrderedKey;

/// Keys in a node: one cache line of `u32`, two of `u64`.
pub(crate) const NODE: usize = 16;

/// Fences that take as long to copy as one query takes to answer.
const FENCES_PER_WORK: usize = 8;

/// Searches that descend together, so that their cache misses overlap.
const GROUP: usize = 32;

/// Returns `len` rounded up to whole nodes.
#[inline]
pub(crate) fn padded(len: usize) -> usize {
    len.next_multiple_of(NODE)
}

/// The fences of one sorted array, whose length is a whole number of nodes.
#[derive(Debug)]
pub(crate) struct Fences<B> {
    keys: Buffer<B>,
    /// The range of each layer in `keys`, top layer first.
    layers: Vec<Range<usize>>,
}

impl<B: OrderedKey> Fences<B> {
    /// Builds the fences of `keys`, which are sorted and padded to whole nodes.
    pub fn build(cpu: &Cpu, keys: &[B]) -> Result<Self, Error> {
        Self::build_in(cpu, keys, cpu.memory.zeroed(fence_count(keys.len()))?)
    }

    /// Builds the fences of `keys` in a buffer with room for [`fence_count`] of them. No memory is allocated.
    pub fn build_in(cpu: &Cpu, keys: &[B], mut fences: Buffer<B>) -> Result<Self, Error> {
        let layers = layout(keys.len());
        fill(cpu, keys, &mut fences, &layers)?;
        Ok(Fences { keys: fences, layers })
    }

    /// Builds the fences anew, of keys of which there are no more than before.
    pub fn rebuild(&mut self, cpu: &Cpu, keys: &[B]) -> Result<(), Error> {
        self.layers = layout(keys.len());
        self.keys.truncate(fence_count(keys.len()));
        fill(cpu, keys, &mut self.keys, &self.layers)
    }

    /// Finds, for every query, the position of the first key ≥ it in `keys`, which these fences
    /// were built for.
    pub fn lower_bounds(&self, keys: &[B], queries: &[B], positions: &mut [usize]) {
        for (queries, positions) in queries.chunks(GROUP).zip(positions.chunks_mut(GROUP)) {
            // The whole group descends one layer at a time: while one search reads its node, the
            // next nodes of the others are being fetched.
            positions.fill(0);
            for (layer, below) in self.layers_and_below(keys) {
                for (&key, node) in queries.iter().zip(positions.iter_mut()) {
                    *node = descend(layer, *node, key);
                    prefetch_node(below, *node);
                }
            }
            for (&key, position) in queries.iter().zip(positions) {
                *position = search_node(keys, *position, key);
            }
        }
    }

    /// Finds the [`lower_bounds`](Fences::lower_bounds) of both ends of ranges with `lo ≤ hi`. The
    /// ends of a narrow range descend together for most layers, at little more than the cost of one
    /// search.
    pub fn bounds_of_ranges(
        &self,
        keys: &[B],
        (lo, hi): (&[B], &[B]),
        starts: &mut [usize],
        ends: &mut [usize],
    ) {
        let ranges = lo.chunks(GROUP / 2).zip(hi.chunks(GROUP / 2));
        let positions = starts.chunks_mut(GROUP / 2).zip(ends.chunks_mut(GROUP / 2));
        for ((lo, hi), (starts, ends)) in ranges.zip(positions) {
            starts.fill(0);
            ends.fill(0);
            for (layer, below) in self.layers_and_below(keys) {
                let ranges = lo.iter().zip(hi);
                for ((&lo, &hi), (start, end)) in ranges.zip(starts.iter_mut().zip(&mut *ends)) {
                    let together = start == end;
                    *start = descend(layer, *start, lo);
                    prefetch_node(below, *start);
                    // Unless a fence lies between them, both ends descend to the same node.
                    if together && layer.get(*start + 1).is_none_or(|&fence| fence >= hi) {
                        *end = *start;
                    } else {
                        *end = descend(layer, *end, hi);
                        prefetch_node(below, *end);
                    }
                }
            }
            for (&key, start) in lo.iter().zip(starts) {
                *start = search_node(keys, *start, key);
            }
            for (&key, end) in hi.iter().zip(ends) {
                *end = search_node(keys, *end, key);
            }
        }
    }

    /// Returns each layer, top first, with the layer below it; below the lowest are the keys
    /// themselves.
    fn layers_and_below<'a>(&'a self, keys: &'a [B]) -> impl Iterator<Item = (&'a [B], &'a [B])> {
        self.layers.iter().enumerate().map(move |(depth, layer)| {
            let below = self.layers.get(depth + 1);
            (&self.keys[layer.clone()], below.map_or(keys, |below| &self.keys[below.clone()]))
        })
    }

    /// Returns the first key of every node of `keys`: the lowest layer without its padding. Empty
    /// if there is only one node.
    pub fn firsts(&self, keys: &[B]) -> &[B] {
        self.layers.last().map_or(&[], |layer| &self.keys[layer.clone()][..keys.len() / NODE])
    }

    /// Returns the bytes allocated.
    pub fn bytes(&self) -> u64 {
        self.keys.bytes()
    }

    /// Frees the fences, whose bytes are counted elsewhere from then on. Nothing can be searched then.
    pub fn free(&mut self, to: &mut Reserved) {
        self.layers.clear();
        self.keys.free(to);
    }

    /// Checks every layer against the one below it.
    #[cfg(feature = "testing")]
    pub fn validate(&self, keys: &[B]) -> Result<(), String> {
        let mut below = keys;
        for layer in self.layers.iter().rev() {
            let layer = &self.keys[layer.clone()];
            let firsts = below.iter().step_by(NODE).copied();
            let padding = std::iter::repeat(B::HIGHEST);
            if !layer.iter().copied().eq(firsts.chain(padding).take(layer.len())) {
                return Err("a fence is not the first key of its node".into());
            }
            below = layer;
        }
        if below.len() > NODE {
            return Err(format!("the top layer of fences has {} keys", below.len()));
        }
        Ok(())
    }
}

/// Returns how many fences `len` keys have, in all layers.
pub(crate) fn fence_count(len: usize) -> usize {
    layout(len).first().map_or(0, |top| top.end)
}

/// Returns the ranges of the layers over `len` keys in one array, top layer first; the lowest layer
/// is at the start of the array.
fn layout(len: usize) -> Vec<Range<usize>> {
    let mut layers = Vec::new();
    let mut below = len;
    let mut start = 0;
    while below > NODE {
        let layer = padded(below / NODE);
        layers.push(start..start + layer);
        start += layer;
        below = layer;
    }
    layers.reverse();
    layers
}

/// Writes all layers, bottom up, as they are stored: each layer samples the one before it.
fn fill<B: OrderedKey>(
    cpu: &Cpu,
    keys: &[B],
    fences: &mut [B],
    layers: &[Range<usize>],
) -> Result<(), Error> {
    for (index, layer) in layers.iter().enumerate().rev() {
        let (lower, rest) = fences.split_at_mut(layer.start);
        let below = layers.get(index + 1).map_or(keys, |below| &lower[below.clone()]);
        sample(cpu, below, &mut rest[..layer.len()])?;
    }
    Ok(())
}

/// Copies the first key of every node of `below`, and pads with the largest key. All threads share the work if it
/// is long: every fence is a cache miss.
fn sample<B: OrderedKey>(cpu: &Cpu, below: &[B], layer: &mut [B]) -> Result<(), Error> {
    let part = layer.len().div_ceil(cpu.workers.parts(layer.len() / FENCES_PER_WORK));
    cpu.workers.each(layer.chunks_mut(part).enumerate(), |(index, fences)| {
        let below = below.get(index * part * NODE..).unwrap_or_default();
        let firsts = below.iter().step_by(NODE).copied();
        for (fence, first) in fences.iter_mut().zip(firsts.chain(std::iter::repeat(B::HIGHEST))) {
            *fence = first;
        }
        Ok(())
    })
}

/// Returns the node of the layer below in which, or just after which, the first key ≥ `key` is.
#[inline]
fn descend<B: OrderedKey>(layer: &[B], node: usize, key: B) -> usize {
    // That is the node of the last fence less than `key`, or the first node if there is no such
    // fence. So the first fence need not be compared, and four steps suffice for the other 15.
    let fences = node_of(layer, node);
    let mut last = 0;
    let mut half = NODE / 2;
    while half > 0 {
        last += half * usize::from(fences[(last + half) % NODE] < key);
        half /= 2;
    }
    node * NODE + last
}

/// Returns the keys of a node.
#[inline]
fn node_of<B>(layer: &[B], node: usize) -> &[B; NODE] {
    layer[node * NODE..][..NODE].try_into().expect("a node has NODE keys")
}

/// Returns the position in `layer` of the node's first key ≥ `key`, or the end of the node if there
/// is none.
#[inline]
pub(crate) fn search_node<B: OrderedKey>(layer: &[B], node: usize, key: B) -> usize {
    node * NODE + count_less(node_of(layer, node), key)
}

/// Prefetches a node.
#[inline]
pub(crate) fn prefetch_node<B>(layer: &[B], node: usize) {
    for offset in (0..NODE).step_by(CACHE_LINE / size_of::<B>()) {
        prefetch(layer, node * NODE + offset);
    }
}

/// Counts the keys of the node that are less than `key`, by binary search without branches.
#[inline]
fn count_less<B: OrderedKey>(node: &[B; NODE], key: B) -> usize {
    let mut less = 0;
    let mut half = NODE / 2;
    while half > 0 {
        less += half * usize::from(node[(less + half - 1) % NODE] < key);
        half /= 2;
    }
    less + usize::from(node[less % NODE] < key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_agree_with_partition_point_at_every_length() {
        let cpu = Cpu::new(None, Some(3)).unwrap();
        for len in (0..70).chain([255, 256, 257, 272, 273, 4095, 4096, 4097, 5000]) {
            let mut keys: Vec<u32> = (0..len as u32).map(|i| 3 * i + 1).collect();
            let real = keys.clone();
            keys.resize(padded(len).max(NODE), u32::MAX);
            let fences = Fences::build(&cpu, &keys).unwrap();
            fences.validate(&keys).unwrap();
            let queries: Vec<u32> =
                (0..3 * len as u32 + 5).chain([u32::MAX - 1, u32::MAX]).collect();
            let mut positions = vec![0; queries.len()];
            fences.lower_bounds(&keys, &queries, &mut positions);
            for (&query, &position) in queries.iter().zip(&positions) {
                assert_eq!(position, real.partition_point(|&key| key < query), "{query} in {len}");
            }
            for width in [0, 1, 5, 50, 1000, u32::MAX] {
                let ends: Vec<u32> = queries.iter().map(|lo| lo.saturating_add(width)).collect();
                let mut starts = vec![0; queries.len()];
                let mut stops = starts.clone();
                fences.bounds_of_ranges(&keys, (&queries, &ends), &mut starts, &mut stops);
                assert_eq!(starts, positions);
                fences.lower_bounds(&keys, &ends, &mut starts);
                assert_eq!(starts, stops, "ranges of {width} in {len}");
            }
        }
    }

    #[test]
    fn the_largest_key_is_found_and_told_from_padding() {
        let cpu = Cpu::new(None, Some(1)).unwrap();
        let mut keys: Vec<u64> = (0..20).collect();
        keys.push(u64::MAX);
        keys.resize(padded(21), u64::MAX);
        let fences = Fences::build(&cpu, &keys).unwrap();
        let mut positions = [0; 2];
        fences.lower_bounds(&keys, &[u64::MAX, 20], &mut positions);
        assert_eq!(positions, [20, 20]);
    }

    #[test]
    fn threads_share_the_fences_of_many_keys() {
        let cpu = Cpu::new(None, Some(3)).unwrap();
        let least = (NODE * FENCES_PER_WORK) << 12;
        for len in [least - 1, least, least + 1, 2 * least + 5 * NODE + 1] {
            let mut keys: Vec<u32> = (0..len as u32).map(|i| 3 * i).collect();
            keys.resize(padded(len), u32::MAX);
            Fences::build(&cpu, &keys).unwrap().validate(&keys).unwrap();
        }
    }
}
