//! What aggregates mean: of values as bits, one element at a time. Bits can be read as any type of number,
//! so every type is tested whatever the values are.

use crate::aggregate::{Fold, Operation};
use crate::key::Encoding;
use crate::testing::bits::{KeyType, ValueBits};
use crate::testing::elements::{elements, number_type};

/// Returns every way to combine values of this many bytes.
pub(super) fn folds(value_width: usize) -> impl Iterator<Item = Fold> {
    elements(value_width).flat_map(|element| {
        [Operation::Sum, Operation::Min, Operation::Max]
            .map(|operation| Fold { operation, element })
    })
}

/// What the elements at one place of some values are combined to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aggregated {
    /// An answer of these bits.
    Exactly(u64),
    /// A sum of floats that may differ by this much, for the order of additions is not specified.
    About(f64, f64),
    /// A sum that is infinite or not, depending on the order of additions.
    AnySum,
}

impl Aggregated {
    /// Returns whether these bits are right.
    pub fn matches(self, bits: u64) -> bool {
        match self {
            Aggregated::Exactly(expected) => bits == expected,
            Aggregated::About(sum, _) if sum.is_nan() => f64::from_bits(bits).is_nan(),
            Aggregated::About(sum, _) if sum.is_infinite() => f64::from_bits(bits) == sum,
            Aggregated::About(sum, error) => (f64::from_bits(bits) - sum).abs() <= error,
            Aggregated::AnySum => true,
        }
    }
}

/// Combines the values of a range, of this many bytes each, one element at a time. An empty range has the
/// answer 0.
pub(super) fn aggregate(fold: Fold, value_width: usize, values: &[ValueBits]) -> Vec<Aggregated> {
    let bits = 8 * fold.element.width;
    let elements = (0..value_width / fold.element.width).map(|at| {
        values.iter().map(move |value| (value >> (bits * at)) as u64 & u64::MAX >> (64 - bits))
    });
    elements.map(|elements| aggregate_elements(fold, elements)).collect()
}

fn aggregate_elements(fold: Fold, elements: impl Iterator<Item = u64> + Clone) -> Aggregated {
    let number = number_type(fold.element);
    let unused = 64 - 8 * fold.element.width;
    let ordered = elements.clone().map(|element| number.to_ordered(element.into()));
    match (fold.operation, fold.element.encoding) {
        (Operation::Sum, Encoding::Float) => sum_of_floats(elements.map(|bits| to_f64(bits, fold))),
        (Operation::Sum, Encoding::Unsigned) => {
            Aggregated::Exactly(elements.fold(0, u64::wrapping_add))
        }
        (Operation::Sum, Encoding::Signed) => {
            let extended = elements.map(|bits| ((bits << unused) as i64 >> unused) as u64);
            Aggregated::Exactly(extended.fold(0, u64::wrapping_add))
        }
        (Operation::Min, _) => exactly(&number, ordered.min()),
        (Operation::Max, _) => exactly(&number, ordered.max()),
    }
}

fn exactly(number: &KeyType, ordered: Option<u128>) -> Aggregated {
    Aggregated::Exactly(ordered.map_or(0, |ordered| number.from_ordered(ordered) as u64))
}

fn to_f64(bits: u64, fold: Fold) -> f64 {
    match fold.element.width {
        4 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

fn sum_of_floats(elements: impl Iterator<Item = f64> + Clone) -> Aggregated {
    let sum: f64 = elements.clone().sum();
    let size: f64 = elements.clone().map(f64::abs).sum();
    if size.is_infinite() && elements.clone().all(f64::is_finite) {
        return Aggregated::AnySum;
    }
    Aggregated::About(sum, size * f64::EPSILON * elements.count() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{Max, Min, Number, Sum};
    use crate::testing::bits::bits;

    fn aggregated<V: Number>(operation: Operation, values: &[V]) -> Vec<Aggregated> {
        let values: Vec<ValueBits> = values.iter().map(bits).collect();
        aggregate(Fold { operation, element: V::ELEMENT }, size_of::<V>(), &values)
    }

    #[test]
    fn bits_are_read_as_numbers() {
        use Aggregated::Exactly;
        assert_eq!(aggregated(Operation::Sum, &[-1i32, -2]), [Exactly(-3i64 as u64)]);
        assert_eq!(aggregated(Operation::Sum, &[[u32::MAX, 1]; 2]), [8589934590, 2].map(Exactly));
        assert_eq!(aggregated(Operation::Sum, &[u64::MAX, 3]), [Exactly(2)]);
        assert_eq!(aggregated(Operation::Min, &[3i64, -4]), [Exactly(-4i64 as u64)]);
        let minus = aggregated(Operation::Max, &[-1.5f32, -2.5]);
        assert_eq!(minus, [Exactly((-1.5f32).to_bits().into())]);
        assert_eq!(aggregated::<[f64; 2]>(Operation::Min, &[]), [Exactly(0); 2]);
        assert_eq!((folds(4).count(), folds(16).count(), folds(0).count()), (9, 18, 0));
        assert!(folds(8).any(|fold| fold == Fold::new::<f64, Max>()));
        assert!(folds(16).any(|fold| fold == Fold::new::<[i32; 4], Min>()));
        assert!(folds(4).any(|fold| fold == Fold::new::<u32, Sum>()));
    }

    #[test]
    fn sums_of_floats_may_differ_a_little() {
        let [sum] = aggregated(Operation::Sum, &[1e10f64, -1e10, 0.25])[..] else { panic!() };
        assert!(sum.matches(0.25f64.to_bits()) && sum.matches(0.250_000_1f64.to_bits()));
        assert!(!sum.matches(0.26f64.to_bits()) && !sum.matches(f64::NAN.to_bits()));
        let [nan] = aggregated(Operation::Sum, &[f32::NAN, 1.0])[..] else { panic!() };
        assert!(nan.matches((-f64::NAN).to_bits()) && !nan.matches(0));
        let [infinite] = aggregated(Operation::Sum, &[f32::NEG_INFINITY, 1.0])[..] else {
            panic!()
        };
        assert!(infinite.matches(f64::NEG_INFINITY.to_bits()) && !infinite.matches(0));
        assert_eq!(aggregated(Operation::Sum, &[f64::MAX, f64::MAX]), [Aggregated::AnySum]);
        assert!(aggregated::<f32>(Operation::Sum, &[])[0].matches(0));
    }
}
