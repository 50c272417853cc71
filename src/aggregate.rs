//! What can be computed from the values of a range of keys, and of which types of values.

use bytemuck::Pod;

use crate::key::{Encoding, ScalarKey};
use crate::value::Value;

/// A type of value that can be added up and compared: `u32`, `i32`, `f32`, `u64`, `i64`, `f64`, or an array
/// of them of at most 16 bytes, each element of which is taken by itself.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` can't be added up or compared",
    note = "numbers are `u32`, `i32`, `f32`, `u64`, `i64`, `f64`, and arrays of them of 4, 8 or 16 bytes"
)]
pub trait Number: Value + private::Sealed {
    /// What the values of a range add up to: 64 bits for each element. Integers wrap around at 2^64.
    type Sum: Pod + Send + Sync + std::fmt::Debug + PartialEq;

    /// The bytes and the meaning of the bits of one element.
    #[doc(hidden)]
    const ELEMENT: Element;
}

/// How many bytes a number has, and what its bits mean.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub width: usize,
    pub encoding: Encoding,
}

impl Element {
    /// Returns whether values of this many bytes are made of such elements.
    pub fn fits(self, value_width: usize) -> bool {
        matches!(self.width, 4 | 8) && value_width > 0 && value_width.is_multiple_of(self.width)
    }

    const fn of<T: ScalarKey>() -> Self {
        Element { width: size_of::<T>(), encoding: T::ENCODING }
    }
}

/// What is computed from the values of each range: [`Sum`], [`Min`] or [`Max`].
pub trait Aggregate<V: Number>: private::Sealed {
    /// The type of the answer.
    type Answer: Pod + Send + Sync + std::fmt::Debug + PartialEq;

    #[doc(hidden)]
    const OPERATION: Operation;
}

/// Adds values up. Integers become 64 bits wide, and their sums wrap around at 2^64; floats are added as
/// `f64`, in no particular order, so the last digits may differ from one call to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum;

/// Finds the least value. As among keys, −0 is +0, and NaN comes after +∞.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Min;

/// Finds the greatest value. As among keys, −0 is +0, and NaN comes after +∞.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Max;

impl<V: Number> Aggregate<V> for Sum {
    type Answer = V::Sum;
    const OPERATION: Operation = Operation::Sum;
}

impl<V: Number + std::fmt::Debug + PartialEq> Aggregate<V> for Min {
    type Answer = V;
    const OPERATION: Operation = Operation::Min;
}

impl<V: Number + std::fmt::Debug + PartialEq> Aggregate<V> for Max {
    type Answer = V;
    const OPERATION: Operation = Operation::Max;
}

/// How values are combined; the same numbers as in `kernels/query/fold.cuh`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Operation {
    Sum,
    Min,
    Max,
}

/// How an engine, which knows values as bytes, combines them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    pub operation: Operation,
    pub element: Element,
}

impl Fold {
    pub(crate) fn new<V: Number, A: Aggregate<V>>() -> Self {
        Fold { operation: A::OPERATION, element: V::ELEMENT }
    }

    /// Returns whether values of this many bytes are made of such elements.
    pub fn fits(self, value_width: usize) -> bool {
        self.element.fits(value_width)
    }

    /// Combines an answer, for values of this width, with that of other values.
    pub(crate) fn combine(self, answer: &mut [u8], other: &[u8]) {
        let is_float = self.element.encoding == Encoding::Float;
        match (self.operation, self.element.width) {
            (Operation::Sum, _) if is_float => combine_each::<f64>(answer, other, |a, b| a + b),
            (Operation::Sum, _) => combine_each::<u64>(answer, other, u64::wrapping_add),
            (operation, 4) => match self.element.encoding {
                Encoding::Unsigned => combine_each(answer, other, better::<u32>(operation)),
                Encoding::Signed => combine_each(answer, other, better::<i32>(operation)),
                Encoding::Float => combine_each(answer, other, better::<f32>(operation)),
            },
            (operation, _) => match self.element.encoding {
                Encoding::Unsigned => combine_each(answer, other, better::<u64>(operation)),
                Encoding::Signed => combine_each(answer, other, better::<i64>(operation)),
                Encoding::Float => combine_each(answer, other, better::<f64>(operation)),
            },
        }
    }

    /// Returns the bytes of an answer, for values of this width.
    pub fn answer_width(self, value_width: usize) -> usize {
        match self.operation {
            Operation::Sum => value_width / self.element.width * size_of::<u64>(),
            Operation::Min | Operation::Max => value_width,
        }
    }
}

/// Returns the function that finds the lesser of two elements, or the greater.
fn better<T: ScalarKey>(operation: Operation) -> fn(T, T) -> T {
    match operation {
        Operation::Min => |a, b| if b.to_ordered() < a.to_ordered() { b } else { a },
        Operation::Max | Operation::Sum => {
            |a, b| if b.to_ordered() > a.to_ordered() { b } else { a }
        }
    }
}

/// Combines the elements of one answer with those of another.
fn combine_each<T: Pod>(answer: &mut [u8], other: &[u8], combine: impl Fn(T, T) -> T) {
    let width = size_of::<T>();
    for (one, other) in answer.chunks_exact_mut(width).zip(other.chunks_exact(width)) {
        let [a, b] = [&*one, other].map(bytemuck::pod_read_unaligned::<T>);
        one.copy_from_slice(bytemuck::bytes_of(&combine(a, b)));
    }
}

mod private {
    /// Values are added up by their bytes, so their types must be known.
    pub trait Sealed {}

    impl Sealed for super::Sum {}
    impl Sealed for super::Min {}
    impl Sealed for super::Max {}
}

macro_rules! numbers {
    ($($type:ty: $sum:ty, [$($len:literal),*];)*) => {
        $(
            impl private::Sealed for $type {}

            impl Number for $type {
                type Sum = $sum;
                const ELEMENT: Element = Element::of::<$type>();
            }

            $(
                impl private::Sealed for [$type; $len] {}

                impl Number for [$type; $len] {
                    type Sum = [$sum; $len];
                    const ELEMENT: Element = Element::of::<$type>();
                }
            )*
        )*
    };
}

numbers! {
    u32: u64, [1, 2, 4];
    i32: i64, [1, 2, 4];
    f32: f64, [1, 2, 4];
    u64: u64, [1, 2];
    i64: i64, [1, 2];
    f64: f64, [1, 2];
}
