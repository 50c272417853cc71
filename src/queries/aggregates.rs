//! Queries that compute something from the values of ranges.

/// Implements the aggregates for a type that has a field `store: TypedStore<K, V>`.
macro_rules! impl_aggregates {
    ($Type:ident) => {
        /// # Aggregates
        ///
        /// What the values of each range add up to ([`Sum`](crate::Sum)), or the least or greatest of them
        /// ([`Min`](crate::Min), [`Max`](crate::Max)), without listing the pairs. Values are numbers or arrays
        /// of numbers, whose elements are taken each by itself; values of other types have no aggregates:
        ///
        /// ```compile_fail
        /// let set: gpulsm::Dictionary<u32, ()> = (0..100).map(|i| (i, ())).collect();
        /// let sums = set.aggregate(&[10..20], gpulsm::Sum);
        /// ```
        impl<K: Key, V: Number> $Type<K, V> {
            /// Returns for each range what its values are combined to, and the number of its keys; `None` where
            /// it has no key. The working memory does not depend on how many keys there are.
            ///
            /// # Errors
            ///
            /// [`LengthMismatch`](crate::Error::LengthMismatch) if two columns differ in length; those of
            /// [`len`](Self::len).
            ///
            /// ```
            /// use gpulsm::{Max, Sum};
            ///
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let squares: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i * i)).collect();
            /// let sums = squares.aggregate(&[0..4, 98..200, 500..600], Sum)?;
            /// assert_eq!(sums, [Some((14, 4)), Some((19405, 2)), None]);
            /// assert_eq!(squares.aggregate(&[0..4], Max)?, [Some((9, 4))]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn aggregate<A: Aggregate<V>>(
                &self,
                ranges: impl RangeBatch<K>,
                aggregate: A,
            ) -> Result<Vec<Option<(A::Answer, u64)>>, Error> {
                let ends = ranges.encode()?;
                let (mut answers, mut counts) = (try_zeroed(ends.len())?, try_zeroed(ends.len())?);
                self.store.aggregate_into(&ends, aggregate, &mut answers, &mut counts)?;
                let answers = answers.into_iter().zip(counts);
                typed::collect(ends.len(), answers.map(|answer| (answer.1 > 0).then_some(answer)))
            }

            /// Writes what the values of range i are combined to, or zeros where it has no key, to `answers[i]`,
            /// and the number of its keys to `counts[i]`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if a buffer is too short; those of
            /// [`aggregate`](Self::aggregate).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, [f32; 2]> =
            ///     (0..100).map(|i| (i, [i as f32, 0.5])).collect();
            /// let (mut sums, mut counts) = ([[0.0; 2]; 2], [0; 2]);
            /// d.aggregate_into(&[0..4, 500..600], gpulsm::Sum, &mut sums, &mut counts)?;
            /// assert_eq!((sums, counts), ([[6.0, 2.0], [0.0, 0.0]], [4, 0]));
            /// # Ok(())
            /// # }
            /// ```
            pub fn aggregate_into<A: Aggregate<V>>(
                &self,
                ranges: impl RangeBatch<K>,
                aggregate: A,
                answers: &mut [A::Answer],
                counts: &mut [u64],
            ) -> Result<(), Error> {
                self.store.aggregate_into(&ranges.encode()?, aggregate, answers, counts)
            }

            /// Returns what the values of one range are combined to, and the number of its keys; `None` if it
            /// has no key.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, f64> = [(1, 0.5), (2, 1.5)].into_iter().collect();
            /// assert_eq!(d.aggregate_one(.., gpulsm::Sum)?, Some((2.0, 2)));
            /// assert_eq!(d.aggregate_one(2.., gpulsm::Min)?, Some((1.5, 1)));
            /// # Ok(())
            /// # }
            /// ```
            pub fn aggregate_one<A: Aggregate<V>>(
                &self,
                range: impl KeyRange<K>,
                aggregate: A,
            ) -> Result<Option<(A::Answer, u64)>, Error> {
                let (mut answer, mut count) = ([<A::Answer as bytemuck::Zeroable>::zeroed()], [0]);
                let ends = RangeEnds::of(&range);
                self.store.aggregate_into(&ends, aggregate, &mut answer, &mut count)?;
                Ok((count[0] > 0).then_some((answer[0], count[0])))
            }
        }

        impl<K: Key, V: Value> $Type<K, V> {
            /// Does what [`aggregate_into`](Self::aggregate_into) does if the type of the values is known at
            /// run time only. Writes the bytes of the answers.
            ///
            /// # Panics
            ///
            /// If the values are not made of elements of the given width.
            #[doc(hidden)]
            pub fn aggregate_bytes_into(
                &self,
                ranges: impl RangeBatch<K>,
                fold: $crate::private::Fold,
                answers: &mut [u8],
                counts: &mut [u64],
            ) -> Result<(), Error> {
                self.store.aggregate_bytes_into(&ranges.encode()?, fold, answers, counts)
            }
        }
    };
}

pub(crate) use impl_aggregates;
