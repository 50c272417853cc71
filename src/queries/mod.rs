//! Everything that can be asked, of a [`Dictionary`](crate::Dictionary) and of a
//! [`Snapshot`](crate::Snapshot): one definition for both.

pub(crate) mod aggregates;
pub(crate) mod asof;

/// Implements the queries for a type that has a field `store: TypedStore<K, V>`.
macro_rules! impl_queries {
    ($Type:ident) => {
        /// # Properties
        impl<K: Key, V: Value> $Type<K, V> {
            /// Returns the device that holds the data; of [several](Self::devices), the first.
            #[must_use]
            pub fn device(&self) -> Device {
                self.store.device()
            }

            /// Returns the device of each shard, in the order of their keys.
            #[must_use]
            pub fn devices(&self) -> &Devices {
                &self.store.devices
            }

            /// Returns the batch size b, which [`Builder::batch_size`](crate::Builder::batch_size) sets.
            #[must_use]
            pub fn batch_size(&self) -> usize {
                self.store.any().batch_size()
            }

            /// Returns when stale entries are removed.
            #[must_use]
            pub fn cleanup_policy(&self) -> CleanupPolicy {
                self.store.any().policy()
            }

            /// Returns what an insert does to a key that is already there.
            #[must_use]
            pub fn combine(&self) -> Combine {
                self.store.any().combiner().map_or(Combine::Replace, Combiner::rule)
            }

            /// Returns the exact number of keys. Applies buffered batches first, as every query does;
            /// otherwise its cost does not depend on the number of keys.
            ///
            /// # Errors
            ///
            /// [`OutOfMemory`](crate::Error::OutOfMemory) if there is no memory to apply buffered batches.
            /// This holds for all queries.
            pub fn len(&self) -> Result<u64, Error> {
                self.store.any().len()
            }

            /// Returns whether there is no key.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn is_empty(&self) -> Result<bool, Error> {
                Ok(self.len()? == 0)
            }

            /// Returns the number of keys, if it is known without doing or waiting for anything.
            #[doc(hidden)]
            #[must_use]
            pub fn len_if_known(&self) -> Option<u64> {
                self.store.any().quick_stats()?.live
            }

            /// Returns what the levels hold and the bytes they take. Applies buffered batches, finishes
            /// deferred merges, and shrinks every run to the memory it needs.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = (0..1000).map(|i| (i, i)).collect();
            /// let stats = d.stats()?;
            /// assert_eq!((stats.live, stats.stale, stats.levels.len()), (1000, 0, 1));
            /// # Ok(())
            /// # }
            /// ```
            pub fn stats(&self) -> Result<Stats, Error> {
                self.store.any().stats(self.device())
            }

            /// Applies the batches that are still buffered (see [`Dictionary`](crate::Dictionary)), as any
            /// query would.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn flush(&self) -> Result<(), Error> {
                self.store.any().flush()
            }

            /// Applies buffered batches, waits until all work on the device is done, and reports whether any
            /// of it failed. On a GPU, applying a batch only starts it.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len), and on a GPU what an earlier call could not report.
            pub fn synchronize(&self) -> Result<(), Error> {
                self.store.any().synchronize()
            }

            /// Checks every invariant of the structure: each run is sorted, without duplicates and with the
            /// right marks, each level is within its capacity, and so on. The error says which one is broken.
            #[cfg(feature = "testing")]
            pub fn validate(&self) -> Result<(), String> {
                self.store.any().validate()
            }

            /// Returns queries on data in the GPU's memory.
            ///
            /// # Errors
            ///
            /// [`NotOnCuda`](crate::Error::NotOnCuda) if the data is on the CPU.
            #[cfg(feature = "cuda")]
            pub fn resident(&self) -> Result<crate::cuda::Resident<'_, K, V>, Error>
            where
                K: crate::ScalarKey,
            {
                crate::cuda::Resident::new(self.store.any())
            }
        }

        /// # Queries
        ///
        /// Each answers a whole batch; those that end in `_one` take a single key, position or range, which
        /// costs almost as much as a batch of thousands. Those that end in `_into` write to the caller's
        /// buffers, which may be longer than needed.
        impl<K: Key, V: Value> $Type<K, V> {
            /// Returns the value of each key, or `None` where the key is absent.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, f32> = [(1, 0.5), (3, 1.5)].into_iter().collect();
            /// assert_eq!(d.lookup(&[3, 2])?, [Some(1.5), None]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn lookup(&self, keys: &[K]) -> Result<Vec<Option<V>>, Error> {
                let (mut values, mut found) = (try_zeroed(keys.len())?, try_zeroed(keys.len())?);
                self.store.lookup_into(keys, &mut values, &mut found)?;
                let answers = values.into_iter().zip(found);
                typed::collect(keys.len(), answers.map(|(value, found)| found.then_some(value)))
            }

            /// Writes whether `keys[i]` is present to `found[i]`, and its value, or zeros, to `values[i]`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if a buffer is shorter than `keys`; those of
            /// [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, f32> = [(1, 0.5), (3, 1.5)].into_iter().collect();
            /// let (mut values, mut found) = ([0.0; 2], [false; 2]);
            /// d.lookup_into(&[3, 2], &mut values, &mut found)?;
            /// assert_eq!((values, found), ([1.5, 0.0], [true, false]));
            /// # Ok(())
            /// # }
            /// ```
            pub fn lookup_into(
                &self,
                keys: &[K],
                values: &mut [V],
                found: &mut [bool],
            ) -> Result<(), Error> {
                self.store.lookup_into(keys, values, found)
            }

            /// Returns the value of one key, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            #[doc(alias = "get")]
            pub fn lookup_one(&self, key: K) -> Result<Option<V>, Error> {
                let (mut value, mut found) = ([V::zeroed()], [false]);
                self.store.lookup_into(&[key], &mut value, &mut found)?;
                Ok(found[0].then_some(value[0]))
            }

            /// Returns whether each key is present.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, ()> = [(1, ()), (3, ())].into_iter().collect();
            /// assert_eq!(d.contains(&[3, 2])?, [true, false]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>, Error> {
                let mut found = try_zeroed(keys.len())?;
                self.contains_into(keys, &mut found)?;
                Ok(found)
            }

            /// Writes whether `keys[i]` is present to `found[i]`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if the buffer is shorter than `keys`; those of
            /// [`len`](Self::len).
            pub fn contains_into(&self, keys: &[K], found: &mut [bool]) -> Result<(), Error> {
                let found = typed::first("found", found, keys.len())?;
                let keys = &key::encode(keys)?;
                self.store.any().answer(Query::Lookup { keys, values: None, found })
            }

            /// Returns whether one key is present.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            #[doc(alias = "contains_key")]
            pub fn contains_one(&self, key: K) -> Result<bool, Error> {
                let mut found = [false];
                self.contains_into(&[key], &mut found)?;
                Ok(found[0])
            }

            /// Returns the number of keys in each range. The cost does not depend on how many there are.
            ///
            /// # Errors
            ///
            /// [`LengthMismatch`](crate::Error::LengthMismatch) if two columns differ in length; those of
            /// [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i)).collect();
            /// assert_eq!(d.count(&[10..20, 95..200])?, [10, 5]);
            /// assert_eq!(d.count((&[10, 95], &[19, 200]))?, [10, 5]); // Two columns, ends included.
            /// # Ok(())
            /// # }
            /// ```
            pub fn count(&self, ranges: impl RangeBatch<K>) -> Result<Vec<u64>, Error> {
                let ends = ranges.encode()?;
                let mut counts = try_zeroed(ends.len())?;
                self.store.count_into(&ends, &mut counts)?;
                Ok(counts)
            }

            /// Writes the number of keys in range i to `counts[i]`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if the buffer is too short; those of
            /// [`count`](Self::count).
            pub fn count_into(
                &self,
                ranges: impl RangeBatch<K>,
                counts: &mut [u64],
            ) -> Result<(), Error> {
                self.store.count_into(&ranges.encode()?, counts)
            }

            /// Returns the number of keys in one range.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i)).collect();
            /// assert_eq!(d.count_one(90..)?, 10);
            /// # Ok(())
            /// # }
            /// ```
            pub fn count_one(&self, range: impl KeyRange<K>) -> Result<u64, Error> {
                let mut count = [0];
                self.store.count_into(&RangeEnds::of(&range), &mut count)?;
                Ok(count[0])
            }

            /// Returns the pairs of each range, in key order.
            ///
            /// # Errors
            ///
            /// Those of [`count`](Self::count).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let squares: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i * i)).collect();
            /// let ranges = squares.range(&[(10, 12), (98, 1000)])?;
            /// assert_eq!(ranges.get(0), (&[10, 11, 12][..], &[100, 121, 144][..]));
            /// assert_eq!(ranges.get(1).0, [98, 99]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn range(&self, ranges: impl RangeBatch<K>) -> Result<Ranges<K, V>, Error> {
                self.store.range(&ranges.encode()?)
            }

            /// Writes the pairs of range i from `offsets[i]` to `offsets[i + 1]` of `keys` and `values`.
            /// Returns the number of all pairs.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if `keys` or `values` is too short, which says
            /// how much is needed; `offsets`, one longer than the batch, is filled all the same. Those of
            /// [`count`](Self::count).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i, i * i)).collect();
            /// let (mut offsets, mut keys, mut values) = ([0; 3], [0; 8], [0; 8]);
            /// let total = d.range_into(&[1..3, 7..9], &mut offsets, &mut keys, &mut values)?;
            /// assert_eq!((total, offsets, &keys[..4]), (4, [0, 2, 4], &[1, 2, 7, 8][..]));
            /// # Ok(())
            /// # }
            /// ```
            pub fn range_into(
                &self,
                ranges: impl RangeBatch<K>,
                offsets: &mut [u64],
                keys: &mut [K],
                values: &mut [V],
            ) -> Result<u64, Error> {
                self.store.range_into(&ranges.encode()?, offsets, keys, values)
            }

            /// Writes the offsets that [`range_into`](Self::range_into) would write, and returns the last:
            /// the number of pairs to allocate.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if `offsets` is not longer than the batch;
            /// those of [`count`](Self::count).
            pub fn range_offsets_into(
                &self,
                ranges: impl RangeBatch<K>,
                offsets: &mut [u64],
            ) -> Result<u64, Error> {
                self.store.range_offsets_into(&ranges.encode()?, offsets)
            }

            /// Returns the pairs of one range, in key order. [`iter_range`](Self::iter_range) reads them a few
            /// thousand at a time.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<f64, u32> = [(0.5, 1), (1.5, 2), (2.5, 3)].into_iter().collect();
            /// assert_eq!(d.range_one(..2.5)?, [(0.5, 1), (1.5, 2)]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn range_one(&self, range: impl KeyRange<K>) -> Result<Vec<(K, V)>, Error> {
                let Ranges { keys, values, .. } = self.store.range(&RangeEnds::of(&range))?;
                typed::collect(keys.len(), keys.into_iter().zip(values))
            }

            /// Returns for each key the pair with the least key that is not less, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = [(10, 1), (20, 2)].into_iter().collect();
            /// assert_eq!(d.successor(&[10, 11, 21])?, [Some((10, 1)), Some((20, 2)), None]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>, Error> {
                self.store.pairs(&PairQuery::Nearest(Side::Successor, &key::encode(keys)?))
            }

            /// Writes the answers of [`successor`](Self::successor); zeros where `found` is `false`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if a buffer is shorter than `keys`; those of
            /// [`len`](Self::len).
            pub fn successor_into(
                &self,
                keys: &[K],
                out_keys: &mut [K],
                values: &mut [V],
                found: &mut [bool],
            ) -> Result<(), Error> {
                let keys = key::encode(keys)?;
                let query = PairQuery::Nearest(Side::Successor, &keys);
                self.store.pairs_into(&query, ("out_keys", out_keys), values, found)
            }

            /// Returns the pair with the least key that is not less than `key`, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn successor_one(&self, key: K) -> Result<Option<(K, V)>, Error> {
                Ok(self.successor(&[key])?[0])
            }

            /// Returns for each key the pair with the least key that is greater, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = [(10, 1), (20, 2)].into_iter().collect();
            /// assert_eq!(d.strict_successor(&[9, 10, 20])?, [Some((10, 1)), Some((20, 2)), None]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn strict_successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>, Error> {
                let beside = AsOf::beside(Side::Successor, K::BITS, true);
                self.store.pairs(&PairQuery::AsOf(beside, &key::encode(keys)?))
            }

            /// Returns the pair with the least key that is greater than `key`, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn strict_successor_one(&self, key: K) -> Result<Option<(K, V)>, Error> {
                Ok(self.strict_successor(&[key])?[0])
            }

            /// Returns for each key the pair with the greatest key that is not greater, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = [(10, 1), (20, 2)].into_iter().collect();
            /// assert_eq!(d.predecessor(&[9, 10, 99])?, [None, Some((10, 1)), Some((20, 2))]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>, Error> {
                self.store.pairs(&PairQuery::Nearest(Side::Predecessor, &key::encode(keys)?))
            }

            /// Writes the answers of [`predecessor`](Self::predecessor); zeros where `found` is `false`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if a buffer is shorter than `keys`; those of
            /// [`len`](Self::len).
            pub fn predecessor_into(
                &self,
                keys: &[K],
                out_keys: &mut [K],
                values: &mut [V],
                found: &mut [bool],
            ) -> Result<(), Error> {
                let keys = key::encode(keys)?;
                let query = PairQuery::Nearest(Side::Predecessor, &keys);
                self.store.pairs_into(&query, ("out_keys", out_keys), values, found)
            }

            /// Returns the pair with the greatest key that is not greater than `key`, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn predecessor_one(&self, key: K) -> Result<Option<(K, V)>, Error> {
                Ok(self.predecessor(&[key])?[0])
            }

            /// Returns for each key the pair with the greatest key that is less, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = [(10, 1), (20, 2)].into_iter().collect();
            /// assert_eq!(d.strict_predecessor(&[10, 20, 21])?, [None, Some((10, 1)), Some((20, 2))]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn strict_predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>, Error> {
                let beside = AsOf::beside(Side::Predecessor, K::BITS, true);
                self.store.pairs(&PairQuery::AsOf(beside, &key::encode(keys)?))
            }

            /// Returns the pair with the greatest key that is less than `key`, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn strict_predecessor_one(&self, key: K) -> Result<Option<(K, V)>, Error> {
                Ok(self.strict_predecessor(&[key])?[0])
            }

            /// Returns for each key the number of keys that are less.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = [(10, 1), (20, 2)].into_iter().collect();
            /// assert_eq!(d.rank(&[10, 15, 99])?, [0, 1, 2]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn rank(&self, keys: &[K]) -> Result<Vec<u64>, Error> {
                let mut ranks = try_zeroed(keys.len())?;
                self.rank_into(keys, &mut ranks)?;
                Ok(ranks)
            }

            /// Writes the number of keys that are less than `keys[i]` to `ranks[i]`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if the buffer is shorter than `keys`; those of
            /// [`len`](Self::len).
            pub fn rank_into(&self, keys: &[K], ranks: &mut [u64]) -> Result<(), Error> {
                let ranks = typed::first("ranks", ranks, keys.len())?;
                self.store.any().answer(Query::Rank { keys: &key::encode(keys)?, ranks })
            }

            /// Returns the number of keys that are less than `key`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn rank_one(&self, key: K) -> Result<u64, Error> {
                Ok(self.rank(&[key])?[0])
            }

            /// Returns the pair at each position in key order, counted from 0, or `None` where there are
            /// fewer pairs.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = [(10, 1), (20, 2)].into_iter().collect();
            /// assert_eq!(d.select(&[1, 2])?, [Some((20, 2)), None]);
            /// # Ok(())
            /// # }
            /// ```
            pub fn select(&self, positions: &[u64]) -> Result<Vec<Option<(K, V)>>, Error> {
                self.store.pairs(&PairQuery::Select(positions))
            }

            /// Writes the answers of [`select`](Self::select); zeros where `found` is `false`.
            ///
            /// # Errors
            ///
            /// [`BufferTooSmall`](crate::Error::BufferTooSmall) if a buffer is shorter than `positions`; those
            /// of [`len`](Self::len).
            pub fn select_into(
                &self,
                positions: &[u64],
                keys: &mut [K],
                values: &mut [V],
                found: &mut [bool],
            ) -> Result<(), Error> {
                self.store.pairs_into(&PairQuery::Select(positions), ("keys", keys), values, found)
            }

            /// Returns the pair at one position in key order, counted from 0, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn select_one(&self, position: u64) -> Result<Option<(K, V)>, Error> {
                Ok(self.select(&[position])?[0])
            }

            /// Returns the pair with the least key, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn first(&self) -> Result<Option<(K, V)>, Error> {
                self.successor_one(K::LOWEST)
            }

            /// Returns the pair with the greatest key, or `None`.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn last(&self) -> Result<Option<(K, V)>, Error> {
                self.predecessor_one(K::HIGHEST)
            }
        }

        $crate::queries::aggregates::impl_aggregates!($Type);
        $crate::queries::asof::impl_asof!($Type);

        /// # Every pair
        impl<K: Key, V: Value> $Type<K, V> {
            /// Returns every key and every value, in key order.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len), and if there is no memory for the vectors.
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = [(20, 2), (10, 1)].into_iter().collect();
            /// assert_eq!(d.to_vecs()?, (vec![10, 20], vec![1, 2]));
            /// # Ok(())
            /// # }
            /// ```
            pub fn to_vecs(&self) -> Result<(Vec<K>, Vec<V>), Error> {
                let Ranges { keys, values, .. } = self.store.range(&RangeEnds::of::<K>(&..))?;
                Ok((keys, values))
            }

            /// Returns an iterator over every pair in key order, from either end, which reads a few thousand
            /// at a time. Later updates don't change what it returns.
            ///
            /// # Panics
            ///
            /// If there is no memory to apply buffered batches; the iterator panics as [`Iter`] says.
            /// [`try_iter`](Self::try_iter) returns errors instead.
            ///
            /// ```
            /// let d: gpulsm::Dictionary<u32, u32> = (0..10_000).map(|i| (i, i)).collect();
            /// assert_eq!(d.iter().rev().take(2).collect::<Vec<_>>(), [(9999, 9999), (9998, 9998)]);
            /// ```
            pub fn iter(&self) -> Iter<K, V> {
                Iter::expect(self.try_iter())
            }

            /// Returns an iterator over the pairs of one range in key order, from either end, which reads a
            /// few thousand at a time.
            ///
            /// # Panics
            ///
            /// As [`iter`](Self::iter) does; [`try_iter_range`](Self::try_iter_range) returns errors instead.
            ///
            /// ```
            /// let d: gpulsm::Dictionary<u32, u32> = (0..10_000).map(|i| (i, i)).collect();
            /// assert_eq!(d.iter_range(5..).next(), Some((5, 5)));
            /// assert_eq!(d.iter_range(..5000).next_back(), Some((4999, 4999)));
            /// ```
            pub fn iter_range(&self, range: impl KeyRange<K>) -> Iter<K, V> {
                Iter::expect(self.try_iter_range(range))
            }

            /// Returns an iterator over every pair in key order, from either end, whose items are results.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            ///
            /// ```
            /// # fn main() -> Result<(), gpulsm::Error> {
            /// let d: gpulsm::Dictionary<u32, u32> = (0..10_000).map(|i| (i, 1)).collect();
            /// let mut sum = 0;
            /// for pair in d.try_iter()? {
            ///     sum += pair?.1;
            /// }
            /// assert_eq!(sum, 10_000);
            /// # Ok(())
            /// # }
            /// ```
            pub fn try_iter(&self) -> Result<TryIter<K, V>, Error> {
                TryIter::new(&self.store)
            }

            /// Returns an iterator over the pairs of one range in key order, from either end, whose items are
            /// results.
            ///
            /// # Errors
            ///
            /// Those of [`len`](Self::len).
            pub fn try_iter_range(&self, range: impl KeyRange<K>) -> Result<TryIter<K, V>, Error> {
                TryIter::of_range(&self.store, &range)
            }
        }

        impl<K: Key, V: Value> IntoIterator for &$Type<K, V> {
            type Item = (K, V);
            type IntoIter = Iter<K, V>;

            fn into_iter(self) -> Iter<K, V> {
                self.iter()
            }
        }

        impl<K: Key, V: Value> std::fmt::Debug for $Type<K, V> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.store.describe(stringify!($Type), f)
            }
        }

        /// Writes a small picture of the levels, as far as they are known: nothing is done or waited for.
        impl<K: Key, V: Value> std::fmt::Display for $Type<K, V> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.store.fmt(f)
            }
        }
    };
}

pub(crate) use impl_queries;
