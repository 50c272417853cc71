//! How far the ratio of two runs of equal code may be from 1: by a row's own repeats, and by the controls,
//! which are no part of the dictionary.

use crate::results::{Point, Row, Unit};

/// Smaller changes are noise.
pub const LEAST: f64 = 0.03;

/// A change must exceed this multiple of both rows' spreads.
pub const SPREADS: f64 = 1.5;

/// How many repeats, or points, are needed to know the spread.
const LEAST_SAMPLES: usize = 3;
pub const LEAST_POINTS: usize = 8;

/// The series of controls: other data structures, and a sort.
const CONTROLS: [&str; 3] = ["sa", "hash", "sort"];

/// Controls that differ by more than this among each other say nothing of the machine.
pub const UNSTEADY: f64 = 0.25;

/// Returns whether a row measures something that our code has no part in.
pub fn is_control(row: &Row) -> bool {
    CONTROLS.contains(&row.series.as_str())
}

/// Returns how far the logarithm of the ratio of two rows with the same points may be from 0 by chance: by
/// the spread of repeats or, where there are none, by how much the ratio differs from point to point.
pub fn of_repeats(old: &Row, new: &Row) -> Option<f64> {
    if new.unit == Unit::Bytes {
        return Some(LEAST); // Bytes are counted, not timed.
    }
    let repeated = |row: &Row| row.points.iter().all(|point| point.samples.len() >= LEAST_SAMPLES);
    if repeated(old) && repeated(new) {
        return Some(LEAST.max(SPREADS * (old.spread() + new.spread())));
    }
    let ratio = |one: &Point| {
        let other = old.points.iter().find(|other| other.at == one.at)?;
        Some(one.figure(new.unit) / other.figure(old.unit))
    };
    let ratios: Vec<f64> = new.points.iter().filter_map(ratio).collect();
    let all = Point { at: 0.0, items: 1, samples: ratios };
    (all.samples.len() >= LEAST_POINTS).then(|| LEAST.max(SPREADS * all.spread()))
}

/// The controls of an experiment: the ratio of each between two runs.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    pub ratios: Vec<f64>,
}

impl Controls {
    /// Returns the least and the greatest ratio.
    pub fn extremes(&self) -> (f64, f64) {
        let ratios = self.ratios.iter();
        ratios.fold((f64::INFINITY, 0.0), |(min, max), &ratio| (min.min(ratio), max.max(ratio)))
    }

    /// Returns whether the controls differ too much among each other.
    pub fn disagree(&self) -> bool {
        let (min, max) = self.extremes();
        max > min * UNSTEADY.exp()
    }

    /// Returns what a change must exceed: one in 200 rows of equal code does by chance, if it varies as
    /// the controls do (Student's t, for as many of them as there are).
    pub fn margin(&self) -> f64 {
        let squares: f64 = self.ratios.iter().map(|ratio| ratio.ln().powi(2)).sum();
        let count = self.ratios.len();
        students_t(count) * (squares / count as f64).sqrt()
    }
}

/// Returns the bound that a variable of Student's t distribution exceeds, up or down, once in 200 times.
fn students_t(degrees: usize) -> f64 {
    const FEW: [f64; 9] = [127.3, 14.09, 7.45, 5.60, 4.77, 4.32, 4.03, 3.83, 3.69];
    // Within 2 % from 10 on.
    FEW.get(degrees - 1).copied().unwrap_or(2.81 * (1.0 + 2.7 / degrees as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_controls_allow_larger_differences_than_many() {
        let of = |count| Controls { ratios: vec![1.01; count] }.margin();
        assert!(of(1) > 1.0 && of(2) > 0.1 && of(20) < 0.04, "{} {} {}", of(1), of(2), of(20));
        assert!((1..100).all(|count| of(count) > of(count + 1)));
        assert_eq!(Controls { ratios: vec![1.0; 2] }.margin(), 0.0);
    }

    #[test]
    fn controls_disagree_by_what_lies_between_them() {
        let disagree = |ratios: &[f64]| Controls { ratios: ratios.to_vec() }.disagree();
        assert!(!disagree(&[0.5, 0.52, 0.6]), "a slower machine, but all agree");
        assert!(disagree(&[0.9, 1.0, 1.2]));
        assert!(!disagree(&[3.0]));
    }
}
