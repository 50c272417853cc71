//! Merging two sorted arrays of entries whose values combine.

use std::cmp::Ordering;

use crate::combine::CombineFn;
use crate::cpu::merge::entries::{EntriesMut, EntriesRef, copy_kept};
use crate::key::OrderedKey;
use crate::mark::{Mark, MarkSet};
use crate::value::Value;

/// Merges `newer` over `older`, combines the values of equal keys, and writes the entries whose merged mark
/// is in `keep`; returns how many. `out` must have room for all entries of both or, if they are not marked,
/// for all distinct keys.
pub(crate) fn combine_two<B: OrderedKey, V: Value, const MARKED: bool>(
    newer: EntriesRef<'_, B, V>,
    older: EntriesRef<'_, B, V>,
    combine: CombineFn<V>,
    keep: MarkSet,
    mut out: EntriesMut<'_, B, V>,
) -> usize {
    let entry = |entries: &EntriesRef<'_, B, V>, at: usize| {
        let mark = if MARKED { entries.marks[at] } else { Mark::NEW };
        (entries.keys[at], entries.values[at], mark)
    };
    let (mut i, mut j, mut written) = (0, 0, 0);
    while i < newer.keys.len() && j < older.keys.len() {
        let (a, b) = (newer.keys[i], older.keys[j]);
        let order = a.cmp(&b);
        let (key, value, mark) = match order {
            Ordering::Less => entry(&newer, i),
            Ordering::Greater => entry(&older, j),
            Ordering::Equal => merged(entry(&newer, i), entry(&older, j), combine),
        };
        out.set(written, key, value, mark);
        written += usize::from(!MARKED || keep.contains(mark));
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    for rest in [newer.slice(i..newer.keys.len()), older.slice(j..older.keys.len())] {
        written += copy_kept(rest, keep, out.after(written), MARKED);
    }
    written
}

/// Merges two entries of the same key.
#[inline]
fn merged<B, V>(newer: (B, V, Mark), older: (B, V, Mark), combine: CombineFn<V>) -> (B, V, Mark) {
    let (key, mut value, mark) = newer;
    if mark.combines() && older.2.is_live() {
        value = combine(older.1, value);
    }
    (key, value, mark.combined_over(older.2))
}
