//! Entries in the cache, and merging two stretches of them: where the rule of merging stands.
//!
//! Of two entries with one key, the newer says whether the key is *live*, and its value; the older
//! says whether it *shadows* something older still. What to keep of the result is a mask over its
//! mark.

use std::hint::select_unpredictable;

use crate::cpu::marks::byte;
use crate::cpu::memory::Buffer;
use crate::key::OrderedKey;
use crate::value::Value;

/// Entries as parallel slices; `marks` is empty where marks don't matter.
pub(crate) struct Entries<K, V, M> {
    pub keys: K,
    pub values: V,
    pub marks: M,
}

pub(crate) type EntriesRef<'a, B, V> = Entries<&'a [B], &'a [V], &'a [u8]>;
pub(crate) type EntriesMut<'a, B, V> = Entries<&'a mut [B], &'a mut [V], &'a mut [u8]>;
pub(crate) type EntriesBuffer<B, V> = Entries<Buffer<B>, Buffer<V>, Buffer<u8>>;

impl<'a, B, V> EntriesRef<'a, B, V> {
    /// The entries from `start` on.
    pub fn from(&self, start: usize) -> EntriesRef<'a, B, V> {
        let marks = if self.marks.is_empty() { &[] } else { &self.marks[start..] };
        Entries { keys: &self.keys[start..], values: &self.values[start..], marks }
    }

    /// The same with slices of visibly equal lengths, which spares the loop over them its checks.
    fn even<const MARKED: bool>(self) -> Self {
        let len = self.keys.len();
        let marks = if MARKED { &self.marks[..len] } else { &[] };
        Entries { keys: self.keys, values: &self.values[..len], marks }
    }
}

impl<B, V> EntriesMut<'_, B, V> {
    /// What follows the first `len` entries; `values` and `marks` may be unwanted, that is empty.
    pub fn after(&mut self, len: usize) -> EntriesMut<'_, B, V> {
        fn rest<T>(slice: &mut [T], len: usize) -> &mut [T] {
            let start = len.min(slice.len());
            &mut slice[start..]
        }
        Entries {
            keys: rest(self.keys, len),
            values: rest(self.values, len),
            marks: rest(self.marks, len),
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

/// Merges `newer` over `older`, writing what has a bit of `keep` in its mark.
pub(crate) fn merge_two<B: OrderedKey, V: Value, const MARKED: bool>(
    newer: EntriesRef<'_, B, V>,
    older: EntriesRef<'_, B, V>,
    keep: u8,
    mut out: EntriesMut<'_, B, V>,
) -> usize {
    let (newer, older) = (newer.even::<MARKED>(), older.even::<MARKED>());
    let (mut i, mut j, mut kept) = (0, 0, 0);
    while i < newer.keys.len() && j < older.keys.len() {
        let (a, b) = (newer.keys[i], older.keys[j]);
        let value = select_unpredictable(a <= b, newer.values[i], older.values[j]);
        let mark = if MARKED {
            let live = select_unpredictable(a <= b, newer.marks[i], older.marks[j]);
            let shadow = select_unpredictable(a < b, newer.marks[i], older.marks[j]);
            (live & !byte::SHADOW) | (shadow & byte::SHADOW)
        } else {
            byte::NEW
        };
        out.set(kept, a.min(b), value, mark);
        kept += usize::from(mark & keep != 0);
        i += usize::from(a <= b);
        j += usize::from(b <= a);
    }
    kept += copy_kept(newer.from(i), keep, out.after(kept), MARKED);
    kept += copy_kept(older.from(j), keep, out.after(kept), MARKED);
    kept
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
