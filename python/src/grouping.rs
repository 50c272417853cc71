//! Elements grouped by the shard that each belongs to, and put back into their order, on all cores.
//!
//! Threads write to places of one array that lie anywhere in it, though never two to the same: elements are written as
//! atomics, without any order among them, which costs nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use gpulsm::Key;

use crate::parallel::{each, each_range, ranges};
use crate::span::Span;

/// The most splitters of which all are compared with each key, in parallel. Of more, some are.
const FEW: usize = 8;

/// Writes for each key how many of the ascending splitters are not greater.
///
/// # Panics
///
/// Panics if there is not room for a number of 16 bits for each key.
pub fn places<K: Key>(keys: Span, splitters: Span, places: Span) {
    assert_eq!(keys.len(), places.len());
    let splitters: Vec<_> = splitters.host::<K>().iter().map(|key| key.to_ordered()).collect();
    each_range(keys.len(), |range| {
        let to = places.part(&range, size_of::<u16>()).host_mut::<u16>();
        let keys = keys.host::<K>()[range].iter().map(|key| key.to_ordered());
        for (to, key) in to.iter_mut().zip(keys) {
            *to = if splitters.len() <= FEW {
                splitters.iter().map(|&splitter| u16::from(splitter <= key)).sum()
            } else {
                splitters.partition_point(|&splitter| splitter <= key) as u16
            };
        }
    });
}

/// Writes the indices of the elements of group 0, then those of group 1 and so on, each in their order, and returns
/// where each group begins in that, and the last one ends: a counting sort.
///
/// # Panics
///
/// Panics if a group is not less than `groups`, or there is not an index for each element.
pub fn group(group_of_each: &[u16], groups: usize, indices: &[AtomicUsize]) -> Vec<usize> {
    assert_eq!(group_of_each.len(), indices.len());
    let ranges = ranges(group_of_each.len());
    let counts: Vec<_> = ranges.iter().map(|_| OnceLock::new()).collect();
    each(ranges.len(), |part| {
        let mut counted = vec![0; groups];
        for &group in &group_of_each[ranges[part].clone()] {
            counted[usize::from(group)] += 1;
        }
        counts[part].set(counted).ok();
    });
    let mut nexts: Vec<Vec<usize>> = counts.into_iter().filter_map(OnceLock::into_inner).collect();
    let mut starts = vec![0];
    let mut total = 0;
    for group in 0..groups {
        for next in &mut nexts {
            total += std::mem::replace(&mut next[group], total);
        }
        starts.push(total);
    }
    each(ranges.len(), |part| {
        let mut next = nexts[part].clone();
        for index in ranges[part].clone() {
            let next = &mut next[usize::from(group_of_each[index])];
            indices[*next].store(index, Relaxed);
            *next += 1;
        }
    });
    starts
}

/// Writes the elements at some indices one after the other.
///
/// # Panics
///
/// Panics if there is no such element, not room for one element for each index, or elements don't have 1, 4, 8 or 16 bytes.
pub fn take(from: Span, indices: &[usize], to: Span, width: usize) {
    match width {
        1 => take_as::<u8>(from, indices, to),
        4 => take_as::<u32>(from, indices, to),
        8 => take_as::<u64>(from, indices, to),
        16 => take_as::<[u64; 2]>(from, indices, to),
        _ => panic!("elements of {width} bytes"),
    }
}

fn take_as<T: Copy + Sync>(from: Span, indices: &[usize], to: Span) {
    assert_eq!(indices.len(), to.len());
    let from = from.host::<T>();
    each_range(indices.len(), |range| {
        let to = to.part(&range, size_of::<T>()).host_mut();
        for (to, &index) in to.iter_mut().zip(&indices[range]) {
            *to = from[index];
        }
    });
}

/// Writes each element to the index beside it. No index may be there twice.
///
/// # Panics
///
/// As [`take`].
pub fn put(from: Span, indices: &[usize], to: Span, width: usize) {
    match width {
        1 => put_as(from, indices, to, |to: &AtomicU8, element| to.store(element, Relaxed)),
        4 => put_as(from, indices, to, |to: &AtomicU32, element| to.store(element, Relaxed)),
        8 => put_as(from, indices, to, |to: &AtomicU64, element| to.store(element, Relaxed)),
        16 => put_as(from, indices, to, |to: &[AtomicU64; 2], [first, second]: [u64; 2]| {
            to[0].store(first, Relaxed);
            to[1].store(second, Relaxed);
        }),
        _ => panic!("elements of {width} bytes"),
    }
}

fn put_as<T: Copy + Sync, A: Sync>(
    from: Span,
    indices: &[usize],
    to: Span,
    store: impl Fn(&A, T) + Sync,
) {
    assert_eq!(indices.len(), from.len());
    let (from, to) = (from.host::<T>(), to.host::<A>());
    each_range(indices.len(), |range| {
        for (&index, &element) in indices[range.clone()].iter().zip(&from[range]) {
            store(&to[index], element);
        }
    });
}
