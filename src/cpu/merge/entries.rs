//! Entries in the cache: keys, values and marks in step.

use std::ops::Range;

use crate::cpu::memory::Buffer;
use crate::cpu::run::marks::byte;
use crate::key::OrderedKey;
use crate::value::Value;

/// Entries as parallel slices; `marks` is empty where marks don't matter.
#[derive(Clone, Copy)]
pub(crate) struct Entries<K, V, M> {
    pub keys: K,
    pub values: V,
    pub marks: M,
}

pub(crate) type EntriesRef<'a, B, V> = Entries<&'a [B], &'a [V], &'a [u8]>;
pub(crate) type EntriesMut<'a, B, V> = Entries<&'a mut [B], &'a mut [V], &'a mut [u8]>;
pub(crate) type EntriesBuffer<B, V> = Entries<Buffer<B>, Buffer<V>, Buffer<u8>>;

impl<'a, B, V> EntriesRef<'a, B, V> {
    /// The entries in `range`.
    pub fn slice(&self, range: Range<usize>) -> EntriesRef<'a, B, V> {
        let marks = if self.marks.is_empty() { &[] } else { &self.marks[range.clone()] };
        Entries { keys: &self.keys[range.clone()], values: &self.values[range], marks }
    }
}

impl<B, V> EntriesMut<'_, B, V> {
    /// What follows the first `len` entries; `values` and `marks` may be unwanted, that is empty.
    pub fn after(&mut self, len: usize) -> EntriesMut<'_, B, V> {
        self.between(len, self.keys.len())
    }

    /// The entries from `start` to `end`; `values` and `marks` may be unwanted, that is empty.
    pub fn between(&mut self, start: usize, end: usize) -> EntriesMut<'_, B, V> {
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

    /// Writes one entry. Past the end there is nothing to write: the entry will not be kept.
    fn set(&mut self, at: usize, key: B, value: V, mark: u8) {
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

/// Copies what has a bit of `keep` in its mark: everything, where there are no marks.
pub(crate) fn copy_kept<B: OrderedKey, V: Value>(
    entries: EntriesRef<'_, B, V>,
    keep: u8,
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
            out.marks[..len].fill(byte::NEW);
        }
        return len;
    }
    let mut kept = 0;
    for index in 0..len {
        let mark = entries.marks[index];
        out.set(kept, entries.keys[index], entries.values[index], mark);
        kept += usize::from(mark & keep != 0);
    }
    kept
}
