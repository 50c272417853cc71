//! Every pair in key order.

use std::iter::FusedIterator;
use std::vec;

use crate::error::Error;
use crate::key::Key;
use crate::query::Ranges;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// Pairs read from the device at a time.
const CHUNK: u64 = 1 << 12;

/// Every pair of a snapshot in key order, from either end; made by [`Snapshot::iter`].
#[derive(Clone, Debug)]
pub struct Iter<K: Key, V: Value> {
    snapshot: Snapshot<K, V>,
    front: vec::IntoIter<(K, V)>,
    /// The ranks of the pairs that neither end has read yet.
    unread: std::ops::Range<u64>,
    back: vec::IntoIter<(K, V)>,
}

impl<K: Key, V: Value> Iter<K, V> {
    pub(crate) fn new(snapshot: Snapshot<K, V>) -> Self {
        let len = snapshot.len().expect("the snapshot's device answers") as u64;
        let (front, back) = (Vec::new().into_iter(), Vec::new().into_iter());
        Iter { snapshot, front, unread: 0..len, back }
    }

    /// The pairs of these ranks, which are there.
    fn read(&self, ranks: std::ops::Range<u64>) -> vec::IntoIter<(K, V)> {
        let read = || -> Result<Vec<(K, V)>, Error> {
            let ends = self.snapshot.select(&[ranks.start, ranks.end - 1])?;
            let key = |end: usize| ends[end].expect("ranks below the length have pairs").0;
            let Ranges { keys, values, .. } = self.snapshot.range(&[key(0)], &[key(1)])?;
            Ok(keys.into_iter().zip(values).collect())
        };
        read().expect("memory for a few thousand pairs").into_iter()
    }
}

impl<K: Key, V: Value> Iterator for Iter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        if self.front.as_slice().is_empty() && !self.unread.is_empty() {
            let middle = self.unread.end.min(self.unread.start + CHUNK);
            self.front = self.read(self.unread.start..middle);
            self.unread.start = middle;
        }
        self.front.next().or_else(|| self.back.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let unread = (self.unread.end - self.unread.start) as usize;
        let len = self.front.len() + unread + self.back.len();
        (len, Some(len))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for Iter<K, V> {
    fn next_back(&mut self) -> Option<(K, V)> {
        if self.back.as_slice().is_empty() && !self.unread.is_empty() {
            let middle = self.unread.start.max(self.unread.end.saturating_sub(CHUNK));
            self.back = self.read(middle..self.unread.end);
            self.unread.end = middle;
        }
        self.back.next_back().or_else(|| self.front.next_back())
    }
}

impl<K: Key, V: Value> ExactSizeIterator for Iter<K, V> {}

impl<K: Key, V: Value> FusedIterator for Iter<K, V> {}
