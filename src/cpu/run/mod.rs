//! A run: an immutable sorted array of entries with unique keys.

pub(super) mod fences;
pub(super) mod filter;
pub(super) mod marks;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::prefetch;
use crate::cpu::run::fences::{Fences, padded};
use crate::cpu::run::filter::Filter;
use crate::cpu::run::marks::Marks;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::Mark;
use crate::stats::{Bytes, RunStats};
use crate::value::Value;

/// A search in vain costs about as much as making the filter of so many entries.
const MISSES_WORTH: usize = 8;

/// Bytes in a cache line.
const LINE: usize = 64;

/// Cache lines of a stretch that are asked for ahead.
const LINES: usize = 8;

/// A run. Clones share their memory.
#[derive(Clone)]
pub(crate) struct Run<B, V>(Arc<Parts<B, V>>);

struct Parts<B, V> {
    /// Sorted and unique, filled up to whole nodes with the largest key.
    keys: Buffer<B>,
    /// In step with keys; as many as there are entries.
    values: Buffer<V>,
    fences: Fences<B>,
    /// `None` when every entry is new.
    marks: Option<Marks>,
    /// Made when lookups have paid for it.
    filter: OnceLock<Filter>,
    /// How many lookups asked for a key that is not here.
    misses: AtomicUsize,
}

/// How long a buffer of keys must be so that `len` of them can become a run.
pub(crate) fn key_room(len: usize) -> usize {
    padded(len)
}

impl<B: OrderedKey, V: Value> Run<B, V> {
    /// A run of the first `len` keys and values; `None` when there are none.
    ///
    /// `keys` has at least [`key_room`] for them. Without `marks` (a byte each) all are new.
    pub fn build(
        cpu: &Cpu,
        mut keys: Buffer<B>,
        mut values: Buffer<V>,
        marks: Option<&[u8]>,
        len: usize,
    ) -> Result<Option<Self>, Error> {
        if len == 0 {
            return Ok(None);
        }
        keys.truncate(padded(len));
        keys[len..].fill(B::HIGHEST);
        values.truncate(len);
        let fences = Fences::build(&cpu.memory, &keys)?;
        let marks = match marks {
            Some(bytes) => Marks::pack(cpu, &bytes[..len])?,
            None => None,
        };
        let (filter, misses) = (OnceLock::new(), AtomicUsize::new(0));
        Ok(Some(Run(Arc::new(Parts { keys, values, fences, marks, filter, misses }))))
    }

    pub fn len(&self) -> usize {
        self.0.values.len()
    }

    /// Whether this is that run, and not only like it.
    pub fn is(&self, run: &Self) -> bool {
        Arc::ptr_eq(&self.0, &run.0)
    }

    pub fn keys(&self) -> &[B] {
        &self.0.keys[..self.len()]
    }

    pub fn values(&self) -> &[V] {
        &self.0.values
    }

    pub fn marks(&self) -> Option<&Marks> {
        self.0.marks.as_ref()
    }

    pub fn mark(&self, position: usize) -> Mark {
        self.marks().map_or(Mark::NEW, |marks| marks.get(position))
    }

    /// Σ (live − shadow) over the entries before `position`.
    pub fn sum_before(&self, position: usize) -> i64 {
        self.marks().map_or(position as i64, |marks| marks.sum_before(position))
    }

    /// Adds to each sum that of the entries before its position.
    pub fn add_sums(&self, positions: &[usize], sums: &mut [i64]) {
        match self.marks() {
            Some(marks) => marks.add_sums(positions, sums),
            None => positions.iter().zip(sums).for_each(|(&at, sum)| *sum += at as i64),
        }
    }

    /// For every query the position of the first key ≥ it.
    pub fn lower_bounds(&self, queries: &[B], positions: &mut [usize]) {
        self.0.fences.lower_bounds(&self.0.keys, queries, positions);
    }

    /// The position of the first key ≥ this one.
    pub fn lower_bound(&self, key: B) -> usize {
        let mut position = [0];
        self.lower_bounds(&[key], &mut position);
        position[0]
    }

    /// For every range the positions of the first keys ≥ its ends, none of them the wrong way round.
    pub fn bounds_of_ranges(&self, ranges: (&[B], &[B]), starts: &mut [usize], ends: &mut [usize]) {
        self.0.fences.bounds_of_ranges(&self.0.keys, ranges, starts, ends);
    }

    /// Whether the entry at `position`, which may be just past the end, has this key.
    pub fn has_key_at(&self, position: usize, key: B) -> bool {
        self.keys().get(position) == Some(&key)
    }

    /// The keys, filled up to whole nodes.
    pub fn padded_keys(&self) -> &[B] {
        &self.0.keys
    }

    /// The first key of every node of keys; empty where there is one node.
    pub fn firsts(&self) -> &[B] {
        self.0.fences.firsts(&self.0.keys)
    }

    /// The filter, if there is one by now.
    pub fn filter(&self) -> Option<&Filter> {
        self.0.filter.get()
    }

    /// Counts lookups that asked for keys that are not here.
    pub fn add_misses(&self, misses: usize) {
        self.0.misses.fetch_add(misses, Ordering::Relaxed);
    }

    /// Builds the filter if so many lookups came in vain that it would have paid for itself. If
    /// there is no memory for it, lookups go on without.
    pub fn filter_if_worth_it(&self, cpu: &Cpu) {
        let misses = self.0.misses.load(Ordering::Relaxed);
        let worth_it = self.filter().is_none() && misses > self.len() / MISSES_WORTH;
        if worth_it
            && cpu.memory.budget().allows_filter()
            && let Ok(filter) = Filter::build(cpu, self.keys())
        {
            self.0.filter.set(filter).ok(); // Another thread's is as good.
        }
    }

    /// Brings near what [`sum_before`](Run::sum_before) and [`mark`](Run::mark) read.
    pub fn prefetch_mark(&self, position: usize) {
        if let Some(marks) = self.marks() {
            marks.prefetch(position);
        }
    }

    /// Brings near the value and the mark of an entry.
    pub fn prefetch_entry(&self, position: usize) {
        prefetch(self.values(), position);
        self.prefetch_mark(position);
    }

    /// Brings near the first few cache lines of keys and of values in a stretch: the processor,
    /// once it has seen those read, fetches on by itself.
    pub fn prefetch_entries(&self, stretch: Range<usize>) {
        fn ask<T>(items: &[T], stretch: &Range<usize>) {
            let line = LINE / size_of::<T>().max(1);
            for at in stretch.clone().step_by(line).take(LINES) {
                prefetch(items, at);
            }
        }
        ask(self.keys(), &stretch);
        if size_of::<V>() > 0 {
            ask(self.values(), &stretch);
        }
    }

    pub fn stats(&self) -> RunStats {
        let parts = &*self.0;
        let marks = parts.marks.as_ref();
        RunStats {
            entries: self.len() as u64,
            tombstones: marks.map_or(0, |marks| marks.tombstones() as u64),
            bytes: Bytes {
                keys: parts.keys.bytes(),
                values: parts.values.bytes(),
                marks: marks.map_or(0, |marks| marks.bytes()),
                fences: parts.fences.bytes(),
                filters: self.filter().map_or(0, Filter::bytes),
            },
        }
    }

    #[cfg(feature = "testing")]
    pub fn validate(&self) -> Result<(), String> {
        let parts = &*self.0;
        if parts.keys.len() != padded(self.len()) {
            return Err(format!("{} keys for {} values", parts.keys.len(), self.len()));
        }
        if parts.keys[self.len()..].iter().any(|&filler| filler != B::HIGHEST) {
            return Err("the last node of keys is not filled up with the largest key".into());
        }
        parts.fences.validate(&parts.keys)?;
        parts.marks.as_ref().map_or(Ok(()), |marks| marks.validate(self.len()))?;
        self.filter().map_or(Ok(()), |filter| filter.validate(self.keys()))
    }
}
