//! Marks: what an entry means, in two bits.
//!
//! This is the only file on the Rust side that knows the codes; in the kernels it is
//! `include/gpulsm/marks.cuh`.

use std::fmt;

/// Whether an entry is live, and whether it shadows an older one.
///
/// `live − shadow` over all entries of a key telescopes to 1 if the dictionary holds the key and to
/// 0 if it does not. Therefore a count needs two searches per run and reads no entries.
#[derive(Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct Mark(u8);

impl Mark {
    /// The bit of a live entry; a tombstone lacks it.
    pub const LIVE: u8 = 1;

    /// The bit of an entry whose key was live in the older runs when the entry arrived.
    pub const SHADOW: u8 = 2;

    /// A live entry of a key that the older runs do not hold.
    pub const NEW: Mark = Mark(Self::LIVE);

    /// A live entry that replaces an older one.
    pub const REPLACEMENT: Mark = Mark(Self::LIVE | Self::SHADOW);

    /// An entry that deletes an older one.
    pub const TOMBSTONE: Mark = Mark(Self::SHADOW);

    /// A tombstone that deletes nothing: it exists while a batch is merged, and is never stored.
    pub const VOID: Mark = Mark(0);

    #[inline]
    pub fn new(live: bool, shadow: bool) -> Self {
        Mark((u8::from(live) * Self::LIVE) | (u8::from(shadow) * Self::SHADOW))
    }

    #[inline]
    pub fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    #[inline]
    pub fn is_shadow(self) -> bool {
        self.0 & Self::SHADOW != 0
    }

    /// Returns what this entry adds to the running sums: live − shadow.
    #[cfg(feature = "testing")]
    pub fn sum(self) -> i64 {
        i64::from(self.is_live()) - i64::from(self.is_shadow())
    }

    /// **The rule of merging**: of two entries with the same key, the newer one's *live* and the
    /// older one's *shadow* remain.
    #[inline]
    pub fn over(self, older: Mark) -> Mark {
        Mark(self.0 & Self::LIVE | older.0 & Self::SHADOW)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Mark::NEW => "new",
            Mark::REPLACEMENT => "replacement",
            Mark::TOMBSTONE => "tombstone",
            _ => "void",
        })
    }
}

/// A set of marks: which entries a merge keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkSet(
    /// Bit m is set if the set contains `Mark(m)`.
    u32,
);

impl MarkSet {
    /// Every mark.
    pub const ALL: MarkSet =
        MarkSet::of([Mark::VOID, Mark::NEW, Mark::TOMBSTONE, Mark::REPLACEMENT]);

    /// The marks of live entries.
    pub const LIVE: MarkSet = MarkSet::of([Mark::NEW, Mark::REPLACEMENT]);

    /// The marks that a run stores: all but [`Mark::VOID`].
    pub const STORED: MarkSet = MarkSet::of([Mark::NEW, Mark::TOMBSTONE, Mark::REPLACEMENT]);

    const fn of<const N: usize>(marks: [Mark; N]) -> MarkSet {
        let mut set = 0;
        let mut index = 0;
        while index < N {
            set |= 1 << marks[index].0;
            index += 1;
        }
        MarkSet(set)
    }

    /// Returns whether the set contains this mark, without a branch: one bit test.
    #[inline]
    pub fn contains(self, mark: Mark) -> bool {
        self.0.wrapping_shr(u32::from(mark.0)) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: [Mark; 3] = [Mark::NEW, Mark::REPLACEMENT, Mark::TOMBSTONE];

    #[test]
    fn merging_keeps_the_sum_of_live_minus_shadow() {
        for newer in STORED {
            for older in STORED {
                // A newer entry shadows exactly if the older one is live.
                if newer.is_shadow() == older.is_live() {
                    let merged = newer.over(older);
                    assert_eq!(merged.sum(), newer.sum() + older.sum(), "{newer:?} {older:?}");
                }
            }
        }
        assert_eq!(Mark::TOMBSTONE.over(Mark::NEW), Mark::VOID);
    }

    #[test]
    fn a_mark_is_its_two_bits() {
        for (live, shadow) in [(false, false), (false, true), (true, false), (true, true)] {
            let mark = Mark::new(live, shadow);
            assert_eq!((mark.is_live(), mark.is_shadow()), (live, shadow));
        }
    }

    #[test]
    fn sets_contain_the_marks_that_their_names_say() {
        for mark in STORED {
            assert!(MarkSet::STORED.contains(mark) && MarkSet::ALL.contains(mark));
            assert_eq!(MarkSet::LIVE.contains(mark), mark.is_live());
        }
        assert!(!MarkSet::LIVE.contains(Mark::VOID) && !MarkSet::STORED.contains(Mark::VOID));
        assert!(MarkSet::ALL.contains(Mark::VOID));
    }
}
