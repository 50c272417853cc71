//! Axes: where a value lies, which ticks there are, and what they are called.

use crate::report::numbers;

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Evenly, from zero to the last value: batches, rounds.
    Numbered,
    /// Evenly, from zero; values are shares.
    Percent,
    /// By their logarithm, with ticks at 1, 2 and 5 of every decade.
    Log,
    /// Values are logarithms to base two already.
    Powers,
}

/// A tick: where, and its label, if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub at: f64,
    pub label: String,
}

/// A scale with the range it shows.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// Makes an axis that shows all of these values. Logarithmic ones ignore values without a logarithm.
    pub fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let valid = |value: &f64| value.is_finite() && (scale != Scale::Log || *value > 0.0);
        let (low, high) =
            values.filter(valid).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = if low > high { (1.0, 2.0) } else { (low, high) };
        let (low, high) = match scale {
            Scale::Linear | Scale::Percent => (low.min(0.0), widened(low.min(0.0), high)),
            Scale::Numbered => (0.0, high.max(1.0)),
            Scale::Log => (below(low), above(high).max(2.0 * below(low))),
            Scale::Powers => (low, if high > low { high } else { low + 1.0 }),
        };
        Axis { scale, low, high }
    }

    /// Returns the position of a value, from 0 to 1.
    pub fn position(&self, value: f64) -> f64 {
        let map = |value: f64| {
            if self.scale == Scale::Log { value.max(f64::MIN_POSITIVE).log10() } else { value }
        };
        (map(value) - map(self.low)) / (map(self.high) - map(self.low))
    }

    /// Returns the ticks, about `most` of them with labels.
    pub fn ticks(&self, most: usize) -> Vec<Tick> {
        match self.scale {
            Scale::Linear | Scale::Numbered => self.even(most, numbers::number_short),
            Scale::Percent => self.even(most, numbers::percent),
            Scale::Log => self.decades(most),
            Scale::Powers => self.powers(most),
        }
    }

    fn even(&self, most: usize, label: fn(f64) -> String) -> Vec<Tick> {
        let step = nice((self.high - self.low) / most.max(1) as f64);
        let count = ((self.high - self.low) / step + 1e-9).floor() as usize;
        (0..=count)
            .map(|number| self.low + number as f64 * step)
            .map(|at| Tick { at, label: label(at) })
            .collect()
    }

    fn decades(&self, most: usize) -> Vec<Tick> {
        let all: Vec<f64> = (-12..=15)
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)))
            .filter(|at| (self.low * 0.999..=self.high * 1.001).contains(at))
            .collect();
        let decade = |at: f64| (at.log10() - at.log10().round()).abs() < 1e-9;
        let decades = all.iter().filter(|at| decade(**at)).count();
        // Labels on all, or only on decades, or only on some of them.
        let every = decades.div_ceil(most.max(1)).max(1) as i32;
        let labelled = |at: f64| {
            all.len() <= most || (decade(at) && (at.log10().round() as i32).rem_euclid(every) == 0)
        };
        let label = |at| if labelled(at) { numbers::number_short(at) } else { String::new() };
        all.iter().map(|&at| Tick { at, label: label(at) }).collect()
    }

    fn powers(&self, most: usize) -> Vec<Tick> {
        let (first, last) = (self.low.ceil() as i64, self.high.floor() as i64);
        let every = ((last - first + 1) as usize).div_ceil(most.max(1)).max(1);
        (first..=last)
            .rev()
            .step_by(every)
            .map(|power| Tick { at: power as f64, label: format!("2^{power}") })
            .collect()
    }
}

/// Returns the end of an even axis: the next whole step.
fn widened(low: f64, high: f64) -> f64 {
    let step = nice((high - low).max(1e-9) / 5.0);
    low + ((high - low) / step - 1e-9).ceil().max(1.0) * step
}

/// Rounds a step up to 1, 2 or 5 of a decade.
fn nice(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * decade)
        .into_iter()
        .find(|nice| *nice >= step * 0.999)
        .unwrap_or(step)
}

/// The next 1, 2 or 5 of a decade at or above.
fn above(value: f64) -> f64 {
    nice(value)
}

/// The next 1, 2 or 5 of a decade at or below.
fn below(value: f64) -> f64 {
    let decade = 10f64.powf((value * 1.001).log10().floor());
    [5.0, 2.0, 1.0]
        .map(|digit| digit * decade)
        .into_iter()
        .find(|low| *low <= value * 1.001)
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, most: usize) -> Vec<String> {
        axis.ticks(most)
            .into_iter()
            .map(|tick| tick.label)
            .filter(|label| !label.is_empty())
            .collect()
    }

    #[test]
    fn decades_are_labelled_in_ones_twos_and_fives() {
        let axis = Axis::over(Scale::Log, [30.0, 700.0].into_iter());
        assert_eq!(labels(&axis, 8), ["20", "50", "100", "200", "500", "1,000"]);
        assert_eq!(axis.position(20.0), 0.0);
        assert_eq!(axis.position(1000.0), 1.0);
        let wide = Axis::over(Scale::Log, [0.7, 90_000.0].into_iter());
        assert_eq!(labels(&wide, 8), ["1", "10", "100", "1,000", "10,000", "100,000"]);
    }

    #[test]
    fn powers_have_whole_exponents() {
        let axis = Axis::over(Scale::Powers, [15.0, 27.0].into_iter());
        assert_eq!(labels(&axis, 7), ["2^27", "2^25", "2^23", "2^21", "2^19", "2^17", "2^15"]);
    }

    #[test]
    fn even_axes_begin_at_zero() {
        let axis = Axis::over(Scale::Percent, [0.25, 1.0].into_iter());
        assert_eq!(labels(&axis, 5), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
    }

    #[test]
    fn strange_values_make_an_axis_too() {
        for scale in [Scale::Linear, Scale::Numbered, Scale::Percent, Scale::Log, Scale::Powers] {
            for values in [vec![], vec![0.0], vec![5.0], vec![f64::NAN, f64::INFINITY]] {
                let axis = Axis::over(scale, values.iter().copied());
                assert!(
                    axis.ticks(6).iter().all(|tick| axis.position(tick.at).is_finite()),
                    "{scale:?} {values:?}"
                );
            }
        }
    }
}
