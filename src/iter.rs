//! Pairs in key order, read from either end.

use std::iter::FusedIterator;
use std::ops::Range;
use std::vec;

use crate::error::Error;
use crate::holders::HolderKind;
use crate::key::Key;
use crate::query::Query;
use crate::ranges::{KeyRange, RangeEnds, Ranges};
use crate::typed::{PairQuery, TypedStore};
use crate::value::Value;

/// Pairs that are read from the device first, at either end…
const FIRST_CHUNK: u64 = 1 << 6;

/// …and at most: each chunk is twice as long as the one before.
const MAX_CHUNK: u64 = 1 << 12;

/// An iterator over pairs in key order, from either end, that returns errors as items; made by
/// [`Dictionary::try_iter`](crate::Dictionary::try_iter) and
/// [`try_iter_range`](crate::Dictionary::try_iter_range). After an error it ends.
///
/// It reads the dictionary as it was when the iterator was made: a few pairs at first, later a few thousand
/// at a time. `nth` and `nth_back` skip pairs without reading them; `count` and `last` read none, or the last
/// few.
#[derive(Clone)]
#[must_use = "an iterator does nothing until it is advanced"]
pub struct TryIter<K: Key, V: Value> {
    store: TypedStore<K, V>,
    front: End<K, V>,
    /// The ranks of the pairs that neither end has read yet.
    unread: Range<u64>,
    back: End<K, V>,
}

/// One end of the iterator.
#[derive(Clone)]
struct End<K, V> {
    /// Pairs that were read and not returned yet.
    read: vec::IntoIter<(K, V)>,
    /// How many are read next.
    chunk: u64,
}

impl<K, V> End<K, V> {
    fn new() -> Self {
        End { read: Vec::new().into_iter(), chunk: FIRST_CHUNK }
    }
}

impl<K: Key, V: Value> TryIter<K, V> {
    /// Creates an iterator over every pair.
    pub(crate) fn new(store: &TypedStore<K, V>) -> Result<Self, Error> {
        let store = store.share_as(HolderKind::Iterator);
        let len = store.any().len()?;
        Ok(Self::of_ranks(store, 0..len))
    }

    /// Creates an iterator over the pairs of a range.
    pub(crate) fn of_range(
        store: &TypedStore<K, V>,
        range: &impl KeyRange<K>,
    ) -> Result<Self, Error> {
        let store = store.share_as(HolderKind::Iterator);
        let (mut first, mut len) = ([0], [0]);
        if let Some((lo, hi)) = range.ends() {
            store.any().answer(Query::Rank { keys: &[lo], ranks: &mut first })?;
            store.any().answer(Query::Count { lo: &[lo], hi: &[hi], counts: &mut len })?;
        }
        Ok(Self::of_ranks(store, first[0]..first[0] + len[0]))
    }

    fn of_ranks(store: TypedStore<K, V>, unread: Range<u64>) -> Self {
        TryIter { store, front: End::new(), unread, back: End::new() }
    }

    /// Reads the pairs of these ranks, which exist. After an error nothing is left to read.
    fn read(&mut self, ranks: &Range<u64>) -> Result<vec::IntoIter<(K, V)>, Error> {
        let read = || {
            let ends = self.store.pairs(&PairQuery::Select(&[ranks.start, ranks.end - 1]))?;
            let key =
                |end: usize| ends[end].expect("ranks below the length have pairs").0.to_ordered();
            let ends = RangeEnds { lo: vec![key(0)].into(), hi: vec![key(1)].into() };
            let Ranges { keys, values, .. } = self.store.range(&ends)?;
            Ok(keys.into_iter().zip(values).collect::<Vec<_>>().into_iter())
        };
        let pairs = read();
        if pairs.is_err() {
            self.unread = 0..0;
            (self.front, self.back) = (End::new(), End::new());
        }
        pairs
    }

    /// Returns how many pairs are left.
    fn remaining(&self) -> usize {
        self.front.read.len() + self.unread_len() + self.back.read.len()
    }

    fn unread_len(&self) -> usize {
        (self.unread.end - self.unread.start) as usize
    }
}

impl<K: Key, V: Value> Iterator for TryIter<K, V> {
    type Item = Result<(K, V), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.read.as_slice().is_empty() && !self.unread.is_empty() {
            let middle = self.unread.end.min(self.unread.start + self.front.chunk);
            let ranks = self.unread.start..middle;
            self.unread.start = middle;
            match self.read(&ranks) {
                Ok(read) => self.front = End { read, chunk: longer(self.front.chunk) },
                Err(error) => return Some(Err(error)),
            }
        }
        self.front.read.next().or_else(|| self.back.read.next()).map(Ok)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        let Some(skipped) = n.checked_sub(self.front.read.len()) else {
            return self.front.read.nth(n).map(Ok);
        };
        if skipped > 0 {
            self.front = End::new();
            let skipped_unread = skipped.min(self.unread_len());
            self.unread.start += skipped_unread as u64;
            if self.unread.is_empty() {
                return self.back.read.nth(skipped - skipped_unread).map(Ok);
            }
        } else {
            self.front.read = Vec::new().into_iter();
        }
        self.next()
    }

    fn count(self) -> usize {
        self.remaining()
    }

    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error ends it early.
        (0, Some(self.remaining()))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for TryIter<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.read.as_slice().is_empty() && !self.unread.is_empty() {
            let middle = self.unread.start.max(self.unread.end.saturating_sub(self.back.chunk));
            let ranks = middle..self.unread.end;
            self.unread.end = middle;
            match self.read(&ranks) {
                Ok(read) => self.back = End { read, chunk: longer(self.back.chunk) },
                Err(error) => return Some(Err(error)),
            }
        }
        self.back.read.next_back().or_else(|| self.front.read.next_back()).map(Ok)
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        let Some(skipped) = n.checked_sub(self.back.read.len()) else {
            return self.back.read.nth_back(n).map(Ok);
        };
        if skipped > 0 {
            self.back = End::new();
            let skipped_unread = skipped.min(self.unread_len());
            self.unread.end -= skipped_unread as u64;
            if self.unread.is_empty() {
                return self.front.read.nth_back(skipped - skipped_unread).map(Ok);
            }
        } else {
            self.back.read = Vec::new().into_iter();
        }
        self.next_back()
    }
}

/// Returns how many pairs are read after this many.
fn longer(chunk: u64) -> u64 {
    (chunk * 2).min(MAX_CHUNK)
}

impl<K: Key, V: Value> FusedIterator for TryIter<K, V> {}

impl<K: Key, V: Value> std::fmt::Debug for TryIter<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TryIter").field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}

/// An iterator over pairs in key order, from either end; made by
/// [`Dictionary::iter`](crate::Dictionary::iter) and [`iter_range`](crate::Dictionary::iter_range).
///
/// It reads the dictionary as it was when the iterator was made: a few pairs at first, later a few thousand
/// at a time. `nth` and `nth_back` skip pairs without reading them; `count` and `last` read none, or the last
/// few.
///
/// # Panics
///
/// Advancing it panics if there is no memory for a few thousand pairs, or the GPU fails;
/// [`TryIter`] returns that as an error.
#[derive(Clone, Debug)]
#[must_use = "an iterator does nothing until it is advanced"]
pub struct Iter<K: Key, V: Value>(pub(crate) TryIter<K, V>);

/// Returns the pair that was read.
fn expect<T>(item: Result<T, Error>) -> T {
    item.unwrap_or_else(|error| panic!("{error} (`try_iter` returns errors)"))
}

impl<K: Key, V: Value> Iter<K, V> {
    /// Makes a panic of the error, if there is one.
    pub(crate) fn expect(iter: Result<TryIter<K, V>, Error>) -> Self {
        Iter(expect(iter))
    }
}

impl<K: Key, V: Value> Iterator for Iter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.0.next().map(expect)
    }

    fn nth(&mut self, n: usize) -> Option<(K, V)> {
        self.0.nth(n).map(expect)
    }

    fn count(self) -> usize {
        self.0.count()
    }

    fn last(self) -> Option<(K, V)> {
        self.0.last().map(expect)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.remaining(), Some(self.0.remaining()))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for Iter<K, V> {
    fn next_back(&mut self) -> Option<(K, V)> {
        self.0.next_back().map(expect)
    }

    fn nth_back(&mut self, n: usize) -> Option<(K, V)> {
        self.0.nth_back(n).map(expect)
    }
}

impl<K: Key, V: Value> ExactSizeIterator for Iter<K, V> {}

impl<K: Key, V: Value> FusedIterator for Iter<K, V> {}
