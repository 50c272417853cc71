//! What an entry means, in two bits: the only place that knows their codes on the Rust side.
//! (`include/gpulsm/marks.cuh` is the other side's; `cuda/abi.rs` checks that they agree.)

use std::fmt;

/// Whether an entry is live, and whether it shadows an older one.
///
/// `live − shadow` over all entries of a key telescopes to 1 if the dictionary holds the key and to 0 if
/// it does not. That is what makes a count two searches per run.
#[derive(Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct Mark(u8);

impl Mark {
    /// The bit of a live entry; a tombstone lacks it.
    pub const LIVE: u8 = 1;

    /// The bit of an entry whose key was live in the older runs when it arrived.
    pub const SHADOW: u8 = 2;

    /// A live entry of a key that the older runs do not hold.
    pub const NEW: Mark = Mark(Self::LIVE);

    /// A live entry that replaces an older one.
    pub const REPLACEMENT: Mark = Mark(Self::LIVE | Self::SHADOW);

    /// An entry that deletes an older one.
    pub const TOMBSTONE: Mark = Mark(Self::SHADOW);

    /// A tombstone that hides nothing: never stored.
    pub const VOID: Mark = Mark(0);

    #[inline]
    pub fn new(live: bool, shadow: bool) -> Self {
        Mark(u8::from(live) * Self::LIVE | u8::from(shadow) * Self::SHADOW)
    }

    #[inline]
    pub fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    #[inline]
    pub fn is_shadow(self) -> bool {
        self.0 & Self::SHADOW != 0
    }

    #[inline]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// **The rule of merging**: of two entries with one key, the newer one's *live* and the older one's
    /// *shadow* remain.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// live − shadow of all entries of a key, in any order of merging.
    fn sum(marks: &[Mark]) -> i32 {
        marks.iter().map(|mark| i32::from(mark.is_live()) - i32::from(mark.is_shadow())).sum()
    }

    #[test]
    fn merging_keeps_the_sum_of_live_minus_shadow() {
        let stored = [Mark::NEW, Mark::REPLACEMENT, Mark::TOMBSTONE];
        for newer in stored {
            for older in stored {
                // A newer entry shadows exactly if the older one is live.
                if newer.is_shadow() == older.is_live() {
                    assert_eq!(
                        sum(&[newer.over(older)]),
                        sum(&[newer, older]),
                        "{newer:?} {older:?}"
                    );
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
}
