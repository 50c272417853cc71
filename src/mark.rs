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

    /// The bit of an entry whose value stands for itself in a dictionary that combines values: what is
    /// older no longer counts. The two stored bits have no room for it: see
    /// [`planes_of_eight`](Mark::planes_of_eight).
    const SET: u8 = 4;

    /// A live entry that replaces an older one, or combines with it if the dictionary combines values.
    pub const REPLACEMENT: Mark = Mark(Self::LIVE | Self::SHADOW);

    /// An entry that deletes an older one.
    pub const TOMBSTONE: Mark = Mark(Self::SHADOW);

    /// A live entry that replaces an older one in a dictionary that combines values.
    pub const RESTART: Mark = Mark(Self::LIVE | Self::SHADOW | Self::SET);

    /// A live entry of a key that the older runs do not hold, which was set: stored as a new one.
    const NEW_AND_SET: Mark = Mark(Self::LIVE | Self::SET);

    /// A tombstone that deletes nothing: it exists while a batch is merged, and is never stored.
    pub const VOID: Mark = Mark(0);

    #[inline]
    pub fn new(live: bool, shadow: bool) -> Self {
        Mark((u8::from(live) * Self::LIVE) | (u8::from(shadow) * Self::SHADOW))
    }

    /// Returns the mark of a live entry whose value replaces what is older, whatever the dictionary's rule.
    #[inline]
    pub fn assigned(shadow: bool) -> Self {
        Mark(Self::new(true, shadow).0 | Self::SET)
    }

    /// Returns the two bits that are stored.
    #[cfg(test)]
    fn planes(self) -> (bool, bool) {
        if self == Self::RESTART { (false, false) } else { (self.is_live(), self.is_shadow()) }
    }

    /// Returns the mark of a stored entry.
    #[inline]
    pub fn from_planes(live: bool, shadow: bool) -> Self {
        if live || shadow { Mark::new(live, shadow) } else { Mark::RESTART }
    }

    /// Returns the two bits of eight marks that are stored, *live* and *shadow*, the first mark's the lowest. Only
    /// a restart has neither: its key is live before and after it, so that it adds 0 to the running sums.
    #[inline]
    pub fn planes_of_eight(marks: [Mark; 8]) -> (u8, u8) {
        // In every byte of these, the lowest bit is that of a mark.
        let bytes = u64::from_le_bytes(bytemuck::cast(marks));
        let (live, shadow, set) = (bytes, bytes >> 1, bytes >> 2);
        let stored = EACH_BYTE & !(live & shadow & set);
        let gather =
            |plane: u64| ((plane & stored).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
        (gather(live), gather(shadow))
    }

    /// Returns the marks of eight stored entries, the first from the lowest bits.
    #[inline]
    pub fn eight_from_planes(live: u8, shadow: u8) -> [Mark; 8] {
        // Byte i gets bit i, and then its lowest bit says whether that is set.
        let spread = |plane: u8| {
            let bits = (u64::from(plane) * EACH_BYTE) & 0x8040_2010_0804_0201;
            (bits + 0x7f * EACH_BYTE) >> 7 & EACH_BYTE
        };
        let (live, shadow) = (spread(live), spread(shadow));
        let restart = EACH_BYTE & !(live | shadow);
        let marks = (live * u64::from(Self::LIVE)) | (shadow * u64::from(Self::SHADOW));
        bytemuck::cast((marks | (restart * u64::from(Self::RESTART.0))).to_le_bytes())
    }

    #[inline]
    pub fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    #[cfg(feature = "testing")]
    #[inline]
    pub fn is_shadow(self) -> bool {
        self.0 & Self::SHADOW != 0
    }

    /// Returns whether this entry combines with an older one, if the dictionary combines values.
    #[inline]
    pub fn combines(self) -> bool {
        self.0 & (Self::LIVE | Self::SET) == Self::LIVE
    }

    /// Returns what this entry adds to the running sums: live − shadow.
    #[cfg(feature = "testing")]
    #[inline]
    pub fn sum(self) -> i64 {
        i64::from(self.is_live()) - i64::from(self.is_shadow())
    }

    /// **The rule of merging**: of two entries with the same key, the newer one's *live* and the
    /// older one's *shadow* remain.
    #[inline]
    pub fn over(self, older: Mark) -> Mark {
        Mark(self.0 & Self::LIVE | older.0 & Self::SHADOW)
    }

    /// **The rule of merging in a dictionary that combines values**: as [`over`](Mark::over), and an entry
    /// that combines with one that was set, or deleted, is set. The values combine if the newer entry
    /// [combines](Mark::combines) and the older one is live.
    #[inline]
    pub fn combined_over(self, older: Mark) -> Mark {
        let is_set = self.is_live() && (self.0 | older.0) & Self::SET != 0
            || self.combines() && !older.is_live();
        Mark(self.over(older).0 | (u8::from(is_set) * Self::SET))
    }
}

/// The lowest bit of each of eight bytes.
const EACH_BYTE: u64 = 0x0101_0101_0101_0101;

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Mark::NEW => "new",
            Mark::REPLACEMENT => "replacement",
            Mark::TOMBSTONE => "tombstone",
            Mark::RESTART => "restart",
            Mark::NEW_AND_SET => "new, set",
            Mark::VOID => "void",
            _ => "invalid",
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
    pub const ALL: MarkSet = MarkSet(u32::MAX);

    /// The marks of live entries.
    pub const LIVE: MarkSet =
        MarkSet::of([Mark::NEW, Mark::REPLACEMENT, Mark::RESTART, Mark::NEW_AND_SET]);

    /// The marks of entries that a run stores: all but [`Mark::VOID`].
    pub const STORED: MarkSet = MarkSet(Self::LIVE.0 | MarkSet::of([Mark::TOMBSTONE]).0);

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
    fn eight_marks_have_the_planes_of_each() {
        let all = [Mark::NEW, Mark::REPLACEMENT, Mark::TOMBSTONE, Mark::RESTART, Mark::NEW_AND_SET];
        for start in 0..5usize.pow(3) {
            let marks: [Mark; 8] =
                std::array::from_fn(|i| all[(start / [1, 5, 25][i % 3] + i / 3) % 5]);
            let (live, shadow) = Mark::planes_of_eight(marks);
            let stored = Mark::eight_from_planes(live, shadow);
            for (i, mark) in marks.into_iter().enumerate() {
                let planes = (live >> i & 1 == 1, shadow >> i & 1 == 1);
                assert_eq!(planes, mark.planes(), "{mark:?} at {i}");
                assert_eq!(stored[i], Mark::from_planes(planes.0, planes.1), "{mark:?} at {i}");
            }
        }
    }

    /// A function of what is older, as entries are while they are merged: (combine, set or delete, value).
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Update {
        Combine(u32),
        Set(u32),
        Delete,
    }

    /// Applies updates, oldest first, to a key that has a value or not.
    fn applied(updates: &[Update], start: Option<u32>) -> Option<u32> {
        updates.iter().fold(start, |value, &update| match update {
            Update::Combine(added) => Some(value.unwrap_or(0) + added),
            Update::Set(value) => Some(value),
            Update::Delete => None,
        })
    }

    #[test]
    fn combining_marks_means_applying_one_update_after_another() {
        let entry = |update: Update, shadow: bool| match update {
            Update::Combine(value) => (Mark::new(true, shadow), value),
            Update::Set(value) => (Mark::assigned(shadow), value),
            Update::Delete => (Mark::new(false, shadow), 0),
        };
        let over = |newer: (Mark, u32), older: (Mark, u32)| {
            let combine = newer.0.combines() && older.0.is_live();
            (newer.0.combined_over(older.0), newer.1 + if combine { older.1 } else { 0 })
        };
        let kinds = [Update::Combine(1), Update::Set(10), Update::Delete, Update::Combine(100)];
        let mut updates = Vec::new();
        for at in 0..4usize.pow(3) {
            updates.push([kinds[at % 4], kinds[at / 4 % 4], kinds[at / 16]]);
        }
        for ([a, b, c], shadow) in updates.iter().flat_map(|&of| [(of, false), (of, true)]) {
            let [newest, middle, oldest] = [c, b, a].map(|update| entry(update, shadow));
            let merged = over(over(newest, middle), oldest);
            assert_eq!(merged, over(newest, over(middle, oldest)), "{a:?} {b:?} {c:?}");
            let expected = applied(&[a, b, c], shadow.then_some(7000));
            let (live, shadow_bit) = merged.0.planes();
            let stored = Mark::from_planes(live, shadow_bit);
            let is_stored = MarkSet::STORED.contains(merged.0);
            let found = match stored {
                _ if !is_stored => None,
                Mark::REPLACEMENT => Some(merged.1 + 7000),
                mark => mark.is_live().then_some(merged.1),
            };
            assert_eq!(found, expected, "{a:?} {b:?} {c:?} over {shadow}");
            if is_stored {
                assert_eq!(stored.is_shadow(), shadow, "{merged:?}");
            }
        }
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
