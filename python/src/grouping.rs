//! Elements grouped by the shard that each belongs to, and put back into their original order, on all cores.
//!
//! Where threads write to arbitrary but distinct positions of one array, elements are stored as relaxed atomics, which cost
//! no more than plain stores.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use gpulsm::Key;

use crate::parallel::{each, each_range, ranges};
use crate::span::Span;

/// Up to this many splitters, a key is compared with all of them, which can be vectorized; beyond that, by binary search.
const FEW: usize = 8;

/// How many keys are compared with one splitter before the next: they stay in the cache.
const CACHED: usize = 1 << 11;

/// Writes for each key how many of the ascending splitters are less than or equal to it.
///
/// # Panics
///
/// Panics unless `places` has one element per key, and a splitter's number fits into it.
pub fn places<K: Key>(keys: Span, splitters: Span, places: Span) {
    assert_eq!(keys.len(), places.len());
    assert!(splitters.len() <= usize::from(u16::MAX));
    let splitters: Vec<_> = splitters.host::<K>().iter().map(|key| key.to_ordered()).collect();
    each_range(keys.len(), |range| {
        let to = places.part(&range, size_of::<u16>()).host_mut::<u16>();
        let keys = &keys.host::<K>()[range];
        for (to, keys) in to.chunks_mut(CACHED).zip(keys.chunks(CACHED)) {
            let keys = keys.iter().map(|key| key.to_ordered());
            if splitters.len() > FEW {
                for (to, key) in to.iter_mut().zip(keys) {
                    *to = splitters.partition_point(|&splitter| splitter <= key) as u16;
                }
            } else {
                to.fill(0);
                for &splitter in &splitters {
                    for (to, key) in to.iter_mut().zip(keys.clone()) {
                        *to += u16::from(splitter <= key);
                    }
                }
            }
        }
    });
}

/// Writes the indices of the elements of group 0, then those of group 1 and so on, in their original order within each,
/// and to `offsets` where each group begins in that, and the last one ends: a counting sort.
///
/// # Panics
///
/// Panics unless there is one index per element, and every group has an offset and one after it.
pub fn group(group_of_each: &[u16], indices: &[AtomicUsize], offsets: &mut [usize]) {
    assert_eq!(group_of_each.len(), indices.len());
    let groups = offsets.len() - 1;
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
    let mut total = 0;
    for group in 0..groups {
        offsets[group] = total;
        for next in &mut nexts {
            total += std::mem::replace(&mut next[group], total);
        }
    }
    offsets[groups] = total;
    each(ranges.len(), |part| {
        let mut next = nexts[part].clone();
        for index in ranges[part].clone() {
            let next = &mut next[usize::from(group_of_each[index])];
            indices[*next].store(index, Relaxed);
            *next += 1;
        }
    });
}

/// Writes the elements at some indices one after the other.
///
/// # Panics
///
/// Panics if an index is out of bounds, unless there is room for one element per index, or if elements don't have 1, 4, 8 or
/// 16 bytes.
pub fn take(source: Span, indices: &[usize], to: Span, width: usize) {
    match width {
        1 => take_as::<u8>(source, indices, to),
        4 => take_as::<u32>(source, indices, to),
        8 => take_as::<u64>(source, indices, to),
        16 => take_as::<[u64; 2]>(source, indices, to),
        _ => panic!("elements of {width} bytes"),
    }
}

fn take_as<T: Copy + Sync>(source: Span, indices: &[usize], to: Span) {
    assert_eq!(indices.len(), to.len());
    let source = source.host::<T>();
    each_range(indices.len(), |range| {
        let to = to.part(&range, size_of::<T>()).host_mut();
        for (to, &index) in to.iter_mut().zip(&indices[range]) {
            *to = source[index];
        }
    });
}

/// Writes the elements of each group to the indices beside them. All indices must be distinct.
///
/// # Panics
///
/// As [`take`].
pub fn put(groups: &[(Span, Span)], to: Span, width: usize) {
    match width {
        1 => put_as(groups, to, |to: &AtomicU8, element| to.store(element, Relaxed)),
        4 => put_as(groups, to, |to: &AtomicU32, element| to.store(element, Relaxed)),
        8 => put_as(groups, to, |to: &AtomicU64, element| to.store(element, Relaxed)),
        16 => put_as(groups, to, |to: &[AtomicU64; 2], [first, second]: [u64; 2]| {
            to[0].store(first, Relaxed);
            to[1].store(second, Relaxed);
        }),
        _ => panic!("elements of {width} bytes"),
    }
}

fn put_as<T: Copy + Sync, A: Sync>(
    groups: &[(Span, Span)],
    to: Span,
    store: impl Fn(&A, T) + Sync,
) {
    const { assert!(size_of::<T>() == size_of::<A>()) };
    let to = to.host::<A>();
    let total = groups.iter().map(|(source, _)| source.len()).sum();
    each_range(total, |range| {
        let mut first = 0; // The first element of the group, in the order of all groups.
        for &(source, indices) in groups {
            let (source, indices) = (source.host::<T>(), indices.host::<usize>());
            assert_eq!(source.len(), indices.len());
            let within = |at: usize| at.saturating_sub(first).min(source.len());
            let own = within(range.start)..within(range.end);
            for (&index, &element) in indices[own.clone()].iter().zip(&source[own]) {
                store(&to[index], element);
            }
            first += source.len();
        }
    });
}
