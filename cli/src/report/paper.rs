//! The paper's measurements on a Tesla K40c: every number as printed there, in millions a second.

use super::rates::{Sizes, harmonic};

/// How many entries the paper's insertions (Table II) and queries (Tables III and IV) end with, as
/// a power of two.
pub const INSERTED: u32 = 27;
pub const QUERIED: u32 = 24;

/// The least, the greatest and the harmonic mean rate over all numbers of resident batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
}

/// A line of a table: the batch size as a power of two, the GPU LSM, and the mean of the sorted
/// array beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub b: u32,
    pub lsm: Rates,
    pub sa: f64,
}

/// A whole table, and how many entries (as a power of two) it ends with.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub n: u32,
    pub lines: &'static [Line],
    /// The harmonic means over all lines, of the GPU LSM and of the sorted array, where the paper
    /// prints both.
    pub means: Option<(f64, f64)>,
    /// How many digits it prints after the point.
    pub decimals: usize,
}

impl Table {
    /// Returns the line with as many batches, and so as many levels: the same one if n is the paper's.
    pub fn line(&self, sizes: Sizes) -> Option<&'static Line> {
        let batches = sizes.n.checked_sub(sizes.b)?;
        self.lines.iter().find(|line| self.n - line.b == batches)
    }

    /// Returns the harmonic means over these lines: the printed ones if these are all lines.
    pub fn means(&self, lines: &[&Line]) -> Option<(f64, f64)> {
        let found = || {
            let lsm = harmonic(lines.iter().map(|line| line.lsm.mean))?;
            Some((lsm, harmonic(lines.iter().map(|line| line.sa))?))
        };
        self.means.filter(|_| lines.len() == self.lines.len()).or_else(found)
    }
}

const fn line(b: u32, min: f64, max: f64, mean: f64, sa: f64) -> Line {
    Line { b, lsm: Rates { min, max, mean }, sa }
}

/// Table II: insertion rates, M elements/s.
pub const INSERT: Table = Table {
    n: INSERTED,
    lines: &[
        line(27, 727.8, 727.8, 727.8, 727.8),
        line(26, 585.3, 727.7, 648.8, 647.4),
        line(25, 421.1, 727.1, 585.5, 561.2),
        line(24, 270.3, 727.1, 537.9, 459.2),
        line(23, 155.5, 726.3, 485.2, 334.0),
        line(22, 84.3, 714.8, 441.2, 219.2),
        line(21, 44.0, 694.0, 398.1, 131.2),
        line(20, 22.4, 664.2, 354.1, 73.8),
        line(19, 11.3, 558.2, 289.4, 39.4),
        line(18, 5.6, 432.0, 220.7, 20.3),
        line(17, 2.8, 326.8, 159.9, 10.3),
        line(16, 1.4, 194.3, 98.0, 5.2),
        line(15, 0.7, 101.4, 58.4, 2.6),
    ],
    means: Some((225.3, 16.7)),
    decimals: 1,
};

/// Table II and V-B, "Bulk build": cuckoo hashing with a load of 80 %, the radix sort of pairs, and
/// the GPU LSM (V-D: "bulk build sustains 728 M elements/s").
pub const BUILD_HASH: f64 = 361.7;
pub const BUILD_SORT: f64 = 770.0;
pub const BUILD: f64 = 728.0;

/// Table III, left: lookups of keys that don't exist, M queries/s.
pub const LOOKUP_NONE: Table = Table {
    n: QUERIED,
    lines: &[
        line(24, 116.8, 116.8, 116.8, 106.8),
        line(23, 116.8, 133.1, 124.4, 112.4),
        line(22, 61.6, 183.1, 105.9, 113.9),
        line(21, 41.4, 237.4, 84.0, 118.4),
        line(20, 30.7, 291.3, 68.4, 120.3),
        line(19, 25.2, 331.7, 57.7, 123.4),
        line(18, 22.0, 361.5, 51.1, 125.4),
        line(17, 19.5, 376.7, 47.4, 126.8),
        line(16, 18.1, 386.1, 45.5, 127.6),
    ],
    means: Some((67.9, 119.0)),
    decimals: 1,
};

/// Table III, right: lookups of keys that exist, M queries/s.
pub const LOOKUP_ALL: Table = Table {
    n: QUERIED,
    lines: &[
        line(24, 106.8, 106.8, 106.8, 116.7),
        line(23, 106.8, 118.6, 112.4, 124.3),
        line(22, 74.7, 142.2, 104.7, 128.9),
        line(21, 51.7, 194.7, 91.1, 132.9),
        line(20, 39.3, 251.1, 77.6, 135.0),
        line(19, 32.0, 299.2, 67.5, 138.7),
        line(18, 27.2, 332.0, 60.7, 141.2),
        line(17, 24.3, 347.3, 56.7, 143.0),
        line(16, 22.7, 365.7, 54.9, 144.1),
    ],
    means: Some((75.7, 133.3)),
    decimals: 1,
};

/// Table III, last line: lookups in the cuckoo hash table, none and all existing.
pub const LOOKUP_HASH: (f64, f64) = (498.9, 758.0);

/// Table IV, counts of L = 8 and L = 1024, M queries/s.
pub const COUNT_8: Table = Table {
    n: QUERIED,
    lines: &[
        line(20, 27.0, 103.7, 48.0, 73.5),
        line(19, 22.4, 94.1, 39.8, 68.6),
        line(18, 19.0, 82.9, 35.1, 63.0),
        line(17, 16.2, 67.6, 27.4, 56.1),
        line(16, 15.1, 44.7, 23.9, 47.3),
    ],
    means: None,
    decimals: 1,
};
pub const COUNT_1024: Table = Table {
    n: QUERIED,
    lines: &[
        line(20, 2.58, 4.17, 3.01, 4.10),
        line(19, 2.51, 4.13, 2.86, 4.09),
        line(18, 2.44, 4.10, 2.79, 4.08),
        line(17, 2.36, 4.06, 2.63, 4.04),
        line(16, 2.32, 3.99, 2.57, 3.99),
    ],
    means: None,
    decimals: 2,
};

/// Table IV, ranges of L = 8 and L = 1024, M queries/s.
pub const RANGE_8: Table = Table {
    n: QUERIED,
    lines: &[
        line(20, 23.2, 72.1, 38.4, 42.2),
        line(19, 19.4, 63.2, 31.9, 38.2),
        line(18, 14.6, 50.5, 24.9, 33.8),
        line(17, 12.9, 36.3, 19.8, 29.1),
        line(16, 11.0, 23.0, 15.1, 25.0),
    ],
    means: None,
    decimals: 1,
};
pub const RANGE_1024: Table = Table {
    n: QUERIED,
    lines: &[
        line(20, 1.27, 1.80, 1.43, 1.81),
        line(19, 1.25, 1.81, 1.37, 1.81),
        line(18, 1.23, 1.81, 1.35, 1.81),
        line(17, 1.20, 1.81, 1.28, 1.81),
        line(16, 1.18, 1.76, 1.27, 1.80),
    ],
    means: None,
    decimals: 2,
};

/// V-D: cleanups of 63 batches of 2^20 and of 127 batches of 2^19, M elements/s; (batches, b,
/// percent stale, rate).
pub const CLEANUP: [(u32, u32, u32, f64); 4] =
    [(63, 20, 10, 1870.2), (63, 20, 50, 1828.2), (127, 19, 10, 1842.5), (127, 19, 50, 1794.3)];

/// V-D: 127 batches of 2^18, 10 % stale: the cleanup and 32 million lookups after it, in seconds,
/// and how many times as fast as the lookups before it the two are together.
pub const CLEANED_IN: f64 = 0.019_23;
pub const LOOKED_UP_IN: f64 = 0.132_5;
pub const CLEANUP_PAYS: f64 = 4.8;

#[cfg(test)]
mod tests {
    use super::*;

    fn means(table: Table) -> (f64, f64) {
        let mean = |of: fn(&Line) -> f64| harmonic(table.lines.iter().map(of)).expect("lines");
        (mean(|line| line.lsm.mean), mean(|line| line.sa))
    }

    fn near(found: f64, printed: f64) {
        assert!((found / printed - 1.0).abs() < 0.02, "{found} is not {printed}");
    }

    /// The averages that the paper's text gives tell whether the tables were copied rightly.
    #[test]
    fn the_printed_averages_are_those_of_the_lines() {
        for (table, (lsm, sa)) in [
            (INSERT, INSERT.means.expect("printed")),
            (LOOKUP_NONE, LOOKUP_NONE.means.expect("printed")),
            (LOOKUP_ALL, LOOKUP_ALL.means.expect("printed")),
            (COUNT_8, (32.7, 1.84 * 32.7)),
            (COUNT_1024, (2.8, 1.45 * 2.8)),
            (RANGE_8, (23.3, 1.39 * 23.3)),
            (RANGE_1024, (1.34, 1.36 * 1.34)),
        ] {
            let found = means(table);
            near(found.0, lsm);
            near(found.1, sa);
        }
    }

    #[test]
    fn a_smaller_run_stands_beside_as_many_batches() {
        let line = INSERT.line(Sizes { b: 10, n: 22 }).expect("4,096 batches");
        assert_eq!((line.b, line.lsm.mean), (15, 58.4));
        assert_eq!(INSERT.line(Sizes { b: 27, n: 27 }).map(|line| line.b), Some(27));
        assert_eq!(INSERT.line(Sizes { b: 5, n: 27 }), None);
        assert_eq!(INSERT.line(Sizes { b: 9, n: 8 }), None);
    }
}
