//! The binary counter: which runs merge when a batch is applied.
//!
//! Level i holds at most `capacity(i)` entries; newer runs are in lower levels.
//! Applying a batch walks up from level 0, adding up the batch and every run met, and stops at the
//! first level that holds the sum; all of it becomes one run there. For batches of exactly b this
//! is the paper's counter: the full levels are the set bits of the number of batches, and a carry
//! is a merge.
//!
//! A carry that would take long is deferred: its runs are only gathered in their new level, which then
//! has several runs until they are merged, a part with each of the next batches.

use std::ops::Range;

/// Capacities of the levels: b halved down to [`LevelCapacities::SMALLEST`], b, and b doubled without end.
///
/// Levels below b keep many tiny batches cheap: a single insert rewrites at most the smallest
/// level, not b entries.
#[derive(Clone, Copy, Debug)]
pub struct LevelCapacities {
    batch_size: usize,
    /// How many levels are smaller than b.
    below: usize,
}

impl LevelCapacities {
    /// No level is halved below this many entries.
    const SMALLEST: usize = 64;

    pub fn new(batch_size: usize) -> Self {
        let halvings = (batch_size / Self::SMALLEST).checked_ilog2().unwrap_or(0);
        LevelCapacities { batch_size, below: halvings as usize }
    }

    /// The most entries that level `level` may hold.
    pub fn capacity(&self, level: usize) -> usize {
        if level < self.below {
            return self.batch_size >> (self.below - level);
        }
        let doublings = (level - self.below) as u32;
        match 1usize.checked_shl(doublings) {
            Some(factor) => self.batch_size.saturating_mul(factor),
            None => usize::MAX,
        }
    }

    /// The first level that may hold this many entries.
    pub fn level_for(&self, entries: usize) -> usize {
        (0..).find(|&level| entries <= self.capacity(level)).expect("capacities grow without end")
    }
}

/// What applying a batch merges: the newest `runs` runs, into `level`.
#[derive(Debug, PartialEq, Eq)]
pub struct Carry {
    pub runs: usize,
    pub level: usize,
}

/// Runs, level by level. A clone shares the runs: that is a snapshot.
#[derive(Clone)]
pub struct Levels<R> {
    capacities: LevelCapacities,
    /// Newest first…
    runs: Vec<R>,
    /// …and the level of each, ascending.
    places: Vec<usize>,
}

impl<R> Levels<R> {
    pub fn new(batch_size: usize) -> Self {
        Levels {
            capacities: LevelCapacities::new(batch_size),
            runs: Vec::new(),
            places: Vec::new(),
        }
    }

    pub fn capacities(&self) -> &LevelCapacities {
        &self.capacities
    }

    /// Every run, newest first.
    pub fn runs(&self) -> &[R] {
        &self.runs
    }

    /// Every run, newest first, for whoever takes them apart.
    pub fn runs_mut(&mut self) -> &mut [R] {
        &mut self.runs
    }

    /// Every run with its level, newest first.
    pub fn placed(&self) -> impl DoubleEndedIterator<Item = (usize, &R)> {
        self.places.iter().copied().zip(&self.runs)
    }

    /// Walks up from level 0 until a level holds `len` new entries and every run met.
    pub fn walk(&self, len: usize, bound: impl Fn(&R) -> usize) -> Carry {
        let mut sum = len;
        let mut runs = 0;
        for level in 0.. {
            while self.places.get(runs) == Some(&level) {
                sum = sum.saturating_add(bound(&self.runs[runs]));
                runs += 1;
            }
            if sum <= self.capacities.capacity(level) {
                return Carry { runs, level };
            }
        }
        unreachable!("capacities grow without end")
    }

    /// Puts `run`, if there is one, where the newest `carry.runs` runs were.
    pub fn install(&mut self, carry: &Carry, run: Option<R>) {
        let place = run.as_ref().map(|_| carry.level);
        self.runs.splice(..carry.runs, run);
        self.places.splice(..carry.runs, place);
    }

    /// Puts `run`, if there is one, which has at most this many entries, in the place of all runs.
    pub fn install_alone(&mut self, run: Option<R>, entries: usize) {
        let level = self.capacities.level_for(entries);
        self.install(&Carry { runs: self.runs.len(), level }, run);
    }

    /// Puts `run`, if there is one, and the newest `carry.runs` runs behind it, into one level, where
    /// they are still to be merged.
    pub fn gather(&mut self, carry: &Carry, run: Option<R>) {
        self.places[..carry.runs].fill(carry.level);
        let place = run.as_ref().map(|_| carry.level);
        self.runs.splice(..0, run);
        self.places.splice(..0, place);
    }

    /// Which runs are in one level and still to be merged; the oldest such, if there are more.
    pub fn unmerged(&self) -> Option<Range<usize>> {
        let level = self.places.windows(2).rev().find(|pair| pair[0] == pair[1])?[0];
        let start = self.places.partition_point(|&place| place < level);
        Some(start..self.places.partition_point(|&place| place <= level))
    }

    /// Replaces the runs of one level by the run they were merged into, if anything is left.
    pub fn merged(&mut self, runs: Range<usize>, run: Option<R>) {
        let place = run.as_ref().map(|_| self.places[runs.start]);
        self.runs.splice(runs.clone(), run);
        self.places.splice(runs, place);
    }

    /// Replaces each run for which `other` returns another, except runs that are still to be merged; returns
    /// whether there was any.
    pub fn replace(&mut self, other: impl Fn(&R) -> Option<R>) -> bool {
        let mut any = false;
        for at in 0..self.runs.len() {
            let is_alone =
                self.places.iter().filter(|&&place| place == self.places[at]).count() == 1;
            if is_alone && let Some(other) = other(&self.runs[at]) {
                self.runs[at] = other;
                any = true;
            }
        }
        any
    }

    /// Keeps only the runs for which `keep` returns true.
    pub fn retain(&mut self, keep: impl Fn(&R) -> bool) {
        for at in (0..self.runs.len()).rev() {
            if !keep(&self.runs[at]) {
                self.runs.remove(at);
                self.places.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels whose runs are mere lengths.
    fn levels(batch_size: usize) -> Levels<usize> {
        Levels::new(batch_size)
    }

    fn apply(levels: &mut Levels<usize>, len: usize) -> Carry {
        let carry = levels.walk(len, |&run| run);
        let sum = len + levels.runs[..carry.runs].iter().sum::<usize>();
        levels.install(&carry, Some(sum));
        carry
    }

    #[test]
    fn batches_of_b_count_in_binary() {
        let mut levels = levels(4);
        for batches in 1usize..=64 {
            apply(&mut levels, 4);
            let bits: Vec<usize> = (0..8).filter(|bit| batches >> bit & 1 == 1).collect();
            assert_eq!(levels.places, bits, "after {batches} batches");
            let lengths: Vec<usize> = bits.iter().map(|bit| 4 << bit).collect();
            assert_eq!(levels.runs, lengths);
        }
    }

    #[test]
    fn batches_of_b_use_the_levels_from_b_up() {
        let mut levels = levels(256);
        assert_eq!(levels.capacities.capacity(2), 256);
        apply(&mut levels, 256);
        apply(&mut levels, 256);
        assert_eq!(levels.places, [3]);
    }

    #[test]
    fn short_batches_gather_at_the_bottom_and_long_ones_start_higher() {
        let mut levels = levels(100);
        for _ in 0..100 {
            assert_eq!(apply(&mut levels, 1).level, 0);
        }
        assert_eq!(apply(&mut levels, 1), Carry { runs: 1, level: 1 });
        assert_eq!(apply(&mut levels, 500), Carry { runs: 1, level: 3 });
    }

    #[test]
    fn a_million_single_inserts_leave_few_levels_and_cost_little() {
        let mut levels = levels(65_536);
        let mut moved = 0;
        for _ in 0..1_000_000 {
            apply(&mut levels, 1);
            moved += levels.runs[0];
            assert!(levels.runs.len() <= 15);
        }
        assert!(moved < 1_000_000 * 50, "{moved} entries written");
    }

    #[test]
    fn runs_that_are_not_kept_leave_the_others_where_they_are() {
        let mut levels = levels(4);
        for _ in 0..7 {
            apply(&mut levels, 4);
        }
        assert_eq!((&levels.runs[..], &levels.places[..]), (&[4, 8, 16][..], &[0, 1, 2][..]));
        levels.retain(|&run| run != 8);
        assert_eq!((&levels.runs[..], &levels.places[..]), (&[4, 16][..], &[0, 2][..]));
        levels.retain(|_| true);
        assert_eq!(levels.runs, [4, 16]);
    }

    #[test]
    fn runs_are_replaced_where_they_are() {
        let mut levels = levels(4);
        for _ in 0..3 {
            apply(&mut levels, 4);
        }
        assert!(levels.replace(|&run| (run == 8).then_some(7)));
        assert_eq!((&levels.runs[..], &levels.places[..]), (&[4, 7][..], &[0, 1][..]));
        assert!(!levels.replace(|_| None));
    }

    /// Applies a batch whose carry is deferred.
    fn gather(levels: &mut Levels<usize>, len: usize) {
        let carry = levels.walk(len, |&run| run);
        levels.gather(&carry, Some(len));
    }

    #[test]
    fn gathered_runs_are_one_level_to_those_that_come() {
        let mut levels = levels(4);
        for _ in 0..7 {
            apply(&mut levels, 4);
        }
        assert_eq!(levels.unmerged(), None);
        gather(&mut levels, 4);
        assert_eq!((&levels.runs[..], &levels.places[..]), (&[4, 4, 8, 16][..], &[3; 4][..]));
        assert_eq!(levels.unmerged(), Some(0..4));
        assert!(!levels.replace(|run| Some(run + 1)));
        for _ in 0..3 {
            apply(&mut levels, 4);
        }
        assert_eq!((&levels.runs[..2], &levels.places[..]), (&[4, 8][..], &[0, 1, 3, 3, 3, 3][..]));
        let mut merged = levels.clone();
        merged.merged(2..6, Some(31));
        assert_eq!((&merged.runs[..], &merged.places[..]), (&[4, 8, 31][..], &[0, 1, 3][..]));
        assert_eq!(merged.unmerged(), None);
        // A carry that meets them takes them with it.
        assert_eq!(levels.walk(20, |&run| run), Carry { runs: 6, level: 4 });
        merged.merged(0..1, None);
        assert_eq!((&merged.runs[..], &merged.places[..]), (&[8, 31][..], &[1, 3][..]));
    }

    #[test]
    fn of_several_levels_to_be_merged_the_oldest_is_the_first() {
        let mut levels = levels(4);
        for _ in 0..7 {
            apply(&mut levels, 4);
        }
        gather(&mut levels, 4);
        apply(&mut levels, 4);
        gather(&mut levels, 4);
        assert_eq!(levels.places, [1, 1, 3, 3, 3, 3]);
        assert_eq!(levels.unmerged(), Some(2..6));
        levels.merged(2..6, Some(32));
        assert_eq!(levels.unmerged(), Some(0..2));
    }

    #[test]
    fn capacities_halve_below_b_and_double_above_without_overflow() {
        let capacities = LevelCapacities::new(1000);
        let first = [0, 1, 2, 3, 4].map(|level| capacities.capacity(level));
        assert_eq!(first, [125, 250, 500, 1000, 2000]);
        assert_eq!(capacities.capacity(500), usize::MAX);
        assert_eq!(LevelCapacities::new(1).capacity(0), 1);
        assert_eq!(LevelCapacities::new(1).level_for(1 << 40), 40);
    }
}
