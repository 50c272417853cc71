//! Scanning a run together with ascending keys, to find those that the run holds.
//!
//! Keys are processed in groups. The first and the last key of a group bound a window of the run's
//! lowest fences, found by galloping search. Within the window, all keys of the group find their
//! nodes by binary searches that run in lockstep: no step waits for another, and no branch is
//! mispredicted. All nodes are prefetched before any is read.

use std::hint::select_unpredictable;

use crate::cpu::run::Run;
use crate::cpu::run::fences::{prefetch_node, search_node};
use crate::key::OrderedKey;

/// Keys that are searched for in lockstep.
const GROUP: usize = 64;

/// Calls `hit` with the index of every key that the run holds, and the position of its entry.
pub(crate) fn co_scan<B: OrderedKey>(
    run: &Run<B>,
    mut keys: impl Iterator<Item = B>,
    mut hit: impl FnMut(usize, usize),
) {
    let firsts = run.firsts();
    let mut group = [B::default(); GROUP];
    let mut nodes = [0; GROUP];
    let (mut start, mut index) = (0, 0);
    loop {
        let len = group.iter_mut().zip(&mut keys).map(|(slot, key)| *slot = key).count();
        let Some(&last) = group[..len].last() else { return };
        start = last_at_most(firsts, start, group[0]);
        let end = last_at_most(firsts, start, last);
        let window = firsts.get(start..=end).unwrap_or(&[]);
        find_nodes(window, &group[..len], &mut nodes[..len]);
        for node in &mut nodes[..len] {
            *node += start;
            prefetch_node(run.padded_keys(), *node);
        }
        for (&key, &node) in group[..len].iter().zip(&nodes) {
            let position = search_node(run.padded_keys(), node, key);
            if run.has_key_at(position, key) {
                hit(index, position);
            }
            index += 1;
        }
    }
}

/// Finds, for each key, the last index of `firsts` whose key is ≤ it, or 0 if there is none.
fn find_nodes<B: OrderedKey>(firsts: &[B], keys: &[B], nodes: &mut [usize]) {
    nodes.fill(0);
    let mut len = firsts.len();
    while len > 1 {
        let half = len / 2;
        for (node, &key) in nodes.iter_mut().zip(keys) {
            let middle = *node + half;
            *node = select_unpredictable(firsts[middle] <= key, middle, *node);
        }
        len -= half;
    }
}

/// Returns the last index from `from` on whose key is ≤ `key`, or `from` if there is none.
#[inline]
fn last_at_most<B: OrderedKey>(keys: &[B], from: usize, key: B) -> usize {
    let mut at = from;
    let mut stride = 1;
    while keys.get(at + stride).is_some_and(|&next| next <= key) {
        at += stride;
        stride *= 2;
    }
    while stride > 1 {
        stride /= 2;
        if keys.get(at + stride).is_some_and(|&next| next <= key) {
            at += stride;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::context::Cpu;
    use crate::cpu::run::key_capacity;

    fn run(keys: &[u32]) -> Run<u32> {
        let cpu = Cpu::new(None, None).unwrap();
        let mut buffer = cpu.memory.zeroed(key_capacity(keys.len())).unwrap();
        buffer[..keys.len()].copy_from_slice(keys);
        let values = cpu.memory.zeroed::<()>(keys.len()).unwrap();
        Run::build(&cpu, buffer, values, None, keys.len()).unwrap().unwrap()
    }

    #[test]
    fn keys_of_the_run_are_found_and_no_others() {
        for len in [1, 15, 16, 17, 100, 3000] {
            let keys: Vec<u32> = (0..len).map(|i| i * 5).chain([u32::MAX]).collect();
            let run = run(&keys);
            for step in [1, 3, 50, 1000] {
                let queries: Vec<u32> =
                    (0..len * 6).step_by(step).chain([u32::MAX - 1, u32::MAX]).collect();
                let mut hits = Vec::new();
                co_scan(&run, queries.iter().copied(), |index, position| {
                    hits.push((queries[index], keys[position]));
                });
                let expected: Vec<(u32, u32)> = queries
                    .iter()
                    .filter(|query| keys.binary_search(query).is_ok())
                    .map(|&query| (query, query))
                    .collect();
                assert_eq!(hits, expected);
            }
        }
    }
}
