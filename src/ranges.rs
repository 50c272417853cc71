//! Ranges of keys: how callers write them, and the answer to a batch of them.

use std::borrow::Cow;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use crate::error::{Error, check_lengths, try_with_capacity};
use crate::key::{self, Key, OrderedKey, Prefix};
use crate::value::Value;

/// A range of keys: any of Rust's ranges (`2..5`, `2..=5`, `2..`, `..`, a pair of
/// [`Bound`]s), or a pair `(lo, hi)` whose ends both belong to it.
///
/// A range whose start lies behind its end is empty.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of keys of type `{K}`",
    note = "a range of keys is one of Rust's ranges (`2..5`, `2..=5`, `..`), or `(lo, hi)`, both included"
)]
pub trait KeyRange<K: Key> {
    /// Returns the first and the last integer that keys of the range may map to; `None` if the range is
    /// empty.
    #[doc(hidden)]
    fn ends(&self) -> Option<(K::Ordered, K::Ordered)>;
}

/// The integer beside an excluded float may be no key's (there is one below that of 0, where −0 would be,
/// and there are some below that of NaN), so it is never turned back into a key.
fn ends_of<K: Key>(range: &impl RangeBounds<K>) -> Option<(K::Ordered, K::Ordered)> {
    let lo = match range.start_bound() {
        Bound::Included(key) => key.to_ordered(),
        Bound::Excluded(key) => key.to_ordered().next()?,
        Bound::Unbounded => K::LOWEST.to_ordered(),
    };
    let hi = match range.end_bound() {
        Bound::Included(key) => key.to_ordered(),
        Bound::Excluded(key) => key.to_ordered().previous()?,
        Bound::Unbounded => K::HIGHEST.to_ordered(),
    };
    (lo <= hi).then_some((lo, hi))
}

impl<K: Key> KeyRange<K> for (K, K) {
    fn ends(&self) -> Option<(K::Ordered, K::Ordered)> {
        ends_of(&(Bound::Included(self.0), Bound::Included(self.1)))
    }
}

macro_rules! rust_range {
    ($($type:ty),*) => {
        $(impl<K: Key> KeyRange<K> for $type {
            fn ends(&self) -> Option<(K::Ordered, K::Ordered)> {
                ends_of::<K>(self)
            }
        })*
    };
}

rust_range!(Range<K>, RangeInclusive<K>, RangeFrom<K>, RangeTo<K>, RangeToInclusive<K>, RangeFull);
rust_range!((Bound<K>, Bound<K>));

/// All keys that begin with the same parts: a [`KeyRange`], made by [`prefix`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefixRange<P>(P);

/// Returns the range of all keys that begin with these parts: with `p`, or with `(p, q)`, `(p, q, r)`.
///
/// A set of `(key, id)` is a multimap, in which the ids of a key are such a range:
///
/// ```
/// use gpulsm::prefix;
///
/// # fn main() -> Result<(), gpulsm::Error> {
/// let mut followers = gpulsm::Dictionary::<(u32, u32), ()>::new();
/// followers.insert(&[(7, 30), (9, 10), (7, 20)], &[(); 3])?;
/// assert_eq!(followers.count(&[prefix(7), prefix(8)])?, [2, 0]);
/// let of_seven = followers.range_one(prefix(7))?;
/// assert_eq!(of_seven, [((7, 20), ()), ((7, 30), ())]);
/// followers.delete_range(&[prefix(7)])?;
/// assert_eq!(followers.len()?, 1);
/// # Ok(())
/// # }
/// ```
pub fn prefix<P>(parts: P) -> PrefixRange<P> {
    PrefixRange(parts)
}

impl<P: Copy, K: Prefix<P>> KeyRange<K> for PrefixRange<P> {
    fn ends(&self) -> Option<(K::Ordered, K::Ordered)> {
        Some((K::first_with(self.0).to_ordered(), K::last_with(self.0).to_ordered()))
    }
}

/// A batch of ranges of keys: a slice of [`KeyRange`]s, `&[2..5, 7..9]` or `&[(2, 4), (7, 8)]`, or the
/// two columns `(&lo, &hi)`, of which range i is `lo[i]..=hi[i]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch of ranges of keys of type `{K}`",
    note = "a batch of ranges is a slice of ranges, `&[2..5, 7..9]`, or of pairs, `&[(2, 4), (7, 8)]`, \
            or two columns, `(&lo, &hi)`; a single range has methods of its own, which end in `_one`"
)]
pub trait RangeBatch<K: Key> {
    /// Returns the ends of each range as engines take them.
    #[doc(hidden)]
    fn encode(&self) -> Result<RangeEnds<'_, K::Ordered>, Error>;
}

/// The ends of ranges, both included; empty where `lo[i] > hi[i]`.
#[doc(hidden)]
#[derive(Debug)]
pub struct RangeEnds<'a, B: Clone> {
    pub(crate) lo: Cow<'a, [B]>,
    pub(crate) hi: Cow<'a, [B]>,
}

impl<B: Clone> RangeEnds<'_, B> {
    /// Returns the number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.lo.len()
    }
}

impl<B: OrderedKey> RangeEnds<'static, B> {
    /// Returns the ends of one range, as a batch.
    pub(crate) fn of<K: Key<Ordered = B>>(range: &impl KeyRange<K>) -> Self {
        let (lo, hi) = ends_or_empty(range);
        RangeEnds { lo: vec![lo].into(), hi: vec![hi].into() }
    }
}

/// Returns the ends of a range; of an empty one, ends of which the first is greater than the last.
fn ends_or_empty<K: Key>(range: &impl KeyRange<K>) -> (K::Ordered, K::Ordered) {
    range.ends().unwrap_or((K::Ordered::HIGHEST, K::Ordered::LOWEST))
}

/// Returns the ends of each range.
fn encode_each<K: Key>(
    ranges: &[impl KeyRange<K>],
) -> Result<RangeEnds<'static, K::Ordered>, Error> {
    let (mut lo, mut hi) = (try_with_capacity(ranges.len())?, try_with_capacity(ranges.len())?);
    for range in ranges {
        let (first, last) = ends_or_empty(range);
        lo.push(first);
        hi.push(last);
    }
    Ok(RangeEnds { lo: lo.into(), hi: hi.into() })
}

impl<K: Key, R: KeyRange<K>> RangeBatch<K> for &[R] {
    fn encode(&self) -> Result<RangeEnds<'_, K::Ordered>, Error> {
        encode_each(self)
    }
}

impl<K: Key, R: KeyRange<K>, const N: usize> RangeBatch<K> for &[R; N] {
    fn encode(&self) -> Result<RangeEnds<'_, K::Ordered>, Error> {
        encode_each(&self[..])
    }
}

impl<K: Key, R: KeyRange<K>> RangeBatch<K> for &Vec<R> {
    fn encode(&self) -> Result<RangeEnds<'_, K::Ordered>, Error> {
        encode_each(self)
    }
}

impl<K: Key, L: AsRef<[K]> + ?Sized, H: AsRef<[K]> + ?Sized> RangeBatch<K> for (&L, &H) {
    fn encode(&self) -> Result<RangeEnds<'_, K::Ordered>, Error> {
        let (lo, hi) = (self.0.as_ref(), self.1.as_ref());
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        Ok(RangeEnds { lo: key::encode(lo)?, hi: key::encode(hi)? })
    }
}

/// The pairs of several ranges, laid end to end: the answer of
/// [`Dictionary::range`](crate::Dictionary::range).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges<K, V> {
    /// Answer i lies from `offsets[i]` to `offsets[i + 1]`.
    pub offsets: Vec<u64>,
    /// The keys of all answers, each answer in key order.
    pub keys: Vec<K>,
    /// Their values.
    pub values: Vec<V>,
}

impl<K: Key, V: Value> Ranges<K, V> {
    /// Returns the number of answers: one for each range of the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns whether the batch had no range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys and values of answer `index`.
    ///
    /// # Panics
    ///
    /// If there are not that many answers.
    #[must_use]
    pub fn get(&self, index: usize) -> (&[K], &[V]) {
        assert!(index < self.len(), "there are {} answers, and none is number {index}", self.len());
        let answer = self.offsets[index] as usize..self.offsets[index + 1] as usize;
        (&self.keys[answer.clone()], &self.values[answer])
    }

    /// Returns an iterator over the answers: the keys and values of each.
    pub fn iter(&self) -> impl Iterator<Item = (&[K], &[V])> {
        (0..self.len()).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends<K: Key>(range: impl KeyRange<K>) -> Option<(K::Ordered, K::Ordered)> {
        range.ends()
    }

    #[test]
    fn excluded_ends_are_exact_and_never_wrap() {
        assert_eq!(ends::<u32>(2..5), Some((2, 4)));
        assert_eq!(ends::<u32>(2..=5), ends((2u32, 5)));
        assert_eq!(ends::<u32>(..), Some((0, u32::MAX)));
        assert_eq!(ends::<u32>(..0), None);
        assert_eq!(ends::<u32>((Bound::Excluded(u32::MAX), Bound::Unbounded)), None);
        assert_eq!(ends::<u32>((5, 2)), None);
        let below_zero = (-f32::from_bits(1)).to_ordered();
        // The integer of −0, which is no key's, is between.
        assert_eq!(ends::<f32>(..0.0), Some((f32::NEG_INFINITY.to_ordered(), below_zero + 1)));
        assert_eq!(ends::<f64>(f64::NAN..=f64::NAN).map(|(lo, hi)| lo == hi), Some(true));
    }

    #[test]
    fn batches_are_slices_of_ranges_or_two_columns() {
        fn lens<K: Key>(ranges: impl RangeBatch<K>) -> Result<usize, Error> {
            Ok(ranges.encode()?.len())
        }
        assert_eq!(lens::<u32>(&[1..3, 4..9]), Ok(2));
        assert_eq!(lens::<u32>(&vec![(1, 3)]), Ok(1));
        assert_eq!(lens::<u32>((&[1, 2], &vec![3, 4])), Ok(2));
        let error = lens::<i64>((&[1, 2], &[3])).unwrap_err();
        assert!(error.to_string().contains("`lo` has 2 elements but `hi` has 1"), "{error}");
    }
}
