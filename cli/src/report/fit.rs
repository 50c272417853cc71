//! The paper's formula for the time of an insertion, fitted to what was measured:
//! T(r) = T_sort + (2^ffz(r) − 1) · T_merge.

/// Returns the position of the lowest zero bit of r: the first free level.
pub fn ffz(r: u64) -> u32 {
    r.trailing_ones()
}

/// Returns how many merges of two batches the formula counts for batch number `r`, the first being 1.
pub fn merges(r: u64) -> f64 {
    (1u64 << ffz(r.saturating_sub(1))) as f64 - 1.0
}

/// The formula's two times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub sort: f64,
    pub merge: f64,
}

impl Fit {
    /// Fits pairs (batch number, seconds) by least squares of relative deviations, so that the many cheap
    /// insertions count as much as the few expensive ones. `None` if all need equally many merges.
    pub fn of(points: &[(u64, f64)]) -> Option<Self> {
        // The normal equations of seconds ≈ sort + merges · merge, each divided by its seconds.
        let (mut one, mut cross, mut square, mut right, mut right_merges) =
            (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(r, seconds) in points.iter().filter(|(_, seconds)| *seconds > 0.0) {
            let (weight, merges) = (1.0 / seconds, merges(r) / seconds);
            one += weight * weight;
            cross += weight * merges;
            square += merges * merges;
            right += weight;
            right_merges += merges;
        }
        let determinant = one * square - cross * cross;
        (determinant > 1e-9 * one * square).then(|| Fit {
            sort: (right * square - cross * right_merges) / determinant,
            merge: (one * right_merges - cross * right) / determinant,
        })
    }

    /// Returns the formula's seconds for batch number `r`.
    pub fn time(&self, r: u64) -> f64 {
        self.sort + merges(r) * self.merge
    }

    /// Returns the median distance of the points from the formula, as a share of what was measured.
    pub fn deviation(&self, points: &[(u64, f64)]) -> f64 {
        let mut all: Vec<f64> =
            points.iter().map(|&(r, seconds)| (self.time(r) / seconds - 1.0).abs()).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_zero_is_found() {
        assert_eq!([0, 1, 2, 3, 7, 8, 255].map(ffz), [0, 1, 0, 2, 3, 0, 8]);
        assert_eq!([1, 2, 3, 4, 8].map(merges), [0.0, 1.0, 0.0, 3.0, 7.0]);
    }

    #[test]
    fn least_squares_find_the_times_again() {
        let truth = Fit { sort: 0.9e-3, merge: 0.25e-3 };
        let points: Vec<_> = (1..=256).map(|r| (r, truth.time(r))).collect();
        let found = Fit::of(&points).expect("enough points");
        assert!((found.sort / truth.sort - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.merge / truth.merge - 1.0).abs() < 1e-9, "{found:?}");
        assert!(found.deviation(&points) < 1e-9);
    }

    #[test]
    fn noise_is_averaged_out() {
        let truth = Fit { sort: 2e-3, merge: 1e-3 };
        let noisy = |r: u64| truth.time(r) * if (r / 2).is_multiple_of(2) { 1.02 } else { 0.98 };
        let found = Fit::of(&(1..=512).map(|r| (r, noisy(r))).collect::<Vec<_>>()).expect("points");
        assert!((found.sort / truth.sort - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.merge / truth.merge - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn one_kind_of_insertion_is_not_enough() {
        assert_eq!(Fit::of(&[]), None);
        assert_eq!(Fit::of(&[(1, 1e-3), (3, 1e-3), (5, 1.1e-3)]), None);
    }
}
