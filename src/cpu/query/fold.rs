//! Folding values, which engines know as bytes, into sums, minima or maxima.

use bytemuck::Pod;

use crate::aggregate::{Fold, Max, Min, Operation, Sum};
use crate::key::{Encoding, Key, OrderedKey};

/// What was folded so far, for each element of a value: a sum of integers, the bits of a sum of floats
/// as `f64`, or the integer that a minimum or maximum sorts by.
pub(crate) type Accumulators = [u64; MAX_ELEMENTS];

/// The most elements of a value.
const MAX_ELEMENTS: usize = 4;

/// How many elements are folded side by side; a multiple of the elements of any value. Neighbours do not
/// depend on each other, so that the compiler can use vector instructions, and a processor need not wait
/// for one addition before it starts the next.
const LANES: usize = 8;

/// Folds values of one width in one way.
#[derive(Clone, Copy)]
pub(crate) struct Folder {
    fold: Fold,
    /// The elements of a value.
    elements: usize,
    answer_width: usize,
}

/// Evaluates the expression for the type of element that is known at run time.
macro_rules! with_element {
    ($element:expr, $Element:ident => $body:expr) => {
        match ($element.encoding, $element.width) {
            (Encoding::Unsigned, 4) => with_element!(@ u32, $Element => $body),
            (Encoding::Signed, 4) => with_element!(@ i32, $Element => $body),
            (Encoding::Float, 4) => with_element!(@ f32, $Element => $body),
            (Encoding::Unsigned, 8) => with_element!(@ u64, $Element => $body),
            (Encoding::Signed, 8) => with_element!(@ i64, $Element => $body),
            (Encoding::Float, 8) => with_element!(@ f64, $Element => $body),
            _ => unreachable!("elements have 4 or 8 bytes"),
        }
    };
    (@ $type:ty, $Element:ident => $body:expr) => {{
        type $Element = $type;
        $body
    }};
}

impl Folder {
    pub fn new(fold: Fold, value_width: usize) -> Self {
        let elements = value_width / fold.element.width;
        Folder { fold, elements, answer_width: fold.answer_width(value_width) }
    }

    /// Returns the bytes of an answer.
    pub fn answer_width(&self) -> usize {
        self.answer_width
    }

    /// Returns what no values are folded to.
    pub fn identity(&self) -> Accumulators {
        match self.fold.operation {
            Operation::Sum | Operation::Max => [0; MAX_ELEMENTS],
            Operation::Min => [u64::MAX; MAX_ELEMENTS],
        }
    }

    /// Folds the bytes of some values into the accumulators.
    pub fn add(&self, folded: &mut Accumulators, values: &[u8]) {
        let block = with_element!(self.fold.element, Element => match self.fold.operation {
            Operation::Sum => fold_block::<Sum, Element>(values, self.elements),
            Operation::Min => fold_block::<Min, Element>(values, self.elements),
            Operation::Max => fold_block::<Max, Element>(values, self.elements),
        });
        self.combine(folded, &block);
    }

    /// Combines what was folded with what was folded of other values.
    #[inline]
    pub fn combine(&self, folded: &mut Accumulators, other: &Accumulators) {
        let floats = self.fold.element.encoding == Encoding::Float;
        for (folded, &other) in folded.iter_mut().zip(other).take(self.elements) {
            *folded = match self.fold.operation {
                Operation::Sum if floats => {
                    (f64::from_bits(*folded) + f64::from_bits(other)).to_bits()
                }
                Operation::Sum => folded.wrapping_add(other),
                Operation::Min => (*folded).min(other),
                Operation::Max => (*folded).max(other),
            };
        }
    }

    /// Writes the bytes of the answer.
    pub fn write(&self, folded: &Accumulators, answer: &mut [u8]) {
        let places = answer.chunks_exact_mut(self.answer_width / self.elements);
        for (place, &folded) in places.zip(folded) {
            match self.fold.operation {
                Operation::Sum => place.copy_from_slice(&folded.to_ne_bytes()),
                Operation::Min | Operation::Max => with_element!(self.fold.element, Element => {
                    let element = Element::from_ordered(folded as <Element as Key>::Ordered);
                    place.copy_from_slice(&element.to_ne_bytes());
                }),
            }
        }
    }
}

/// An operation on elements of type `T`.
trait Combine<T> {
    /// What elements are folded to.
    type Folded: Copy;
    const IDENTITY: Self::Folded;

    /// Returns what a single element is folded to.
    fn one(element: T) -> Self::Folded;

    fn combine(one: Self::Folded, other: Self::Folded) -> Self::Folded;

    /// Returns the accumulator.
    fn bits(folded: Self::Folded) -> u64;
}

macro_rules! sum_of_integers {
    ($($type:ty),*) => {
        $(impl Combine<$type> for Sum {
            type Folded = u64;
            const IDENTITY: u64 = 0;

            #[inline]
            fn one(element: $type) -> u64 {
                element as u64 // Negative ones are sign-extended.
            }

            #[inline]
            fn combine(one: u64, other: u64) -> u64 {
                one.wrapping_add(other)
            }

            #[inline]
            fn bits(folded: u64) -> u64 {
                folded
            }
        })*
    };
}

macro_rules! sum_of_floats {
    ($($type:ty),*) => {
        $(impl Combine<$type> for Sum {
            type Folded = f64;
            const IDENTITY: f64 = 0.0;

            #[inline]
            fn one(element: $type) -> f64 {
                f64::from(element)
            }

            #[inline]
            fn combine(one: f64, other: f64) -> f64 {
                one + other
            }

            #[inline]
            fn bits(folded: f64) -> u64 {
                folded.to_bits()
            }
        })*
    };
}

sum_of_integers!(u32, i32, u64, i64);
sum_of_floats!(f32, f64);

impl<T: Key> Combine<T> for Min {
    type Folded = T::Ordered;
    const IDENTITY: T::Ordered = T::Ordered::HIGHEST;

    #[inline]
    fn one(element: T) -> T::Ordered {
        element.to_ordered()
    }

    #[inline]
    fn combine(one: T::Ordered, other: T::Ordered) -> T::Ordered {
        one.min(other)
    }

    #[inline]
    fn bits(folded: T::Ordered) -> u64 {
        folded.widen() as u64
    }
}

impl<T: Key> Combine<T> for Max {
    type Folded = T::Ordered;
    const IDENTITY: T::Ordered = T::Ordered::LOWEST;

    #[inline]
    fn one(element: T) -> T::Ordered {
        element.to_ordered()
    }

    #[inline]
    fn combine(one: T::Ordered, other: T::Ordered) -> T::Ordered {
        one.max(other)
    }

    #[inline]
    fn bits(folded: T::Ordered) -> u64 {
        folded.widen() as u64
    }
}

/// Folds values of this many elements, given as bytes, which need not be aligned.
fn fold_block<O: Combine<T>, T: Pod>(values: &[u8], elements: usize) -> Accumulators {
    let mut lanes = [O::IDENTITY; LANES];
    let mut fold_lane = |lane: usize, group: &[u8]| {
        let element =
            bytemuck::pod_read_unaligned(&group[lane * size_of::<T>()..][..size_of::<T>()]);
        lanes[lane] = O::combine(lanes[lane], O::one(element));
    };
    let mut groups = values.chunks_exact(LANES * size_of::<T>());
    for group in &mut groups {
        (0..LANES).for_each(|lane| fold_lane(lane, group));
    }
    let rest = groups.remainder();
    (0..rest.len() / size_of::<T>()).for_each(|lane| fold_lane(lane, rest));
    let mut folded = [O::IDENTITY; MAX_ELEMENTS];
    for (index, &lane) in lanes.iter().enumerate() {
        folded[index % elements] = O::combine(folded[index % elements], lane);
    }
    folded.map(O::bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{Aggregate, Number};

    /// Folds all values at once, and in pieces of these lengths that are then combined.
    fn fold<V: Number, A: Aggregate<V>>(_: A, values: &[V]) -> A::Answer {
        let folder = Folder::new(Fold::new::<V, A>(), size_of::<V>());
        let mut answers = [1, 3, 7, 100, usize::MAX].map(|piece| {
            let mut whole = folder.identity();
            for values in values.chunks(piece) {
                let mut folded = folder.identity();
                folder.add(&mut folded, bytemuck::cast_slice(values));
                folder.combine(&mut whole, &folded);
            }
            let mut answer = vec![0; folder.answer_width()];
            folder.write(&whole, &mut answer);
            bytemuck::pod_read_unaligned::<A::Answer>(&answer)
        });
        answers.reverse();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        answers[0]
    }

    #[test]
    fn integers_are_widened_and_wrap_around() {
        assert_eq!(fold(Sum, &[u32::MAX; 1000]), 1000 * u64::from(u32::MAX));
        assert_eq!(fold(Sum, &[i32::MIN, -1, 5]), i64::from(i32::MIN) + 4);
        assert_eq!(fold(Sum, &[u64::MAX, 3]), 2);
        assert_eq!(fold(Sum, &[i64::MAX, 1]), i64::MIN);
    }

    #[test]
    fn elements_of_arrays_are_folded_each_by_itself() {
        let values: Vec<[i32; 4]> = (0..1001).map(|i| [i, -i, 2 * i, 7]).collect();
        assert_eq!(fold(Sum, &values), [500_500, -500_500, 1_001_000, 7007]);
        assert_eq!(fold(Min, &values), [0, -1000, 0, 7]);
        assert_eq!(fold(Max, &values), [1000, 0, 2000, 7]);
        let values: Vec<[f64; 2]> = (0..100).map(|i| [f64::from(i), f64::from(-i)]).collect();
        assert_eq!(fold(Sum, &values), [4950.0, -4950.0]);
        assert_eq!(fold(Max, &[[1u32], [9], [3]]), [9]);
    }

    #[test]
    fn floats_are_ordered_like_keys() {
        let values = [1.5f32, f32::NEG_INFINITY, -0.0, f32::NAN, f32::INFINITY];
        assert_eq!(fold(Min, &values), f32::NEG_INFINITY);
        assert_eq!(fold(Max, &values[..3]), 1.5);
        assert_eq!(fold(Max, &[-0.0f64]).to_bits(), 0);
        let folder = Folder::new(Fold::new::<f32, Max>(), 4);
        let mut folded = folder.identity();
        folder.add(&mut folded, bytemuck::cast_slice(&values));
        let mut answer = [0; 4];
        folder.write(&folded, &mut answer);
        assert!(f32::from_ne_bytes(answer).is_nan());
        assert_eq!(fold(Sum, &[f32::MAX; 4]), 4.0 * f64::from(f32::MAX));
    }
}
