//! A run: an immutable sorted array of entries with unique keys.

pub(super) mod fences;
pub(crate) mod filter;
pub(super) mod marks;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::budget::Reserved;
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::{CACHE_LINE, prefetch};
use crate::cpu::run::fences::{Fences, padded};
use crate::cpu::run::filter::Filter;
use crate::cpu::run::marks::PackedMarks;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::Mark;
use crate::stats::{Bytes, RunStats};
use crate::value::{Value, of_bytes};

/// A search that misses costs about as much as building the filter of this many entries.
const ENTRIES_PER_MISS: usize = 8;

/// Cache lines of a range of entries that are prefetched.
const PREFETCHED_LINES: usize = 8;

/// A run. Clones share their memory.
#[derive(Clone)]
pub(crate) struct Run<B>(Arc<Parts<B>>);

struct Parts<B> {
    /// Sorted and unique, padded to whole nodes with the largest key.
    keys: Buffer<B>,
    /// The number of entries.
    len: usize,
    /// The bytes of the value of each entry.
    values: Buffer<u8>,
    /// The number of bytes of a value.
    value_width: usize,
    fences: Fences<B>,
    /// `None` if every entry is new.
    marks: Option<PackedMarks>,
    /// Built once it has paid for itself.
    filter: OnceLock<Filter>,
    /// Searches by lookups for a key that the run does not hold.
    misses: AtomicUsize,
}

/// Returns how long a buffer of keys must be so that `len` of them can become a run.
pub(crate) fn key_capacity(len: usize) -> usize {
    padded(len)
}

/// Moves what stays of `len` elements of this many parts each over what is at `gaps`; returns how many elements stay.
fn close_gaps<T: Copy>(data: &mut [T], len: usize, parts: usize, gaps: &[Range<usize>]) -> usize {
    let mut end = gaps.first().map_or(len, |gap| gap.start);
    for (index, gap) in gaps.iter().enumerate() {
        let next = gaps.get(index + 1).map_or(len, |next| next.start);
        data.copy_within(gap.end * parts..next * parts, end * parts);
        end += next - gap.end;
    }
    end
}

impl<B: OrderedKey> Run<B> {
    /// Builds a run of the first `len` keys and values, or `None` if `len` is 0.
    ///
    /// `keys` has at least [`key_capacity`]`(len)` elements. Without `marks`, all entries are new.
    pub fn build<V: Value>(
        cpu: &Cpu,
        keys: Buffer<B>,
        values: Buffer<V>,
        marks: Option<&[Mark]>,
        len: usize,
    ) -> Result<Option<Self>, Error> {
        let marks = match marks {
            Some(marks) => PackedMarks::pack(cpu, &marks[..len])?,
            None => None,
        };
        Self::with_marks(cpu, keys, values, marks, len)
    }

    /// Builds a run of a tombstone for each of these keys, which are strictly ascending, or `None` if there is
    /// none.
    pub fn of_tombstones<V: Value>(cpu: &Cpu, keys: &[B]) -> Result<Option<Self>, Error> {
        let mut copy = cpu.memory.zeroed(key_capacity(keys.len()))?;
        copy[..keys.len()].copy_from_slice(keys);
        let values = cpu.memory.zeroed::<V>(keys.len())?;
        let marks = PackedMarks::of_tombstones(cpu, keys.len())?;
        Self::with_marks(cpu, copy, values, Some(marks), keys.len())
    }

    fn with_marks<V: Value>(
        cpu: &Cpu,
        mut keys: Buffer<B>,
        mut values: Buffer<V>,
        marks: Option<PackedMarks>,
        len: usize,
    ) -> Result<Option<Self>, Error> {
        if len == 0 {
            return Ok(None);
        }
        keys.truncate(padded(len));
        keys[len..].fill(B::HIGHEST);
        values.truncate(len);
        let fences = Fences::build(cpu, &keys)?;
        Ok(Some(Self::of_parts(keys, values, len, fences, marks)))
    }

    /// Makes a run of its parts, which are as long as they must be for `len` entries.
    pub fn of_parts<V: Value>(
        keys: Buffer<B>,
        values: Buffer<V>,
        len: usize,
        fences: Fences<B>,
        marks: Option<PackedMarks>,
    ) -> Self {
        Run(Arc::new(Parts {
            keys,
            len,
            values: values.into_bytes(),
            value_width: size_of::<V>(),
            fences,
            marks,
            filter: OnceLock::new(),
            misses: AtomicUsize::new(0),
        }))
    }

    /// Returns the number of entries, tombstones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether both are the same run, not just equal ones.
    pub fn ptr_eq(&self, run: &Self) -> bool {
        Arc::ptr_eq(&self.0, &run.0)
    }

    /// Returns whether no clone shares its memory.
    pub fn is_unshared(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }

    /// Returns whether a clone shares it now.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Frees the filter, if there is one and no clone shares it; returns whether it did.
    pub fn free_filter(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some_and(|parts| parts.filter.take().is_some())
    }

    /// Removes the entries in these ranges of positions, which ascend and do not meet, and leaves some. All entries are
    /// new, and no clone shares them.
    ///
    /// # Panics
    ///
    /// If a clone shares them, or there are marks.
    pub fn remove_entries(&mut self, cpu: &Cpu, positions: &[Range<u64>]) -> Result<(), Error> {
        let parts = Arc::get_mut(&mut self.0).expect("no clone shares the run");
        assert!(parts.marks.is_none(), "every entry is new");
        let positions: Vec<Range<usize>> =
            positions.iter().map(|range| range.start as usize..range.end as usize).collect();
        let width = parts.value_width;
        let len = close_gaps(&mut parts.keys, parts.len, 1, &positions);
        close_gaps(&mut parts.values, parts.len, width, &positions);
        parts.len = len;
        parts.keys.truncate(padded(len));
        parts.keys[len..].fill(B::HIGHEST);
        parts.values.truncate(len * width);
        parts.filter.take();
        *parts.misses.get_mut() = 0;
        parts.fences.rebuild(cpu, &parts.keys)
    }

    /// Frees what only searches need, if no clone shares it. The bytes are counted elsewhere from then on. Nothing but
    /// the entries can be read then.
    pub fn free_index(&mut self, to: &mut Reserved) {
        if let Some(parts) = Arc::get_mut(&mut self.0) {
            parts.fences.free(to);
            if let Some(mut filter) = parts.filter.take() {
                filter.free(to);
            }
        }
    }

    /// Returns the memory of entries in `range` to the system, if no clone shares it, as far as it is whole pages with
    /// nothing but entries up to there. The bytes are counted elsewhere from then on. No entry up to there must be
    /// read again.
    pub fn release_entries(&mut self, range: Range<usize>, to: &mut Reserved) {
        if let Some(parts) = Arc::get_mut(&mut self.0) {
            let width = parts.value_width;
            parts.keys.release(range.clone(), to);
            parts.values.release(range.start * width..range.end * width, to);
            if let Some(marks) = &mut parts.marks {
                marks.release(range, to);
            }
        }
    }

    /// Frees all entries, if no clone shares them. The bytes are counted elsewhere from then on. Nothing can be read then.
    pub fn free_entries(&mut self, to: &mut Reserved) {
        if let Some(parts) = Arc::get_mut(&mut self.0) {
            parts.len = 0;
            parts.keys.free(to);
            parts.values.free(to);
            if let Some(mut marks) = parts.marks.take() {
                marks.free(to);
            }
        }
    }

    /// Returns the bytes of the fences.
    pub fn fence_bytes(&self) -> u64 {
        self.0.fences.bytes()
    }

    #[inline]
    pub fn keys(&self) -> &[B] {
        &self.0.keys[..self.len()]
    }

    /// Returns the value of each entry. `V` has the width of the values that the run was built of.
    #[inline]
    pub fn values<V: Value>(&self) -> &[V] {
        of_bytes(&self.0.values, self.len())
    }

    /// Returns the packed marks, or `None` if every entry is new.
    #[inline]
    pub fn marks(&self) -> Option<&PackedMarks> {
        self.0.marks.as_ref()
    }

    /// Returns the mark of one entry.
    #[inline]
    pub fn mark(&self, position: usize) -> Mark {
        self.marks().map_or(Mark::NEW, |marks| marks.get(position))
    }

    /// Returns Σ (live − shadow) over the entries before `position`.
    #[inline]
    pub fn sum_before(&self, position: usize) -> i64 {
        self.marks().map_or(position as i64, |marks| marks.sum_before(position))
    }

    /// Adds [`sum_before`](Run::sum_before) each position to the sum at the same index.
    pub fn add_sums(&self, positions: &[usize], sums: &mut [i64]) {
        match self.marks() {
            Some(marks) => marks.add_sums(positions, sums),
            None => positions.iter().zip(sums).for_each(|(&at, sum)| *sum += at as i64),
        }
    }

    /// Finds, for every query, the position of the first key ≥ it.
    pub fn lower_bounds(&self, queries: &[B], positions: &mut [usize]) {
        self.0.fences.lower_bounds(&self.0.keys, queries, positions);
    }

    /// Returns the position of the first key ≥ this one.
    #[inline]
    pub fn lower_bound(&self, key: B) -> usize {
        let mut position = [0];
        self.lower_bounds(&[key], &mut position);
        position[0]
    }

    /// Returns whether any entry's key is between the first and the last of these keys, which are sorted.
    pub fn meets(&self, keys: &[B]) -> bool {
        let (Some(&first), Some(last)) = (keys.first(), keys.last()) else { return false };
        self.keys().get(self.lower_bound(first)).is_some_and(|key| key <= last)
    }

    /// Finds the [`lower_bounds`](Run::lower_bounds) of both ends of ranges with `lo ≤ hi`.
    pub fn bounds_of_ranges(&self, ranges: (&[B], &[B]), starts: &mut [usize], ends: &mut [usize]) {
        self.0.fences.bounds_of_ranges(&self.0.keys, ranges, starts, ends);
    }

    /// Returns whether there is an entry at `position`, and it has this key.
    #[inline]
    pub fn has_key_at(&self, position: usize, key: B) -> bool {
        self.keys().get(position) == Some(&key)
    }

    /// Returns the keys, padded to whole nodes with the largest key.
    #[inline]
    pub fn padded_keys(&self) -> &[B] {
        &self.0.keys
    }

    /// Returns the first key of every node of keys; empty if there is only one node.
    pub fn firsts(&self) -> &[B] {
        self.0.fences.firsts(&self.0.keys)
    }

    /// Returns the filter, if it has been built.
    pub fn filter(&self) -> Option<&Filter> {
        self.0.filter.get()
    }

    /// Counts searches by lookups for keys that the run does not hold.
    pub fn add_misses(&self, misses: usize) {
        self.0.misses.fetch_add(misses, Ordering::Relaxed);
    }

    /// Builds the filter if there have been enough misses for it to pay. If there is no memory for
    /// it, lookups do without.
    pub fn build_filter_if_worth_it(&self, cpu: &Cpu) {
        let misses = self.0.misses.load(Ordering::Relaxed);
        let worth_it = self.filter().is_none() && misses > self.len() / ENTRIES_PER_MISS;
        if worth_it
            && cpu.memory.budget().allows_filter()
            && let Ok(filter) = Filter::build(cpu, self.keys())
        {
            self.0.filter.set(filter).ok(); // Another thread's filter is the same.
        }
    }

    /// Prefetches what [`sum_before`](Run::sum_before) and [`mark`](Run::mark) read.
    #[inline]
    pub fn prefetch_mark(&self, position: usize) {
        if let Some(marks) = self.marks() {
            marks.prefetch(position);
        }
    }

    /// Prefetches the value and the mark of an entry.
    #[inline]
    pub fn prefetch_entry(&self, position: usize) {
        prefetch(&self.0.values, position * self.0.value_width);
        self.prefetch_mark(position);
    }

    /// Prefetches the first few cache lines of keys and of values in a range: once the processor
    /// has seen those read, it prefetches the rest by itself.
    pub fn prefetch_entries(&self, range: Range<usize>) {
        fn prefetch_lines(bytes: &[u8], range: &Range<usize>, width: usize) {
            let bytes_of_range = range.start * width..range.end * width;
            for at in bytes_of_range.step_by(CACHE_LINE).take(PREFETCHED_LINES) {
                prefetch(bytes, at);
            }
        }
        prefetch_lines(bytemuck::cast_slice(self.keys()), &range, size_of::<B>());
        prefetch_lines(&self.0.values, &range, self.0.value_width);
    }

    /// Returns how many entries there are, and the bytes of each part.
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

    /// Checks the padding, the fences, the running sums and the filter against the entries.
    #[cfg(feature = "testing")]
    pub fn validate(&self) -> Result<(), String> {
        let parts = &*self.0;
        if parts.keys.len() != padded(self.len()) {
            return Err(format!("{} keys for {} values", parts.keys.len(), self.len()));
        }
        if parts.keys[self.len()..].iter().any(|&key| key != B::HIGHEST) {
            return Err("the last node of keys is not padded with the largest key".into());
        }
        parts.fences.validate(&parts.keys)?;
        parts.marks.as_ref().map_or(Ok(()), |marks| marks.validate(self.len()))?;
        self.filter().map_or(Ok(()), |filter| filter.validate(self.keys()))
    }
}
