//! As-of queries: for each question the nearest pair at or before it, or after it, that belongs with it.

/// Implements the as-of queries for a type that has a field `store: TypedStore<K, V>`.
macro_rules! impl_asof {
    ($Type:ident) => {
        /// # As of
        ///
        /// For keys that end with a number, such as `(symbol, time)`: what was the case at that time?
        impl<K: AsOfKey, V: Value> $Type<K, V> {
            /// Returns for each question the pair whose key agrees with it in all parts but the last, and whose last
            /// part is the nearest in this direction, or equal; `None` if there is none, or none within the
            /// `tolerance`.
            ///
            /// A question that ends with NaN has no match. With a tolerance, neither has an infinity that is asked
            /// for itself, since their difference is NaN.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// use gpulsm::Direction;
            ///
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// // Quotes of two symbols, at times.
            /// let quotes: gpulsm::Dictionary<(u32, i64), f64> =
            ///     [((7, 100), 1.5), ((7, 200), 1.75), ((9, 150), 8.0)].into_iter().collect();
            /// let trades = [(7, 199), (7, 99), (9, 1000)];
            /// let before = quotes.asof(&trades, Direction::Backward, None)?;
            /// assert_eq!(before, [Some(((7, 100), 1.5)), None, Some(((9, 150), 8.0))]);
            /// let near = quotes.asof(&trades, Direction::Nearest, Some(5))?;
            /// assert_eq!(near, [Some(((7, 200), 1.75)), Some(((7, 100), 1.5)), None]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn asof(
                &self,
                questions: &[K],
                direction: Direction,
                tolerance: Option<K::Distance>,
            ) -> Result<Vec<Option<(K, V)>>, Error> {
                let tolerance = tolerance.map(Into::into);
                let asof = AsOf { on: K::ON, direction, tolerance, is_strict: false };
                self.asof_as(questions, asof)
            }

            /// Returns the same as [`asof`](Self::asof), without pairs whose key is the question itself.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn strict_asof(
                &self,
                questions: &[K],
                direction: Direction,
                tolerance: Option<K::Distance>,
            ) -> Result<Vec<Option<(K, V)>>, Error> {
                let tolerance = tolerance.map(Into::into);
                let asof = AsOf { on: K::ON, direction, tolerance, is_strict: true };
                self.asof_as(questions, asof)
            }

            /// Returns the answer of [`asof`](Self::asof) to one question.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn asof_one(
                &self,
                question: K,
                direction: Direction,
                tolerance: Option<K::Distance>,
            ) -> Result<Option<(K, V)>, Error> {
                Ok(self.asof(&[question], direction, tolerance)?[0])
            }
        }

        /// As-of queries whose last part is known at run time only: it is that of the integers that keys sort by.
        impl<K: Key, V: Value> $Type<K, V> {
            /// Returns for each question the pair that answers it, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            #[doc(hidden)]
            pub fn asof_as(
                &self,
                questions: &[K],
                asof: AsOf,
            ) -> Result<Vec<Option<(K, V)>>, Error> {
                self.store.pairs(&PairQuery::AsOf(asof, &key::encode(questions)?))
            }

            /// Writes for each question the pair that answers it; zeros where `found` is `false`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if a buffer is shorter than `questions`; those of
            /// [`len`](Self::len).
            #[doc(hidden)]
            pub fn asof_as_into(
                &self,
                questions: &[K],
                asof: AsOf,
                out_keys: &mut [K],
                values: &mut [V],
                found: &mut [bool],
            ) -> Result<(), Error> {
                let query = PairQuery::AsOf(asof, &key::encode(questions)?);
                self.store.pairs_into(&query, ("out_keys", out_keys), values, found)
            }

            /// Writes for each question, as many as `found` is long, the pair that answers it, with keys in columns;
            /// zeros where `found` is `false`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if `values` is shorter than `found`; those of
            /// [`len`](Self::len).
            #[doc(hidden)]
            pub fn asof_columns_into(
                &self,
                columns: &dyn KeyColumns<K::Ordered>,
                asof: AsOf,
                values: &mut [V],
                found: &mut [bool],
            ) -> Result<(), Error> {
                let values = typed::first("values", values, found.len())?;
                let values = bytemuck::cast_slice_mut(values);
                self.store.any().answer(Query::AsOfColumns { asof, columns, values, found })
            }
        }
    };
}

pub(crate) use impl_asof;
