//! Merging two sorted arrays of entries.
//!
//! Which entry comes next cannot be predicted, so a step has no branch that depends on it. And
//! since every step depends on the one before it, the merge proceeds from both ends at once: a core
//! executes the two chains of steps in parallel.

use std::hint::select_unpredictable;

use crate::cpu::merge::entries::{Entries, EntriesMut, EntriesRef, copy_kept};
use crate::key::OrderedKey;
use crate::mark::{Mark, MarkSet};
use crate::value::Value;

/// Merges `newer` over `older`, and writes the entries whose merged mark is in `keep`; returns how
/// many. `out` must have room for all entries of both or, if they are not marked, for all distinct
/// keys.
pub(crate) fn merge_two<B: OrderedKey, V: Value, const MARKED: bool>(
    newer: EntriesRef<'_, B, V>,
    older: EntriesRef<'_, B, V>,
    keep: MarkSet,
    out: EntriesMut<'_, B, V>,
) -> usize {
    let room = out.keys.len().min(newer.keys.len() + older.keys.len());
    let mut merge = TwoWayMerge::<B, V, MARKED> {
        front: Cursor { newer: 0, older: 0, out: 0 },
        back: Cursor { newer: newer.keys.len(), older: older.keys.len(), out: room },
        newer,
        older,
        keep,
        out,
    };
    while merge.take_steps::<true>() {}
    while merge.take_steps::<false>() {}
    merge.finish(room)
}

/// A merge in progress: the entries between the two cursors are not merged yet.
struct TwoWayMerge<'a, B, V, const MARKED: bool> {
    newer: EntriesRef<'a, B, V>,
    older: EntriesRef<'a, B, V>,
    keep: MarkSet,
    out: EntriesMut<'a, B, V>,
    front: Cursor,
    back: Cursor,
}

/// The positions that a merge has reached from one end.
#[derive(Clone, Copy)]
struct Cursor {
    newer: usize,
    older: usize,
    out: usize,
}

impl<B: OrderedKey, V: Value, const MARKED: bool> TwoWayMerge<'_, B, V, MARKED> {
    /// Takes as many steps as cannot exhaust either input, from the front only or from `BOTH` ends;
    /// returns whether there were any.
    fn take_steps<const BOTH: bool>(&mut self) -> bool {
        let (mut front, mut back) = (self.front, self.back);
        let ends = if BOTH { 2 } else { 1 };
        let steps = (back.newer - front.newer).min(back.older - front.older) / ends;
        for (entries, end) in [(&self.newer, back.newer), (&self.older, back.older)] {
            let Entries { keys, values, marks } = entries;
            assert!(end <= keys.len() && end <= values.len() && (!MARKED || end <= marks.len()));
        }
        let Entries { keys, values, marks } = &mut self.out;
        assert!(front.out + steps * ends <= back.out && back.out <= keys.len());
        assert!(back.out <= values.len() && (!MARKED || back.out <= marks.len()));
        let out = OutPointers {
            keys: keys.as_mut_ptr(),
            values: values.as_mut_ptr(),
            marks: marks.as_mut_ptr(),
        };
        let step =
            Step::<B, V, MARKED> { newer: self.newer, older: self.older, keep: self.keep, out };
        for _ in 0..steps {
            // SAFETY: a step reads at most one entry of each input at its end and writes one entry.
            // There are `steps` steps at each end; each input has at least `steps * ends` entries
            // between the cursors (by the definition of `steps`), and so has the output (asserted).
            // The cursors lie within the lengths of all slices (asserted). Checking every access
            // made ranges over eight levels take 1.4 times as long (`docs/benchmarks.md`).
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

    /// Copies what is left of one input once the other is exhausted, and joins the outputs of both
    /// ends.
    fn finish(mut self, room: usize) -> usize {
        let TwoWayMerge { front, back, .. } = self;
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

/// The output of a merge.
struct OutPointers<B, V> {
    keys: *mut B,
    values: *mut V,
    marks: *mut Mark,
}

/// The inputs and the output of every step of a merge.
struct Step<'a, B, V, const MARKED: bool> {
    newer: EntriesRef<'a, B, V>,
    older: EntriesRef<'a, B, V>,
    keep: MarkSet,
    out: OutPointers<B, V>,
}

impl<B: OrderedKey, V: Value, const MARKED: bool> Step<'_, B, V, MARKED> {
    /// Writes the smaller of the entries at the cursor, and moves the cursor forward.
    ///
    /// # Safety
    ///
    /// Both inputs must have an entry at the cursor, and the output must have room at the cursor.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn forward(&self, at: &mut Cursor) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = *self.newer.keys.get_unchecked(at.newer);
            let b = *self.older.keys.get_unchecked(at.older);
            at.out += self.write((at.newer, at.older, at.out), (a <= b, a < b), (a, b));
            at.newer += usize::from(a <= b);
            at.older += usize::from(b <= a);
        }
    }

    /// Writes the larger of the entries just before the cursor, and moves the cursor back.
    ///
    /// # Safety
    ///
    /// Both inputs must have an entry just before the cursor, and the output must have room there.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn backward(&self, at: &mut Cursor) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = *self.newer.keys.get_unchecked(at.newer - 1);
            let b = *self.older.keys.get_unchecked(at.older - 1);
            at.out -= self.write((at.newer - 1, at.older - 1, at.out - 1), (a >= b, a > b), (a, b));
            at.newer -= usize::from(a >= b);
            at.older -= usize::from(b >= a);
        }
    }

    /// Writes to `at` what follows from the newer entry `i` with key `a` and the older entry `j`
    /// with key `b`: the newer one if it `wins`, that is, comes first or has the same key; it is
    /// `alone` if it comes first and the keys differ. Returns 1 if the entry is kept.
    ///
    /// # Safety
    ///
    /// There must be entries at `i` and `j`, and room at `at`.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn write(
        &self,
        (i, j, at): (usize, usize, usize),
        (wins, alone): (bool, bool),
        (a, b): (B, B),
    ) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (newer, older) =
                (self.newer.values.as_ptr().add(i), self.older.values.as_ptr().add(j));
            self.out.keys.add(at).write(select_unpredictable(wins, a, b));
            self.out.values.add(at).write(*select_unpredictable(wins, newer, older));
            if !MARKED {
                return 1;
            }
            // One entry alone is merged over itself, which leaves its mark as it is.
            let newer = *self.newer.marks.get_unchecked(i);
            let older = *self.older.marks.get_unchecked(j);
            let newest = select_unpredictable(wins, newer, older);
            let oldest = select_unpredictable(alone, newer, older);
            let mark = newest.over(oldest);
            self.out.marks.add(at).write(mark);
            usize::from(self.keep.contains(mark))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Sorted entries with unique keys: about `density` of every 100 keys below `len`.
    struct Sample {
        keys: Vec<u32>,
        values: Vec<[u8; 4]>,
        marks: Vec<Mark>,
    }

    impl Sample {
        fn new(seed: u32, len: u32, density: u32) -> Self {
            let number = |key: u32| {
                let mixed = (key ^ seed << 20).wrapping_mul(0x9e37_79b9);
                (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b) >> 8
            };
            let keys: Vec<u32> = (0..len).filter(|&key| number(key) % 100 < density).collect();
            let values = keys.iter().map(|&key| (number(key) ^ seed).to_le_bytes()).collect();
            let states = [Mark::NEW, Mark::REPLACEMENT, Mark::TOMBSTONE];
            let marks = keys.iter().map(|&key| states[number(key) as usize / 100 % 3]).collect();
            Sample { keys, values, marks }
        }

        fn entries(&self, marked: bool) -> EntriesRef<'_, u32, [u8; 4]> {
            let marks = if marked { &self.marks[..] } else { &[] };
            Entries { keys: &self.keys, values: &self.values, marks }
        }

        fn iter(&self) -> impl Iterator<Item = (u32, ([u8; 4], Mark))> {
            let contents = self.values.iter().copied().zip(self.marks.iter().copied());
            self.keys.iter().copied().zip(contents)
        }
    }

    /// Returns what a merge must write, by the rule of merging.
    fn expected(newer: &Sample, older: &Sample, keep: MarkSet) -> Vec<(u32, ([u8; 4], Mark))> {
        let mut all: BTreeMap<u32, ([u8; 4], Mark)> = older.iter().collect();
        for (key, (value, mark)) in newer.iter() {
            let merged = all.get(&key).map_or(mark, |&(_, older)| mark.over(older));
            all.insert(key, (value, merged));
        }
        all.into_iter().filter(|(_, (_, mark))| keep.contains(*mark)).collect()
    }

    #[test]
    fn merges_follow_the_rule_at_every_size_and_mix() {
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
            for keep in [MarkSet::LIVE, MarkSet::STORED, MarkSet::ALL] {
                let (mut keys, mut values, mut marks) =
                    (vec![0; total], vec![[0; 4]; total], vec![Mark::VOID; total]);
                let out =
                    Entries { keys: &mut keys[..], values: &mut values[..], marks: &mut marks[..] };
                let kept =
                    merge_two::<_, _, true>(newer.entries(true), older.entries(true), keep, out);
                let contents = values.into_iter().zip(marks);
                let merged: Vec<_> = keys.into_iter().zip(contents).take(kept).collect();
                assert_eq!(merged, expected(&newer, &older, keep), "{len} {of_newer} {of_older}");
            }
            // Without marks, into exactly as much room as there are keys.
            let expected = expected(&newer, &older, MarkSet::ALL);
            let (mut keys, mut values) = (vec![0; expected.len()], vec![[0; 4]; expected.len()]);
            let out = Entries { keys: &mut keys[..], values: &mut values[..], marks: &mut [][..] };
            let (newer, older) = (newer.entries(false), older.entries(false));
            let kept = merge_two::<_, _, false>(newer, older, MarkSet::ALL, out);
            assert_eq!(kept, expected.len());
            let merged = keys.into_iter().zip(values);
            assert!(merged.eq(expected.into_iter().map(|(key, (value, _))| (key, value))));
        }
    }
}
