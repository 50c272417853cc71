//! Baselines on a GPU: the kernels of `kernels/baselines.cu`.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::null_mut;

use gpulsm::ScalarKey;
use gpulsm::cuda::{DeviceSlice, DeviceVec, Stream};

use super::{HashTable, Sort, SortedArray};
use crate::backend::cuda::{check, flags, vec, vec_mut};
use crate::backend::ffi::*;
use crate::backend::{Array, LookupOut, Outcome, Pairs, RangeEnds, RangeOut};
use crate::numbers::{BenchKey, BenchValue};

/// Returns the address of a vector, for kernels that read or write it.
fn at<T: bytemuck::Pod>(vector: &DeviceVec<T>) -> *mut c_void {
    vector.as_ptr().cast_mut().cast()
}

/// Returns the address of a part of a vector.
fn part_at<T: bytemuck::Pod>(vector: &DeviceVec<T>, part: Range<usize>) -> *mut c_void {
    let slice: DeviceSlice<'_, T> = vector.slice(part);
    slice.as_ptr().cast_mut().cast()
}

fn width<T>() -> c_int {
    size_of::<T>() as c_int
}

/// Returns how many bytes of working space a call needs.
fn space_for(call: impl Fn(*mut c_void, &mut usize) -> c_int) -> Outcome<usize> {
    let mut bytes = 0;
    check(call(null_mut(), &mut bytes))?;
    Ok(bytes.max(1))
}

/// Sorts a part of pairs; without working space, only returns how much it needs.
fn sort_into<K: BenchKey + ScalarKey, V: BenchValue>(
    stream: &Stream,
    (space, bytes): (*mut c_void, &mut usize),
    pairs: &Pairs,
    part: Range<usize>,
    out: (&DeviceVec<K>, &DeviceVec<V>),
) -> c_int {
    let (keys, values) = (vec::<K>(&pairs.keys), vec::<V>(&pairs.values));
    // SAFETY: the part lies in both vectors of pairs, as many fit into the output, the working space is
    // as large as this call asked for, and all are used on the one stream there is.
    unsafe {
        bench_sort(
            width::<K>(),
            width::<V>(),
            space,
            bytes,
            part_at(keys, part.clone()),
            at(out.0),
            part_at(values, part.clone()),
            at(out.1),
            part.len() as u64,
            stream.as_raw(),
        )
    }
}

/// CUB's radix sort.
pub struct CubSort<K, V> {
    stream: Stream,
    output: Pairs,
    space: DeviceVec<u8>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: BenchKey + ScalarKey, V: BenchValue> CubSort<K, V> {
    pub fn new(stream: &Stream, pairs: &Pairs, len: usize) -> Outcome<Self> {
        let keys = DeviceVec::<K>::zeroed(stream, len)?;
        let values = DeviceVec::<V>::zeroed(stream, len)?;
        let out = (&keys, &values);
        let bytes =
            space_for(|space, bytes| sort_into(stream, (space, bytes), pairs, 0..len, out))?;
        let space = DeviceVec::zeroed(stream, bytes)?;
        let output = Pairs { keys: Box::new(keys), values: Box::new(values) };
        Ok(CubSort { stream: stream.clone(), output, space, types: PhantomData })
    }
}

impl<K: BenchKey + ScalarKey, V: BenchValue> Sort for CubSort<K, V> {
    fn sort(&mut self, pairs: &Pairs) -> Outcome<()> {
        let (keys, values) = (vec::<K>(&self.output.keys), vec::<V>(&self.output.values));
        let mut bytes = self.space.len();
        let space = (at(&self.space), &mut bytes);
        check(sort_into(&self.stream, space, pairs, 0..keys.len(), (keys, values)))
    }

    fn output(&self) -> &Pairs {
        &self.output
    }
}

/// Pairs in key order, and room for as many: a batch is sorted, then merged from one into the other.
pub struct SortedVecs<K, V> {
    stream: Stream,
    keys: [DeviceVec<K>; 2],
    values: [DeviceVec<V>; 2],
    /// Which of the two holds the pairs.
    current: usize,
    len: usize,
    batch: (DeviceVec<K>, DeviceVec<V>),
    space: DeviceVec<u8>,
    starts: DeviceVec<u64>,
}

impl<K: BenchKey + ScalarKey, V: BenchValue> SortedVecs<K, V> {
    pub fn new(stream: &Stream, capacity: usize, batch: usize) -> Outcome<Self> {
        let keys = |len| DeviceVec::<K>::zeroed(stream, len);
        let values = |len| DeviceVec::<V>::zeroed(stream, len);
        let mut sorted = SortedVecs {
            stream: stream.clone(),
            keys: [keys(capacity)?, keys(capacity)?],
            values: [values(capacity)?, values(capacity)?],
            current: 0,
            len: capacity - batch,
            batch: (keys(batch)?, values(batch)?),
            space: DeviceVec::zeroed(stream, 1)?,
            starts: DeviceVec::zeroed(stream, 1)?,
        };
        let pairs = Pairs { keys: Box::new(keys(batch)?), values: Box::new(values(batch)?) };
        let out = (&sorted.batch.0, &sorted.batch.1);
        let sort =
            space_for(|space, bytes| sort_into(stream, (space, bytes), &pairs, 0..batch, out))?;
        let merge = space_for(|space, bytes| sorted.merge_into((space, bytes), batch))?;
        sorted.space = DeviceVec::zeroed(stream, sort.max(merge))?;
        sorted.len = 0;
        Ok(sorted)
    }

    /// Returns the addresses of keys and values, and their number.
    fn pairs(&self) -> (*mut c_void, *mut c_void, u64) {
        (at(&self.keys[self.current]), at(&self.values[self.current]), self.len as u64)
    }

    /// Merges the sorted batch of `len` pairs with all others; without working space, only returns how
    /// much it needs.
    fn merge_into(&self, (space, bytes): (*mut c_void, &mut usize), len: usize) -> c_int {
        let (keys, values, old) = self.pairs();
        // SAFETY: there are `old` pairs and a batch of `len`, their sum fits into the other half, the
        // working space is as large as this call asked for, and all are used on the one stream there is.
        unsafe {
            bench_merge(
                width::<K>(),
                width::<V>(),
                space,
                bytes,
                keys,
                values,
                old,
                at(&self.batch.0),
                at(&self.batch.1),
                len as u64,
                at(&self.keys[1 - self.current]),
                at(&self.values[1 - self.current]),
                self.stream.as_raw(),
            )
        }
    }
}

impl<K: BenchKey + ScalarKey, V: BenchValue> SortedArray for SortedVecs<K, V> {
    fn insert(&mut self, pairs: &Pairs, part: Range<usize>) -> Outcome<()> {
        let (space, mut bytes, len) = (at(&self.space), self.space.len(), part.len());
        let out = (&self.batch.0, &self.batch.1);
        check(sort_into(&self.stream, (space, &mut bytes), pairs, part, out))?;
        check(self.merge_into((space, &mut bytes), len))?;
        (self.current, self.len) = (1 - self.current, self.len + len);
        Ok(())
    }

    fn lookup(&self, keys: &Array, out: &mut LookupOut) -> Outcome<()> {
        let queries = vec::<K>(keys);
        let (keys, values, len) = self.pairs();
        // SAFETY: there are `len` pairs, and as much room for answers as there are queries.
        check(unsafe {
            bench_array_lookup(
                width::<K>(),
                width::<V>(),
                keys,
                values,
                len,
                at(queries),
                queries.len() as u64,
                at(vec_mut::<V>(&mut out.values)),
                at(flags(&mut out.found)),
                self.stream.as_raw(),
            )
        })
    }

    fn count(&self, ranges: &RangeEnds, counts: &mut Array) -> Outcome<()> {
        let (keys, _, len) = self.pairs();
        // SAFETY: there are `len` keys, and `ranges.len` ends of each kind and counts.
        check(unsafe {
            bench_array_count(
                width::<K>(),
                keys,
                len,
                at(vec::<K>(&ranges.lo)),
                at(vec::<K>(&ranges.hi)),
                ranges.len as u64,
                at(vec_mut::<u64>(counts)),
                self.stream.as_raw(),
            )
        })
    }

    fn range(&mut self, ranges: &RangeEnds, out: &mut RangeOut) -> Outcome<()> {
        let (keys, values, len) = self.pairs();
        let stream = self.stream.as_raw();
        let call = |space: *mut c_void, bytes: &mut usize, starts: *mut c_void| {
            // SAFETY: there are `len` pairs, `ranges.len` ends of each kind and starts, one more offset,
            // and room for as many pairs as the ranges have.
            unsafe {
                bench_array_range(
                    width::<K>(),
                    width::<V>(),
                    space,
                    bytes,
                    keys,
                    values,
                    len,
                    at(vec::<K>(&ranges.lo)),
                    at(vec::<K>(&ranges.hi)),
                    ranges.len as u64,
                    starts,
                    at(vec::<u64>(&out.offsets)),
                    at(vec::<K>(&out.keys)),
                    at(vec::<V>(&out.values)),
                    stream,
                )
            }
        };
        let mut bytes = space_for(|space, bytes| call(space, bytes, null_mut()))?;
        // Allocated by the first call, which is the warm-up.
        if self.space.len() < bytes {
            self.space = DeviceVec::zeroed(&self.stream, bytes)?;
        }
        if self.starts.len() < ranges.len {
            self.starts = DeviceVec::zeroed(&self.stream, ranges.len)?;
        }
        check(call(at(&self.space), &mut bytes, at(&self.starts)))
    }
}

/// A table with linear probing, at most four of five slots taken.
pub struct ProbedTable<K, V> {
    stream: Stream,
    keys: DeviceVec<K>,
    values: DeviceVec<V>,
}

impl<K: BenchKey + ScalarKey, V: BenchValue> ProbedTable<K, V> {
    pub fn new(stream: &Stream, capacity: usize) -> Outcome<Self> {
        let slots = capacity * 5 / 4 + 1;
        let keys = DeviceVec::zeroed(stream, slots)?;
        let values = DeviceVec::zeroed(stream, slots)?;
        Ok(ProbedTable { stream: stream.clone(), keys, values })
    }
}

impl<K: BenchKey + ScalarKey, V: BenchValue> HashTable for ProbedTable<K, V> {
    fn build(&mut self, pairs: &Pairs, len: usize) -> Outcome<()> {
        // SAFETY: there are `len` pairs, fewer than slots, none with the largest key, which marks a free
        // slot.
        check(unsafe {
            bench_hash_build(
                width::<K>(),
                width::<V>(),
                at(&self.keys),
                at(&self.values),
                self.keys.len() as u64,
                at(vec::<K>(&pairs.keys)),
                at(vec::<V>(&pairs.values)),
                len as u64,
                self.stream.as_raw(),
            )
        })
    }

    fn lookup(&self, keys: &Array, out: &mut LookupOut) -> Outcome<()> {
        let queries = vec::<K>(keys);
        // SAFETY: there are as many answers as queries; some slot is free, where a search ends.
        check(unsafe {
            bench_hash_lookup(
                width::<K>(),
                width::<V>(),
                at(&self.keys),
                at(&self.values),
                self.keys.len() as u64,
                at(queries),
                queries.len() as u64,
                at(vec_mut::<V>(&mut out.values)),
                at(flags(&mut out.found)),
                self.stream.as_raw(),
            )
        })
    }
}
