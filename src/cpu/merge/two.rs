//! Merging two stretches of entries: where the rule of merging stands.
//!
//! Of two entries with one key, the newer says whether the key is *live*, and its value; the older
//! says whether it *shadows* something older still. What to keep of the result is a mask over its
//! mark.
//!
//! Which entry comes next can't be guessed, so a step has no branch on it; and since every step
//! waits for the one before it, a merge goes on at both ends, which a core works on side by side.

use std::hint::select_unpredictable;

use crate::cpu::merge::entries::{Entries, EntriesMut, EntriesRef, copy_kept};
use crate::cpu::run::marks::byte;
use crate::key::OrderedKey;
use crate::value::Value;

/// Merges `newer` over `older`, writing what has a bit of `keep` in its mark; returns how much that
/// is. `out` must have room for all entries of both or, where there are no marks, for every key.
pub(crate) fn merge_two<B: OrderedKey, V: Value, const MARKED: bool>(
    newer: EntriesRef<'_, B, V>,
    older: EntriesRef<'_, B, V>,
    keep: u8,
    out: EntriesMut<'_, B, V>,
) -> usize {
    let room = out.keys.len().min(newer.keys.len() + older.keys.len());
    let mut merge = Merge::<B, V, MARKED> {
        front: Places { newer: 0, older: 0, out: 0 },
        back: Places { newer: newer.keys.len(), older: older.keys.len(), out: room },
        newer,
        older,
        keep,
        out,
    };
    while merge.sure_steps::<true>() {}
    while merge.sure_steps::<false>() {}
    merge.finish(room)
}

/// A merge on its way: what lies between the places of its ends is left to be merged.
struct Merge<'a, B, V, const MARKED: bool> {
    newer: EntriesRef<'a, B, V>,
    older: EntriesRef<'a, B, V>,
    keep: u8,
    out: EntriesMut<'a, B, V>,
    front: Places,
    back: Places,
}

/// How far one end of a merge has come.
#[derive(Clone, Copy)]
struct Places {
    newer: usize,
    older: usize,
    out: usize,
}

impl<B: OrderedKey, V: Value, const MARKED: bool> Merge<'_, B, V, MARKED> {
    /// Makes as many steps, at one end or both, as neither stretch ends in; says whether there were
    /// any.
    fn sure_steps<const BOTH: bool>(&mut self) -> bool {
        let (mut front, mut back) = (self.front, self.back);
        let ends = if BOTH { 2 } else { 1 };
        let steps = (back.newer - front.newer).min(back.older - front.older) / ends;
        for entries in [(&self.newer, back.newer), (&self.older, back.older)] {
            let (Entries { keys, values, marks }, end) = entries;
            assert!(end <= keys.len() && end <= values.len() && (!MARKED || end <= marks.len()));
        }
        let Entries { keys, values, marks } = &mut self.out;
        assert!(front.out + steps * ends <= back.out && back.out <= keys.len());
        assert!(back.out <= values.len() && (!MARKED || back.out <= marks.len()));
        let out = Pointers {
            keys: keys.as_mut_ptr(),
            values: values.as_mut_ptr(),
            marks: marks.as_mut_ptr(),
        };
        let step =
            Step::<B, V, MARKED> { newer: self.newer, older: self.older, keep: self.keep, out };
        for _ in 0..steps {
            // SAFETY: an end takes at most one entry of each stretch in a step, and there are `steps`
            // for each end; it writes one entry, and between the ends there is room for as many. All
            // places are within the lengths asserted above. Checking each again made ranges over
            // eight levels take 1.4 times as long (`docs/benchmarks.md`).
            #[allow(unsafe_code)]
            unsafe {
                step.forward(&mut front);
                if BOTH {
                    step.backward(&mut back);
                }
            }
        }
        (self.front, self.back) = (front, back);
        steps > 0
    }

    /// Copies what one stretch has left when the other is at its end, and joins both ends.
    fn finish(mut self, room: usize) -> usize {
        let Merge { front, back, .. } = self;
        let rests =
            [self.newer.slice(front.newer..back.newer), self.older.slice(front.older..back.older)];
        let mut written = front.out;
        for rest in rests {
            written += copy_kept(rest, self.keep, self.out.between(written, back.out), MARKED);
        }
        if written < back.out {
            self.out.keys.copy_within(back.out..room, written);
            self.out.values.copy_within(back.out..room, written);
            if MARKED {
                self.out.marks.copy_within(back.out..room, written);
            }
        }
        written + room - back.out
    }
}

/// Where a merge writes.
struct Pointers<B, V> {
    keys: *mut B,
    values: *mut V,
    marks: *mut u8,
}

/// What every step of a merge needs.
struct Step<'a, B, V, const MARKED: bool> {
    newer: EntriesRef<'a, B, V>,
    older: EntriesRef<'a, B, V>,
    keep: u8,
    out: Pointers<B, V>,
}

impl<B: OrderedKey, V: Value, const MARKED: bool> Step<'_, B, V, MARKED> {
    /// Writes the smaller of the entries at these places, and moves on.
    ///
    /// # Safety
    ///
    /// Both stretches have an entry at these places, the output has room at its own.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn forward(&self, at: &mut Places) {
        // SAFETY: as the caller promises.
        unsafe {
            let a = *self.newer.keys.get_unchecked(at.newer);
            let b = *self.older.keys.get_unchecked(at.older);
            at.out += self.write((at.newer, at.older, at.out), (a <= b, a < b), (a, b));
            at.newer += usize::from(a <= b);
            at.older += usize::from(b <= a);
        }
    }

    /// Writes the larger of the entries just before these places, and moves back.
    ///
    /// # Safety
    ///
    /// Both stretches have an entry just before these places, the output has room before its own.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn backward(&self, at: &mut Places) {
        // SAFETY: as the caller promises.
        unsafe {
            let a = *self.newer.keys.get_unchecked(at.newer - 1);
            let b = *self.older.keys.get_unchecked(at.older - 1);
            at.out -= self.write((at.newer - 1, at.older - 1, at.out - 1), (a >= b, a > b), (a, b));
            at.newer -= usize::from(a >= b);
            at.older -= usize::from(b >= a);
        }
    }

    /// Writes what the entries at i and j make at `at`: the newer one if it `wins`, that is, it
    /// comes first or is of the same key; `alone` if the key is not the same. Returns 1 if it is kept.
    ///
    /// # Safety
    ///
    /// There are entries at i and j, and room at `at`.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn write(
        &self,
        (i, j, at): (usize, usize, usize),
        (wins, alone): (bool, bool),
        (a, b): (B, B),
    ) -> usize {
        // SAFETY: as the caller promises.
        unsafe {
            let (newer, older) =
                (self.newer.values.as_ptr().add(i), self.older.values.as_ptr().add(j));
            self.out.keys.add(at).write(select_unpredictable(wins, a, b));
            self.out.values.add(at).write(*select_unpredictable(wins, newer, older));
            if !MARKED {
                return 1;
            }
            let newer = *self.newer.marks.get_unchecked(i);
            let older = *self.older.marks.get_unchecked(j);
            let live = select_unpredictable(wins, newer, older);
            let shadow = select_unpredictable(alone, newer, older);
            let mark = (live & !byte::SHADOW) | (shadow & byte::SHADOW);
            self.out.marks.add(at).write(mark);
            usize::from(mark & self.keep != 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Sorted entries with unique keys, about `density` of every 100 keys below `len`.
    struct Sample {
        keys: Vec<u32>,
        values: Vec<[u8; 4]>,
        marks: Vec<u8>,
    }

    impl Sample {
        fn new(seed: u32, len: u32, density: u32) -> Self {
            let number = |key: u32| {
                let mixed = (key ^ seed << 20).wrapping_mul(0x9e37_79b9);
                (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b) >> 8
            };
            let keys: Vec<u32> = (0..len).filter(|&key| number(key) % 100 < density).collect();
            let values = keys.iter().map(|&key| (number(key) ^ seed).to_le_bytes()).collect();
            let states = [byte::NEW, byte::NEW | byte::SHADOW, byte::PRESENT | byte::SHADOW];
            let marks = keys.iter().map(|&key| states[number(key) as usize / 100 % 3]).collect();
            Sample { keys, values, marks }
        }

        fn entries(&self, marked: bool) -> EntriesRef<'_, u32, [u8; 4]> {
            let marks = if marked { &self.marks[..] } else { &[] };
            Entries { keys: &self.keys, values: &self.values, marks }
        }

        fn iter(&self) -> impl Iterator<Item = (u32, ([u8; 4], u8))> {
            let what = self.values.iter().copied().zip(self.marks.iter().copied());
            self.keys.iter().copied().zip(what)
        }
    }

    /// What a merge must write, by the rule.
    fn expected(newer: &Sample, older: &Sample, keep: u8) -> Vec<(u32, ([u8; 4], u8))> {
        let mut all: BTreeMap<u32, ([u8; 4], u8)> = older.iter().collect();
        for (key, (value, mark)) in newer.iter() {
            let shadow = all.get(&key).map_or(mark, |(_, mark)| *mark) & byte::SHADOW;
            all.insert(key, (value, (mark & !byte::SHADOW) | shadow));
        }
        all.into_iter().filter(|(_, (_, mark))| mark & keep != 0).collect()
    }

    #[test]
    fn merges_keep_to_the_rule_at_every_size_and_mix() {
        for (seed, (len, of_newer, of_older)) in [0, 1, 2, 3, 10, 70, 500, 3000]
            .into_iter()
            .flat_map(|len| {
                [(len, 50, 50), (len, 100, 3), (len, 3, 100), (len, 0, 40), (len, 90, 90)]
            })
            .enumerate()
        {
            let newer = Sample::new(seed as u32, len, of_newer);
            let older = Sample::new(seed as u32 + 1000, len, of_older);
            let total = newer.keys.len() + older.keys.len();
            for keep in [byte::LIVE, byte::LIVE | byte::SHADOW, byte::PRESENT] {
                let (mut keys, mut values, mut marks) =
                    (vec![0; total], vec![[0; 4]; total], vec![0; total]);
                let out =
                    Entries { keys: &mut keys[..], values: &mut values[..], marks: &mut marks[..] };
                let kept =
                    merge_two::<_, _, true>(newer.entries(true), older.entries(true), keep, out);
                let what = values.into_iter().zip(marks);
                let merged: Vec<_> = keys.into_iter().zip(what).take(kept).collect();
                assert_eq!(merged, expected(&newer, &older, keep), "{len} {of_newer} {of_older}");
            }
            // Without marks, into exactly as much room as there are keys.
            let expected = expected(&newer, &older, byte::PRESENT);
            let (mut keys, mut values) = (vec![0; expected.len()], vec![[0; 4]; expected.len()]);
            let out = Entries { keys: &mut keys[..], values: &mut values[..], marks: &mut [][..] };
            let (newer, older) = (newer.entries(false), older.entries(false));
            let kept = merge_two::<_, _, false>(newer, older, byte::PRESENT, out);
            assert_eq!(kept, expected.len());
            let merged = keys.into_iter().zip(values);
            assert!(merged.eq(expected.into_iter().map(|(key, (value, _))| (key, value))));
        }
    }
}
