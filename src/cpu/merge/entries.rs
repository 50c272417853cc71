//! Entries as parallel slices of keys, values and marks.

use std::ops::Range;

use crate::cpu::memory::Buffer;
use crate::key::OrderedKey;
use crate::mark::{Mark, MarkSet};
use crate::value::Value;

/// Entries: keys, values and marks at the same indices. `marks` is empty if the merge does not need
/// marks. In an output, `values` and `marks` are empty if they are not wanted.
#[derive(Clone, Copy)]
pub(crate) struct Entries<K, V, M> {
    pub keys: K,
    pub values: V,
    pub marks: M,
}

pub(crate) type EntriesRef<'a, B, V> = Entries<&'a [B], &'a [V], &'a [Mark]>;
pub(crate) type EntriesMut<'a, B, V> = Entries<&'a mut [B], &'a mut [V], &'a mut [Mark]>;
pub(crate) type EntriesBuffer<B, V> = Entries<Buffer<B>, Buffer<V>, Buffer<Mark>>;

impl<'a, B, V> EntriesRef<'a, B, V> {
    /// Returns the entries in `range`.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> EntriesRef<'a, B, V> {
        let marks = if self.marks.is_empty() { &[] } else { &self.marks[range.clone()] };
        Entries { keys: &self.keys[range.clone()], values: &self.values[range], marks }
    }
}

impl<B, V> EntriesMut<'_, B, V> {
    /// Returns all but the first `len` entries.
    #[inline]
    pub fn after(&mut self, len: usize) -> EntriesMut<'_, B, V> {
        self.between(len, self.keys.len())
    }

    /// Returns the entries from `start` to `end`.
    #[inline]
    pub fn between(&mut self, start: usize, end: usize) -> EntriesMut<'_, B, V> {
        #[inline]
        fn between<T>(slice: &mut [T], start: usize, end: usize) -> &mut [T] {
            let end = end.min(slice.len());
            &mut slice[start.min(end)..end]
        }
        Entries {
            keys: between(self.keys, start, end),
            values: between(self.values, start, end),
            marks: between(self.marks, start, end),
        }
    }

    /// Writes one entry, or nothing past the end.
    #[inline]
    pub fn set(&mut self, at: usize, key: B, value: V, mark: Mark) {
        if let Some(slot) = self.keys.get_mut(at) {
            *slot = key;
        }
        if let Some(slot) = self.values.get_mut(at) {
            *slot = value;
        }
        if let Some(slot) = self.marks.get_mut(at) {
            *slot = mark;
        }
    }
}

/// Copies the entries whose mark is in `keep`, or all entries if they are not `marked`; returns how
/// many.
pub(crate) fn copy_kept<B: OrderedKey, V: Value>(
    entries: EntriesRef<'_, B, V>,
    keep: MarkSet,
    mut out: EntriesMut<'_, B, V>,
    marked: bool,
) -> usize {
    let len = entries.keys.len();
    if !marked {
        out.keys[..len].copy_from_slice(entries.keys);
        if !out.values.is_empty() {
            out.values[..len].copy_from_slice(entries.values);
        }
        if !out.marks.is_empty() {
            out.marks[..len].fill(Mark::NEW);
        }
        return len;
    }
    let mut kept = 0;
    for index in 0..len {
        let mark = entries.marks[index];
        // Each entry is written, and overwritten by the next one if it is not kept: no branch on
        // its mark. After the last kept entry there may be no room left, nor any need to write.
        out.set(kept, entries.keys[index], entries.values[index], mark);
        kept += usize::from(keep.contains(mark));
    }
    kept
}
